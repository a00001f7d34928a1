"""Passes over networks: pure functions from a graph to a graph that computes the same."""

# pyright: reportUnusedImport=false
from .attention import merge_attention
from .batch_norm import fold_batch_norm
from .fold import fold_constants
from .formula import best_formula, choose_formulas, other_formulas, use_formulas
from .fuse import fuse
from .int8_weights import int8_weights
from .layout import assign_layouts
from .parallel import merge_parallel
from .simplify import merge_same, simplify
from .split import split_concatenate
