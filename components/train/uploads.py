"""The way to the store: what a run leaves is sent in the background, and waits while the store is away.

One thread sends, so that training never waits for the store. Only the newest of each thing waits: a journal replaces
an older one, a checkpoint an older checkpoint, so that what waits stays small however long the store is away.
"""

import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from components.shared.errors import InfraError, UserError
from components.shared.progress import duration, say
from components.shared.store import Store
from components.train.memory import Superseded

SECONDS_BETWEEN_TRIES = 5.0
SECONDS_BETWEEN_WARNINGS = 60.0
LONGEST_ABSENCE = 1800.0  # seconds without the store after which a run stops: more and more of it could be lost
PATIENCE_AT_THE_END = 600.0  # seconds that a run which has nothing left to do waits for the store
PATIENCE_AFTER_FAILURE = 60.0

Checkpoint = tuple[int, Path]  # the step, and the folder with the trainer's files


class Uploads:
    """Sends objects and checkpoints in order: an object that was given before a checkpoint is there before it is."""

    def __init__(
        self,
        store: Store,
        save_checkpoint: Callable[[int, Path], None],
        *,
        active: bool = True,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        """save_checkpoint(step, folder) puts a checkpoint into the store, see Checkpoints.save.

        active: False in a process that leaves the sending to another one. check: raises Superseded when nothing more
        may be sent.
        """
        self.active, self.check = active, check
        self.store, self.save_checkpoint = store, save_checkpoint
        self.objects: dict[str, bytes] = {}
        self.checkpoint: Checkpoint | None = None
        self.sending = self.closed = False
        self.arrived = 0  # the step of the newest checkpoint in the store,
        self.way_seconds = 0.0  # and how long it took to get there, the objects before it included
        self.away_since: float | None = None
        self.next_warning = 0.0
        self.trouble: Exception | None = None
        self.changed = threading.Condition()
        self.thread = threading.Thread(target=self._work, name="uploads", daemon=True)
        self.thread.start()

    def write(self, objects: Mapping[str, bytes]) -> None:
        """Send these objects, by key; what still waited under a key is replaced."""
        self._stop_if_hopeless()
        if not self.active:
            return
        with self.changed:
            self.objects.update(objects)
            self.changed.notify_all()

    def send_checkpoint(self, step: int, folder: Path) -> None:
        """Send a checkpoint; its files are linked to a place of their own, so that the trainer may remove `folder`."""
        if not self.active:
            return
        place = folder.parent / "outgoing" / str(step)
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(folder, place, copy_function=os.link)
        with self.changed:
            replaced, self.checkpoint = self.checkpoint, (step, place)
            self.changed.notify_all()
        if replaced:
            shutil.rmtree(replaced[1], ignore_errors=True)

    def finish(self, patience: float = PATIENCE_AT_THE_END) -> None:
        """Wait until everything has arrived; InfraError when it has not after `patience` seconds."""
        with self.changed:
            done = self.changed.wait_for(lambda: not self._busy() or self._is_defect(), timeout=patience)
        if not done or self.trouble:
            self._raise(f"tried for {duration(patience)}")

    def close(self) -> None:
        """Let the thread end once nothing waits or the store is away; it takes nothing more."""
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self.thread.join()

    def _busy(self) -> bool:
        return bool(self.objects or self.checkpoint or self.sending)

    def _is_defect(self) -> bool:
        """Whether to try again would be in vain."""
        expected = isinstance(self.trouble, InfraError | UserError) and not isinstance(self.trouble, Superseded)
        return self.trouble is not None and not expected

    def _stop_if_hopeless(self) -> None:
        away = time.monotonic() - self.away_since if self.away_since is not None else 0.0
        if away > LONGEST_ABSENCE or self._is_defect():
            self._raise(f"away for {duration(away)}")

    def _raise(self, how_long: str) -> None:
        if self.trouble is not None and self._is_defect():
            raise self.trouble
        kept = f"the checkpoint of step {self.arrived}" if self.arrived else "no checkpoint of this attempt"
        raise InfraError(
            f"The store did not take what the run left ({how_long}; {self.trouble or 'it is slow'}); it has {kept}."
        )

    def _work(self) -> None:
        while True:
            with self.changed:
                self.changed.wait_for(lambda: self.objects or self.checkpoint or self.closed)
                if not (self.objects or self.checkpoint):
                    return
                objects, self.objects = self.objects, {}
                checkpoint, self.checkpoint = self.checkpoint, None
                self.sending = True
            failure = self._try(objects, checkpoint)
            with self.changed:
                self.sending = False
                self.trouble = failure
                if failure is not None:
                    self._keep(objects, checkpoint)
                self.changed.notify_all()
                if failure is not None and (self._is_defect() or self.closed):
                    return
            if failure is not None:
                self._warn(failure)
                time.sleep(SECONDS_BETWEEN_TRIES)
            else:
                self._welcome_back()

    def _try(self, objects: dict[str, bytes], checkpoint: Checkpoint | None) -> Exception | None:
        start = time.monotonic()
        try:
            self.check()
            for key, data in list(objects.items()):
                self.store.write(key, data)
                del objects[key]
            if checkpoint:
                self.save_checkpoint(*checkpoint)
                self.arrived, self.way_seconds = checkpoint[0], time.monotonic() - start
                shutil.rmtree(checkpoint[1], ignore_errors=True)
        except Exception as error:  # handed to whoever trains: a thread has nobody to tell
            return error
        return None

    def _keep(self, objects: dict[str, bytes], checkpoint: Checkpoint | None) -> None:
        """Put back what was not sent, unless something newer waits by now."""
        self.objects = {**objects, **self.objects}
        if checkpoint and self.checkpoint is None:
            self.checkpoint = checkpoint
        elif checkpoint:
            shutil.rmtree(checkpoint[1], ignore_errors=True)

    def _warn(self, failure: Exception) -> None:
        now = time.monotonic()
        self.away_since = now if self.away_since is None else self.away_since
        if now >= self.next_warning:
            self.next_warning = now + SECONDS_BETWEEN_WARNINGS
            say("train", f"warning: {failure} Training goes on, and what it leaves is sent when the store answers.")

    def _welcome_back(self) -> None:
        if self.away_since is not None:
            away, self.away_since, self.next_warning = time.monotonic() - self.away_since, None, 0.0
            checkpoint = f", the checkpoint of step {self.arrived} included" if self.arrived else ""
            say("train", f"the store answers again after {duration(away)}: everything has arrived{checkpoint}")


def patiently(send: Callable[[], object]) -> None:
    """Send something now, again and again while the store is away; its own error after PATIENCE_AT_THE_END."""
    deadline = time.monotonic() + PATIENCE_AT_THE_END
    while True:
        try:
            send()
            return
        except InfraError as error:
            if time.monotonic() + SECONDS_BETWEEN_TRIES > deadline:
                raise
            say("train", f"warning: {error} Trying again.")
            time.sleep(SECONDS_BETWEEN_TRIES)
