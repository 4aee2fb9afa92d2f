"""The names of the namespaces, and the one rule for the one in which runs live. The standard library only.

`make deploy` runs before any environment is set up, so that it can import this, and the verbs go by the same rule.
"""

import os
from pathlib import Path

NAMESPACE_VARIABLE = "KFP_NAMESPACE"
KFP_NAMESPACE = "kubeflow"  # where KFP itself is, and where one for a single user has the pods of its runs
OWN_NAMESPACE, SANDBOX_NAMESPACE, STORE_NAMESPACE = "grpo-code", "grpo-code-sandbox", "grpo-code-store"
PIPELINE_LABEL = "grpo-code/pipeline"  # on namespaces whose pods may be clients of the sandbox
POD_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def named_namespace(given: str | None = None) -> str:
    """The namespace that somebody has named: as given, $KFP_NAMESPACE, or this pod's own; empty when nobody has."""
    named = given or os.environ.get(NAMESPACE_VARIABLE, "")
    if not named and POD_NAMESPACE_FILE.is_file():
        return POD_NAMESPACE_FILE.read_text(encoding="utf-8").strip()
    return named


def pipeline_namespace(given: str | None = None) -> str:
    """The namespace in which runs have their pods: the one that is named, or KFP's own."""
    return named_namespace(given) or KFP_NAMESPACE
