"""The result of measuring one program: its cost, or the reason of its failure."""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass
from typing import Literal, TypeAlias

from minitvm.base import MeasureError

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
                    otherwise wall time; () if the measurement failed or has cycles
    error, detail   the kind of the failure, and its whole message; "" if there was no failure
    build_seconds   wall time of lowering and compiling
    run_seconds     wall time of linking, checking and all timed calls
    cycles          the modelled cycles of one call on a simulated GPU, which has no seconds
    """

    seconds: tuple[float, ...] = ()
    error: ErrorKind = ""
    detail: str = ""
    build_seconds: float = 0.0
    run_seconds: float = 0.0
    cycles: tuple[float, ...] = ()

    @property
    def costs(self) -> tuple[float, ...]:
        """Return the seconds, or the cycles if these were measured; () after a failure."""
        return self.seconds or self.cycles

    @property
    def unit(self) -> str:
        """Return the unit of the costs, as in Target.unit; that of a failure is "seconds"."""
        return "cycles" if self.cycles else "seconds"

    @property
    def best(self) -> float:
        """Return the lowest cost; infinity if the measurement failed."""
        return min(self.costs, default=math.inf)

    @property
    def median(self) -> float:
        """Return the median cost; infinity if the measurement failed."""
        return statistics.median(self.costs) if self.costs else math.inf

    def cost(self, final: bool) -> float:
        """Return the median in a final measurement, which has several rounds; otherwise `best`."""
        return self.median if final else self.best

    def in_seconds(self, cost: float) -> float:
        """Return a cost of this result; raise MeasureError if its unit is cycles."""
        if self.unit != "seconds":
            why = "a simulator has modelled cycles, which say nothing about seconds"
            raise MeasureError("seconds of a measurement", why, "cost, in the unit of the target")
        return cost
