"""What jailed code must not be able to do, by family. Programs try each door, and so do the tests of a data set."""

TRY = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)

def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "")

def attempt():
    try:
        action()
    except OSError as error:
        return errno.errorcode.get(error.errno, "?")
    return "done"

def action():
"""
DENIED = ("EPERM", "EACCES", "ENOSYS")
LIMITED = (*DENIED, "EFBIG", "EMFILE", "ENOMEM", "EAGAIN")  # how running into a limit shows, too

NETWORK = {
    "internet socket": "import socket; socket.socket(socket.AF_INET)",
    "internet socket, version 6": "import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)",
    "datagrams": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b'x', ('127.0.0.1', 53))",
    "unix socket": "import socket; socket.socket(socket.AF_UNIX)",
    "raw socket": "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)",
    "packets": "import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "netlink socket": "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)",
    "vsock": "import socket; socket.socket(40, socket.SOCK_STREAM)",
    "cryptography in the kernel": "import socket; socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET)",
    "a server": "import socket; socket.create_server(('127.0.0.1', 0))",
    "its own service": "import socket; socket.create_connection(('127.0.0.1', {port}))",
    "a web page": "import http.client; http.client.HTTPConnection('127.0.0.1', {port}).request('GET', '/')",
    "a pair that is no unix pair": "import socket; socket.socketpair(socket.AF_INET)",
    "address on a socket pair": "import socket; socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', '/dev/log')",
    "a descriptor through its channel": "import socket; socket.send_fds(socket.socket(fileno=os.dup(3)), [b'x'], [0])",
    "options of its channel": "import socket; socket.socket(fileno=os.dup(3)).setsockopt(1, socket.SO_PASSCRED, 1)",
    "name lookup": "import socket; socket.getaddrinfo('localhost', 80)",
}
PROCESSES = {
    "fork": "os.fork()",
    "fork with a terminal": "os.forkpty()",
    "vfork and exec": "os.posix_spawn('/bin/true', ['true'], {{}})",
    "exec": "os.execv(sys.executable or '/bin/sh', ['x'])",
    "exec of a descriptor": "os.execve(os.open('/usr/lib/os-release', os.O_RDONLY), ['x'], {{}})",
    "subprocess": "import subprocess; subprocess.run(['/bin/true'])",
    "shell": "import subprocess; subprocess.run('true', shell=True)",
    "multiprocessing": "import multiprocessing; multiprocessing.Process(target=print).start()",
    "waiting for the children of others": "os.waitpid(-1, 0)",
    "its parent's memory": "open(f'/proc/{{os.getppid()}}/mem', 'rb')",
    "its parent's environment": "open(f'/proc/{{os.getppid()}}/environ')",
    "its parent's descriptors": "os.listdir(f'/proc/{{os.getppid()}}/fd')",
    "the first process": "open('/proc/1/cmdline')",
    "the kernel's view of processes": "os.listdir('/proc')",
    "its own memory": "open('/proc/self/mem', 'r+b')",
    "its own descriptors": "os.listdir('/proc/self/fd')",
}
SIGNALS = {
    "signal to its parent": "os.kill(os.getppid(), 9)",
    "whether its parent is there": "os.kill(os.getppid(), 0)",
    "signal to everyone": "os.kill(-1, 9)",
    "signal to a group": "os.killpg(1, 9)",
    "signal to the first process": "os.kill(1, 15)",
    "signal by a descriptor": "import signal; signal.pidfd_send_signal(3, 9)",
    "signals by owning a descriptor": "import fcntl; fcntl.fcntl(3, fcntl.F_SETOWN, os.getppid())",
    "terminal input": "import fcntl; fcntl.ioctl(0, 0x5412, b'x')",
}
FILES = {
    "a folder": "os.mkdir('x')",
    "a link to elsewhere": "os.symlink('/etc/passwd', 'x')",
    "a hard link": "open('y', 'w').close(); os.link('y', 'x')",
    "a pipe with a name": "os.mkfifo('x')",
    "a device": "os.mknod('x', 0o20600, os.makedev(1, 1))",
    "permissions": "open('y', 'w').close(); os.chmod('y', 0o6755)",
    "attributes": "os.setxattr('.', 'user.x', b'x')",
    "times": "os.utime('.', (0, 0))",
    "writing elsewhere": "open({marker!r}, 'w')",
    "writing to the library": "open(os.__file__ + '.x', 'w')",
    "shared memory": "open('/dev/shm/x', 'w')",
    "a lock that others share": "import multiprocessing; multiprocessing.Lock()",
    "moving out of its folder": "open('y', 'w').close(); os.rename('y', {marker!r})",
    "removing its folder": "os.rmdir(os.getcwd())",
    "the users of the machine": "open('/etc/passwd')",
    "passwords": "open('/etc/shadow')",
    "the root folder": "os.listdir('/')",
    "the home folder": "os.listdir('/root')",
    "the folder above its own": "os.listdir('..')",
    "other programs' folders": "os.listdir('/tmp')",
    "the judge's source": "open({judge!r})",
    "these tests": "open({tests!r})",
}
KERNEL = {
    "memory file": "os.memfd_create('x')",
    "namespaces": "call({unshare}, 0x10000000)",
    "affinity": "os.sched_setaffinity(0, [0])",
    "change of root": "os.chroot('.')",
    "the terminal": "open('/dev/tty')",
    "the kernel's random numbers": "open('/dev/urandom', 'wb')",
    "the kernel's messages": "open('/dev/kmsg')",
    "the kernel's settings": "open('/sys/kernel/mm/transparent_hugepage/enabled')",
    "settings of the machine": "open('/proc/sys/kernel/hostname')",
    "the name of the machine": "__import__('socket').sethostname('x')",
    "the time": "__import__('time').clock_settime(0, 0)",
    "another user": "os.setuid(0)",
    "groups": "os.setgroups([0])",
    "another session": "os.setsid()",
}
RESOURCES = {
    "limits of its parent": "import resource; resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (0, 0))",
    "raising its memory": "libc.setrlimit(9, (ctypes.c_ulong * 2)(1 << 40, 1 << 40)) and call(-1)",
    "raising its CPU time": "libc.setrlimit(0, (ctypes.c_ulong * 2)(1 << 20, 1 << 20)) and call(-1)",
    "raising its files": "libc.setrlimit(7, (ctypes.c_ulong * 2)(1 << 16, 1 << 16)) and call(-1)",
    "core dumps": "libc.setrlimit(4, (ctypes.c_ulong * 2)(1 << 20, 1 << 20)) and call(-1)",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, -5)",
    "being nice": "os.nice(-1)",
    "real time": "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
    "memory": "__import__('mmap').mmap(-1, 1 << 45)",
    "memory that stays": "import mmap; libc.mlockall(3) and call(-1)",
    "a large file": "open('y', 'wb').write(bytes(1 << 21))",
    "a file with a hole": "open('y', 'wb').truncate(1 << 40)",
    "descriptors": "[os.dup(0) for _ in range(5000)]",
}
FAMILIES = {
    "network": NETWORK,
    "processes": PROCESSES,
    "signals": SIGNALS,
    "files": FILES,
    "kernel": KERNEL,
    "resources": RESOURCES,
}
DOORS = [(family, door) for family, doors in FAMILIES.items() for door in doors]
