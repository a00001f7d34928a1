"""Where Python's stack ends: what is lowered nests one level deeper with every stage."""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

from minitvm.base import LoweringError


@contextmanager
def within_stack(what: str) -> Generator[None]:
    """Run the block; LoweringError if `what` nests deeper than Python calls can."""
    try:
        yield
    except RecursionError:
        raise LoweringError(
            what,
            f"its loops nest deeper than {sys.getrecursionlimit()} calls of Python: each stage "
            "stands in the memory of those before it",
            "several programs, with a te.placeholder where the next one goes on",
        ) from None
