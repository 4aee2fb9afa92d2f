"""Data sets on the model hub, or in its cache when the hub is out of reach.

`datasets` retries by itself; a hub that stays unreachable is an infrastructure failure, an id, configuration or
revision that does not exist is the user's mistake.
"""

from typing import Any

from components.prepare.raw import RawData, row_of
from components.settings import SPLITS
from components.shared.errors import InfraError, UserError
from components.shared.model_hub import COMMIT
from components.shared.progress import say


def read_hub(hub_id: str, config: str | None, revision: str, *, name: str) -> RawData:
    """All splits of one configuration. The revision in the result is the commit that was read.

    A data set with the one split `train` has none in truth, so its rows get no split.
    """
    builder = _download(hub_id, config, revision)
    commit = builder.hash if COMMIT.fullmatch(str(builder.hash)) else ""
    if COMMIT.fullmatch(revision) and commit and commit != revision:
        raise InfraError(
            f"The data set {hub_id} could not be fetched from the hub at revision {revision}, and this machine's cache "
            f"holds another one, {commit}."
        )
    tables = builder.as_dataset()
    unknown = sorted(set(tables) - set(SPLITS))
    if unknown:
        raise UserError(
            f"The data set {hub_id} has a split named {unknown[0]!r}: only {', '.join(SPLITS)} are known; "
            "save the rows you want as files named train.jsonl and test.jsonl in a directory."
        )
    unsplit = set(tables) == {"train"}
    rows = [
        row_of(row, place=f"{hub_id}, split {split}, row {number}", split="" if unsplit else split)
        for split in sorted(tables, key=SPLITS.index)
        for number, row in enumerate(tables[split], start=1)
    ]
    return RawData(name=name, revision=commit, rows=rows)


def datasets_library() -> Any:
    """The `datasets` library, imported only when it is needed (JSON files do without) and without its own display."""
    import datasets

    datasets.disable_progress_bars()
    return datasets


def _download(hub_id: str, config: str | None, revision: str) -> Any:
    datasets = datasets_library()
    say("prepare", f"fetching {hub_id} from the hub")
    try:
        builder = datasets.load_dataset_builder(hub_id, config, revision=revision or None)
        builder.download_and_prepare()
    except datasets.exceptions.FileNotFoundDatasetsError as error:
        raise UserError(f"{_sentence(error)} Check parameters dataset and dataset_revision, and HF_TOKEN.") from None
    except (ValueError, datasets.exceptions.DatasetGenerationError) as error:
        raise UserError(f"The data set {hub_id} cannot be read: {_sentence(error)}") from None
    except Exception as error:  # the transport's errors have no public home
        raise InfraError(
            f"The data set {hub_id} could not be fetched from the hub {datasets.config.HF_ENDPOINT}, and is not in "
            f"this machine's cache: {type(error).__name__}: {_sentence(error)}"
        ) from error
    return builder


def _sentence(error: Exception) -> str:
    """An error's first line, ending in one full stop."""
    return str(error).strip().split("\n")[0].rstrip(".:") + "."
