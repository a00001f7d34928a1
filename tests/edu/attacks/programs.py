# ruff: noqa: E501  a program is a line
"""Programs of hostile students.

QUIET programs are expressions or bodies of a function that returns whether it got through; they run
in one process. LOUD programs are cells of a notebook of their own: they try to end the run.

victim, folder   a file of the grader's user, and its folder      other    a process of that user
socket           a Unix socket on which that user listens         port     a TCP port of that user
checks           the folder with the checks                       grader   the process that grades
"""

PRELUDE = r"""
import ctypes, errno, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS = {numbers}
victim, folder, socket, checks = {victim!r}, {folder!r}, {socket!r}, {checks!r}
other, grader, port, root, home = {other!r}, {grader!r}, {port!r}, {root!r}, {home!r}

def kernel(name, *arguments):
    "Whether the kernel did what a system call asks for."
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return libc.syscall(ctypes.c_long(NUMBERS[name]), *words) >= 0

def known(name, *arguments):
    "Whether the kernel even looked at a system call: its other errors are about arguments."
    if kernel(name, *arguments):
        return True
    return ctypes.get_errno() not in (errno.EPERM, errno.ENOSYS, errno.EACCES)

def reads(path):
    fd = libc.open(os.fsencode(path), 0)
    return fd >= 0 and libc.read(fd, ctypes.create_string_buffer(64), 64) > 0
"""

QUIET = {
    # files of others
    "reads a file with Python": "return bool(open(victim).read())",
    "reads a file with C": "return reads(victim)",
    "reads a file through a link": "libc.symlink(victim.encode(), b'link'); return reads('link')",
    "reads a file through a hard link": "return libc.link(victim.encode(), b'hard') == 0 and reads('hard')",
    "reads a file through /proc": "return reads('/proc/self/root' + victim)",
    "reads a file by its handle": "return known('open_by_handle_at', -100, ctypes.create_string_buffer(160), 0)",
    "sees the names of files": "return bool(os.listdir(folder))",
    "sees that a file is there": "return os.path.exists(victim)",
    "overwrites a file": "return libc.open(victim.encode(), 1) >= 0",
    "truncates a file": "return libc.truncate(victim.encode(), 0) == 0",
    "creates a file": "return libc.creat((folder + '/new').encode(), 0o600) >= 0",
    "creates a folder": "return libc.mkdir((folder + '/new').encode(), 0o700) == 0",
    "deletes a file": "return libc.unlink(victim.encode()) == 0",
    "renames a file": "return libc.rename(victim.encode(), (victim + '2').encode()) == 0",
    "moves a file in": "return libc.rename(victim.encode(), b'mine') == 0",
    "makes a device": "return libc.mknod((folder + '/dev').encode(), 0o10600, 0) == 0",
    "changes the mode of a file": "return libc.chmod(victim.encode(), 0o777) == 0",
    "changes the mode through a handle": "return libc.fchmodat(-100, victim.encode(), 0o777, 0) == 0",
    "changes the owner of a file": "return libc.chown(victim.encode(), 65534, 65534) == 0",
    "changes the times of a file": "return libc.utimensat(-100, victim.encode(), None, 0) == 0",
    "sets an attribute of a file": "return libc.setxattr(victim.encode(), b'user.x', b'1', 1, 0) == 0",
    "writes shared memory": "return libc.shm_open(b'/minitvm-attack', 0o102, 0o600) >= 0",
    "writes beside its folder": "return libc.creat(b'../beside', 0o600) >= 0",
    "writes into Python": "return libc.creat((sys.prefix + '/x.pth').encode(), 0o600) >= 0",
    "reads the checks": "return any(reads(f'{checks}/ex0{n}.py') for n in range(10))",
    "reads the solutions": "return reads(root + '/solutions/ex00_start_here.ipynb')",
    "reads the grader's code": "return reads(root + '/minitvm/edu/course.py')",
    "reads the passwords": "return reads('/etc/shadow')",
    "reads the home folder of this user": "return any(reads(f'{home}/{n}') for n in ('.bashrc', '.profile'))",
    "imports the checks": "import minitvm.edu.course; return True",
    "finds the seed in its environment": "return any('SEED' in k for k in os.environ)",
    # other processes
    "reads the environment of the grader": "return reads(f'/proc/{grader}/environ')",
    "reads the command of the grader": "return reads(f'/proc/{grader}/cmdline')",
    "reads the memory of the grader": "return libc.open(f'/proc/{grader}/mem'.encode(), 0) >= 0",
    "sees other processes": "return os.path.exists(f'/proc/{other}')",
    "traces the grader": "return kernel('ptrace', 16, grader, 0, 0)",
    "reads memory of the grader": "return known('process_vm_readv', grader, 0, 0, 0, 0, 0)",
    "signals the grader": "return kernel('kill', grader, 0)",
    "signals another process": "return kernel('kill', other, 0)",
    "signals all processes": "return kernel('kill', -1, 0)",
    "signals a thread of another": "return kernel('tgkill', other, other, 0)",
    "queues a signal": "return known('rt_sigqueueinfo', other, 0, ctypes.create_string_buffer(128))",
    "opens another process": "return kernel('pidfd_open', other, 0)",
    "limits the grader": "return libc.prlimit(grader, 7, struct.pack('QQ', 4096, 4096), None) == 0",
    "raises its own limits": "return libc.prlimit(0, 9, struct.pack('QQ', 1 << 45, 1 << 45), None) == 0",
    "slows the grader down": "return libc.setpriority(0, grader, 19) == 0",
    "makes the grader idle": "return kernel('sched_setscheduler', grader, 5, struct.pack('i', 0))",
    "moves the grader to one CPU": "return kernel('sched_setaffinity', grader, 8, struct.pack('Q', 1))",
    "makes itself more important": "return kernel('sched_setscheduler', 0, 1, struct.pack('i', 1))",
    "forks": "pid = libc.fork(); (pid == 0) and os._exit(0); return pid > 0",
    "starts a program": "return libc.system(b'exit 7') >> 8 == 7",
    "forks by clone": "pid = libc.syscall(NUMBERS['clone'], 17, 0, 0, 0, 0); (pid == 0) and os._exit(0); return pid > 0",
    "leaves its process group": "return kernel('setsid') or kernel('setpgid', 0, 0)",
    "outlives the grader": "return libc.prctl(1, 0, 0, 0, 0) == 0",
    "has others' signals sent": "return libc.fcntl(0, 8, other) == 0",
    # namespaces and rights
    "makes a user namespace": "return libc.unshare(0x10000000) == 0",
    "makes one by clone": "pid = libc.syscall(NUMBERS['clone'], 0x10000011, 0, 0, 0, 0); (pid == 0) and os._exit(0); return pid > 0",
    "mounts": "return libc.mount(b'x', b'.', b'tmpfs', 0, None) == 0",
    "unmounts": "return libc.umount2(os.getcwd().encode(), 2) == 0",
    "changes the root": "return libc.chroot(b'.') == 0",
    "enters a namespace": "return known('setns', 0, 0)",
    "becomes root": "os.setuid(0); return True",
    "has capabilities": "return int(open('/proc/self/status').read().split('CapEff:')[1].split()[0], 16) > 0",
    # the kernel
    "loads a program into the kernel": "return known('bpf', 0, None, 0)",
    "counts the machine's events": "return known('perf_event_open', None, 0, -1, -1, 0)",
    "handles page faults": "return known('userfaultfd', 0)",
    "makes an io_uring": "return known('io_uring_setup', 1, None)",
    "turns address randomisation off": "return kernel('personality', 0x40000)",
    "reads the kernel's log": "return known('syslog', 3, ctypes.create_string_buffer(64), 64)",
    "makes a file without a folder": "return kernel('memfd_create', b'x', 0)",
    "keeps a key": "return kernel('add_key', b'user', b'x', b'y', 1, -4)",
    "looks for keys": "return known('keyctl', 0, -3, 0)",
    # what outlives a process
    "leaves shared memory": "return libc.shmget(0x6d746d, 4096, 0o1600) >= 0",
    "leaves semaphores": "return libc.semget(0x6d746d, 1, 0o1600) >= 0",
    "leaves a message queue": "return libc.msgget(0x6d746d, 0o1600) >= 0",
    "leaves a POSIX queue": "return kernel('mq_open', b'minitvm', 0o102, 0o600, None)",
    # the network
    "connects over TCP": "s = libc.socket(2, 1, 0); return libc.connect(s, struct.pack('!HH4s8x', 0x0200, port, b'\\x7f\\0\\0\\1'), 16) == 0",
    "sends over UDP": "s = libc.socket(2, 2, 0); return libc.sendto(s, b'x', 1, 0, struct.pack('!HH4s8x', 0x0200, port, b'\\x7f\\0\\0\\1'), 16) == 1",
    "connects to a socket file": "s = libc.socket(1, 1, 0); return libc.connect(s, struct.pack('H108s', 1, socket.encode()), 110) == 0",
    "connects to an abstract socket": "s = libc.socket(1, 1, 0); return libc.connect(s, struct.pack('H', 1) + b'\\0minitvm%d' % port, 2 + len(b'\\0minitvm%d' % port)) == 0",
    "asks the kernel about the network": "return libc.socket(16, 3, 0) >= 0",
    # amounts
    "makes five thousand files": "return all([open(str(n), 'w').close() is None for n in range(5_000)])",
    "writes 256 MB": "return all([open(f'big{n}', 'wb').write(bytes(8 << 20)) for n in range(32)])",
    "takes 8 GB of memory": "return libc.mmap(None, ctypes.c_size_t(8 << 30), 3, 0x22, -1, 0) != -1",
}  # fmt: skip

_C = "import ctypes, os, signal, sys\nlibc = ctypes.CDLL(None, use_errno=True)\n"
LOUD = {
    "surrogate": "raise ValueError('x \\ud800 y')",
    "surrogate_class": "raise type('E\\ud800', (Exception,), {})('\\x1b[2J')",
    "endless_text": "raise ValueError('x' * 10**8)",
    "nested_folders": "import os\nfor _ in range(4000):\n    os.mkdir('d')\n    os.chdir('d')",
    "no_time_for_the_grader": _C + "for pid in (os.getppid(), 1):\n    libc.prlimit(pid, 0, bytes(16), None)",
    "kills_all": _C + "libc.kill(-1, 9)\nlibc.kill(os.getppid(), 9)\nlibc.killpg(0, 9)",
    "stops_itself": _C + "libc.kill(os.getpid(), signal.SIGSTOP)",
    "aborts": "import os\nos.abort()",
    "segfaults": "import ctypes\nctypes.string_at(0)",
    "forks_forever": _C + "while True:\n    libc.fork()",
    "threads_forever": "import threading, time\nwhile True:\n    threading.Thread(target=time.sleep, args=(99,)).start()",
    "takes_all_memory": "x = []\nwhile True:\n    x.append(bytearray(1 << 26))",
    "fills_its_folder": "n = 0\nwhile True:\n    n += 1\n    open(str(n), 'w').write('x' * 10_000)",
    "prints_forever": "while True:\n    print('x' * 100_000)",
    "writes_to_every_pipe": "import os\nfor fd in range(256):\n    try:\n        os.write(fd, b'\\xff' * 4096)\n    except OSError:\n        pass",
    "closes_every_file": "import os\nos.closerange(0, 1024)",
    "ignores_its_time_limit": "import signal\nfor n in range(1, 65):\n    try:\n        signal.signal(n, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\nwhile True:\n    pass",
    "recurses": "import sys\nsys.setrecursionlimit(10**9)\ndef f():\n    f()\nf()",
}  # fmt: skip
