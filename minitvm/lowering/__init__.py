"""From a schedule to loops: bounds, nests, and the passes over them."""

from .accesses import Loop, Recording, Site, known_stores, record_accesses
from .bound_check import bound_check
from .bounds import Domain, infer
from .caution import Caution, Cautions
from .depth import within_stack
from .derive import Derivation, explain_bound, loops_of
from .double_buffer import inject_double_buffer
from .explain import Explanation, StageReport, explain
from .flatten import flatten
from .guards import explain_guard
from .interval import sweep
from .nest import nest
from .normalize import normalize
from .partition import partition
from .phases import insert, swap
from .pipeline import PASSES, START, Pass, Watch, lower_state
from .program import Program, allocate
from .storage import storage_rewrite
from .tidy import tidy
from .tighten import tighten
from .unroll import unroll
from .unsafe_select import rewrite_unsafe_select
from .vectorize import vectorize
from .vthread import inject_virtual_thread

__all__ = [
    "PASSES",
    "START",
    "Caution",
    "Cautions",
    "Derivation",
    "Domain",
    "Explanation",
    "Loop",
    "Pass",
    "Program",
    "Recording",
    "Site",
    "StageReport",
    "Watch",
    "allocate",
    "bound_check",
    "explain",
    "explain_bound",
    "explain_guard",
    "flatten",
    "infer",
    "inject_double_buffer",
    "inject_virtual_thread",
    "insert",
    "known_stores",
    "loops_of",
    "lower_state",
    "nest",
    "normalize",
    "partition",
    "record_accesses",
    "rewrite_unsafe_select",
    "storage_rewrite",
    "swap",
    "sweep",
    "tidy",
    "tighten",
    "unroll",
    "vectorize",
    "within_stack",
]
