"""Read networks from modules of torch."""

# pyright: reportUnusedImport=false
from .convert import from_torch
from .table import OPERATORS
