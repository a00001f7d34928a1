"""Tools for testing compilers: random schedules, comparisons of arrays, the peak of a machine."""

# pyright: reportUnusedImport=false

from .compare import assert_allclose, difference
from .peak import PeakShare, fma_peak, fma_run, interleaved, share_of_peak
from .schedules import RECIPES, Recipe, free_loops, pick, random_schedule, take_steps
