"""The lowering context: a normalized schedule with its regions and buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError

from .bounds import infer
from .domain import Domain
from .interval import sweep
from .scopes import memory_scope


@dataclass(frozen=True, slots=True, eq=False)
class LoweringContext:
    """A normalized state with the domain of each stage and the memory of each tensor.

    not_allocated    the tensors that are stored in arguments, or in other tensors' buffers
    in_scan_result   the tensors that are stored in the result of a scan
    """

    state: schedule.State
    domains: dict[str, Domain]
    buffers: dict[tensor.Tensor, tir.Buffer]
    not_allocated: frozenset[tensor.Tensor]
    in_scan_result: frozenset[tensor.Tensor]

    def place(self, t: tensor.Tensor, indices: tuple[tir.Index, ...]) -> tuple[tir.Index, ...]:
        """Return the indices of t[indices] in the buffer of `t`, where its region is stored."""
        stage = self.state.owner(t)
        if not isinstance(stage.op, tensor.ComputeOp) or t in self.in_scan_result:
            return indices
        domain = self.domains[stage.name]
        at = zip(indices, stage.op.axis, strict=True)
        if domain.stored:
            local = tuple(domain.stored[a].place(i) for i, a in at)
        else:
            local = tuple(tir.sub(i, domain.start[a]) for i, a in at)
        if stage.layout is None:
            return local
        return schedule.layout_index(stage.layout[1], stage.layout[0], local)

    def read(self, e: tir.Expr, values: dict[tensor.Axis, tir.Index]) -> tir.Expr:
        """Substitute `values` for the axes in the formula `e`, and buffers for the tensors."""
        return tir.rewrite_expr(tir.substitute(e, values), self.redirect)

    def redirect(self, n: tir.Expr) -> tir.Expr:
        """Turn a load of a tensor into a load of its buffer; return other expressions unchanged."""
        if isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor):
            return tir.Load(self.buffers[n.buffer], self.place(n.buffer, n.indices), n.dtype)
        return n


def allocate(
    state: schedule.State, arguments: Mapping[tensor.Tensor, tir.Buffer] | None = None
) -> LoweringContext:
    """Infer the regions of a normalized state, and give each tensor a buffer of its region's size.

    arguments   the buffers that the caller allocates; by default, one for each input and output
    """
    if arguments is None:
        ends = [s.op for s in state.stages if s.is_output or isinstance(s.op, tensor.PlaceholderOp)]
        tensors = (tensor.tensor_of(op, i) for op in ends for i in range(len(op.dtypes)))
        arguments = {t: tir.Buffer(t.name, t.shape, t.dtype) for t in tensors}
    domains, buffers, rows = infer(state), dict(arguments), _rows_of_scans(state)
    for stage in state.stages:
        if not isinstance(stage.op, tensor.PlaceholderOp):
            for i in range(len(stage.op.dtypes)):
                t = tensor.tensor_of(stage.op, i)
                if t not in buffers and t not in rows:
                    shape = _shape(stage, t, domains)
                    scope = memory_scope(state, stage)
                    buffers[t] = tir.Buffer(t.name, shape, t.dtype, scope, _strides(stage, shape))
    buffers |= {t: buffers[scan] for t, scan in rows.items()}
    return LoweringContext(state, domains, buffers, frozenset((*arguments, *rows)), frozenset(rows))


def _rows_of_scans(state: schedule.State) -> dict[tensor.Tensor, tensor.Tensor]:
    """Map each update and state of a scan to the scan's result, in which it is stored."""
    results: dict[tensor.Tensor, tensor.Tensor] = {}
    for stage in state.stages:
        if isinstance(stage.op, tensor.ScanOp):
            for i, pair in enumerate(zip(stage.op.updates, stage.op.states, strict=True)):
                results |= dict.fromkeys(pair, tensor.tensor_of(stage.op, i))
    return results


def _strides(stage: schedule.Stage, shape: tuple[tir.Index, ...]) -> tuple[tir.Index, ...]:
    """Return the strides that storage_align asks for, or () without it.

    A row of 16 elements with factor 2 and offset 1 becomes 17: strides (17, 1). A layout permutes
    the dimensions first.
    """
    axes, layout = stage.layout or ((), ())
    aligned = {
        layout.index(axes[d]) if axes else d: (factor, offset) for d, factor, offset in stage.aligns
    }
    strides: list[tir.Index] = []
    step: tir.Index = 1
    for d in reversed(range(len(shape))):
        factor, offset = aligned.get(d, (1, 0))
        step = tir.add(step, tir.floormod(tir.sub(offset, step), factor))
        strides.append(step)
        step = tir.mul(step, shape[d])
    return tuple(reversed(strides)) if aligned else ()


def _shape(
    stage: schedule.Stage, t: tensor.Tensor, domains: dict[str, Domain]
) -> tuple[tir.Index, ...]:
    """Return the shape of the buffer of the stage's output `t`.

    The buffer is as large as the region, or larger if store_at, registers or a layout need it.
    """
    if not isinstance(stage.op, tensor.ComputeOp):
        return t.shape
    domain = domains[stage.name]
    extents = [domain.extents[a] for a in stage.op.axis]
    if stage.scope == "local":
        extents = [_reach(domain, a) for a in stage.op.axis]
    if domain.stored:
        extents = [_stored_size(domain, a, n) for a, n in zip(stage.op.axis, extents, strict=True)]
    if stage.layout is None:
        return tuple(extents)
    at: list[tir.Index] = []
    for a, n in zip(stage.op.axis, extents, strict=True):
        last = tir.sub(n, 1)
        if not isinstance(last, int):
            why = "its size is not a constant where it is stored"
            raise LoweringError(f"transform_layout of {stage.name}", why)
        at.append(tir.Var(a.name, 0, max(0, last)))
    return tuple(
        tir.add(sweep(e, ())[1], 1)
        for e in schedule.layout_index(stage.layout[1], stage.layout[0], at)
    )


def _reach(domain: Domain, a: tensor.Axis) -> tir.Index:
    """Return the number of iterations over `a`, including those that guards skip.

    A tile in registers is this large: 17 columns in vectors of 16 take rows of 32, so that a masked
    vector in one row does not touch the next.
    """
    most = tir.upper_bound(tir.sub(domain.values[a], domain.start[a]))
    return domain.extents[a] if isinstance(most, float) else most + 1


def _stored_size(domain: Domain, a: tensor.Axis, reach: tir.Index) -> tir.Index:
    """Return the size of a dimension stored for an outer loop, with padding for masked vectors."""
    stored = domain.stored[a]
    more = tir.sub(reach, domain.extents[a])
    padding = more if not stored.fold and tir.lower_bound(more) >= 0 else 0
    return tir.add(stored.extent, padding)
