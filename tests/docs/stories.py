"""Where each command of the pages is run: here, in stories that go from one command to the next, or elsewhere, and why.

A command that stands in neither table fails tests/docs/test_commands.py.
"""

from dataclasses import dataclass

from tests.cluster.page import blocks
from tests.cluster.test_walkthrough import FIRST, KIND, KUBEFLOW, LAST
from tests.cluster.walkthrough import steps
from tests.conftest import ROOT
from tests.docs.commands import commands_of, pieces

SANDBOX = ROOT / "images/sandbox/README.md"
QWEN = "python pipeline.py local --model-name Qwen/Qwen2.5-Coder-0.5B"
STOPPED = 130


@dataclass(frozen=True)
class Step:
    """A command as it stands on the page, and what it must say (a regular expression) and end with.

    until: it is left with Ctrl-C once it has said this.
    """

    command: str
    says: str
    code: int = 0
    until: str = ""


STORIES: dict[str, tuple[Step, ...]] = {
    "the demo": (
        Step("make help", r"make run +Run the whole pipeline on the demo"),
        Step("make setup", ""),
        Step("make run", r"(?s)tuned +7\d\.\d %.*beyond noise.*out/runs/.*/evaluate/report\.html.*Done in"),
        Step("source .venv/bin/activate", ""),
        Step("make run ARGS=--reuse", r"Nothing has changed since run \S+: these are its results"),
        Step('make run ARGS="--run-id RUN"', r"(?s)evaluate: reused.*Done in \d+ s"),
        Step(
            "python pipeline.py local --params demo/parameters.toml",
            r"(?s)prepare: reused, nothing it reads has changed.*go on with:\n.*--run-id",
            STOPPED,
            until="train: started",
        ),
        Step(
            "python pipeline.py local --pipeline evaluate-only --params demo/parameters.toml --tuned-model runs/RUN",
            r"(?s)problems were taken from the store.*pass@1 on 100 held-out problems.*Done in",
        ),
        Step("python pipeline.py watch RUN", r"The run succeeded"),
        Step("python pipeline.py report RUN", r"http://127\.0\.0\.1:\d+/ \(Ctrl-C ends it\)", until="Ctrl-C ends it"),
        Step("python pipeline.py local --params demo/parameters.toml --publish-as demo", r"demo: published: \+\d"),
        Step("python pipeline.py models list", r"demo"),
        Step("python pipeline.py models publish RUN demo", r"demo"),
        Step("python pipeline.py models rollback demo", r"demo"),
        Step("python pipeline.py runs list", r"(?s)succeeded.*succeeded"),
        Step("python pipeline.py compare RUN RUN", r"(?s)tuned − base.*Page: build/comparison\.html"),
    ),
    "SQL": (
        Step(
            "python pipeline.py local --params demo/parameters.toml --dataset docs/examples/sql "
            "--max-candidate-samples 8 --max-eval-samples 4 --num-eval-examples 4",
            r"(?s)8 training, 4 held-out.*0 rows quarantined.*tuned +0\.0 %.*within noise",
        ),
    ),
    "a model of the hub": (
        Step(
            f"{QWEN} --max-candidate-samples 20 --epochs 1 --num-generations 2 --batch-size 2 "
            "--max-completion-length 64 --max-eval-samples 20 --num-eval-examples 4",
            r"(?s)lora on Qwen/Qwen2\.5-Coder-0\.5B.*20 steps of 1 prompts x 2.*pass@1 on 4 held-out problems.*Done in",
        ),
        Step(
            f"{QWEN} --max-candidate-samples 15 --epochs 1 --num-eval-examples 10",
            r"15 steps of 1 prompts x 8",
            STOPPED,
            until="lora on",
        ),
        Step(
            "python pipeline.py local --pipeline evaluate-only --model-name Qwen/Qwen2.5-Coder-0.5B "
            "--dataset ./problems.jsonl",
            r"(?s)pass@1 on 8 held-out problems, 4 samples each.*--tuned-model compares a trained model",
        ),
        Step(
            f"{QWEN.replace(' --model-name', ' --method full --model-name')}",
            r"full on Qwen/Qwen2\.5-Coder-0\.5B",
            STOPPED,
            until="full on",
        ),
        Step("python pipeline.py local", r"300 problems, 600 steps of 1 prompts x 8", STOPPED, until="lora on"),
        Step(
            "python pipeline.py local --num-generations 16 --batch-size 16 --max-candidate-samples 474 "
            "--max-eval-samples 500 --num-eval-examples 200",
            r"(?s)\d{3} training, \d{3} held-out.*\d{3} steps of 1 prompts x 16",
            STOPPED,
            until="lora on",
        ),
        Step(
            "python pipeline.py local --use-filter --filter-samples 8 --max-candidate-samples 100",
            r"(?s)filter: kept \d+ of 100 problems.*lora on",
            STOPPED,
            until="lora on",
        ),
    ),
    "plans": (
        Step("python pipeline.py plan --gpu A100-80GB --hourly-rate 2.50", r"(?s)7616 M parameters.*at 2\.5 an hour"),
        Step("python pipeline.py plan --method full --gpu-memory 24", r"use method lora", 2),
        Step(
            "python pipeline.py plan --model-name Qwen/Qwen2.5-Coder-7B --gpu A100-80GB --hourly-rate 2.50",
            r"(?s)7616 M parameters.*at 2\.5 an hour",
        ),
        Step("python pipeline.py plan", r"7616 M parameters"),
    ),
    "what Kubeflow Pipelines is sent": (
        Step("make compile", r"build/pipeline\.yaml"),
        Step("python pipeline.py upload", r"grpo-code"),
        Step("python pipeline.py run", r"Started run r1"),
        Step(
            "python pipeline.py run --model-name Qwen/Qwen2.5-Coder-7B --train-memory 64Gi --follow",
            r"(?s)Started run r1.*The run succeeded",
        ),
        Step(
            'python pipeline.py schedule create --name nightly --cron "30 2 * * 1-5" --train-memory 64Gi',
            r"At 02:30",
        ),
        Step(
            'python pipeline.py schedule create --name nightly --cron "30 2 * * 1-5" '
            "--model-name Qwen/Qwen2.5-Coder-7B",
            r"At 02:30",
        ),
        Step("python pipeline.py schedule list", r""),
        Step("python pipeline.py schedule disable SCHEDULE", r""),
        Step("python pipeline.py schedule delete SCHEDULE", r""),
    ),
    "the sources": (
        Step("python -m cli.readme", ""),
        Step("python demo/build.py --check", ""),
    ),
}  # fmt: skip

# What is not run in this folder of tests: why not, and the commands, as shell.
LISTED = {
    "is what runs the tests": """
make test
make lint
make e2e REGISTRY=ghcr.io/me
make e2e-kfp REGISTRY=ghcr.io/me KFP_ENDPOINT=http://localhost:8080
""",
    "needs a package index": """
make lock
""",
    "takes many minutes; tests/bench and tests/demo run the same code, shorter": """
make bench-demo
make bench-intervals
make bench-train
make bench-train ARGS="--rounds 1 --steps 10"
make bench-sandbox
make bench-sandbox ARGS=--quick
GRPO_MBPP_JSONL=mbpp.jsonl make bench-sandbox
python demo/build.py
""",
    "needs a GPU; tests/bench/test_gpu_check.py runs it at a tiny shape": """
make gpu-check
make gpu-check ARGS=--tiny
""",
    "is spoken of, not given to be run": """
python -I -c
docker build
docker login
kubectl create secret
kubectl describe quota
""",
    "was not tried, and the page says so": """
kubectl exec -n $NS $POD -c main -- nvidia-smi
""",
    "needs docker or a registry; tests/images and tests/cluster/test_images.py have the images": """
make images
make images push
make images TORCH_BACKEND=cpu
make images push REGISTRY=ghcr.io/me
export TAG=$(python3 -m cli.images tag)
docker run --rm --read-only --tmpfs /tmp IMAGE python -m components.selfcheck train
docker run --rm --read-only --tmpfs /tmp IMAGE --self-test
""",
    "needs a cluster; tests/cluster/test_deploying.py deploys, and takes away": """
make deploy
make undeploy
make deploy REGISTRY=ghcr.io/me OVERLAY=local,minio
make deploy OVERLAY=local,seaweedfs NAMESPACE=kubeflow
kubectl -n grpo-code-sandbox create secret generic grpo-code-sandbox --from-literal=TOKEN="$TOKEN"
kubectl -n kubeflow create secret generic grpo-code-sandbox --from-literal=TOKEN="$TOKEN"
kubectl -n grpo-code-sandbox debug POD --profile=restricted --image=IMAGE -it -- python
kubectl create secret generic grpo-code-store -n kubeflow --from-literal=S3_ENDPOINT=s3.example.org \\
  --from-literal=S3_ACCESS_KEY=... --from-literal=S3_SECRET_KEY=... --from-literal=S3_SECURE=true
kubectl create secret generic hf-token -n kubeflow --from-literal=HF_TOKEN=...
""",
    "is rendered by tests/manifests, for every overlay": """
kubectl kustomize manifests/overlays/local
""",
    "needs kind, docker and GitHub; the tests' cluster is another": """
kind create cluster --name grpo-code
kind delete cluster --name grpo-code
export PIPELINE_VERSION=2.17.0
kubectl apply -k "github.com/kubeflow/pipelines/manifests/kustomize/cluster-scoped-resources?ref=$PIPELINE_VERSION"
kubectl wait --for=condition=established --timeout=60s crd/applications.app.k8s.io
kubectl apply -k "github.com/kubeflow/pipelines/manifests/kustomize/env/platform-agnostic?ref=$PIPELINE_VERSION"
kubectl wait -n kubeflow --for=condition=available --timeout=15m deployment --all
for image in prepare filter train evaluate sandbox; do
  kind load docker-image --name grpo-code grpo-code-$image:$TAG
done
""",
    "needs Kubeflow with profiles and a gateway, for which tests/cluster/gateway.py stands": """
kubectl apply -f - <<'END'
apiVersion: kubeflow.org/v1
kind: Profile
metadata:
  name: team-a
spec:
  owner:
    kind: User
    name: me@example.com
END
export REGISTRY=registry.example.com/team
make deploy OVERLAY=kubeflow-multiuser,minio NAMESPACE=team-a
export KFP_ENDPOINT=https://kubeflow.example.com/pipeline KFP_NAMESPACE=team-a
export KFP_TOKEN=$(kubectl create token default-editor -n team-a \\
  --audience=istio-ingressgateway.istio-system.svc.cluster.local)
for key in GRPO_STORE S3_ACCESS_KEY S3_SECRET_KEY S3_SECURE; do
  export $key="$(kubectl get secret grpo-code-store -n team-a -o jsonpath="{.data.$key}" | base64 --decode)"
done
""",
    "needs KFP and what it has run; tests/kfp, tests/cluster/test_doctor_on_kfp.py and test_walkthrough.py use it": """
python pipeline.py doctor
python pipeline.py doctor --run RUN
python pipeline.py doctor --model-name Qwen/Qwen2.5-Coder-7B
python pipeline.py doctor --model-name Qwen/Qwen2.5-Coder-7B --train-memory 64Gi
python pipeline.py run --resume RUN
python pipeline.py run --resume RUN --train-memory 96Gi
export GRPO_STORE=s3://grpo-code
kfp run archive RUN
kfp pipeline create -p grpo-code build/pipeline.yaml
kfp run create -e grpo-code -r first -f build/pipeline.yaml model_name=owner/model epochs=1 'gpus="1"'
python pipeline.py schedule create --name nightly --cron "30 2 * * *" --follow-revisions \\
  --model-name Qwen/Qwen2.5-Coder-7B --dataset s3://bucket/problems.jsonl --candidate-splits train,prompt \\
  --publish-as python-7b --init-adapter models/python-7b --on-unchanged skip
python pipeline.py models rollback python-7b
""",
}
ELSEWHERE: dict[str, list[str]] = {
    **{reason: list(pieces(text)) for reason, text in LISTED.items()},
    "is run as it stands by tests/sandbox/test_readme.py": [
        command for command in commands_of(SANDBOX) if command.startswith(("python -m sandbox", "curl"))
    ],
    "is run as it stands by tests/cluster/test_walkthrough.py": [
        piece
        for way in (KIND, KUBEFLOW)
        for number, block in steps(way).items()
        if FIRST <= number <= LAST[way]
        for piece in pieces(block)
    ],
    "is run as it stands by tests/cluster/test_debugging_page.py": [
        piece for block in blocks() for piece in pieces(block.body)
    ],
}
