"""Simulated caches: hits, misses and their causes, and reuse distances."""

# pyright: reportUnusedImport=false

from .cache import Cache
from .kernels import CAPACITY, COMPULSORY, CONFLICT, HIT
from .lines import Accesses, footprint, previous
from .replay import OUTCOMES, Replay, simulate
from .reuse import Histogram, histogram, miss_ratio_curve, reuse_distances
