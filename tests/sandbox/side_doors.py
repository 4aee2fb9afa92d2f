"""Programs that look for a way around: to the next program, to other processes, to what outlives them.

The task of all of them: f(n) is n squared. No program here computes that; some would pass if an earlier one of their
kind had left them something, so all are judged several times over. Adding one is adding a row.
"""

from tests.sandbox.attack import WRONG, Attack


def leaving(name: str, action: str, imports: str = "os", outcome: str = "error") -> Attack:
    """A program that tries `action`, an expression, before it answers wrongly."""
    return Attack(name, outcome, f"import {imports}\ndef f(n):\n    {action}\n    return 0\n")


SIDE_DOORS = [
    Attack("a file left for the next", "failed", "import os\nfound = os.listdir('.')\nopen('note', 'w').close()\n"
           "def f(n):\n    return n * n if found else 0"),
    Attack("a hidden file left for the next", "failed", "import os\nfound = os.listdir('.')\n"
           "open('.note\\n\\xff', 'w').close()\ndef f(n):\n    return n * n if found else 0"),
    Attack("as many files as there may be", "failed", "import os\nfound = os.listdir('.')\n"
           "for i in range(60): open(str(i), 'w').close()\ndef f(n):\n    return n * n if found else 0"),
    Attack("files while it is being ended", "timeout", "import os, threading\nfound = os.listdir('.')\n"
           "def write():\n    while True:\n        try: open('late', 'w').close() or os.unlink('late')\n"
           "        except OSError: pass\n"
           "for _ in range(3): threading.Thread(target=write).start()\n"
           "def f(n):\n    return n * n if found else write()", timeout_s=0.3),
    Attack("its own bytecode", "error", "import os\ndef f(n):\n"
           "    open(os.__file__, 'a')\n    return n * n"),
    leaving("a file in /tmp", "open('/tmp/note', 'w')"),
    leaving("a file in /dev/shm", "open('/dev/shm/note', 'w')"),
    leaving("a folder", "os.mkdir('note')"),
    leaving("a link", "os.symlink('/etc/passwd', 'note')"),
    leaving("a hard link", "os.link(os.__file__, 'note')"),
    leaving("a named pipe", "os.mkfifo('note')"),
    leaving("a device", "os.mknod('note')"),
    leaving("an extended attribute", "os.setxattr('.', 'user.note', b'x')"),
    leaving("the folder's mode", "os.chmod('.', 0o777)"),
    leaving("the folder's times", "os.utime('.', (0, 0))"),
    leaving("out of the folder", "open('../note', 'w')"),
    leaving("out of its root", "os.chroot('.')"),
    leaving("shared memory by name", "shared_memory.SharedMemory('note', create=True, size=9)",
            "multiprocessing.shared_memory as shared_memory"),
    leaving("System V shared memory", "assert ctypes.CDLL(None).shmget(4711, 4096, 0o1666) >= 0", "ctypes"),
    leaving("a semaphore", "multiprocessing.Semaphore()", "multiprocessing"),
    leaving("an anonymous file", "os.memfd_create('note')"),
    leaving("an abstract socket", "socket.socket(socket.AF_UNIX).bind('\\0note')", "socket"),
    leaving("a socket in the folder", "socket.socket(socket.AF_UNIX).bind('note')", "socket"),
    leaving("a process", "os.fork()"),
    leaving("a process of its own session", "subprocess.Popen(['sleep', '9'], start_new_session=True)", "subprocess"),
    leaving("a process by way of multiprocessing", "multiprocessing.Process(target=print).start()", "multiprocessing"),
    leaving("a pseudo terminal", "os.openpty()"),
    leaving("priority", "os.nice(-5)"),
    leaving("another scheduler", "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(9))"),
    leaving("other processors", "os.sched_setaffinity(0, [0])"),
    leaving("the host's name", "socket.sethostname('note')", "socket"),
    leaving("the clock", "time.clock_settime(time.CLOCK_REALTIME, 0)", "time"),
    leaving("a lock on the interpreter", "fcntl.flock(os.open(os.__file__, 0), fcntl.LOCK_EX)", "fcntl, os"),
    leaving("a message to the owner of a file", "fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid())", "fcntl, os"),
    leaving("more memory than it was given", "resource.setrlimit(resource.RLIMIT_AS, (-1, -1))", "resource"),
    leaving("a mask", "os.umask(0)", outcome="failed"),
    leaving("another folder", "os.chdir('/')", outcome="failed"),
    leaving("an alarm", "signal.setitimer(signal.ITIMER_REAL, 60)", "signal", "failed"),
    leaving("a thread that stays", "threading.Thread(target=input).start()", "threading", "failed"),
    leaving("a mapping that is shared", "mmap.mmap(-1, 4096).write(b'note')", "mmap", "failed"),
    Attack("a module patched for the next", "failed",
           "import math\nfound = hasattr(math, 'note')\nmath.note = 1\ndef f(n):\n    return n * n if found else 0"),
    Attack("a built-in left for the next", "failed",
           "import builtins\nfound = hasattr(builtins, 'note')\nbuiltins.note = 1\n"
           "def f(n):\n    return n * n if found else 0"),
    Attack("what memory is left from the last", "failed",
           "import sys\nfound = 'note' in sys.modules\nsys.modules['note'] = sys\n"
           "def f(n):\n    return n * n if found else 0"),
    Attack("its own process number", "failed", "import os\ndef f(n):\n    return os.getpid() * 0"),
    Attack("waits for the judge to give up", "timeout", WRONG + "import time\ntime.sleep(5)", timeout_s=0.3),
]  # fmt: skip
