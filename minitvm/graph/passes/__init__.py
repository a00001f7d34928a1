"""Passes: pure functions that rewrite a network into one that computes the same."""

# pyright: reportUnusedImport=false
from .fuse import fuse
from .split import split_concatenate
