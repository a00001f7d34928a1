"""From a schedule to loops: bounds, nests, and the passes over them."""

from .bounds import Domain, infer, sweep
from .flatten import flatten, strides
from .nest import Program, allocate, nest
from .normalize import normalize
from .partition import partition
from .pipeline import PASSES, START, Pass, Watch, lower_state
from .tidy import tidy
from .tighten import tighten
from .unroll import unroll
from .vectorize import vectorize

__all__ = [
    "PASSES",
    "START",
    "Domain",
    "Pass",
    "Program",
    "Watch",
    "allocate",
    "flatten",
    "infer",
    "lower_state",
    "nest",
    "normalize",
    "partition",
    "strides",
    "sweep",
    "tidy",
    "tighten",
    "unroll",
    "vectorize",
]
