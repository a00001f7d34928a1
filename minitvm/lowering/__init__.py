"""From a schedule to loops: bounds, nests, and the passes over them."""

# pyright: reportUnusedImport=false

from .accesses import Loop, Recording, Site, known_stores, record_accesses
from .bound_check import bound_check
from .bounds import Domain, infer
from .caution import Caution, Cautions
from .depth import within_stack
from .derive import Derivation, explain_bound, loops_of
from .double_buffer import DOUBLE, inject_double_buffer
from .explain import Explanation, StageReport, explain
from .flatten import flatten
from .guards import explain_guard
from .interval import sweep
from .machine import MOST_TURNS, element_size, machine, memory_of, prefix, room, using
from .nest import nest
from .normalize import normalize
from .partition import partition
from .phases import insert, swap
from .pipeline import PASSES, START, Pass, Watch, lower_state
from .program import Program, allocate
from .statements import every, inner, peeled, replace_marked
from .storage import storage_rewrite
from .tidy import tidy
from .tighten import tighten
from .units import COMPUTE, LOAD, STORE, UNITS, blocks, unit
from .unroll import unroll
from .unsafe_select import rewrite_unsafe_select
from .vectorize import vectorize
from .vthread import inject_virtual_thread
