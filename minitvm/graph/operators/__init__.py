"""The operators of graphs: a table with the formula, numpy reference and kind of each."""

# pyright: reportUnusedImport=false
from . import reference
from .operator import Fusion, Operator, type_of
from .table import OPERATORS, call, operator
