"""Checkpoints in the store: a run that was lost goes on from the newest complete one.

`checkpoints/<run>/<step>/` holds the trainer's own files; manifest.json, written last, lists them with size and
SHA-256. Without a manifest that fits there is no checkpoint.
"""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from components.shared.errors import UserError
from components.shared.manifest import MANIFEST, facts_of, fits
from components.shared.progress import say
from components.shared.store import Store


class Checkpoints:
    """The checkpoints of one run. settings: what must be the same for a run to go on."""

    def __init__(self, store: Store, run: str, *, keep: int, settings: Mapping[str, Any]) -> None:
        self.store, self.keep, self.settings = store, keep, dict(settings)
        self.prefix = f"checkpoints/{run}"

    def save(self, step: int, folder: Path) -> None:
        """Upload a checkpoint folder, its manifest last, then remove all but the newest `keep`.

        What has a higher number is of an attempt that went wrong after `step`, and goes as well.
        """
        self.store.delete(f"{self.prefix}/{step}/{MANIFEST}")
        files = {}
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            name = file.relative_to(folder).as_posix()
            files[name] = facts_of(file)
            self.store.upload(f"{self.prefix}/{step}/{name}", file)
        manifest = {"step": step, "files": files, "settings": self.settings}
        self.store.write(f"{self.prefix}/{step}/{MANIFEST}", json.dumps(manifest, indent=1).encode())
        kept = [one for one in self.steps() if one <= step][: self.keep]
        for other in self._folders() - set(kept):
            self._remove(other)

    def _folders(self) -> set[int]:
        """Steps of which there is anything, whole or not."""
        parts = (key.removeprefix(f"{self.prefix}/").split("/")[0] for key in self.store.keys(self.prefix + "/"))
        return {int(part) for part in parts if part.isdigit()}

    def steps(self) -> list[int]:
        """Steps of the checkpoints that have a manifest, newest first."""
        ends = [key.split("/") for key in self.store.keys(self.prefix + "/")]
        return sorted((int(parts[-2]) for parts in ends if parts[-1] == MANIFEST and parts[-2].isdigit()), reverse=True)

    def newest(self, folder: Path) -> Path | None:
        """Fetch the newest whole checkpoint into `folder`/resume/checkpoint-<step>; None when there is none.

        One that is damaged, or was not written to its end, is skipped with a warning. UserError when the run had other
        settings.
        """
        found, whole = self._folders(), self.steps()
        for step in sorted(found, reverse=True):
            if step not in whole:
                say("train", f"warning: checkpoint {step} was not written to its end (no {MANIFEST}) and is skipped")
                continue
            fetched = folder / "resume" / f"checkpoint-{step}"
            manifest, damage = self._fetch(step, fetched)
            if manifest is None:
                say("train", f"warning: checkpoint {step} is damaged ({damage}) and is skipped")
                shutil.rmtree(fetched, ignore_errors=True)
                continue
            return fetched
        return None

    def _fetch(self, step: int, target: Path) -> tuple[dict[str, Any] | None, str]:
        """The manifest of a checkpoint whose files are now in `target`; None, and what is wrong, when they do not fit.

        Only what the manifest names is fetched, and nothing when its settings are other ones.
        """
        try:
            manifest = dict(json.loads(self.store.read(f"{self.prefix}/{step}/{MANIFEST}")))
            self._check(manifest["settings"])
            for name, facts in manifest["files"].items():
                self.store.download(f"{self.prefix}/{step}/{name}", target / name)
                if not fits(target / name, facts):
                    return None, name
        except KeyError as error:
            return None, Path(str(error.args[0])).name
        except (ValueError, TypeError, AttributeError):  # no JSON, or JSON of another form
            return None, MANIFEST
        return manifest, ""

    def _check(self, then: Mapping[str, Any]) -> None:
        changed = [name for name, value in self.settings.items() if then.get(name) != value]
        if changed:
            said = ", ".join(f"{name} was {then.get(name)!r} and is {self.settings[name]!r}" for name in changed)
            raise UserError(f"This run cannot be continued with other settings: {said}; use the old ones or a new run.")

    def _remove(self, step: int) -> None:
        """Remove a checkpoint, its manifest first, so that it never looks whole."""
        self.store.delete(f"{self.prefix}/{step}/{MANIFEST}")
        for key in self.store.keys(f"{self.prefix}/{step}/"):
            self.store.delete(key)
