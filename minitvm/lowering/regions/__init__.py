"""The region, guards and memory of each stage."""

# pyright: reportUnusedImport=false

from .axes import loop_variable
from .bounds import data_domain, infer
from .context import Context, allocate
from .domain import Demand, Domain, Guard, Read
from .interval import Interval, sweep
from .scopes import hosts, memory_scope
