"""Which part of each stage is computed where, under which guards, and where it is stored."""

# pyright: reportUnusedImport=false

from .axes import loop_variable
from .bounds import data_domain, infer
from .context import Context, allocate
from .domain import Demand, Domain, Guard, Read
from .interval import Interval, sweep
from .scopes import hosts, memory_scope
