"""The version of the judge: verdicts may differ between two versions, so caches of verdicts key on it."""

import functools
import hashlib
import os
import platform

from sandbox.warm import PACKAGE_ROOT


@functools.cache
def package_version(packages: tuple[str, ...]) -> str:
    """A digest of this package's source, the interpreter's version and what is installed in the folders `packages`.

    16 hexadecimal digits.
    """
    digest = hashlib.sha256(platform.python_version().encode())
    folder = os.path.join(PACKAGE_ROOT, "sandbox")
    for name in sorted(os.listdir(folder)):
        if name.endswith(".py"):
            with open(os.path.join(folder, name), "rb") as source:
                digest.update(name.encode() + b"\0" + source.read())
    for name in sorted(name for installed in packages for name in os.listdir(installed)):
        if name.endswith(".dist-info"):  # a name and a version
            digest.update(name.encode() + b"\0")
    return digest.hexdigest()[:16]
