"""The model hub: the commit behind a branch or tag, and its failures in one sentence each.

Imported names load nothing: the hub's library is needed only by those who ask the hub.
"""

import difflib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from components.shared.errors import UserError

COMMIT = re.compile(r"[0-9a-f]{40}")
HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(/[A-Za-z0-9][\w.-]*)?")
SECONDS = 15.0  # for one question to the hub


def near_path(name: str) -> str:
    """` Did you mean x?` with a leading blank where a path has nearly this name, or nothing."""
    path = Path(name).expanduser()
    try:
        beside = [one.name for one in path.parent.iterdir()]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f" Did you mean {path.parent / near[0]}?" if near else ""


class HubUnreachable(UserError):
    """The hub does not answer from here; a machine with another way out may still reach it."""


def hub_commit(kind: str, name: str, revision: str) -> str:
    """The commit that a branch or tag of a hub repository stands for; without a network, that of the local cache.

    kind is `model` or `dataset`. UserError when there is no such repository or revision, HubUnreachable when there is
    no way to know it.
    """
    if COMMIT.fullmatch(revision):
        return revision
    from huggingface_hub import HfApi

    try:
        with hub_sentences(kind, name, revision):
            return str(HfApi().repo_info(name, repo_type=kind, revision=revision, timeout=SECONDS).sha)
    except HubUnreachable:
        cached = _cached_commit(kind, name, revision)
        if cached is None:
            raise
        return cached


@contextmanager
def hub_sentences(kind: str, name: str, revision: str) -> Iterator[None]:
    """Turn what goes wrong while the hub is asked for a repository into UserError or HubUnreachable."""
    from huggingface_hub import constants, errors
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]  # public, but not re-exported

    what, place = ("data set", "file or directory") if kind == "dataset" else ("model", "directory")
    try:
        validate_repo_id(name)
        if constants.HF_HUB_OFFLINE:
            raise OSError("HF_HUB_OFFLINE is set")
        yield
    except errors.HFValidationError:
        raise UserError(f"The {what} {name!r} is neither a local {place} nor a name on the hub.") from None
    except errors.GatedRepoError:
        raise UserError(f"The {what} {name} is gated: accept its terms on the hub and set HF_TOKEN.") from None
    except errors.RevisionNotFoundError:
        raise UserError(
            f"The {what} {name} has no revision {revision!r}: name a branch, tag or commit of it."
        ) from None
    except errors.RepositoryNotFoundError:
        raise UserError(
            f"The {what} {name!r} is unknown to the hub, or private: name another, a local {place}, or set HF_TOKEN."
            + near_path(name)
        ) from None
    except UserError:
        raise
    except Exception as error:  # the transport's errors have no public home in huggingface_hub
        reason = str(error) if constants.HF_HUB_OFFLINE else type(error).__name__
        raise HubUnreachable(
            f"The {what} {name!r} is no local {place}, is not in the hub's local cache, and the hub cannot be reached "
            f"({reason}): name a local {place}, or restore the connection.{near_path(name)}"
        ) from None


def _cached_commit(kind: str, name: str, revision: str) -> str | None:
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    reference = Path(constants.HF_HUB_CACHE) / repo_folder_name(repo_id=name, repo_type=kind) / "refs" / revision
    return reference.read_text(encoding="utf-8").strip() if reference.is_file() else None
