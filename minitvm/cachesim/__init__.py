"""Simulate caches: count hits and misses, find the cause of each miss, measure reuse distances."""

# pyright: reportUnusedImport=false

from .cache import Cache
from .kernels import CAPACITY, COMPULSORY, CONFLICT, HIT, compiled
from .lines import Accesses, footprint, previous
from .replay import OUTCOMES, Counts, Replay, simulate
from .reuse import Histogram, histogram, miss_ratio_curve, reuse_distances
