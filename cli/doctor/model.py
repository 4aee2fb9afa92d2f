"""Whether the base model can be had: on the hub, gated or not, or in the store."""

import base64
from collections.abc import Iterator

from cli.cluster import Forbidden
from cli.doctor.finding import Finding, fail, ok, skipped, warn
from cli.doctor.installation import Installation

SECONDS = 15


def model_findings(place: Installation, *, probing: bool) -> Iterator[Finding]:
    """What the hub says of the model to the token that runs will have; a model in the store is left to the probe."""
    name, revision = place.parameters["model_name"], place.parameters["model_revision"] or "main"
    if name.startswith("s3://"):
        if not probing:
            yield skipped("model", f"{name} can only be looked for from inside the cluster")
        return
    from huggingface_hub import HfApi, constants, errors

    api, token = HfApi(), _token(place)
    try:
        info = api.model_info(name, revision=revision, token=token or False, timeout=SECONDS)
        if info.gated:
            api.auth_check(name, token=token or False)
    except errors.GatedRepoError:
        yield fail("model", f"{name} is gated, and {_whose(place, token)} may not read it", _accept(place, name))
    except errors.RevisionNotFoundError:
        yield fail(
            "model", f"{name} has no revision {revision!r}", "--model-revision with a branch, tag or commit of it"
        )
    except (errors.RepositoryNotFoundError, errors.HFValidationError):
        seen = f"{name} is unknown to the hub, or private and {_whose(place, token)} may not see it"
        yield fail("model", seen, f"another --model-name, or: {_give_token(place)}")
    except Exception as error:  # the transport's errors have no public home in huggingface_hub
        seen = (
            f"{constants.ENDPOINT} cannot be reached from this machine ({type(error).__name__}), so {name} is unknown"
        )
        yield warn("model", seen, "the cluster may still reach it; without a hub: --model-name s3://bucket/model")
    else:
        gate = f", gated, and {_whose(place, token)} may read it" if info.gated else ", open to all"
        yield ok("model", f"{name} at {str(info.sha)[:12]} is on the hub{gate}")


def _token(place: Installation) -> str:
    """The hub's token that the cluster's runs have, empty when they have none or it may not be read."""
    try:
        secret = place.cluster.get("secrets", place.parameters["hf_secret"]) or {}
    except Forbidden:
        return ""
    return base64.b64decode(secret.get("data", {}).get("HF_TOKEN") or "").decode(errors="replace").strip()


def _whose(place: Installation, token: str) -> str:
    secret = place.parameters["hf_secret"]
    return f"the token in Secret {secret}" if token else f"nobody without a token (Secret {secret} has none)"


def _give_token(place: Installation) -> str:
    secret, space = place.parameters["hf_secret"], place.namespace
    return f"kubectl create secret generic {secret} -n {space} --from-literal=HF_TOKEN=…"


def _accept(place: Installation, name: str) -> str:
    return f"accept its terms at https://huggingface.co/{name}, then: {_give_token(place)}"
