"""Values that no cluster could use: one sentence, exit code 2, and nothing is sent."""

import pytest

from cli.main import main
from tests.cli.small_kfp import small_kfp

STORED = ["--model-name", "s3://bucket/model", "--dataset", "s3://bucket/problems"]
COMMIT = "0123456789" * 4


@pytest.fixture(scope="module")
def kfp():
    with small_kfp() as server:
        yield server


@pytest.fixture
def refused(kfp, capsys, monkeypatch, tmp_path):
    for name in ("KFP_TOKEN", "KFP_NAMESPACE", "S3_ENDPOINT", "REGISTRY", "TAG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("KFP_ENDPOINT", kfp.url)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    monkeypatch.setenv("GRPO_STORE", str(tmp_path / "store"))

    def run(*words):
        with pytest.raises(SystemExit) as ended:
            main(list(words))
        shown = capsys.readouterr()
        assert (ended.value.code, shown.out) == (2, "")
        assert shown.err.count("\n") == 1, "one sentence, no traceback, no usage dump"
        assert not [path for method, path, _ in kfp.sent if method == "POST" and "healthz" not in path]
        return shown.err.strip()

    return run


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("--timeout=train=99999999999999", "is out of range: it must be at least 0.01 and at most 8760."),
        ("--timeout=train=0", "is out of range"),
        ("--shm-size=0", "--shm-size '0' is no size: write it like 8Gi."),
        ("--shm-size=1m", "--shm-size '1m' is no size"),
        ("--scratch-size=0Gi", "--scratch-size '0Gi' is no size"),
        ("--queue=A B", "--queue 'A B' is no name of a queue: use small letters, digits, dots and dashes."),
        ("--pull-secret=a b", "--pull-secret 'a b' is no name of a Secret"),
        ("--pull-secret=", "--pull-secret '' is no name of a Secret"),
        ("--model-cache-claim=X Y", "--model-cache-claim 'X Y' is no name of a PersistentVolumeClaim"),
        ("--pod-label=app.kubernetes.io/component=x", "would replace a label that the pipeline sets itself"),
        ("--pod-label=grpo-code/sandbox-client=false", "would replace a label that the pipeline sets itself"),
        ("--pod-label=kueue.x-k8s.io/queue-name=x", "would replace a label that the pipeline sets itself"),
        ("--pod-label=a b=c", "is no label: write it like team=nlp."),
        ("--priority-class=high", "--priority-class is Kueue's and needs its queue: name that with --queue."),
        ("--train-cpu=4Gi", "train_cpu '4Gi' is an amount of memory: write it like 2 or 500m."),
        ("--gpus=000", "gpus '000' is no number of GPUs"),
        ("--gpus=01", "gpus '01' is no number of GPUs"),
        ('--tolerations=[{"key":1}]', "tolerations: key 1 is not text"),
        ('--tolerations=[{"key":"a b"}]', "tolerations: key 'a b' is no key of a taint"),
        ('--tolerations=[{"key":"a","operator":"Exists","value":"b"}]', "tolerations: value 'b' does not fit"),
        (
            '--tolerations=[{"key":"a","effect":"NoExecute","tolerationSeconds":"x"}]',
            "tolerationSeconds must be a whole number",
        ),
        ('--tolerations=[{"key":"a","tolerationSeconds":5}]', "with effect NoExecute"),
        ('--node-selector={"a b":"c d"}', "node_selector 'a b': 'c d' is no label of a node"),
        ('--node-selector={"a":"c d"}', "is no label of a node"),
        ("--sandbox-url=nonsense", "sandbox_url 'nonsense' is no address: write it like http://127.0.0.1:8080."),
        ("--sandbox-url=http://a:b", "sandbox_url 'http://a:b' is no address"),
        ("--model-name=s3://", "s3:// names no object: write it like s3://bucket/folder/name."),
        ("--dataset=s3://bucket/", "s3://bucket/ names no object"),
        ("--model-name=models/a/b", "is nothing that a pod of the cluster can load: use a hub id like owner/name, or"),
        ("--model-name=https://hub.example/owner/model", "is nothing that a pod of the cluster can load"),
        (f"--resume-run={COMMIT}", "resume_run is what `run --resume RUN` sets"),
        ("--resume=", "--resume '' is no run id"),
        ("--resume=../x", "--resume '../x' is no run id"),
        ("--endpoint=http://", "--endpoint 'http://' is no address: write it like http://localhost:8080."),
        ("--endpoint=ftp://a", "--endpoint 'ftp://a' is no address"),
        ("--endpoint=http://a:b", "--endpoint 'http://a:b' is no address"),
    ],
)
def test_an_option_of_run(refused, option, sentence):
    assert sentence in refused("run", *STORED, option)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["report", ".."], "RUN '..' is no run id: use letters, digits, dots, dashes and underscores."),
        (["report", "../../etc"], "RUN '../../etc' is no run id"),
        (["watch", ""], "RUN '' is no run id"),
        (["logs", "a/b"], "RUN 'a/b' is no run id"),
        (["doctor", "--run", ""], "--run '' is no run id"),
        (["schedule"], "Missing command: `--help` lists what there is."),
        (
            ["schedule", "disable", ""],
            "SCHEDULE '' is no schedule's id: `python pipeline.py schedule list` shows",
        ),
        (["schedule", "delete", "a/b"], "SCHEDULE 'a/b' is no schedule's id"),
        (["compile", "-o", "pipeline.yaml", "--shm-size", "0"], "--shm-size '0' is no size"),
    ],
)
def test_another_verb(refused, words, sentence):
    assert sentence in refused(*words)


def test_what_fits_is_taken(kfp, capsys, monkeypatch):
    monkeypatch.setenv("KFP_ENDPOINT", kfp.url)
    options = ["--queue=team.a", "--priority-class=high", "--pull-secret=a", "--pull-secret=b", "--timeout=train=8760"]
    options += ["--pod-label=team/x=nlp", "--pod-label=empty=", "--model-cache-claim=models", "--scratch-size=1.5Gi"]
    with pytest.raises(SystemExit) as ended:
        main(["run", *STORED, *options])
    assert ended.value.code == 0, capsys.readouterr().err
    kfp.sent.clear()
