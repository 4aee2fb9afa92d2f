"""Whether the base model can be had: on the hub, gated or not, or in the store."""

import base64
from collections.abc import Iterator

from cli.cluster import Forbidden
from cli.doctor.finding import Finding, fail, ok, skipped, warn
from cli.doctor.installation import Installation
from components.shared.errors import UserError
from components.shared.model_hub import SECONDS, HubUnreachable, hub_sentences
from components.shared.store import in_bucket


def model_findings(place: Installation, *, probing: bool) -> Iterator[Finding]:
    """What the hub says of the model to the token that runs will have; a model in the store is left to the probe."""
    name, revision = place.parameters["model_name"], place.parameters["model_revision"] or "main"
    if in_bucket(name):
        if not probing:
            yield skipped("model", f"{name} can only be looked for from inside the cluster")
        return
    from huggingface_hub import HfApi

    api, token, secret = HfApi(), _token(place), place.parameters["hf_secret"]
    give = f"kubectl create secret generic {secret} -n {place.namespace} --from-literal=HF_TOKEN=…"
    whose = f"the token in Secret {secret}" if token else "no token"
    try:
        with hub_sentences("model", name, revision):
            info = api.model_info(name, revision=revision, token=token or False, timeout=SECONDS)
            if info.gated:
                api.auth_check(name, token=token or False)
    except HubUnreachable:
        told = "whether the cluster reaches it stands at `hub`" if probing else "the cluster may still reach it"
        seen = f"{api.endpoint} cannot be reached from this machine, so nothing is known of {name}"
        yield warn("model", seen, f"{told}; without a hub: --model-name s3://bucket/model")
    except UserError as error:
        yield fail("model", f"asked with {whose}: {str(error).rstrip('.')}", f"another --model-name, or: {give}")
    else:
        gate = f"gated, and {whose} opens it" if info.gated else "open to all"
        yield ok("model", f"{name} at {str(info.sha)[:12]} is on the hub, {gate}")


def _token(place: Installation) -> str:
    """The hub's token that the cluster's runs have, empty when they have none or it may not be read."""
    try:
        secret = place.cluster.get("secrets", place.parameters["hf_secret"]) or {}
    except Forbidden:
        return ""
    return base64.b64decode(secret.get("data", {}).get("HF_TOKEN") or "").decode(errors="replace").strip()
