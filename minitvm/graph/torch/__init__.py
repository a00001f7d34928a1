"""Read networks from modules of torch."""

# pyright: reportUnusedImport=false
from .convert import from_torch
from .export import imported
from .table import OPERATORS
