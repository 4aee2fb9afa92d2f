"""The file `.env` in the current folder, for the one secret that a local run may need."""

import os
from pathlib import Path

from dotenv import dotenv_values

from components.shared.errors import UserError

TAKEN = ("HF_TOKEN",)


def read_env_file(folder: Path) -> None:
    """Put HF_TOKEN from `.env` in the folder into the environment, which wins where it has one; print nothing of it.

    Other names in the file are left alone: what else is read from the environment decides where results go, and a
    forgotten file should not. UserError when there is such a file that cannot be read.
    """
    file = folder / ".env"
    if not file.is_file():
        return
    try:
        values = dotenv_values(file, interpolate=False)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise UserError(f"{file} cannot be read ({why}): it is a text file with a line HF_TOKEN=...") from None
    for name in TAKEN:
        if values.get(name):
            os.environ.setdefault(name, str(values[name]))
