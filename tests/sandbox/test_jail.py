"""Side doors: what a program must not be able to do, each tried from Python or by a raw system call."""

import platform
from pathlib import Path

import pytest

from tests.sandbox.conftest import Judge

TRY = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

def f(n):
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    return "done"

def action():
"""
DENIED = ["assert f(0) in ('EPERM', 'EACCES', 'ENOSYS')"]

DOORS = {
    "internet socket": "import socket; socket.socket(socket.AF_INET)",
    "internet socket, version 6": "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "raw socket": "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "netlink socket": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "vsock": "import socket; socket.socket(40, socket.SOCK_STREAM)",
    "address on a socket pair": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', '/dev/log')",
    "descriptor through the channel": "import socket; socket.send_fds(socket.socket(fileno=os.dup(3)), [b'x'], [0])",
    "name lookup": "import socket; socket.getaddrinfo('localhost', 80)",
    "fork": "os.fork()",
    "vfork and exec": "os.posix_spawn('/bin/true', ['true'], {})",
    "exec": "os.execv(sys.executable or '/bin/sh', ['x'])",
    "subprocess": "import subprocess; subprocess.run(['/bin/true'])",
    "shell": "import subprocess; subprocess.run('true', shell=True)",
    "memory file": "os.memfd_create('x')",
    "signal to its parent": "os.kill(os.getppid(), 9)",
    "signal to everyone": "os.kill(-1, 9)",
    "signal to a group": "os.killpg(1, 9)",
    "signals by owning a descriptor": "import fcntl; fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())",
    "terminal input": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
    "limits of its parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
    "raising its limits": "libc.setrlimit(9, (ctypes.c_ulong * 2)(1 << 40, 1 << 40)) and call(-1)",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
    "affinity": "os.sched_setaffinity(0, {0})",
    "another user": "os.setuid(0)",
    "groups": "os.setgroups([0])",
    "change of root": "os.chroot('.')",
    "a folder": "os.mkdir('x')",
    "a link to elsewhere": "os.symlink('/etc/passwd', 'x')",
    "a hard link": "open('y', 'w').close(); os.link('y', 'x')",
    "a pipe with a name": "os.mkfifo('x')",
    "a device": "os.mknod('x', 0o20600, os.makedev(1, 1))",
    "permissions": "open('y', 'w').close(); os.chmod('y', 0o6755)",
    "writing elsewhere": "open('/tmp/grpo-code-sandbox-test', 'w')",
    "writing to the library": "open(os.__file__ + '.x', 'w')",
    "shared memory": "open('/dev/shm/x', 'w')",
    "moving out of its folder": "open('y', 'w').close(); os.rename('y', '/tmp/grpo-code-sandbox-test')",
    "the users of the machine": "open('/etc/passwd')",
    "the root folder": "os.listdir('/')",
    "the home folder": "os.listdir('/root')",
    "the folder above its own": "os.listdir('..')",
    "other programs' folders": "os.listdir('/tmp')",
    "the kernel's view of processes": "os.listdir('/proc')",
    "its parent's memory": "open(f'/proc/{os.getppid()}/mem', 'rb')",
    "its parent's environment": "open(f'/proc/{os.getppid()}/environ')",
    "its own descriptors": "os.listdir('/proc/self/fd')",
    "devices": "open('/dev/tty')",
    "the kernel's settings": "open('/sys/kernel/mm/transparent_hugepage/enabled')",
    "the judge's source": "open({judge!r})",
    "these tests": "open({tests!r})",
}

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

# mov eax, 20 (getpid for 32-bit programs); int 0x80; ret
OTHER_ARCHITECTURE = """
import ctypes, mmap
def f(n):
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
    return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""


@pytest.mark.parametrize("door", DOORS)
def test_door_is_shut(judge: Judge, door: str) -> None:
    judge_source = Path(__file__).parents[2] / "images/sandbox/sandbox/judge.py"
    action = DOORS[door].replace("{judge!r}", repr(str(judge_source))).replace("{tests!r}", repr(__file__))
    tests = ["assert f(0) != 'done'"] if door == "name lookup" else DENIED
    verdict = judge(f"{TRY}    {action}\n", tests, timeout_s=5.0)
    assert verdict["outcome"] == "passed", verdict
    assert not Path("/tmp/grpo-code-sandbox-test").exists()


@pytest.mark.parametrize("name", RAW_CALLS[platform.machine()])
def test_system_call_is_refused(judge: Judge, name: str) -> None:
    number = RAW_CALLS[platform.machine()][name]
    verdict = judge(f"{TRY}    call({number}, 0, 0, 0, 0, 0)\n", DENIED, timeout_s=5.0)
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


def test_tests_are_confined_too(judge: Judge) -> None:
    """Tests come from data sets: they run apart from the service, without network, files or processes."""
    for action in (
        "import socket; socket.socket()",
        "import os; os.fork()",
        "open('/etc/passwd')",
        "open('/tmp/grpo-code-sandbox-test', 'w')",
        "import os; os.kill(os.getppid(), 9)",
    ):
        test = f"try:\n    {action}\nexcept OSError as error:\n    assert error.errno in (1, 13)\nelse:\n    f(1 / 0)"
        verdict = judge("def f(n):\n    return n", [test])
        assert verdict["outcome"] == "passed", (action, verdict)
    assert judge("def f(n):\n    return n", ["import os\nassert dict(os.environ) == {}"])["passed"]
