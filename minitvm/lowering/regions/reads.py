"""The parts of a stage's results that its readers need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from minitvm import schedule, tensor, tir

from .domain import Domain, Read
from .interval import Interval, sweep


def needs_whole(reader: schedule.Stage, op: tensor.ComputeOp) -> bool:
    """Return whether `reader` needs a whole result of `op`: an extern op's input, a scan's init."""
    match reader.op:
        case tensor.ExternOp(inputs=read) | tensor.ScanOp(inits=read):
            return any(t.op is op for t in read)
        case _:
            return False


def _reads(reader: tensor.ComputeOp, op: tensor.ComputeOp) -> bool:
    """Return whether `reader` reads a result of `op`."""
    return any(t.op is op for t in reader.input_tensors)


def reads_of(
    state: schedule.State, op: tensor.ComputeOp, fixed: set[tir.Var], domains: dict[str, Domain]
) -> Iterator[Read]:
    """Yield every load of a result of `op`, with the interval that it reads for fixed loops."""
    for reader in state.stages:
        if isinstance(reader.op, tensor.ScanOp):
            yield from _rows(reader, reader.op, op, fixed, domains)
        if not isinstance(reader.op, tensor.ComputeOp) or not _reads(reader.op, op):
            continue
        values = domains[reader.name].values if reader.name in domains else {}
        for n in (n for e in tensor.parts(reader.op) for n in tir.walk(e)):
            if _loads(n, op):
                at = zip(n.indices, op.shape, strict=True)
                spans = tuple(_span(i, size, values, fixed) for i, size in at)
                yield Read(reader.name, n, spans)


def _loads(n: object, op: tensor.ComputeOp) -> TypeGuard[tir.Load]:
    return isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor) and n.buffer.op is op


def _span(
    i: tir.Index, size: tir.Index, values: dict[tensor.Axis, tir.Index], fixed: set[tir.Var]
) -> Interval:
    """Return the interval of an index; the whole dimension if the index comes from data."""
    if any(isinstance(n, tir.AsIndex) for n in tir.walk(i)):
        return 0, tir.sub(size, 1)
    return sweep(tir.substitute(i, values), fixed)


def _rows(
    reader: schedule.Stage,
    scan: tensor.ScanOp,
    op: tensor.ComputeOp,
    fixed: set[tir.Var],
    domains: dict[str, Domain],
) -> Iterator[Read]:
    """For each update of the scan that `op` computes, yield the scan's read of its current row."""
    for t in scan.updates:
        if t.op is op:
            time_range = sweep(domains[reader.name].values[scan.scan_axis], fixed)
            row = tir.Load(t, (scan.scan_axis, *op.axis[1:]), t.dtype)
            yield Read(reader.name, row, (time_range, *((0, tir.sub(n, 1)) for n in op.shape[1:])))
