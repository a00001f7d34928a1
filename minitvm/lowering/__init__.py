"""Lower a schedule to loops: infer bounds, build loop nests, and run passes over them."""

# pyright: reportUnusedImport=false

from .accesses import Access, Loop, Recording, record_accesses
from .budget import MAX_OPERATIONS, cost, operations, width
from .count import GuardedStore, box, conjuncts, distinct, known_stores, runs, times, work
from .cross_thread import CROSS_THREAD, CrossThread
from .depth import within_stack
from .double_buffer import DOUBLE, inject_double_buffer
from .flatten import flatten
from .machine import (
    MAX_ITERATIONS,
    SCOPES,
    capacity,
    element_size,
    machine,
    memory_of,
    prefix,
    using,
)
from .nest import nest
from .normalize import normalize
from .partition import certain_iterations, partition
from .phases import insert, swap
from .pipeline import FIRST, PASSES, START, Pass, Watch, lower_state
from .prepack import prepack_stages
from .regions import (
    Domain,
    Guard,
    Interval,
    LoweringContext,
    Read,
    allocate,
    infer,
    memory_scope,
    sweep,
)
from .statements import peeled, redirect, replace_marked
from .storage import storage_rewrite
from .tidy import tidy
from .tighten import tighten
from .units import COMPUTE, LOAD, STORE, UNITS, blocks, unit
from .unroll import unroll
from .unsafe_select import rewrite_unsafe_select
from .vectorize import lanewise, vectorize
from .vthread import inject_virtual_thread
