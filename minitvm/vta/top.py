"""Operators on packed data, and their tiled schedules.

    x = top.conv2d(data, weight, strides=1, padding=1)    int32 sums of int8 products
    y = top.requantize(x, bias, shift=8)                  int8 again: min(max(x + b >> 8, 0), 127)
    s = top.schedule(y, Tiling(h=7, w=14, oc=4, ic=1, oc_threads=2))
    f = vta.build(s, [data, weight, bias, y])

Source: top/vta_conv2d.py and top/vta_dense.py of VTA, and its tutorial convolution_opt.
"""

from __future__ import annotations

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, cast

from minitvm import te
from minitvm.base import ArgumentError, ExprError, ScheduleError, check_kind, is_count

from .environment import Environment, get_env

CONV2D, DENSE, WIDENED, SCALED = "vta_conv2d", "vta_dense", "vta_widened", "vta_scaled"  # tags


@dataclass(frozen=True, slots=True, kw_only=True)
class Tiling:
    """The sizes of a tile and the numbers of virtual threads.

    Each size, times its number of threads, must divide the size of the layer.

    h, w         rows and columns of the result; a dense layer has 1 row, and its batch as columns
    oc, ic       blocks of output channels, and blocks of input channels loaded at a time
    oc_threads   the number of virtual threads along the output channels, each with its own tile
    h_threads    the number of virtual threads along the rows
    """

    h: int = 1
    w: int = 1
    oc: int = 1
    ic: int = 1
    oc_threads: int = 1
    h_threads: int = 1

    def __post_init__(self) -> None:
        for f in fields(self):
            n = getattr(self, f.name)
            if type(n) is not int or n < 1:
                raise ArgumentError(f"Tiling({f.name}={n!r})", "not an int of at least 1")

    @property
    def threads(self) -> int:
        """Return the number of virtual threads; each uses its own part of the memories."""
        return self.oc_threads * self.h_threads


# --- formulas ------------------------------------------------------------------------------------


def conv2d(
    data: te.Tensor,
    weight: te.Tensor,
    strides: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    name: str = "conv",
) -> te.Tensor:
    """Convolve packed data with packed weights into int32 [n, oc, h, w, BATCH, BLOCK_OUT].

    data     int8 [n, ic, h, w, BATCH, BLOCK_IN]; the transfer adds zero padding
    weight   int8 [oc, ic, kh, kw, BLOCK_OUT, BLOCK_IN]
    """
    env = get_env()
    (n, ic, height, width), (oc, _, kh, kw) = _shapes(env, data, weight, 4)
    (sy, sx), (py, px) = _pair("strides", strides, 1), _pair("padding", padding, 0)
    h, w = (height + 2 * py - kh) // sy + 1, (width + 2 * px - kw) // sx + 1
    if min(h, w) < 1:
        why = f"a {kh} x {kw} kernel does not fit into {height} x {width} with padding {py}, {px}"
        raise ExprError(f"conv2d({data.name}, {weight.name})", why, "more padding")
    source = _padded(data, (py, px)) if py or px else data
    axes = [te.reduce_axis((0, d), name=k) for d, k in ((ic, "ko"), (kh, "dy"), (kw, "dx"))]
    ki = te.reduce_axis((0, env.BLOCK_IN), name="ki")
    ko, dy, dx = axes

    def total(b: Any, c: Any, y: Any, x: Any, bi: Any, ci: Any) -> Any:
        a = source(b, ko, y * sy + dy, x * sx + dx, bi, ki).astype(env.acc_dtype)
        product = a * weight(c, ko, dy, dx, ci, ki).astype(env.acc_dtype)
        return te.sum(product, axis=[*axes, ki])

    shape = (n, oc, h, w, env.BATCH, env.BLOCK_OUT)
    return te.compute(shape, total, name=name, tag=CONV2D)


def dense(data: te.Tensor, weight: te.Tensor, name: str = "dense") -> te.Tensor:
    """Multiply packed data by transposed weights into int32 [n, oc, BATCH, BLOCK_OUT].

    data     int8 [n, ic, BATCH, BLOCK_IN]
    weight   int8 [oc, ic, BLOCK_OUT, BLOCK_IN]
    """
    env = get_env()
    (n, ic), (oc, _) = _shapes(env, data, weight, 2)
    ko, ki = te.reduce_axis((0, ic), name="ko"), te.reduce_axis((0, env.BLOCK_IN), name="ki")

    def total(b: Any, c: Any, bi: Any, ci: Any) -> Any:
        a = data(b, ko, bi, ki).astype(env.acc_dtype)
        return te.sum(a * weight(c, ko, ci, ki).astype(env.acc_dtype), axis=[ko, ki])

    return te.compute((n, oc, env.BATCH, env.BLOCK_OUT), total, name=name, tag=DENSE)


def requantize(
    x: te.Tensor,
    bias: te.Tensor | None = None,
    residual: te.Tensor | None = None,
    *,
    shift: int = 8,
    residual_shift: int | None = None,
    low: int = 0,
    high: int = 127,
) -> te.Tensor:
    """Return int8 min(max((x + bias >> shift) + residual, low), high); low = 0 is a ReLU.

    With residual_shift, the result is min(max(x + bias + (residual << residual_shift) >> shift,
    low), high): the steps of the residual may be larger than those of the result.

    bias       int32 [oc, BATCH, BLOCK_OUT], one number per output channel
    residual   int8 or int32, of the shape of x
    """
    check_kind("requantize: x", x, te.Tensor, fix="top.conv2d(data, weight)")
    limits = is_count(low, -128) and is_count(high, -128) and low <= high <= 127
    shifts = (shift, 0 if residual_shift is None else residual_shift)
    if not all(is_count(n, 0) and n <= 31 for n in shifts) or not limits:
        raise ArgumentError(
            f"requantize(shift={shifts!r:.60}, low={low!r:.60}, high={high!r:.60})",
            "expected shifts from 0 to 31 and -128 <= low <= high <= 127",
            "shift=8, low=0, high=127",
        )
    total = x
    if bias is not None:
        _check_operand("bias", bias, (x.shape[1], *x.shape[-2:]), (get_env().acc_dtype,))
        total = te.compute(x.shape, lambda *i: x(*i) + bias(i[1], *i[-2:]), name="biased")
    if residual is not None and residual_shift is not None:
        total, residual = _plus(total, residual, residual_shift), None
    shifted_total = te.compute(x.shape, lambda *i: total(*i) >> shift, name="shifted")
    with_residual = shifted_total if residual is None else _plus(shifted_total, residual)
    least = te.compute(x.shape, lambda *i: te.max(with_residual(*i), low), name="least")
    most = te.compute(x.shape, lambda *i: te.min(least(*i), high), name="most")
    return te.compute(x.shape, lambda *i: most(*i).astype(get_env().out_dtype), name="narrow")


def _plus(x: te.Tensor, residual: te.Tensor, shift: int = 0) -> te.Tensor:
    """Return x + (residual << shift); a narrow residual is widened to accumulators first."""
    wide, narrow = get_env().acc_dtype, get_env().out_dtype
    _check_operand("residual", residual, tuple(x.shape), (narrow, wide))
    loaded = residual
    if str(residual.dtype) == narrow:
        loaded = te.compute(
            x.shape, lambda *i: residual(*i).astype(wide), name=f"{residual.name}_wide", tag=WIDENED
        )
    scaled = loaded
    if shift:
        scaled = te.compute(x.shape, lambda *i: loaded(*i) << shift, name="scaled", tag=SCALED)
    return te.compute(x.shape, lambda *i: x(*i) + scaled(*i), name="added")


def _check_operand(
    what: str, t: te.Tensor, shape: tuple[Any, ...], dtypes: tuple[str, ...]
) -> None:
    check_kind(what, t, te.Tensor, fix="te.placeholder(...)")
    if tuple(t.shape) != shape or str(t.dtype) not in dtypes:
        raise ExprError(
            f"{what} {t.name}: {t.dtype} {tuple(t.shape)}",
            f"expected {' or '.join(dtypes)} of shape {shape}",
            "vta.pack_bias, vta.pack, or astype on the CPU",
        )


def _padded(data: te.Tensor, padding: tuple[int, int]) -> te.Tensor:
    """Pad `data` with zeros around its rows and columns."""
    n, ic, height, width, *element = data.shape
    (py, px), zero = padding, te.const(0, str(data.dtype))

    def value(b: Any, c: Any, y: Any, x: Any, *i: Any) -> Any:
        is_inside = te.all(y >= py, y < height + py, x >= px, x < width + px)
        return te.if_then_else(is_inside, data(b, c, y - py, x - px, *i), zero)

    shape = (n, ic, height + 2 * py, width + 2 * px, *element)
    return te.compute(shape, value, name=f"{data.name}_padded")


def _shapes(
    env: Environment, data: te.Tensor, weight: te.Tensor, dims: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the first `dims` sizes of both tensors: blocks, rows and columns.

    Raises ExprError for tensors that are not packed, have a wrong dtype or do not fit together.
    """
    check_kind("data", data, te.Tensor, fix="te.placeholder(...)")
    check_kind("weight", weight, te.Tensor, fix="te.placeholder(...)")
    for t, element, dtype in (
        (data, (env.BATCH, env.BLOCK_IN), env.inp_dtype),
        (weight, (env.BLOCK_OUT, env.BLOCK_IN), env.wgt_dtype),
    ):
        sizes = tuple(t.shape)
        constant = all(isinstance(n, int) for n in sizes)
        if len(sizes) != dims + 2 or not constant or sizes[dims:] != element:
            raise ExprError(
                f"{t.name} of shape {sizes}",
                f"expected {dims} constant sizes, followed by the shape of an element, {element}",
                "vta.pack_data, vta.pack_weight",
            )
        if str(t.dtype) != dtype:
            why = f"the matrix unit multiplies {dtype}"
            raise ExprError(f"{t.name} of {t.dtype}", why, f"te.placeholder(shape, {dtype!r})")
    a, b = (tuple(n for n in t.shape[:dims] if isinstance(n, int)) for t in (data, weight))
    if a[1] != b[1]:
        why = f"the first has {a[1]} blocks of input channels, the second {b[1]}"
        raise ExprError(f"{data.name} and {weight.name}", why)
    return a, b


def _pair(what: str, sizes: Any, least: int) -> tuple[int, int]:
    """Return `sizes`, one int or two, as a pair; raise ExprError if an int is below `least`."""
    several = isinstance(sizes, list | tuple)
    pair = tuple(cast("Sequence[Any]", sizes)) if several else (sizes, sizes)
    if len(pair) != 2 or not all(is_count(n, least) for n in pair):
        why = f"expected one or two ints of at least {least}"
        raise ExprError(f"{what}={reprlib.repr(sizes)}", why, f"{what}=(1, 1)")
    return int(pair[0]), int(pair[1])


# --- schedules -----------------------------------------------------------------------------------


def schedule(out: te.Tensor, tiling: Tiling) -> te.Schedule:
    """Schedule a product or convolution, and the elementwise stages after it, in tiles.

    out   the last stage, which narrows to int8: the result of requantize

        for each tile (interleaved by virtual threads):
          for each step of the input channels:
            load data, load weights, multiply
          bias, shift, ...                            on the ALU
          store

    Raises ScheduleError for a tiling that does not divide the layer, or a formula of another form.
    lower() raises an error for tiles that do not fit into the memories.
    """
    check_kind("schedule: out", out, te.Tensor, fix="top.requantize(x)")
    check_kind("schedule: tiling", tiling, Tiling, fix="top.Tiling(h=7, w=7)")
    env = get_env()
    product, later = _stages(out)
    s = te.create_schedule(out.op)
    at, stored = _tiles(s, out, tiling)
    s[out].pragma(stored, env.dma_copy)
    for op in (*later, product):
        s[op].set_scope(env.acc_scope)
        s[op].compute_at(s[out], at)
    for op in later:
        s[op].pragma(op.axis[0], env.alu)
        for operand in op.input_tensors:
            if _is_loaded(operand):
                _load(s, operand, env.acc_scope, op, (out.op, at))
    step = _steps(s, product, tiling)
    for source, scope in zip(product.input_tensors, (env.inp_scope, env.wgt_scope), strict=True):
        _load(s, source, scope, product, (product, step))
    return s


def _stages(out: te.Tensor) -> tuple[te.ComputeOp, list[te.ComputeOp]]:
    """Return the product, and the stages between the product and `out`, the last one first.

    Raises ScheduleError if `out` does not have this form.
    """
    stages: list[te.ComputeOp] = []
    op = out.op
    while isinstance(op, te.ComputeOp):
        stages.append(op)
        computed = [x.op for x in op.input_tensors if not _is_loaded(x)]
        scaled = [x for x in computed if isinstance(x, te.ComputeOp) and x.tag == SCALED]
        stages += scaled
        sources = [x for x in computed if x not in scaled]
        if op.tag in (CONV2D, DENSE) or len(sources) != 1:
            break
        (op,) = sources
    if len(stages) < 2 or stages[-1].tag not in (CONV2D, DENSE):
        raise ScheduleError(
            f"vta.top.schedule({out.name})",
            f"{op.name} is not a packed product followed by elementwise stages",
            "top.requantize(top.conv2d(data, weight))",
        )
    return stages[-1], stages[1:-1]


def _axes(s: te.Schedule, t: te.Tensor | te.ComputeOp) -> tuple[te.Axis, ...]:
    """Return the current axes of a stage."""
    op = s[t].op
    assert isinstance(op, te.ComputeOp), "inputs have no stage that computes them"
    return op.axis


def _tiles(s: te.Schedule, out: te.Tensor, tiling: Tiling) -> tuple[te.Axis, te.Axis]:
    """Tile and bind `out`; return the innermost loop over tiles and the outermost in a tile."""
    b, c, *space, _, _ = _axes(s, out)
    rows = [("yo", space[0], tiling.h)] if space else []
    sizes = [("co", c, tiling.oc), *rows, ("xo", space[1] if space else b, tiling.w)]
    if not space and (tiling.h > 1 or tiling.h_threads > 1):
        what = f"h={tiling.h}, h_threads={tiling.h_threads} of {out.name}"
        why = "a dense layer has no rows; w tiles its batch"
        raise ScheduleError(what, why, "w=..., oc_threads=...")
    outer: dict[str, te.Axis] = {"b": b} if space else {}
    inner: list[te.Axis] = []
    for name, axis, size in sizes:
        _check_divides(out, axis, size)
        outer[name], rest = s[out].split(axis, factor=size)
        inner.append(rest)
    s[out].reorder(*outer.values(), *inner)
    at = list(outer.values())[-1]
    for name, n in (("co", tiling.oc_threads), ("yo", tiling.h_threads)):
        if n > 1:
            _check_divides(out, outer[name], n)
            outer[name], thread = s[out].split(outer[name], factor=n)
            s[out].reorder(thread, next(iter(outer.values())))
            s[out].bind(thread, te.thread_axis("cthread"))
    return at, inner[0]


def _check_divides(t: te.Tensor | te.ComputeOp, axis: te.Axis, size: int) -> None:
    if isinstance(axis.extent, int) and axis.extent % size:
        what = f"tiles of {size} along {axis.name!r} of {t.name}"
        why = f"{size} does not divide {axis.extent}"
        raise ScheduleError(what, why, "one of vta.legal_tilings(layer)")


def _steps(s: te.Schedule, product: te.ComputeOp, tiling: Tiling) -> te.Axis:
    """Order and tensorize the loops of the product; return the loop over steps of input channels.

    The pipeline needs some cycles between two additions to the same accumulator. Therefore a loop
    over other accumulators is innermost, not a loop of the reduction.
    """
    env = get_env()
    b, c, *space, bi, oi = product.axis
    ko, *window, ki = product.reduce_axis
    _check_divides(product, ko, tiling.ic)
    step, inner_step = s[product].split(ko, factor=tiling.ic)
    if not space:
        order = [step, inner_step, c, b]
    else:
        (y, x), (dy, dx) = space, window
        hides_latency = tiling.oc * tiling.h >= env.config.rmw_distance
        order = [b, step, inner_step, *((x, dy, dx, c, y) if hides_latency else (dy, dx, c, y, x))]
    s[product].reorder(*order, bi, oi, ki)
    s[product].tensorize(bi, env.gemm)
    return step


def _is_loaded(t: te.Tensor) -> bool:
    """Return whether an operand is loaded from main memory: an input, or a widened input."""
    return isinstance(t.op, te.PlaceholderOp) or (
        isinstance(t.op, te.ComputeOp) and t.op.tag == WIDENED
    )


def _load(
    s: te.Schedule, source: te.Tensor, scope: str, reader: te.ComputeOp, place: tuple[Any, te.Axis]
) -> None:
    """Load a tile of `source` into `scope`, at the (stage, loop) that `place` gives.

    If `source` pads or widens an input, the transfer does that too.
    """
    if isinstance(source.op, te.PlaceholderOp):
        t = s.cache_read(source, scope, [reader])
    else:
        t = source
        s[t].set_scope(scope)
    stage, axis = place
    s[t].compute_at(s[stage], axis)
    s[t].pragma(_axes(s, t)[0], get_env().dma_copy)
