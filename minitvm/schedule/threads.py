"""Hardware and virtual threads, and the memory scopes they share."""

from __future__ import annotations

from minitvm.base import ScheduleError

BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
VIRTUAL = ("vthread", "vthread.x", "vthread.y", "vthread.z", "cthread")
TAGS = (*BLOCKS, *THREADS, *VIRTUAL)
WARP = 32  # threads
RANKS = {"global": 0, "shared": 1, "warp": 2, "local": 3, "amx": 3}  # lower: more threads share it


def check_tag(tag: str) -> str:
    """Return `tag`; raise ScheduleError if it does not name a thread."""
    if tag not in TAGS:
        raise ScheduleError(f"thread {tag!r}", "no such thread", f"one of {', '.join(TAGS)}")
    return tag


def is_virtual(tag: str) -> bool:
    """Return whether `tag` names virtual threads: one hardware thread runs them all."""
    return tag in VIRTUAL


def is_hardware(tag: str) -> bool:
    """Return whether `tag` names blocks or threads of the hardware; "" names none."""
    return bool(tag) and not is_virtual(tag)


def scope_kind(scope: str) -> str:
    """Return the memory of a scope: "shared" for "shared", "local" for "local.acc_buffer"."""
    return scope.partition(".")[0]


def thread_rank(tag: str) -> int:
    """Return 0 if `tag` names blocks, 1 if it names the hardware or virtual threads of a block."""
    return 0 if tag in BLOCKS else 1


def scope_rank(scope: str) -> int:
    """Return the rank of a memory scope: 0 if all threads share it, up to 3 if each has its own."""
    return RANKS[scope_kind(scope)]


def is_shared_by(scope: str, tag: str) -> bool:
    """Return whether all threads along `tag` share one memory of the given `scope`.

    All threads of a block share "shared" memory. Those along threadIdx.x also share "warp" memory,
    because check_launch allows at most WARP of them there.
    """
    if scope_kind(scope) == "warp" and tag == "threadIdx.x":
        return True
    return scope_rank(scope) <= thread_rank(tag)
