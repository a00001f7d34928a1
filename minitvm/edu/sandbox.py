"""Confine a student's process: limited time and memory, and files in its own folder only.

The operating system enforces the limits: rlimits and, on Linux, Landlock (no writes outside the
folder, no reads except of Python and the system, no programs, no TCP, no signals). On other
systems an audit hook of Python (PEP 578) still stops what a notebook does by mistake. It does not
stop attacks: to grade people whom you do not trust, use a container.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, cast

from minitvm import workers

try:
    import resource
except ImportError:  # Windows has none
    resource = None

PACKAGE = Path(__file__).resolve().parent
ROOT = PACKAGE.parent.parent  # the folder of the package; in a checkout, its root


@dataclass(frozen=True, slots=True)
class Limits:
    """The resources that one notebook may use.

    seconds    time of one cell, or one call of an answer
    notebook   seconds of all cells together
    item       seconds of all checks of one item, including the grader's own builds and runs
    memory     bytes of address space; file: bytes of one file
    """

    seconds: float = 10.0
    notebook: float = 120.0
    item: float = 90.0
    memory: int = 4 << 30
    file: int = 16 << 20
    output: int = 10_000  # characters kept of what a cell prints
    cpu: int = 600  # seconds of the whole process, in case the grader dies


USUAL_LIMITS = Limits()
Tier: TypeAlias = Literal["namespaces", "kernel rules", "fence"]
TIERS: tuple[Tier, ...] = ("namespaces", "kernel rules", "fence")
NOT_HELD: dict[Tier, str] = {
    "kernel rules": "a notebook has the user id of the grader, and sees the names of files, the"
    " processes and the amount of memory of this machine; many small files can fill the disk",
    "fence": "only Python's own calls are watched: C code reads what you can read, changes what you"
    " can change, starts processes and uses the network",
}
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = {  # audit events whose first arguments are paths that change
    "os.chmod", "os.chown", "os.link", "os.mkdir", "os.remove", "os.rename", "os.rmdir",
    "os.symlink", "os.truncate", "os.utime", "shutil.move", "shutil.rmtree",
}  # fmt: skip
FORBIDDEN = (
    "os.fork", "os.forkpty", "os.exec", "os.posix_spawn", "os.spawn", "os.system", "os.kill",
    "os.killpg", "os.startfile", "pty.spawn", "subprocess.Popen", "socket.bind", "socket.connect",
    "socket.getaddrinfo", "socket.sendmsg", "socket.sendto",
)  # fmt: skip
SYSTEM = (  # readable besides Python: libraries, time zones, fonts, facts about the machine
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/etc", "/opt", "/nix", "/gnu", "/sys",
    "/dev/null", "/dev/zero", "/dev/random", "/dev/urandom", "/proc/self", "/proc/sys",
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/filesystems",
)  # fmt: skip


@cache
def tier() -> Tier:
    """Return the strongest wall that this machine can build, found by building one.

    $MINITVM_WALL names a weaker one, for tests.
    """
    strongest = TIERS.index(cast("Tier", os.environ.get("MINITVM_WALL", TIERS[0])))
    if strongest == 0 and not workers.wall_fault():
        return TIERS[0]
    return TIERS[1] if strongest <= 1 and _has_kernel_rules() else TIERS[2]


def about_tier() -> str:
    """Return one or two lines for the instructor: the wall in use, and what it does not hold."""
    strongest, why = tier(), workers.wall_fault()
    if strongest == "namespaces":
        return "wall: namespaces (bubblewrap), seccomp, Landlock; each notebook on its own"
    reason = f"; no namespaces: {why}" if why else ""
    return (
        f"wall: {strongest}{reason}\nit does not hold: {NOT_HELD[strongest]} (docs/instructor.md)"
    )


def _has_kernel_rules() -> bool:
    """Return whether another process can be put under Landlock and a seccomp filter."""
    return landlock_version() > 0 and workers.can_refuse_system_calls()


def confine(limits: Limits, folder: Path, hidden: Sequence[Path], *, rules: bool = True) -> None:
    """Confine this process until it ends: it may write only in `folder`, and not read `hidden`.

    rules   whether the kernel's own rules, Landlock and seccomp, are used where there are any
    """
    folder, hidden = folder.resolve(), [p.resolve() for p in hidden]
    reads = readable(folder, hidden) if sys.platform == "linux" else []
    if resource is not None:
        for kind, most in (
            (resource.RLIMIT_AS, limits.memory),
            (resource.RLIMIT_FSIZE, limits.file),
            (resource.RLIMIT_CPU, limits.cpu),
        ):
            workers.limit(kind, most, final=True)
    if sys.platform == "linux":
        workers.die_with_parent(os.getppid())
        if rules:
            _landlock(folder, reads)
            workers.refuse_system_calls()
    sys.addaudithook(_hook(folder, hidden, reads))


def wall_around(hidden: Sequence[str]) -> workers.Wall | None:
    """Return the wall for a notebook, or None where none can be built.

    The package is readable behind it, because the process imports from it first; confine() then
    hides `hidden` with minitvm/edu.
    """
    if tier() != "namespaces":
        return None
    return workers.Wall((str(ROOT / "minitvm"),), tuple(p for p in hidden if p != str(PACKAGE)))


def readable(folder: Path, hidden: Sequence[Path]) -> list[Path]:
    """Return the paths that a notebook may read: its folder, Python, this package, the system.

    Not among them are other people's notebooks, grades, home folders, and the command lines of
    other processes.
    """
    packages = [Path(p).resolve() for p in (sys.prefix, sys.base_prefix, *sys.path) if p]
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    more = [Path(p).resolve() for p in (*SYSTEM, *filter(None, libraries))]
    tops = [folder, ROOT / "minitvm", *(p for p in packages if p != ROOT), *more]
    return [p for top in dict.fromkeys(tops) if top.exists() for p in _beside(top, hidden)]


def _beside(path: Path, hidden: Sequence[Path]) -> Iterator[Path]:
    """Yield `path` or, if it contains hidden paths, the largest parts of it without them.

    /env, where /env/lib/a is hidden -> /env/bin, /env/lib/b
    """
    if not any(h.is_relative_to(path) for h in hidden):
        yield path
    elif path not in hidden:
        for entry in sorted(path.iterdir()):
            if not entry.is_symlink():
                yield from _beside(entry, hidden)


def _hook(
    folder: Path, hidden: Sequence[Path], reads: Sequence[Path]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that raises PermissionError for what confine() forbids."""
    writable, secret = str(folder) + os.sep, tuple(str(p) + os.sep for p in hidden)
    open_to_all = tuple(str(p) + os.sep for p in reads) or ("",)
    realpath, fsdecode, null = os.path.realpath, os.fsdecode, os.devnull
    exists = os.path.lexists

    def place(path: Any) -> str:
        known = isinstance(path, str | bytes) or hasattr(path, "__fspath__")
        return realpath(fsdecode(path)) if known else ""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        if event == "open" and args[0] is not None and not isinstance(args[0], int):
            path, writes = place(args[0]), bool(args[2] & WRITES)
            if path.startswith(secret) or not (path + os.sep).startswith(open_to_all):
                if not exists(path):
                    return  # open() raises an error of its own
                raise PermissionError(f"{path}: must not be read while grading")
            if writes and path != null and not (path + os.sep).startswith(writable):
                raise PermissionError(f"{path}: write to the working directory only")
        elif event in CHANGES:
            for path in filter(None, map(place, args[:2])):
                if not (path + os.sep).startswith(writable):
                    raise PermissionError(f"{event} {path}: change the working directory only")
        elif event.startswith(FORBIDDEN):
            raise PermissionError(f"{event}: no other processes and no network while grading")

    return hook


# --- Linux ---------------------------------------------------------------------------------------

PR_SET_NO_NEW_PRIVS = 38
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446  # the same on every architecture
EXECUTE, WRITE_FILE, READ_FILE, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 14
CHANGE_FOLDER = sum(1 << bit for bit in range(4, 14))  # removing, creating, moving between folders
NET = 0b11  # bind and connect of TCP
SCOPES = 0b11  # abstract Unix sockets, and signals to processes outside


class _Ruleset(ctypes.Structure):
    _fields_ = [("fs", ctypes.c_uint64), ("net", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = [("access", ctypes.c_uint64), ("parent", ctypes.c_int32)]


def landlock_version() -> int:
    """Return the version of Landlock that this kernel speaks; below 1: none."""
    if sys.platform != "linux":
        return 0
    return ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1)


def _landlock(folder: Path, reads: Sequence[Path]) -> None:
    """Make the kernel confine a notebook; what the kernel can refuse depends on its version.

    It may refuse writes outside `folder`, reads outside `reads`, programs, TCP, and signals.
    Source: the kernel's userspace API documentation, "Landlock: unprivileged access control".
    """
    libc, version = ctypes.CDLL(None), landlock_version()
    if version < 1:
        return
    writes = WRITE_FILE | CHANGE_FOLDER
    if version < 2:
        writes &= ~(1 << 13)  # moving between folders came with version 2, TRUNCATE with 3
    if version >= 3:
        writes |= TRUNCATE
    rights = writes | READ_FILE | EXECUTE  # no rule allows EXECUTE
    rules = _Ruleset(rights, NET if version >= 4 else 0, SCOPES if version >= 6 else 0)
    size = ctypes.c_size_t(8 * (3 if version >= 6 else 2 if version >= 4 else 1))
    ruleset = libc.syscall(CREATE_RULESET, ctypes.byref(rules), size, 0)
    if ruleset < 0:
        return
    null = (Path(os.devnull), writes & (WRITE_FILE | TRUNCATE))
    for path, access in ((folder, writes), null, *((p, READ_FILE) for p in reads)):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rule = _Beneath(access, place)
        libc.syscall(ADD_RULE, ruleset, 1, ctypes.byref(rule), 0)
        os.close(place)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.syscall(RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
