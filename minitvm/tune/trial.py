"""The result of measuring one program: its time, or the reason of its failure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Literal, TypeAlias

ErrorKind: TypeAlias = Literal[
    "",
    "schedule",  # a schedule step is illegal
    "lower",  # the schedule cannot be lowered
    "compile",  # the program cannot be emitted, or LLVM refuses it or aborts
    "compile time-out",
    "crash",  # a signal ended the process that ran it
    "exit",  # the program ended the process
    "memory",  # an allocation failed
    "run time-out",
    "wrong answer",
    "garbage",  # the process sent bytes that are not a reply
]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of measuring one program.

    seconds         the time of one call, one entry per repeat: CPU time for programs of one thread,
                    otherwise wall time; () if the measurement failed
    error, detail   the kind of the failure, and its whole message; "" if there was no failure
    build_seconds   wall time of lowering and compiling
    run_seconds     wall time of linking, checking and all timed calls
    """

    seconds: tuple[float, ...]
    error: ErrorKind = ""
    detail: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0

    @property
    def best(self) -> float:
        """Return the shortest time in seconds; infinity if the measurement failed."""
        return min(self.seconds, default=math.inf)

    @property
    def median(self) -> float:
        """Return the median time in seconds; infinity if the measurement failed."""
        return statistics.median(self.seconds) if self.seconds else math.inf
