"""Passes over networks: pure functions from a graph to a graph that computes the same."""

# pyright: reportUnusedImport=false
from .attention import merge_attention
from .batch_norm import fold_batch_norm
from .fold import add_param, are_known, fold_constants, pruned
from .formula import best_formula, choose_formulas, other_formulas, use_formulas
from .fuse import fuse, fusion_groups, post_dominators
from .integers import MEANS, MOVES, PRODUCTS, Integers, integers, output_axis
from .layout import LayoutCut, assign_layouts, layout_cut
from .offload import tiling_of
from .parallel import joined, merge_parallel, parallel_chains
from .simplify import merge_same, simplify
from .split import split_concatenate, sum_of_convolutions
from .weights import bfloat16_weights, int8_weights
