"""Files and names that stay safe whatever students hand in.

No name of a student becomes a path of ours as it is; files are replaced as a whole; and only one
grader at a time writes into a folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import secrets
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from minitvm.base import ArgumentError

try:
    import fcntl
except ImportError:  # Windows has none
    fcntl = None

TABLES = ("grades.csv", "junit.xml", "summary.md")
OURS = (*TABLES, "feedback.md", "feedback.html", "results.json")  # no student is called like these
PLAIN = re.compile(r"[\w(](?:[\w ().@+,=&'-]*[\w)'+-])?")
OTHER = re.compile(r"[^\w ().@+,=&'-]")
LONGEST = 100  # bytes of one part of a name
MAX_PARTS = 8
LOCK = ".lock"


# --- writing -------------------------------------------------------------------------------------


def write(path: Path, content: str | bytes) -> None:
    """Replace the file at `path` as a whole; if that fails, it stays as it was."""
    data = content if isinstance(content, bytes) else content.encode(errors="replace")
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    try:
        with open(new, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            new.unlink()
        raise


@contextmanager
def sole_writer(folder: Path) -> Generator[None]:
    """Let one process at a time write into `folder`, and remove what a killed one left there.

    Raises ArgumentError while another process does. The system frees the lock of a process that
    was killed.
    """
    with open(folder / LOCK, "ab") as lock:
        if not _locked(lock):
            why = "another grader is writing into this folder"
            raise ArgumentError(str(folder), why, "wait until it is done, or name another folder")
        for temporary in folder.rglob(".*.new"):
            temporary.unlink(missing_ok=True)
        yield


def _locked(lock: IO[bytes]) -> bool:
    """Lock a file unless another process has locked it; return whether that worked."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


# --- names ---------------------------------------------------------------------------------------


def label(name: str) -> str:
    """Return a printable name that is also a safe relative path; other names, other labels.

    "ann" -> "ann"; "b/c" -> "b/c"; ".." -> "__~fb80b5d9"; "summary.md" -> "summary.md~66a2a9fe"
    """
    parts = name.split("/")
    if len(parts) > MAX_PARTS:
        return quoted(name)
    return "/".join(part if _is_plain(part) else quoted(part) for part in parts)


def _is_plain(part: str) -> bool:
    fits = len(part.encode(errors="replace")) <= LONGEST
    return fits and bool(PLAIN.fullmatch(part)) and part.lower() not in OURS


def quoted(part: str) -> str:
    """Return the characters of `part` that are plain, and a hash that tells it from others."""
    digest = hashlib.sha256(os.fsencode(part)).hexdigest()[:8]
    start = OTHER.sub("_", part).encode(errors="replace")[: LONGEST - 20].decode(errors="ignore")
    return f"{'_' if start[:1] in ('', '.', ' ') else ''}{start}~{digest}"


def notebooks(folder: Path) -> Iterator[tuple[Path, str]]:
    """Yield (path, problem) for each notebook below `folder`, and for what cannot be searched.

    problem   why a folder cannot be searched; "" for a notebook
    Links to folders are not followed, and no depth of folders is too much.
    """
    folders = [folder]
    while folders:
        current = folders.pop()
        try:
            entries = sorted(os.scandir(current), key=lambda e: e.name)
        except OSError as e:
            yield current, f"a folder that cannot be searched ({e.strerror})"
            continue
        for entry in entries:
            if entry.is_dir(follow_symlinks=False) and not entry.name.endswith(".ipynb"):
                folders += [current / entry.name] if entry.name != ".ipynb_checkpoints" else []
            elif entry.name.endswith(".ipynb"):
                yield current / entry.name, ""
