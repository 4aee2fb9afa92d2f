"""The seccomp filter: which system calls a jailed process may make, as a BPF program built for one architecture.

What is not allowed fails with EPERM, so that a program gets an exception and not a dead process. The numbers are
arranged as a binary search tree: the kernel evaluates a new filter once for every system call number, and a plain
list of comparisons makes that the dearest part of starting a jailed process.
"""

import ctypes
import errno
import resource
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

from sandbox import kernel
from sandbox.syscalls import NUMBERS

AUDIT_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

LOAD, JUMP, JUMP_EQUAL, JUMP_GREATER_EQUAL, JUMP_BITS, RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
ALLOW, ERRNO, KILL_PROCESS = 0x7FFF0000, 0x00050000, 0x80000000
OFFSET_NUMBER, OFFSET_ARCHITECTURE, OFFSET_ARGUMENTS = 0, 4, 16  # struct seccomp_data

CLONE_THREAD = 0x00010000
CLONE_NEW_ANYTHING = 0x7E020080  # NEWNS, NEWTIME, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
OPEN_FOR_WRITING = 0o1 | 0o2 | 0o100 | 0o1000  # O_WRONLY, O_RDWR, O_CREAT, O_TRUNC
FCNTL_COMMANDS = (0, 1, 2, 3, 4, 5, 6, 7, 1030)  # duplicate, flags, locks; not F_SETOWN, which sends signals
IOCTL_COMMANDS = (
    0x5401,
    0x5413,
    0x541B,
    0x5421,
    0x5450,
    0x5451,
)  # TCGETS, window size, FIONREAD, FIONBIO, close-on-exec
RECEIVES_DESCRIPTORS = ("recvmsg",)
CHANGES_FILES = ("unlink", "unlinkat", "rename", "renameat", "renameat2", "truncate")

Instruction = tuple[int, int, int, int]
Block = list[Instruction]


def _argument(index: int, half: int = 0) -> Instruction:
    """Load the low (0) or high (1) half of an argument; both architectures are little-endian."""
    return (LOAD, 0, 0, OFFSET_ARGUMENTS + 8 * index + 4 * half)


def _allow() -> Block:
    return [(RETURN, 0, 0, ALLOW)]


def _refuse(number: int) -> Block:
    return [(RETURN, 0, 0, ERRNO | number)]


def _argument_among(index: int, values: tuple[int, ...], error: int = errno.EPERM) -> Block:
    """Allow when the low half of an argument is one of `values` (such arguments are int in the kernel)."""
    tests = [(JUMP_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_argument(index), *tests, *_refuse(error), *_allow()]


def _threads_only() -> Block:
    return [
        _argument(0),
        (JUMP_BITS, 1, 0, CLONE_NEW_ANYTHING),
        (JUMP_BITS, 1, 0, CLONE_THREAD),
        *_refuse(errno.EPERM),
        *_allow(),
    ]


def _argument_is_null(index: int, otherwise: Block) -> Block:
    return [
        _argument(index),
        (JUMP_EQUAL, 0, 3, 0),
        _argument(index, 1),
        (JUMP_EQUAL, 0, 1, 0),
        *_allow(),
        *otherwise,
    ]


def _open_for_reading() -> Block:
    return [_argument(2), (JUMP_BITS, 0, 1, OPEN_FOR_WRITING), *_refuse(errno.EACCES), *_allow()]


def _limit_but_cpu_time(index: int) -> Block:
    """Refuse to set the limit of CPU time: the kernel would then kill the process as only the judge should."""
    return [_argument(index), (JUMP_EQUAL, 0, 1, resource.RLIMIT_CPU), *_refuse(errno.EPERM), *_allow()]


def _own_limits() -> Block:
    """Of this process alone: all may be read, and all but that of CPU time set."""
    reads_or_may_set = _argument_is_null(2, otherwise=_limit_but_cpu_time(1))
    return [_argument(0), (JUMP_EQUAL, 1, 0, 0), *_refuse(errno.EPERM), *reads_or_may_set]


CONDITIONS: dict[str, Callable[[], Block]] = {
    "clone": _threads_only,
    "clone3": lambda: _refuse(
        errno.ENOSYS
    ),  # its flags lie in memory, out of a filter's sight; libc falls back to clone
    "openat2": lambda: _refuse(errno.ENOSYS),
    "fcntl": lambda: _argument_among(1, FCNTL_COMMANDS),
    "ioctl": lambda: _argument_among(1, IOCTL_COMMANDS),
    "prlimit64": _own_limits,
    "setrlimit": lambda: _limit_but_cpu_time(0),
    "sendto": lambda: _argument_is_null(
        4, otherwise=_refuse(errno.EPERM)
    ),  # no address: only to where a socket pair already leads
    "socketpair": lambda: _argument_among(0, (socket.AF_UNIX,)),  # asyncio needs one; it leads nowhere
}


class _Interval(NamedTuple):
    first: int
    block: Block


def _intervals(machine: str, may_write: bool, receives_descriptors: bool) -> list[_Interval]:
    """Neighbouring numbers with the same treatment, in order, covering every number."""
    treatment: dict[int, Block] = {}
    for name, number in NUMBERS[machine].items():
        if name in CONDITIONS:
            treatment[number] = CONDITIONS[name]()
        elif name in RECEIVES_DESCRIPTORS and not receives_descriptors:
            treatment[number] = _refuse(errno.EPERM)
        elif name in CHANGES_FILES and not may_write:
            treatment[number] = _refuse(errno.EACCES)
        elif name == "openat" and not may_write:
            treatment[number] = _open_for_reading()
        else:
            treatment[number] = _allow()
    intervals: list[_Interval] = []
    for first in sorted({0} | {number + step for number in treatment for step in (0, 1)}):
        block = treatment.get(first, _refuse(errno.EPERM))
        if not intervals or intervals[-1].block != block:
            intervals.append(_Interval(first, block))
    return intervals


def _search_tree(intervals: list[_Interval]) -> Block:
    if len(intervals) == 1:
        return intervals[0].block
    middle = len(intervals) // 2
    left, right = _search_tree(intervals[:middle]), _search_tree(intervals[middle:])
    if len(left) <= 255:  # what one conditional jump can skip
        return [(JUMP_GREATER_EQUAL, len(left), 0, intervals[middle].first), *left, *right]
    return [(JUMP_GREATER_EQUAL, 0, 1, intervals[middle].first), (JUMP, 0, 0, len(left)), *left, *right]


def build_filter(machine: str, *, may_write: bool, receives_descriptors: bool) -> bytes:
    """The BPF program for `machine` ("x86_64" or "aarch64"), 8 bytes an instruction.

    Args:
        machine: whose numbers to use; a call made under any other architecture's numbers kills the process.
        may_write: False refuses every way to open, create or change a file, whatever the file system would say.
        receives_descriptors: whether messages that may carry descriptors can be received.
    """
    program: Block = [
        (LOAD, 0, 0, OFFSET_ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, OFFSET_NUMBER),
        *_search_tree(_intervals(machine, may_write, receives_descriptors)),
    ]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in program)


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("instructions", ctypes.c_void_p)]


class Filter:
    """A filter ready to be applied: all memory is laid out here, before any fork."""

    def __init__(self, *, may_write: bool, receives_descriptors: bool) -> None:
        code = build_filter(kernel.MACHINE, may_write=may_write, receives_descriptors=receives_descriptors)
        self._code = ctypes.create_string_buffer(code, len(code))
        self._program = _FilterProgram(len(code) // 8, ctypes.addressof(self._code))
        # Binds the calling thread, and all it starts, for good; needs no_new_privs.
        self.apply = kernel.PreparedCall(
            "prctl", kernel.PR_SET_SECCOMP, kernel.SECCOMP_MODE_FILTER, ctypes.byref(self._program)
        )
