"""Named features by which a cost model describes programs, computed without building them.

    NAMES                       the columns, the same for every sketch of every task
    features(sketch, rows)      float32[candidates, len(NAMES)], in log2(1 + x)

The heaviest SLOTS statements of a program have STATEMENT columns each, the heaviest first; unused
slots contain zeros. The columns follow the groups of Ansor's features (Zheng et al. 2020).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import cachesim

from . import kernel
from .affine import Num
from .kernel import CHUNK, Floats, Packed
from .knob import Ints
from .operations import OPERATIONS
from .packed import all_packed, footprint_chunks, rows_of
from .sketch import Sketch
from .space import Rows
from .statements import Batch, Statement, statements

Matrix: TypeAlias = npt.NDArray[np.float32]
VERSION = 2  # the version of the columns; stored models name it
SLOTS = 3  # statements with columns of their own
ACCESSES = 5  # accesses of a statement with columns of their own

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
COLUMN = {name: n for n, name in enumerate(STATEMENT)}
MARK_WIDTH = 3 + len(POSITIONS)
THREADS = {"block": "blockIdx", "thread": "threadIdx", "vthread": ("vthread", "cthread")}
NAMES: tuple[str, ...] = (
    *(f"{n}.{name}" for n in range(SLOTS) for name in STATEMENT),
    *(f"program.{name}" for name in PROGRAM),
)


def features(sketch: Sketch, rows: Rows) -> Matrix:
    """Return the features of candidates, float32[candidates, len(NAMES)]."""
    return statements(sketch).table(rows, lambda batch: features_of(batch, all_packed(batch)))


def features_of(batch: Batch, packed: Sequence[Packed]) -> Matrix:
    """Return the features of candidates; `packed` has the statements of `batch` as arrays."""
    table = np.zeros((batch.count, len(NAMES)), np.float32)
    if batch.count == 0:
        return table
    times = np.array([p.extent.prod(axis=0) for p in packed])
    costs = np.array([sum(s.operations) + len(s.accesses) for s in batch.statements])
    order = np.argsort(-times * costs[:, None], axis=0, kind="stable")
    for n, (s, arrays) in enumerate(zip(batch.statements, packed, strict=True)):
        slot = np.argmax(order == n, axis=0)
        first = np.where(slot < SLOTS, slot * len(STATEMENT), -1)
        if (first >= 0).any():
            _fill(table, first, s, arrays, times[n])
    _fill_program(table, batch, times)
    for begin in range(0, batch.count, CHUNK):
        part = table[begin : begin + CHUNK]
        part += 1
        np.log2(part, out=part)
    return table


def _fill(out: Matrix, first: Ints, s: Statement, arrays: Packed, times: Floats) -> None:
    """Write the columns of one statement from column `first` on; -1 leaves a candidate out."""
    compiled = cachesim.compiled
    numbers = _numbers(s, arrays, times)
    columns = np.array([COLUMN[name] for name in numbers], np.int64)
    values = rows_of([*numbers.values()], len(out))
    compiled(kernel.scatter)(values, columns, first, out)

    def begin(name: str) -> Ints:
        return np.where(first >= 0, first + COLUMN[name], -1)

    kinds = np.array([MARKS.index(x.kind) if x.kind in MARKS else -1 for x in s.loops], np.int64)
    reduce = np.array([x.reduce for x in s.loops], np.int64)
    compiled(kernel.marks)(
        arrays, kinds, reduce, begin("vectorize.loops"), out, len(MARKS), MARK_WIDTH
    )
    about = np.array(
        [[a.bytes, a.read, a.write, a.shared, a.others] for a in s.accesses], np.float64
    )
    sizes, logs, total = about[:, 0].copy(), np.log2(arrays.extent), float(sum(s.operations))
    access0, intensity1 = begin("access0.read"), begin("intensity1")
    for f in footprint_chunks(arrays):
        compiled(kernel.accesses)(
            arrays, f.begin, f.touched[0], f.step, f.run, about, access0, out, ACCESSES
        )
        compiled(kernel.curve)(
            arrays.extent, logs, f.begin, f.touched[0], sizes, total, intensity1, out, CURVE
        )


def _numbers(s: Statement, arrays: Packed, times: Floats) -> dict[str, Num]:
    """Return the columns of a statement that need no footprint; leave out columns of zeros."""
    columns: dict[str, Num] = {
        f"op.{name}": n * times for name, n in zip(OPERATIONS, s.operations, strict=True) if n
    }
    for x in s.loops:
        for name, tags in THREADS.items():
            if x.thread.startswith(tags):
                columns[name] = columns.get(name, 1) * x.extent
                columns["gpu"] = 1
    if not (isinstance(s.allocated, int) and s.allocated == 0):
        outer = arrays.extent[: s.allocated_in].prod(axis=0)
        columns["alloc.bytes"] = s.allocated * s.accesses[0].bytes
        columns["alloc.total"] = s.allocated * outer
        columns["alloc.outer"] = outer
        columns["alloc.inner"] = times / outer
    columns["iterations"] = times
    columns["loops"] = (arrays.extent > 1).sum(axis=0)
    columns["auto_unroll"] = s.auto_unroll
    return columns


def _fill_program(out: Matrix, batch: Batch, times: Floats) -> None:
    """Write the columns of the whole program."""
    begin = SLOTS * len(STATEMENT)
    works = [sum(s.operations) for s in batch.statements]
    bytes_moved = [sum(a.bytes for a in s.accesses) for s in batch.statements]
    stored = [s.allocated * s.accesses[0].bytes for s in batch.statements]
    columns = (len(works), works @ times, times.sum(axis=0), bytes_moved @ times, sum(stored))
    for n, values in enumerate(columns):
        out[:, begin + n] = values
