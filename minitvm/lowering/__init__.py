"""From a schedule to loops: bounds, nests, and the passes over them."""

from .bounds import Domain, infer, sweep
from .caution import Caution
from .derive import Derivation, explain_bound, loops_of
from .explain import Explanation, StageReport, explain
from .flatten import flatten, strides
from .guards import explain_guard
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
    "Caution",
    "Derivation",
    "Domain",
    "Explanation",
    "Pass",
    "Program",
    "StageReport",
    "Watch",
    "allocate",
    "explain",
    "explain_bound",
    "explain_guard",
    "flatten",
    "infer",
    "loops_of",
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
