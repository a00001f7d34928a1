"""An analytic model of run time, without training: the roofline of each level of the machine.

    seconds(sketch, rows, target)    estimated seconds of one call, float64[candidates]
    explain(sketch, row, target)     the limits of one candidate, largest first; print it
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from minitvm.base import Target

from .sketch import Sketch
from .space import Rows


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why the draft expects a candidate to take as long as it does.

    seconds   of one call
    limit     what binds in the heaviest statement: "loads", "arithmetic", "latency", "L2", ...
    text      the reason in one sentence, with the numbers
    parts     seconds of each limit alone, by name
    """

    seconds: float
    limit: str
    text: str
    parts: dict[str, float]

    def __str__(self) -> str:
        return self.text


def seconds(sketch: Sketch, rows: Rows, target: Target) -> npt.NDArray[np.float64]:
    """Return the estimated seconds of one call of each candidate."""
    raise NotImplementedError


def explain(sketch: Sketch, row: Sequence[int], target: Target) -> Explanation:
    """Return which limit binds for one candidate, and by how much."""
    raise NotImplementedError
