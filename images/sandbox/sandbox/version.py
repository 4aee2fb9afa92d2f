"""The version of the judge: verdicts may differ between two versions, so caches of verdicts key on it."""

import functools
import hashlib
import os
import platform

from sandbox.warm import PACKAGE_ROOT
from sandbox.worker import Settings


@functools.cache
def judge_version(settings: Settings) -> str:
    """A digest, as 16 hexadecimal digits, of all that verdicts depend on beside their items.

    That is this package's source, the interpreter's version, the limits, and the third-party packages on offer.
    """
    digest = hashlib.sha256(platform.python_version().encode())
    digest.update(repr((settings.memory_bytes, settings.use_landlock)).encode())
    for name in sorted(name for installed in settings.packages for name in os.listdir(installed)):
        if name.endswith(".dist-info"):  # a name and a version
            digest.update(name.encode() + b"\0")
    folder = os.path.join(PACKAGE_ROOT, "sandbox")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as source:
                digest.update(name.encode() + b"\0" + source.read())
    return digest.hexdigest()[:16]
