"""Files of compiled kernels in the user's cache folder, so that a network is compiled once.

$MINITVM_CACHE names another folder; if it is empty, nothing is stored. Files that another user may
have written are not used, so several users can share a folder.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import uuid
import warnings
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from minitvm import runtime
from minitvm.base import Target, TVMError, host

VARIABLE = "MINITVM_CACHE"
OURS = re.compile(r"[0-9a-f]{64}\.mtvm|[0-9a-f]{32}\.part")
MAX_BYTES = 256 << 20  # the most bytes of all files; least recently used files are removed first


def key_of(text: str, target: Target, steps: str) -> str:
    """Return a key that identifies everything on which the code of a kernel depends.

    text    the printed kernel
    steps   the steps of its schedule; "" for the default schedule
    """
    machine = host()
    facts = (_sources(), repr(target), machine.cpu, sorted(machine.features), text, steps)
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def path_of(key: str) -> Path | None:
    """Return the path of a kernel's file and make its folder; None if files cannot be stored."""
    folder = _folder()
    if folder is None:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / f"{key}.mtvm"


def read(path: Path, target: Target) -> runtime.Function | None:
    """Return the kernel in a file; None if there is no such file or if it cannot be used."""
    try:
        kernel = runtime.load(path, target)
        os.utime(path)  # mark the file as used now
    except runtime.ForeignFileError:
        text = f"{path.parent} has kernels that other users may have written; they are not used"
        warnings.warn(text, stacklevel=2)  # Python shows the same text once
        return None
    except (TVMError, OSError):
        return None
    return kernel


def write(path: Path, kernel: runtime.Function) -> None:
    """Write a kernel to a file; other processes see only complete files. Ignore errors."""
    part = path.with_name(f"{uuid.uuid4().hex}.part")
    try:
        kernel.export(part)
        part.replace(path)
    except (TVMError, OSError):
        with suppress(OSError):
            part.unlink(missing_ok=True)


def trim(most: int = MAX_BYTES) -> None:
    """Remove the least recently used files until the remaining files have at most `most` bytes."""
    folder, files = _folder(), list[tuple[float, int, Path]]()
    if folder is not None and folder.is_dir():
        for path in folder.iterdir():
            if OURS.fullmatch(path.name):  # the folder may have other files, too
                with suppress(OSError):
                    files.append((path.stat().st_mtime, path.stat().st_size, path))
    left = sum(size for _, size, _ in files)
    for _, size, path in sorted(files):
        if left <= most:
            return
        left -= size
        with suppress(OSError):
            path.unlink()


def _folder() -> Path | None:
    folder_name = os.environ.get(VARIABLE)
    if folder_name is not None:
        return Path(folder_name) if folder_name else None
    with suppress(RuntimeError):  # there is no home folder
        home = {
            "darwin": Path.home() / "Library" / "Caches",
            "win32": Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"),
        }
        linux = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        return home.get(sys.platform, linux) / "minitvm" / "kernels"
    return None


@cache
def _sources() -> str:
    """Return a digest of the files of minitvm, so that kernels of other versions are not used."""
    folder = Path(__file__).parents[1]
    known = [(p, p.stat()) for p in sorted(folder.rglob("*.py"))]
    facts = [(str(p.relative_to(folder)), s.st_size, s.st_mtime_ns) for p, s in known]
    return hashlib.sha256(repr((version("llvmlite"), facts)).encode()).hexdigest()
