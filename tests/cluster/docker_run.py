"""The whole pipeline by kfp's Docker runner: `python docker_run.py FOLDER SANDBOX_URL`, images by REGISTRY and TAG.

FOLDER is mounted under its own name into every container: model and problems lie there, artifacts are put there.
"""

import os
import sys

from kfp import local

from cli.parameters import merged
from pipeline import make_pipeline

SMALL = {
    "epochs": 1,
    "batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 24,
    "max_candidate_samples": 8,
    "max_eval_samples": 4,
    "num_eval_examples": 4,
    "eval_k": 2,
    "threads": 1,
    "candidate_splits": "train",
}


def main(folder: str, sandbox_url: str) -> None:
    environment = {"GRPO_STORE": f"{folder}/store", "GRPO_RUN_ID": "docker"}
    runner = local.DockerRunner(network_mode="host", user=f"{os.getuid()}:{os.getgid()}", environment=environment)
    local.init(runner, pipeline_root=folder)
    inputs = {"model_name": f"{folder}/model", "dataset": f"{folder}/problems", "sandbox_url": sandbox_url}
    # What the submit would have pinned: a directory's digest stands for itself.
    revisions = {"model_revision": "test", "dataset_revision": "test", "code_version": "test"}
    make_pipeline(cache_training=False, pods=None)(**merged({**SMALL, **inputs, **revisions}))


if __name__ == "__main__":
    main(*sys.argv[1:])
