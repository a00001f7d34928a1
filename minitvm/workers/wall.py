"""A wall around a process that runs untrusted code: namespaces, made by bubblewrap.

Behind it there is nothing but what the process needs to read, one empty folder in memory to write
to, no other process, no network and no IPC of others. The process has no capabilities, and, where
a wall is built as root, a user id of its own. Everything ends and is gone with its first process.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import PurePath
from typing import Any

FOLDER_BYTES, FOLDER_FILES = 64 << 20, 4096
MAX_PROCESSES = 512  # threads count; the filter of seccomp.py allows no other processes
FIRST_USER, USERS = 61184, 4096  # ids that systemd reserves for users who exist for a moment
TRIAL_SECONDS = 20.0
MS_REMOUNT, MS_NOSUID, MS_NODEV = 32, 2, 4
PR_SET_DUMPABLE = 4
SYSTEM = (  # readable behind every wall, if it is there
    "/usr", "/nix/store", "/gnu/store", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
    "/etc/alternatives", "/etc/fonts", "/etc/localtime", "/etc/timezone", "/etc/passwd",
    "/etc/group", "/etc/nsswitch.conf", "/sys/devices/system",
)  # fmt: skip
LINKED = ("/bin", "/sbin", "/lib", "/lib32", "/lib64")  # links into /usr on most systems
PACKAGES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
_users = itertools.count(os.getpid())


@dataclass(frozen=True, slots=True)
class Wall:
    """What can be read behind a wall, besides Python and the system.

    hidden   folders that are empty behind the wall, even if they are inside of readable ones
    """

    reads: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()


@cache
def fault() -> str:
    """Build a wall, and return why that fails; "" if it works."""
    if sys.platform != "linux":
        return "namespaces need Linux"
    if program() is None:
        return "bubblewrap (bwrap) is not installed"
    with tempfile.TemporaryDirectory() as folder:
        arguments = [*command(Wall(), folder), sys.executable, "-I", "-S", "-c", "pass"]
        try:
            process = subprocess.run(
                arguments, capture_output=True, check=False, timeout=TRIAL_SECONDS, text=True
            )
        except (OSError, subprocess.TimeoutExpired) as e:
            return f"bubblewrap: {e}"
    if process.returncode:
        return (
            process.stderr.strip()[-300:] or f"bubblewrap ended with exit code {process.returncode}"
        )
    return ""


def program() -> str | None:
    """Return the path of bubblewrap, or None."""
    return shutil.which("bwrap")


def command(wall: Wall, folder: str) -> list[str]:
    """Return the words before a command that runs it behind a wall, in the empty `folder`."""
    reads = [path for path in (*SYSTEM, *_python(), *wall.reads) if os.path.exists(path)]
    words = [str(program()), "--die-with-parent"]
    words += [f"--unshare-{kind}" for kind in ("pid", "net", "ipc", "uts", "cgroup-try")]
    for path in LINKED:
        if os.path.islink(path):
            words += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            words += ["--ro-bind", path, path]
    for path in sorted(_parents([*reads, folder])):  # or only root could enter some of them
        words += ["--perms", "0755", "--dir", path]
    for path in sorted({*reads}):  # a folder before what is inside of it
        words += ["--ro-bind", path, path]
    for path in wall.hidden:
        if any(PurePath(path).is_relative_to(top) for top in reads) and os.path.isdir(path):
            words += ["--tmpfs", path, "--remount-ro", path]
    words += ["--proc", "/proc", "--dev", "/dev", "--remount-ro", "/dev"]
    words += ["--size", str(FOLDER_BYTES), "--tmpfs", folder, "--remount-ro", "/"]
    if os.geteuid() == 0:  # boot.py gives these up before it runs any other code
        for capability in ("SETUID", "SETGID", "CHOWN", "SYS_ADMIN"):
            words += ["--cap-add", f"CAP_{capability}"]
    else:
        words += ["--unshare-user", "--disable-userns"]
    return [*words, "--chdir", folder, "--"]


def _parents(paths: Sequence[str]) -> set[str]:
    """Return the folders above `paths` that are not inside of one of them."""
    above = {str(p) for path in paths for p in PurePath(path).parents} - {"/"}
    return {p for p in above if not any(PurePath(p).is_relative_to(path) for path in paths)}


@cache
def _python() -> tuple[str, ...]:
    """Return the folders that a fresh interpreter imports from, and its own folders."""
    code = "import json, sys; print(json.dumps([sys.prefix, sys.base_prefix, *sys.path]))"
    run = [sys.executable, "-P", "-s", "-c", code]
    places: list[str] = json.loads(subprocess.check_output(run, text=True))
    places += filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    return tuple({*places, *map(os.path.realpath, places)} - {"/", PACKAGES})


def options() -> dict[str, Any]:
    """Return what settle() must know: the user to become, or None if we are not root."""
    user = FIRST_USER + next(_users) % USERS if os.geteuid() == 0 else None
    return {"user": user}


def settle(given: dict[str, Any], folder: str) -> None:
    """Behind a wall that root has built, become another user without any rights."""
    if (user := given["user"]) is not None:
        libc = ctypes.CDLL(None, use_errno=True)
        about = f"size={FOLDER_BYTES},nr_inodes={FOLDER_FILES},mode=700"
        flags = MS_REMOUNT | MS_NOSUID | MS_NODEV
        if libc.mount(None, os.fsencode(folder), None, flags, about.encode()):
            raise OSError(ctypes.get_errno(), "its folder cannot be limited")
        os.chown(folder, user, user)
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)  # gives up all capabilities
        libc.prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # or it could not read its own /proc/self


def ended(code: int) -> int:
    """Return the exit code of the process behind a wall: bubblewrap says 128 + signal."""
    return 128 - code if 128 < code < 160 else code
