"""Simulated caches: who hits, who misses and why, and how far apart two uses of a line are."""

# pyright: reportUnusedImport=false

from .cache import Cache
from .kernels import CAPACITY, COMPULSORY, CONFLICT, HIT
from .lines import Accesses, footprint, previous
from .replay import OUTCOMES, Replay, simulate
from .reuse import Histogram, histogram, miss_ratio_curve, reuse_distances
