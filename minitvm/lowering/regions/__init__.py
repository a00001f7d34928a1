"""Find the points that each stage computes where it is attached, and the memory for them.

`infer` finds the domain of each stage, consumers first: what its readers need (reads.py), the
region that contains it (bounds.py, with interval.py), what store_at keeps (sliding.py), its loops
and the values of its axes (axes.py), and its guards (guards.py). `allocate` does this and gives
each tensor a buffer (context.py).

fixed loops    enclose a stage; their variables have one value while it is computed
shared loops   enclose a stage too, but are bound to threads that share its memory: the stage is
               computed once for all their iterations (scopes.py)
varying loops  all loops that are not fixed
region         the first element and the extent that a stage computes, per dimension
window         the region as it moves with the loops around the stage
hull           the union of all windows of an outer loop
row            the part of a tensor that belongs to one time step of a scan (scan_time.py)
"""

# pyright: reportUnusedImport=false

from .axes import loop_variable
from .bounds import infer, init_domain
from .context import LoweringContext, allocate
from .domain import Domain, Guard, Read
from .interval import Interval, sweep
from .scopes import enclosing_loops, memory_scope
