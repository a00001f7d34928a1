"""lower() and build(): from a schedule to loops, from loops to a function that runs."""

# pyright: reportUnusedImport=false

from minitvm.codegen import TARGETS

from .build import build, lower
