"""Side doors: what jailed code must not be able to do, each tried from Python or by a raw system call."""

import os
import platform
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox import jail, kernel, syscalls
from sandbox.jail import Jail, Limits

from tests.sandbox.conftest import Judge
from tests.sandbox.doors import DENIED, DOORS, FAMILIES, LIMITED, TRY

JUDGE = str(Path(__file__).parents[2] / "images/sandbox/sandbox/judge.py")
MARKER = Path("/tmp/grpo-code-sandbox-test")

RAW_CALLS = {
    "x86_64": {
        "ptrace": 101, "unshare": 272, "setns": 308, "mount": 165, "bpf": 321, "keyctl": 250, "clone3": 435,
        "perf_event_open": 298, "userfaultfd": 323, "io_uring_setup": 425, "process_vm_readv": 310,
        "kexec_load": 246, "pidfd_open": 434, "add_key": 248, "shmget": 29, "mq_open": 240, "timer_create": 222,
        "inotify_init": 253, "fanotify_init": 300, "landlock_create_ruleset": 444, "seccomp": 317, "prctl": 157,
        "capset": 126,
    },
    "aarch64": {
        "ptrace": 117, "unshare": 97, "setns": 268, "mount": 40, "bpf": 280, "keyctl": 219, "clone3": 435,
        "perf_event_open": 241, "userfaultfd": 282, "io_uring_setup": 425, "process_vm_readv": 270,
        "kexec_load": 104, "pidfd_open": 434, "add_key": 217, "shmget": 194, "mq_open": 180,
        "timer_create": 107, "inotify_init1": 26, "fanotify_init": 262, "landlock_create_ruleset": 444,
        "seccomp": 277, "prctl": 167, "capset": 91,
    },
}  # fmt: skip

# The kernel serves these before any filter is asked, and kills whoever calls them: traps of its own probes.
UNFILTERED = {"x86_64": {335, 336}}

SWEEP = """
def is_refused(number):
    ctypes.set_errno(0)
    return libc.syscall(number, 0, 0, 0, 0, 0, 0) == -1 and ctypes.get_errno() == errno.EPERM

def let_through(numbers):
    return [number for number in numbers if not is_refused(number)]
"""

# mov eax, 20 (getpid for 32-bit programs); int 0x80; ret
OTHER_ARCHITECTURE = """
import ctypes, mmap
def f(n):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""


@pytest.fixture(autouse=True)
def nothing_is_written() -> Iterator[None]:
    yield
    assert not MARKER.exists()


def action_of(family: str, door: str, url: str) -> str:
    unshare = RAW_CALLS[platform.machine()]["unshare"]
    port = url.rsplit(":", 1)[1]
    return FAMILIES[family][door].format(port=port, unshare=unshare, judge=JUDGE, tests=__file__, marker=str(MARKER))


def expectation(family: str, door: str) -> str:
    if door == "name lookup":
        return "assert attempt() != 'done'"
    return f"assert attempt() in {LIMITED if family == 'resources' else DENIED}"


def test_there_are_doors_of_every_kind() -> None:
    assert len(DOORS) >= 60
    assert min(map(len, FAMILIES.values())) >= 8
    actions = [action for doors in FAMILIES.values() for action in doors.values()]
    assert len(actions) == len(set(actions))


@pytest.mark.parametrize(("family", "door"), DOORS)
def test_door_is_shut_to_programs(judge: Judge, sandbox_url: str, family: str, door: str) -> None:
    program = f"{TRY}    {action_of(family, door, sandbox_url)}\n"
    verdict = judge(program, [expectation(family, door)], entry_point="attempt", timeout_s=5.0)
    assert verdict["outcome"] == "passed", verdict


@pytest.mark.parametrize(("family", "door"), DOORS)
def test_door_is_shut_to_tests(judge: Judge, sandbox_url: str, family: str, door: str) -> None:
    """Tests come from data sets: they run apart from the service, without network, files or processes."""
    setup = f"{TRY}    {action_of(family, door, sandbox_url)}\n"
    verdict = judge("def f(n):\n    return n", [expectation(family, door)], setup=setup, timeout_s=5.0)
    assert verdict["outcome"] == "passed", verdict


@pytest.mark.parametrize("name", RAW_CALLS[platform.machine()])
def test_system_call_is_refused(judge: Judge, name: str) -> None:
    number = RAW_CALLS[platform.machine()][name]
    verdict = judge(f"{TRY}    call({number}, 0, 0, 0, 0, 0)\n", [f"assert attempt() in {DENIED}"], timeout_s=5.0)
    assert verdict["outcome"] == "passed", verdict


def test_no_system_call_beyond_the_list_is_let_through(judge: Judge) -> None:
    """Every number up to beyond the newest call of Linux 6.18, with arguments of zero."""
    listed = set(syscalls.NUMBERS[platform.machine()].values())
    others = sorted(set(range(480)) - listed - UNFILTERED.get(platform.machine(), set()))
    assert len(others) > 300
    program = f"{TRY}    pass\n{SWEEP}"
    verdict = judge(program, [f"assert let_through({others}) == []"], entry_point="let_through", timeout_s=5.0)
    assert verdict["outcome"] == "passed", verdict


@pytest.mark.skipif(platform.machine() != "x86_64", reason="machine code of x86-64")
def test_calls_of_another_architecture_end_the_program(judge: Judge) -> None:
    verdict = judge(OTHER_ARCHITECTURE, ["assert f(0) is None"])
    assert verdict["outcome"] == "error"
    assert "killed by SIG" in verdict["detail"]


def test_its_folder_is_empty_for_every_program(judge: Judge) -> None:
    program = "import os\ndef f(n):\n    found = os.listdir('.')\n    open('left', 'w').close()\n    return found"
    for _ in range(6):  # more than there are workers
        assert judge(program, ["assert f(0) == []"])["passed"]


def test_tests_see_no_environment(judge: Judge) -> None:
    assert judge("def f(n):\n    return n", ["import os\nassert dict(os.environ) == {}"])["passed"]


def test_channels_come_to_their_places_from_anywhere() -> None:
    """In a fork, whose 3 and 4 are taken, the other way round."""
    end, start = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
            os.dup2(start, 4)
            os.dup2(os.open(jail.__file__, os.O_RDONLY), 3)
            made = Jail(Limits(1 << 30, 1 << 20, 64), scratch=None, use_landlock=False, receives_descriptors=False)
            made.allow_cpu(1.5)
            made.enter([4, 3])
            limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE)]
            os.write(3, repr((os.read(4, 5), limits, os.read(0, 9))).encode())
        finally:
            os._exit(0)
    os.close(start)
    with os.fdopen(end) as answer:
        assert answer.read() == repr((b'"""Th', [4, 64], b""))
    os.waitpid(pid, 0)
