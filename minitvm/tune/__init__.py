"""Tuning, as both searchers share it: candidates as rows of integers, measured and recorded."""

# pyright: reportUnusedImport=false

from .sketch import Hole, Sketch
from .space import (
    Gene,
    Rows,
    Space,
    choice_gene,
    divisors,
    first_of_each,
    number_gene,
    sizes_gene,
    split_gene,
)
from .task import Candidate, Task, flops_of
