"""Hardware and virtual threads, and the memories that go with them."""

from __future__ import annotations

from minitvm.base import ScheduleError

BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
VIRTUAL = ("vthread", "vthread.x", "vthread.y", "vthread.z", "cthread")
TAGS = (*BLOCKS, *THREADS, *VIRTUAL)
WARP = 32  # threads
RANKS = {"global": 0, "shared": 1, "warp": 2, "local": 3}  # the smaller, the more threads share it


def check_tag(tag: str) -> str:
    """`tag`, if it names a thread; else ScheduleError."""
    if tag not in TAGS:
        raise ScheduleError(f"thread {tag!r}", "no such thread", f"one of {', '.join(TAGS)}")
    return tag


def is_virtual(tag: str) -> bool:
    """Does the thread exist only in the program, until one thread does the work of all?"""
    return tag in VIRTUAL


def thread_rank(tag: str) -> int:
    """0 for blocks, 1 for the threads of one block, virtual ones included."""
    return 0 if tag in BLOCKS else 1


def scope_rank(scope: str) -> int:
    """0 for memory that all threads share, up to 3 for that of one thread alone."""
    return RANKS[scope.partition(".")[0]]


def is_shared_by(scope: str, tag: str) -> bool:
    """Do all threads `tag` see the same memory `scope`?

    "shared": those of a block do. "warp": those along threadIdx.x, at most WARP, do.
    """
    if scope == "warp" and tag == "threadIdx.x":
        return True
    return scope_rank(scope) <= thread_rank(tag)
