"""`upload` and `upload-demo`: a version of the pipeline into KFP, and the demo's model and problems into the store."""

import hashlib
import json
import shlex
from pathlib import Path
from typing import Any

from cli.compiling import Fixed, compiled, version_name
from cli.endpoint import Endpoint
from cli.revisions import ROOT
from components.shared.errors import UserError
from components.shared.mirror import upload_model
from components.shared.store import in_bucket, open_store, upload_folder

PIPELINE = "grpo-code"
DEMO = "demo"
REGRESSION = ROOT / "demo/regression.jsonl"
# What the demo's tiny model needs, so that it also runs on a small node without a GPU.
DEMO_PODS = {"gpus": "0", **{f"{step}_cpu": "500m" for step in ("prepare", "filter", "train", "evaluate")}}
DEMO_PODS |= {f"{step}_memory": "2Gi" for step in ("prepare", "filter", "train", "evaluate")}


def upload(endpoint: Endpoint, fixed: Fixed) -> tuple[str, str, str, bool]:
    """Put the pipeline into KFP as a new version: (pipeline id, version id, version name, whether it is new).

    The same code, options and images are the same version, which is not uploaded twice.
    """
    with compiled(fixed) as file, endpoint.spoken():
        client = endpoint.client
        name = f"{version_name()}-{hashlib.sha256(file.read_bytes()).hexdigest()[:8]}"
        pipeline = _known(endpoint, fixed.pipeline) or _create(endpoint, fixed.pipeline)
        known = _versions(client, pipeline)
        if name in known:
            return pipeline, known[name], name, False
        made = client.upload_pipeline_version(str(file), pipeline_version_name=name, pipeline_id=pipeline)
    return pipeline, str(made.pipeline_version_id), name, True


def _known(endpoint: Endpoint, name: str) -> str:
    """The id of the pipeline of this name, in the profile where there are several users; empty when there is none."""
    wanted = {"predicates": [{"operation": "EQUALS", "key": "display_name", "stringValue": name}]}
    page = endpoint.client.list_pipelines(filter=json.dumps(wanted), namespace=endpoint.namespace_of_runs)
    return str(page.pipelines[0].pipeline_id) if page.pipelines else ""


def _create(endpoint: Endpoint, name: str) -> str:
    from kfp_server_api import V2beta1Pipeline

    body = V2beta1Pipeline(display_name=name, description="GRPO for code", namespace=endpoint.namespace_of_runs or "")
    return str(endpoint.client.pipelines.pipeline_service_create_pipeline(body).pipeline_id)


def _versions(client: Any, pipeline: str) -> dict[str, str]:
    found: dict[str, str] = {}
    token = ""
    while True:
        page = client.list_pipeline_versions(pipeline, page_token=token, page_size=100)
        found |= {one.display_name: one.pipeline_version_id for one in page.pipeline_versions or []}
        token = page.next_page_token or ""
        if not token:
            return found


def upload_demo() -> str:
    """Put the demo into the store; returns the command that runs it on the cluster."""
    store = open_store()
    if not in_bucket(store.uri("")):
        raise UserError(
            "upload-demo needs the store that the cluster uses: set GRPO_STORE=s3://bucket/prefix, S3_ENDPOINT, "
            "S3_ACCESS_KEY and S3_SECRET_KEY."
        )
    upload_model(store, f"{DEMO}/model", ROOT / "demo/model")
    upload_folder(store, f"{DEMO}/problems", ROOT / "demo/problems")
    store.upload(f"{DEMO}/{REGRESSION.name}", REGRESSION)
    options = {
        "model_name": store.uri(f"{DEMO}/model"),
        "dataset": store.uri(f"{DEMO}/problems"),
        "regression_dataset": store.uri(f"{DEMO}/{REGRESSION.name}"),
        **DEMO_PODS,
    }
    words = ["python", "pipeline.py", "run", "--params", str(Path("demo/parameters.toml"))]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}", value]
    return shlex.join(words)
