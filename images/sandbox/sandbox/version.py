"""The version of the judge: verdicts may differ between two versions, so caches of verdicts key on it."""

import functools
import hashlib
import os
import platform

from sandbox.warm import PACKAGE_ROOT


@functools.cache
def package_version() -> str:
    """A digest of this package's source and the interpreter's version, as 16 hexadecimal digits."""
    digest = hashlib.sha256(platform.python_version().encode())
    folder = os.path.join(PACKAGE_ROOT, "sandbox")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as source:
                digest.update(name.encode() + b"\0" + source.read())
    return digest.hexdigest()[:16]
