"""Landlock: which files a jailed process can reach, by path, without any privilege.

Numbers and structures are those of the kernel's include/uapi/linux/landlock.h. A ruleset handles every right that the
running kernel knows (its ABI number says which), so that what is not granted is refused.
"""

import ctypes
import os

from sandbox import kernel

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same numbers on every architecture
CREATE_RULESET_VERSION = 1
RULE_PATH_BENEATH = 1

WRITE_FILE = 1 << 1
READ_FILE = 1 << 2
READ_DIR = 1 << 3
REMOVE_FILE = 1 << 5
MAKE_REG = 1 << 8
TRUNCATE = 1 << 14

READ = READ_FILE | READ_DIR
SCRATCH = READ | WRITE_FILE | REMOVE_FILE | MAKE_REG | TRUNCATE  # no directories, links, sockets or devices
DEVICE = READ_FILE | WRITE_FILE
ON_FILES = WRITE_FILE | READ_FILE | TRUNCATE  # the rights that a rule on a plain file may carry


class _RulesetAttribute(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"
    _fields_ = [("rights", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def abi() -> int:
    """The kernel's Landlock ABI number, 0 where it has none or has it switched off."""
    try:
        return kernel.system_call(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint32(CREATE_RULESET_VERSION))
    except OSError:
        return 0


def handled_rights(version: int) -> tuple[int, int, int]:
    """(files, network, scopes): every right that ABI `version` can handle, as bit masks."""
    files = (1 << 13) - 1
    if version >= 2:
        files |= 1 << 13  # linking and renaming across directories
    if version >= 3:
        files |= TRUNCATE
    if version >= 5:
        files |= 1 << 15  # ioctl on devices
    network = 0b11 if version >= 4 else 0  # bind and connect of TCP
    scopes = 0b11 if version >= 6 else 0  # abstract unix sockets and signals
    return files, network, scopes


def make_ruleset(rules: list[tuple[str, int]]) -> int:
    """The descriptor of a ruleset that grants each (path, rights) and nothing else; missing paths are left out."""
    files, network, scopes = handled_rights(abi())
    attribute = _RulesetAttribute(files, network, scopes)
    size = ctypes.c_size_t(ctypes.sizeof(attribute))
    ruleset = kernel.system_call(CREATE_RULESET, ctypes.byref(attribute), size, ctypes.c_uint32(0))
    for path, rights in rules:
        try:
            parent = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            granted = rights & files if os.path.isdir(path) else rights & files & ON_FILES
            rule = _PathBeneath(granted, parent)
            kernel.system_call(ADD_RULE, ruleset, RULE_PATH_BENEATH, ctypes.byref(rule), ctypes.c_uint32(0))
        finally:
            os.close(parent)
    return ruleset


def restriction(ruleset: int) -> kernel.PreparedCall:
    """What binds the calling thread to the ruleset for good; needs no_new_privs."""
    return kernel.PreparedCall("syscall", RESTRICT_SELF, ruleset, 0)
