"""A seccomp filter: the kernel refuses the system calls by which a program reaches outside.

The filter is a program of classic BPF that the kernel runs before each system call of a process
and of its threads; it cannot be removed. It is built from the tables below.
Source: the kernel's userspace API documentation, "Seccomp BPF".
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

# Each entry is a name, its number on x86-64 and on aarch64 ("-": there is no such call).
DENIED = """
other processes     ptrace 101 117, process_vm_readv 310 270, process_vm_writev 311 271,
                    process_madvise 440 440, process_mrelease 448 448, kcmp 312 272,
                    migrate_pages 256 238, move_pages 279 239, pidfd_open 434 434,
                    pidfd_getfd 438 438, pidfd_send_signal 424 424, tkill 200 130
new processes       fork 57 -, vfork 58 -, execve 59 221, execveat 322 281
leaving the group   setsid 112 157, setpgid 109 154
namespaces          unshare 272 97, setns 308 268, mount 165 40, umount2 166 39, pivot_root 155 41,
                    move_mount 429 429, open_tree 428 428, fsopen 430 430, fsconfig 431 431,
                    fsmount 432 432, fspick 433 433, mount_setattr 442 442, chroot 161 51
other files         open_by_handle_at 304 265, fanotify_init 300 262, quotactl 179 60,
                    quotactl_fd 443 443, swapon 167 224, swapoff 168 225, acct 163 89, sync 162 81
attributes          chmod 90 -, fchmod 91 52, fchmodat 268 53, fchmodat2 452 452, chown 92 -,
                    fchown 93 55, lchown 94 -, fchownat 260 54, utime 132 -, utimes 235 -,
                    futimesat 261 -, utimensat 280 88, setxattr 188 5, lsetxattr 189 6,
                    fsetxattr 190 7, removexattr 197 14, lremovexattr 198 15, fremovexattr 199 16
keys                add_key 248 217, request_key 249 218, keyctl 250 219
kernel programs     bpf 321 280, perf_event_open 298 241, userfaultfd 323 282,
                    io_uring_setup 425 425, io_uring_enter 426 426, io_uring_register 427 427,
                    personality 135 92, memfd_create 319 279, memfd_secret 447 447
what outlives it    shmget 29 194, shmat 30 196, shmctl 31 195, semget 64 190, semop 65 193,
                    semctl 66 191, semtimedop 220 192, msgget 68 186, msgsnd 69 189,
                    msgrcv 70 188, msgctl 71 187, mq_open 240 180, mq_unlink 241 181
network             socket 41 198
limits, priorities  setrlimit 160 164, setpriority 141 140, ioprio_set 251 30,
                    sched_setaffinity 203 122, sched_setscheduler 144 119,
                    sched_setparam 142 118, sched_setattr 314 274
the machine         settimeofday 164 170, clock_settime 227 112, adjtimex 159 171,
                    clock_adjtime 305 266, sethostname 170 161, setdomainname 171 162,
                    syslog 103 116, iopl 172 -, ioperm 173 -, init_module 175 105,
                    finit_module 313 273, delete_module 176 106, kexec_load 246 104,
                    kexec_file_load 320 294, reboot 169 142, vhangup 153 58
"""
LIMITED = """
to itself           kill 62 129, tgkill 234 131, rt_sigqueueinfo 129 138, rt_tgsigqueueinfo 297 240
threads             clone 56 220
not there           clone3 435 435
only read           prlimit64 302 261
some commands       prctl 157 167, ioctl 16 29, fcntl 72 25
"""
NEWEST = 462  # later system calls are unknown here, so that they are refused, too
COMMANDS = {  # refused values of an argument: (its number, the values)
    "prctl": (0, (1, 36)),  # PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER
    "ioctl": (1, (0x5412, 0x541C, 0x40086602, 0x401C5820)),  # terminal input, attributes of files
    "fcntl": (1, (8, 15)),  # F_SETOWN, F_SETOWN_EX: signals to others
}
CLONE_THREAD = 0x10000
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, MODE_FILTER = 38, 22, 2

# --- classic BPF ---------------------------------------------------------------------------------

LOAD, RETURN = 0x20, 0x06  # load a word of struct seccomp_data; end with a verdict
EQUAL, AT_LEAST, ANY_BIT = 0x15, 0x35, 0x45  # jumps that compare the word with a constant
NUMBER, ARCHITECTURE, ARGUMENTS = 0, 4, 16  # where they stand in struct seccomp_data
ALLOW, KILL = 0x7FFF0000, 0x80000000
REFUSE, UNKNOWN = 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
X32 = 0x40000000  # x86-64 has a second table of calls from here on
Step = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


class Architecture(NamedTuple):
    """How one machine is called by the kernel, and the column of its numbers in the tables."""

    audit: int
    column: int


ARCHITECTURES = {
    "x86_64": Architecture(0xC000003E, 0),
    "aarch64": Architecture(0xC00000B7, 1),
}


def numbers(table: str, machine: str) -> dict[str, int]:
    """Return the system calls in a table with their numbers on `machine`."""
    column = ARCHITECTURES[machine].column
    words = " ".join(line[20:] for line in table.splitlines()).replace(",", "").split()
    rows = zip(words[::3], zip(words[1::3], words[2::3], strict=True), strict=True)
    return {name: int(columns[column]) for name, columns in rows if columns[column] != "-"}


def rules(machine: str, process: int) -> list[Step]:
    """Return the filter for a process with the id `process`, as steps of classic BPF."""
    limited_calls = numbers(LIMITED, machine)
    steps: list[Step] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine].audit),
        (RETURN, 0, 0, KILL),  # a 32-bit program has other numbers
        (LOAD, 0, 0, NUMBER),
        *_if(AT_LEAST, X32, REFUSE),
        *_if(AT_LEAST, NEWEST + 1, UNKNOWN),
        *_if(
            EQUAL, limited_calls["clone3"], UNKNOWN
        ),  # its flags cannot be read: clone does as well
    ]
    for number in numbers(DENIED, machine).values():
        steps += _if(EQUAL, number, REFUSE)
    for name in ("kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
        test = [(LOAD, 0, 0, ARGUMENTS), (EQUAL, 1, 0, process), (RETURN, 0, 0, REFUSE)]
        steps += _only(limited_calls[name], test)
    test = [(LOAD, 0, 0, ARGUMENTS), (ANY_BIT, 1, 0, CLONE_THREAD), (RETURN, 0, 0, REFUSE)]
    steps += _only(limited_calls["clone"], test)
    new_limit = ARGUMENTS + 8 * 2  # a pointer, of two words: None reads the limit
    steps += _only(limited_calls["prlimit64"], [
        (LOAD, 0, 0, new_limit), (EQUAL, 1, 0, 0), (RETURN, 0, 0, REFUSE),
        (LOAD, 0, 0, new_limit + 4), (EQUAL, 1, 0, 0), (RETURN, 0, 0, REFUSE),
    ])  # fmt: skip
    for name, (argument, refused_values) in COMMANDS.items():
        test = [(LOAD, 0, 0, ARGUMENTS + 8 * argument)]
        test += [step for value in refused_values for step in _if(EQUAL, value, REFUSE)]
        steps += _only(limited_calls[name], test)
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _if(test: int, constant: int, verdict: int) -> list[Step]:
    return [(test, 0, 1, constant), (RETURN, 0, 0, verdict)]


def _only(number: int, steps: Sequence[Step]) -> list[Step]:
    """Run `steps` for one system call, and allow what they do not refuse."""
    return [(EQUAL, 0, len(steps) + 1, number), *steps, (RETURN, 0, 0, ALLOW)]


@cache
def can_refuse_system_calls() -> bool:
    """Return whether the filter works in a new process."""
    code = "import runpy, sys; sys.exit(not runpy.run_path(sys.argv[1])['refuse_system_calls']())"
    process = subprocess.run([sys.executable, "-I", "-c", code, __file__], check=False)
    return process.returncode == 0


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_void_p)]


def refuse_system_calls() -> bool:
    """Put this process and its later threads under the filter; return whether that worked."""
    machine = platform.machine()
    if sys.platform != "linux" or machine not in ARCHITECTURES:
        return False
    steps = rules(machine, os.getpid())
    packed = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *s) for s in steps))
    program = _Program(len(steps), ctypes.addressof(packed))
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return libc.prctl(PR_SET_SECCOMP, MODE_FILTER, ctypes.byref(program), 0, 0) == 0
