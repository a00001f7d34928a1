"""lower() turns a schedule into loops; build() turns loops into a callable function."""

# pyright: reportUnusedImport=false

from minitvm.codegen import TARGETS

from .build import build, lower
