"""What the pipeline's first step asks before anything costly runs: can the store be written, does the sandbox judge?

Every service is tried by doing what the steps will do. All that is missing is said at once.
"""

import os
import secrets
from collections.abc import Mapping
from typing import Any

from components import revisions, unchanged
from components.shared.errors import FAILURE_KEY, InfraError, UserError
from components.shared.initial import pinned_adapter
from components.shared.progress import say
from components.shared.run import folder_of, on_cluster, record, recorded, run_id_of, this_run
from components.shared.sandbox import TOKEN_VARIABLE, URL_VARIABLE, Item, SandboxClient
from components.shared.status import UNCHANGED_SINCE
from components.shared.store import S3_SETTINGS, STORE_VARIABLE, Store, in_bucket, open_store
from components.shared.trained import pinned as pinned_model
from components.shared.trained import refuse_missing, still_meant, unpinned

SANDBOX_SECONDS = 60.0  # a replica that is just being replaced comes back within that
PROGRAM = Item(
    program="def one():\n    return 1\n", entry_point="one", setup="", tests=["assert one() == 1"], timeout_s=5
)


def verify(given: Mapping[str, Any]) -> None:
    """Try store and sandbox; UserError for what is not set up, InfraError for what does not answer."""
    if on_cluster():
        refuse_missing_keys(given["store_secret"])
    store = open_store()
    try_store(store)
    if this_run():
        store.delete(f"{folder_of(this_run())}/{FAILURE_KEY}")  # of an attempt before this one
    try_sandbox(given["sandbox_url"], given["sandbox_secret"])


def pinned(given: Mapping[str, Any]) -> dict[str, str]:
    """What this run reads, by parameter: commits or digests of model and data set, the adapter that it starts from, and
    the trained model that it evaluates.

    A run that continues another reads what that one had read.
    """
    if on_cluster():
        revisions.refuse_what_no_pod_has(given)
    if given["resume_run"]:
        given = {**given, **revisions.as_read_by(open_store(), given["resume_run"], given)}
    found = _pinned_revisions(given)
    return {
        **found,
        revisions.ADAPTER: _pinned_adapter({**given, **found}),
        revisions.TUNED_MODEL: _pinned_tuned_model(given),
    }


def _pinned_adapter(given: Mapping[str, Any]) -> str:
    """What init_adapter means for this run; a further attempt at it starts from what the first one had started from."""
    if given["resume_run"] or not given[revisions.ADAPTER]:
        return str(given[revisions.ADAPTER])
    return still_meant(given, _known(this_run()), revisions.ADAPTER) or pinned_adapter(given)


def _pinned_tuned_model(given: Mapping[str, Any]) -> str:
    """What tuned_model means for this run; a further attempt at it, or what continues it, evaluates the same."""
    address = str(given.get(revisions.TUNED_MODEL) or "")
    if not address:
        return ""
    refuse_missing(address, on_cluster=on_cluster())
    known = _known(run_id_of(this_run(), given["resume_run"]))
    then = still_meant(given, known, revisions.TUNED_MODEL)
    unpinned(then)
    return then or pinned_model(address)


def _known(run: str) -> dict[str, Any]:
    """The parameters in a run's record, pinned by its first attempt; empty where there was none."""
    return (recorded(open_store(), run).get("parameters") or {}) if run else {}


def _pinned_revisions(given: Mapping[str, Any]) -> dict[str, str]:
    # A commit or digest that was taken at submit is what every step goes by; a directory may have moved since.
    read = [name for name, source in revisions.SOURCES.items() if given[source]]
    if all(given[name] for name in read) and not on_cluster():
        return {name: given[name] for name in revisions.REVISIONS}
    found = {name: revisions.pin(given, name) for name in revisions.REVISIONS}
    for name, revision in found.items():
        if given[name] != revision:
            say("check", f"{revisions.SOURCES[name].removesuffix('_name')} is pinned at revision {revision}")
    return found


def keep(given: Mapping[str, Any]) -> str:
    """Write the pinned parameters into the record of the run, or of the one it continues, which a later attempt reads.

    Returns the run that this one would repeat, empty when it is to train.
    """
    store, run, inputs = open_store(), run_id_of(this_run(), given["resume_run"]), unchanged.inputs_of(given)
    if run:
        asked = {name: value for name, value in given.items() if name != "resume_run"}
        record(store, run, parameters=asked, **{unchanged.INPUTS: inputs, UNCHANGED_SINCE: ""})
    return unchanged.unchanged_since(store, given, inputs)


def refuse_missing_keys(store_secret: str) -> None:
    """UserError when the store's Secret has not reached this pod, or lacks keys."""
    lacks = [name for name in S3_SETTINGS if not os.environ.get(name)]
    if not lacks or not in_bucket(os.environ.get(STORE_VARIABLE) or ""):
        return
    raise UserError(
        f"The Secret {store_secret} with the store's keys is missing in this namespace, or lacks {', '.join(lacks)}: "
        f"`kubectl create secret generic {store_secret} --from-literal=S3_ENDPOINT=... "
        "--from-literal=S3_ACCESS_KEY=... --from-literal=S3_SECRET_KEY=... --from-literal=S3_SECURE=true`."
    )


def try_store(store: Store) -> None:
    """Write, read and remove an object, as the steps will; InfraError says which of them failed."""
    key, content = f"cache/probe-{secrets.token_hex(4)}", secrets.token_bytes(16)
    store.write(key, content)
    try:
        if store.read(key) != content:
            raise InfraError(f"The store gave back other bytes than were written to {store.uri(key)}.")
    except KeyError:
        raise InfraError(f"The store lost {store.uri(key)} as soon as it was written.") from None
    finally:
        store.delete(key)


def try_sandbox(sandbox_url: str, sandbox_secret: str) -> None:
    """Have one program judged, which also proves the token and that the network lets this pod through."""
    url = os.environ.get(URL_VARIABLE) or sandbox_url
    client = SandboxClient(url, retry_seconds=SANDBOX_SECONDS)
    client.version()
    verdict = client.judge([PROGRAM])[0]
    if verdict.passed:
        return
    if "HTTP 401" in verdict.detail or "HTTP 403" in verdict.detail:
        token = "its token" if os.environ.get(TOKEN_VARIABLE) else "a token, and none reached this step"
        raise UserError(
            f"The sandbox at {url} wants {token}: put the TOKEN of its Secret into the Secret {sandbox_secret} of the "
            "pipeline's namespace."
        )
    raise InfraError(f"The sandbox at {url} cannot judge a correct program ({verdict.outcome}: {verdict.detail}).")
