"""The system call filter, interpreted here for both architectures, and its numbers against the kernel's own headers."""

import errno
import re
import struct
from pathlib import Path

import pytest
from sandbox import seccomp, syscalls

ALLOW, KILL = seccomp.ALLOW, seccomp.KILL_PROCESS
MACHINES = ["x86_64", "aarch64"]
HEADERS = {
    "x86_64": [Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h"), Path("/usr/include/asm/unistd_64.h")],
    "aarch64": [Path("/usr/include/asm-generic/unistd.h")],
}
# Looked up in the kernel's tables by hand, to catch a table that is wrong from end to end.
FORBIDDEN = {
    "x86_64": {
        "socket": 41, "connect": 42, "bind": 49, "sendmsg": 46, "fork": 57, "vfork": 58, "execve": 59, "kill": 62,
        "ptrace": 101, "setuid": 105, "mount": 165, "setns": 308, "unshare": 272, "chroot": 161, "tgkill": 234,
        "process_vm_readv": 310, "bpf": 321, "userfaultfd": 323, "memfd_create": 319, "io_uring_setup": 425,
        "pidfd_open": 434, "mkdir": 83, "symlink": 88, "chmod": 90, "prctl": 157, "open": 2, "creat": 85,
    },
    "aarch64": {
        "socket": 198, "connect": 203, "bind": 200, "sendmsg": 211, "execve": 221, "kill": 129, "ptrace": 117,
        "setuid": 146, "mount": 40, "setns": 268, "unshare": 97, "chroot": 51, "tgkill": 131,
        "process_vm_readv": 270, "bpf": 280, "userfaultfd": 282, "memfd_create": 279, "io_uring_setup": 425,
        "pidfd_open": 434, "mkdirat": 34, "symlinkat": 36, "fchmodat": 53, "prctl": 167,
    },
}  # fmt: skip


def run_filter(code: bytes, machine: str, number: int, arguments: tuple[int, ...] = ()) -> int:
    """What the filter answers: a small interpreter of the BPF instructions that seccomp knows."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("<IIQ6Q", number, seccomp.AUDIT_ARCHITECTURE[machine], 0, *padded)
    accumulator, counter = 0, 0
    while True:
        operation, if_true, if_false, constant = struct.unpack_from("<HBBI", code, 8 * counter)
        counter += 1
        if operation == seccomp.LOAD:
            (accumulator,) = struct.unpack_from("<I", data, constant)
        elif operation == seccomp.RETURN:
            return int(constant)
        elif operation == seccomp.JUMP:
            counter += constant
        else:
            holds = {
                seccomp.JUMP_EQUAL: accumulator == constant,
                seccomp.JUMP_GREATER_EQUAL: accumulator >= constant,
                seccomp.JUMP_BITS: bool(accumulator & constant),
            }[operation]
            counter += if_true if holds else if_false


def refused(number: int = errno.EPERM) -> int:
    return seccomp.ERRNO | number


@pytest.fixture(params=MACHINES)
def machine(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def code_for(machine: str, *, may_write: bool = True, receives_descriptors: bool = False) -> bytes:
    return seccomp.build_filter(machine, may_write=may_write, receives_descriptors=receives_descriptors)


def test_every_number_is_treated_as_its_table_says(machine: str) -> None:
    code = code_for(machine)
    special = set(seccomp.CONDITIONS) | set(seccomp.RECEIVES_DESCRIPTORS)
    allowed = {number for name, number in syscalls.NUMBERS[machine].items() if name not in special}
    for number in range(600):
        if number not in {syscalls.NUMBERS[machine].get(name) for name in special}:
            assert run_filter(code, machine, number) == (ALLOW if number in allowed else refused()), number


def test_what_must_not_be_called_is_refused(machine: str) -> None:
    code = code_for(machine)
    for name, number in FORBIDDEN[machine].items():
        assert run_filter(code, machine, number) == refused(), name
    for number in (0x40000000 | 41, 0x40000000, 0xFFFFFFFF):  # x32's numbers, and -1
        assert run_filter(code, machine, number) == refused()


def test_another_architecture_is_killed(machine: str) -> None:
    code = code_for(machine)
    other = MACHINES[1 - MACHINES.index(machine)]
    assert run_filter(code, other, 0) == KILL


def test_threads_but_no_processes(machine: str) -> None:
    code, numbers = code_for(machine), syscalls.NUMBERS[machine]
    thread = 0x3D0F00  # what glibc's pthread_create passes
    assert run_filter(code, machine, numbers["clone"], (thread,)) == ALLOW
    assert run_filter(code, machine, numbers["clone"], (0x1200011,)) == refused()  # fork
    assert run_filter(code, machine, numbers["clone"], (0x4111,)) == refused()  # vfork
    for namespace in (0x80, 0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000):
        assert run_filter(code, machine, numbers["clone"], (thread | namespace,)) == refused()
    assert run_filter(code, machine, numbers["clone3"]) == refused(errno.ENOSYS)


@pytest.mark.parametrize(
    ("name", "arguments", "allowed"),
    [
        ("socketpair", (1,), True),
        ("socketpair", (2,), False),
        ("sendto", (3, 0, 1, 0, 0, 0), True),
        ("sendto", (3, 0, 1, 0, 0x7F0000001000, 16), False),
        ("sendto", (3, 0, 1, 0, 0x100000000, 16), False),
        ("ioctl", (1, 0x5401), True),
        ("ioctl", (1, 0x5412), False),  # TIOCSTI
        ("fcntl", (3, 4), True),
        ("fcntl", (3, 8), False),  # F_SETOWN
        ("fcntl", (3, 10), False),  # F_SETSIG
        ("prlimit64", (0, 7), True),
        ("prlimit64", (1, 7), False),
        ("prlimit64", (0, 0, 0), True),
        ("prlimit64", (0, 0, 1), False),
        ("prlimit64", (0, 0, 1 << 40), False),
        ("prlimit64", (0, 7, 1 << 40), True),
        ("prlimit64", (1, 7, 1 << 40), False),
        ("setrlimit", (0, 1 << 40), False),
        ("setrlimit", (7, 1 << 40), True),
        ("recvmsg", (3,), False),
    ],
)
def test_calls_that_depend_on_an_argument(machine: str, name: str, arguments: tuple[int, ...], allowed: bool) -> None:
    number = syscalls.NUMBERS[machine][name]
    assert run_filter(code_for(machine), machine, number, arguments) == (ALLOW if allowed else refused())


def test_without_writing_nothing_can_be_created_or_changed(machine: str) -> None:
    code, numbers = code_for(machine, may_write=False), syscalls.NUMBERS[machine]
    at_current_folder = 0xFFFFFF9C
    assert run_filter(code, machine, numbers["openat"], (at_current_folder, 0, 0o2000000)) == ALLOW
    for flags in (0o1, 0o2, 0o100, 0o1000, 0o1101, 0o20200002):
        assert run_filter(code, machine, numbers["openat"], (at_current_folder, 0, flags)) == refused(errno.EACCES)
    for name in seccomp.CHANGES_FILES:
        if name in numbers:
            assert run_filter(code, machine, numbers[name]) == refused(errno.EACCES)
    assert run_filter(code_for(machine), machine, numbers["openat"], (at_current_folder, 0, 0o1101)) == ALLOW


def test_an_examiner_can_be_handed_descriptors(machine: str) -> None:
    code = code_for(machine, may_write=False, receives_descriptors=True)
    assert run_filter(code, machine, syscalls.NUMBERS[machine]["recvmsg"]) == ALLOW


def test_numbers_are_the_kernel_s(machine: str) -> None:
    header = next((path for path in HEADERS[machine] if path.exists()), None)
    if header is None:
        pytest.skip(f"no kernel headers for {machine} on this machine (Debian's linux-libc-dev has them)")
    found = {
        match[1]: int(match[2])
        for match in re.finditer(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)$", header.read_text(), re.MULTILINE)
    }
    found.setdefault("newfstatat", found.get("fstatat", -1))  # the generic table's name for it on 64 bits
    wrong = {name: number for name, number in syscalls.NUMBERS[machine].items() if found.get(name) != number}
    assert wrong == {}
    known = {name: number for name, number in FORBIDDEN[machine].items() if found.get(name) != number}
    assert known == {}
