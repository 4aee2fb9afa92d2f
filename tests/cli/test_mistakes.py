"""What people get wrong, verb by verb: one sentence, exit code 2, and nothing written.

Each line is a command and a part of the sentence that it must end with; the sentence says what would be right.
"""

import pytest

ENDPOINT = "--endpoint http://127.0.0.1:1"
NO_KFP = "No Kubeflow Pipelines is known: set KFP_ENDPOINT or --endpoint"
CRON = '"0 3 * * *" is daily at 03:00'
RUN_ID = "use letters, digits, dots, dashes and underscores."

MISTAKES = [
    # verbs and options
    ("lokal", "Did you mean 'local'?"),
    ("trian", "`--help` lists what there is."),
    ("--version", "There is no option --version."),
    ("local --epoch 3", "Did you mean --epochs?"),
    ("local --no-epochs", "Did you mean --epochs?"),
    ("local --no-use-filtr", "Did you mean --no-use-filter?"),
    ("local --use-filter=yes", "does not take a value"),
    ("local --params", "requires an argument"),
    ("local -params demo/parameters.toml", "There is no option -params. Did you mean --params?"),
    ("local demo/parameters.toml", "Did you mean --params demo/parameters.toml?"),
    ("local --use-filter true", "is a switch and takes no value: write --use-filter or --no-use-filter."),
    ("-help", "Did you mean --help?"),
    ("--hlep", "Did you mean --help?"),
    ("help lokal", "Did you mean 'local'?"),
    ("Local", "Did you mean 'local'?"),
    ("local --model demo/model", "Did you mean --model-name?"),
    ("local more", "unexpected extra argument (more)"),
    ("doctor --no-prob", "Did you mean --no-probe?"),
    ("schedule craete", "Did you mean 'create'?"),
    ("schedule", "Missing command"),
    ("models lsit", "Did you mean 'list'?"),
    ("runs purne", "Did you mean 'prune'?"),
    # values of parameters
    ("local --epochs 1.5", "is not a whole number: write it like 8."),
    ("local --epochs 0", "at least 1"),
    ("local --lr 0", "greater than 0"),
    ("local --lr much", "is not a number: write it like 0.5."),
    ("local --beta -0.1", "at least 0"),
    ("local --temperature 0", "greater than 0"),
    ("local --top-p 1.5", "at most 1"),
    ("local --seed -1", "at least 0"),
    ("local --eval-k 0", "at least 1"),
    ("local --num-generations 1", "at least 2"),
    ("local --num-generations 1000000", "num_generations 1000000 is out of range"),
    ("local --batch-size 1e3", "is not a whole number: write it like 8."),
    ("local --seed 99999999999", "at most 4294967295"),
    ("local --hidden-tests 1000", "at most 200"),
    ("local --top-p 0", "greater than 0"),
    ("local --filter-samples 1", "at least 2"),
    ("local --max-completion-length 0", "at least 1"),
    ("local --infra-limit 2", "at most 1"),
    ("local --test-timeout-s 0", "greater than 0 and at most 600"),
    ("local --method lorra", "use one of lora, full, qlora."),
    ("local --precision fp8", "use one of auto, bf16, fp16, fp32."),
    ("local --reward test", "use one of tests, random."),
    ("local --export-merged yes", "use one of no, bf16, fp16, fp32."),
    ("local --model-name ''", "model_name is empty"),
    ("local --dataset ''", "dataset is empty"),
    ("local --model-name s3://", "write it like s3://bucket/folder/name."),
    ("local --dataset s3://", "write it like s3://bucket/folder/name."),
    ("local --sandbox-url sandbox", "write it like http://127.0.0.1:8080."),
    ("local --sandbox-url ''", "sandbox_url is empty"),
    # values that do not go together
    ("local --batch-size 7", "use batch_size 8, or num_generations 7."),
    ("local --micro-batch-size 3", "use one of 1, 2, 4, 8, or 0 for auto."),
    ("local --num-eval-examples 60", "lower the first or raise the second."),
    ("local --dynamic-sampling-tokens 10", "use at least 1536, or 0"),
    ("local --reward random --dynamic-sampling-tokens 100000", "needs reward tests"),
    ("local --candidate-splits trian", "use a comma list of train, validation, prompt, or all."),
    ("local --candidate-splits test", "use all to add the rest of it."),
    ("local --grpo-overrides {", 'write it like {"epsilon_high": 0.28}.'),
    ("local --grpo-overrides []", 'write it like {"epsilon_high": 0.28}.'),
    ("""local --grpo-overrides '{"learning_rate": 1}'""", "use lr instead."),
    # pods
    ("local --node-selector zone=a", 'write it like {"name": "value"}.'),
    ("local --tolerations '{}'", "is not a JSON list"),
    ("local --tolerations '[1]'", "must be a list of tolerations"),
    ("local --gpus many", "write it like 1, or 0 for a CPU."),
    ("local --train-memory 64", "write it like 16Gi."),
    ("local --train-cpu x", "write it like 2 or 500m."),
    ("local --gpu-resource gpu/", "write it like nvidia.com/gpu."),
    ("local --hf-secret Bad_Name", "use small letters, digits, dots and dashes."),
    # files, runs
    ("local --params nowhere.toml", "give --params the path of a TOML file."),
    ("local --params demo", "(Is a directory): give a TOML file in UTF-8."),
    ("local --run-id ../x", RUN_ID),
    ("local --run-id ''", RUN_ID),
    ("local --resume-run a/b", RUN_ID),
    ("local --model-name ./nowhere", "The model directory ./nowhere does not exist"),
    ("local --params demo/parameters.toml --dataset nowhere.jsonl", "or s3://bucket/key."),
    ("local --params demo/parameters.toml --dataset mbppp", "Did you mean mbpp?"),
    ("local --params demo/parameters.toml --dataset README.md", "has an unknown format: use mbpp,"),
    ("local --params demo/parameters.toml --regression-dataset demo/parameters.toml", "has an unknown format"),
    ("local --hidden-tests -1", "at least 0"),
    ("local --trackers tensorbord", "tensorboard"),
    ("local --publish-as 'A B'", RUN_ID),
    ("local --on-unchanged maybe", "use one of retrain, skip."),
    ("local --pipeline evaluate", "evaluate-only"),
    ("local --pipeline evaluate-only --epochs 2", "is no parameter of the pipeline evaluate-only: leave it out."),
    ("local --tuned-model x", "is no parameter of the pipeline grpo-code: leave it out."),
    # plan
    ("plan --gpu A100-80G", "A100-80GB"),
    ("plan --gpu-memory lots", "--gpu-memory 'lots' is not a number: write it like 0.5."),
    ("plan --hourly-rate -2", "greater than 0"),
    ("plan --model-name ./nowhere", "neither a local directory nor a name on the hub."),
    ("plan --model-name demo/model --gpu-memory 0.0001", "use"),
    # compile, upload, run, schedule
    ("compile", "Missing option '-o'"),
    ("compile -o pipeline.txt", "it must end in .yaml or .yml."),
    ("compile -o x.yaml --timeout train", "write STEP=HOURS"),
    ("compile -o x.yaml --timeout tarin=3", "with one of check,"),
    ("compile -o x.yaml --timeout train=0", "at least 0.01"),
    ("compile -o x.yaml --retries -1", "--retries '-1' is not a whole number of at least 0 and at most 10."),
    ("compile -o x.yaml --shm-size big", "write it like 8Gi."),
    ("compile -o x.yaml --pod-label x", "write it like team=nlp."),
    ("upload", NO_KFP),
    ("run", NO_KFP),
    ("run --endpoint ftp://host", "write it like http://localhost:8080."),
    ("run --endpoint https://127.0.0.1:1 --ca-cert nowhere.pem", "give --ca-cert a PEM file."),
    (f"run {ENDPOINT} --model-name ./demo/model", "`python pipeline.py upload-demo`"),
    ("schedule create --name x", "Missing option '--cron'"),
    ("schedule create --cron '* * *'", CRON),
    ("schedule create --cron '61 * * * *'", CRON),
    ("schedule create --cron 'every day'", CRON),
    ("schedule delete", "Missing argument 'SCHEDULE'"),
    ("upload-demo", "set GRPO_STORE=s3://bucket/prefix"),
    # what there is of a run
    ("watch", "Missing argument 'RUN'"),
    ("watch latest", "`python pipeline.py runs list` shows the ids."),
    ("watch nothing-such", "set GRPO_STORE and S3_* to the run's store"),
    ("logs", "Missing argument 'RUN'"),
    ("logs 0d3c2b1a-0000-4000-8000-000000000000 trian", "use one of check,"),
    ("report nothing-such", "set GRPO_STORE and S3_* to the run's store"),
    ("report --port 70000", "--port '70000' is not a whole number of at least 0 and at most 65535."),
    ("report --port x", "--port 'x' is not a whole number of at least 0 and at most 65535."),
    ("compare", "Missing argument 'RUN...'"),
    ("compare a/b", RUN_ID),
    ("compare nothing such", "`python pipeline.py runs list` shows what there is"),
    ("models publish x", "Missing argument 'NAME'"),
    ("models publish x 'A B'", RUN_ID),
    ("models publish nothing-such mine", "name a run whose training has finished."),
    ("models rollback nothing", "`models list` shows what is."),
    ("runs pin nothing-such", "`python pipeline.py runs list` shows what there is"),
    ("runs prune --keep -1", "--keep '-1' is not a whole number of at least 0."),
    ("runs prune --older-than x", "--older-than 'x' is not a number of at least 0."),
]


@pytest.mark.parametrize(("line", "sentence"), MISTAKES)
def test_a_mistake(refused, line, sentence):
    assert sentence in refused(line)


def test_there_are_enough_of_them():
    assert len({line for line, _ in MISTAKES}) == len(MISTAKES) >= 60
