"""Named features of candidates: what a cost model sees of a program, without making the program.

    NAMES                       the columns, the same for every sketch of every task
    features(sketch, rows)      float32[candidates, len(NAMES)], in log2(1 + x)

The heaviest SLOTS statements of a program have STATEMENT columns each, the heaviest first; unused
slots contain zeros. The columns follow the groups of Ansor's features (Zheng et al. 2020).
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from .sketch import Sketch
from .space import Rows

Matrix: TypeAlias = npt.NDArray[np.float32]
VERSION = 1  # of the columns; logs and models name it
SLOTS = 3  # statements with columns of their own
ACCESSES = 5  # accesses of a statement with columns of their own

OPERATIONS = ("mad", "add", "mul", "div", "compare", "math", "other", "int", "select")
POSITIONS = (
    *("none", "inner_spatial", "middle_spatial", "outer_spatial"),
    *("inner_reduce", "middle_reduce", "outer_reduce", "mixed"),
)
MARKS = ("vectorize", "unroll", "parallel")
ACCESS = (
    *("read", "write", "update", "bytes", "unique_bytes", "lines", "unique_lines"),
    *("loop_reuse", "serial_reuse", "no_reuse", "reuse_iterations", "reuse_bytes", "reuse_count"),
    *("bytes_per_use", "unique_bytes_per_use", "lines_per_use", "unique_lines_per_use", "stride"),
)
CURVE = 10  # points of the arithmetic intensity curve
STATEMENT = (
    *(f"op.{name}" for name in OPERATIONS),
    *(f"{m}.{f}" for m in MARKS for f in ("loops", "product", "extent", *POSITIONS)),
    *("gpu", "block", "thread", "vthread"),
    *(f"access{n}.{f}" for n in range(ACCESSES) for f in ACCESS),
    *(f"intensity{k + 1}" for k in range(CURVE)),
    *("alloc.bytes", "alloc.total", "alloc.outer", "alloc.inner"),
    *("iterations", "loops", "auto_unroll"),
)
PROGRAM = ("statements", "operations", "iterations", "accessed_bytes", "allocated_bytes")
NAMES: tuple[str, ...] = (
    *(f"{n}.{name}" for n in range(SLOTS) for name in STATEMENT),
    *(f"program.{name}" for name in PROGRAM),
)


def features(sketch: Sketch, rows: Rows) -> Matrix:
    """Return the features of candidates, float32[candidates, len(NAMES)]."""
    raise NotImplementedError
