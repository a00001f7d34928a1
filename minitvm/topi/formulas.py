"""What each formula of a convolution costs: `topi.formulas`, `topi.best_formula`.

All numbers follow from the shapes. n is the batch, c and o are input and output channels, and g
groups; the kernel has kh * kw elements, the output h * w pixels. Winograd's F(m x m, 3x3) has a =
m + 2 and p = n * ceil(h / m) * ceil(w / m) tiles.

           multiplications              weights             data
direct     n*h*w * o * c/g * kh*kw      o * c/g * kh*kw     input + output
rows       n*h*w' * o * c/g * kh*kw     o * c/g * kh*kw     input + 2 * rows + output
blocks     n*h*w * o * c/g * kh*kw      o * c/g * kh*kw     3 * (input + output) + 2 * padded
gemm       n*h*w * o * c/g * kh*kw      o * c/g * kh*kw     input + output
winograd   a*a * p * c * o              a*a * c * o         input + 2 * (V + M) + output

w' is w and the unused columns of a row. Intermediate tensors (rows, V, M) are written and read.

The expected error is relative to the largest result, for random data. A sum of k products in one
accumulator has the error 2^-24 * sqrt(k / 6) in float32. Winograd's sums are shorter, k = c, but
its output transform adds products that are larger than their sum: this multiplies the error by
`GROWTH`, which is 5/3 for F(2) and 31 for F(4).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minitvm import te
from minitvm.base import ExprError, Reason, Target, as_tuple

from .convolution import CONVOLUTION, Convolution
from .layouts import NCHW, NHWC

# For the matrices AT, BT, G of the transforms: max over k of sum over i of
# (AT[k, i] * |BT[i]| * |G[i]|)^2, divided by 3.
GROWTH = {2: 5 / 3, 4: 31.46}

FAR_BYTES_PER_CYCLE = 8  # bytes per cycle from the last cache or memory
NEAR_BYTES_PER_CYCLE = 32  # bytes per cycle from the second-level cache
MOVED_BYTES_PER_CYCLE = 12  # bytes that a change of the layout reads and writes in a cycle
SHIFTED = 1.15  # factor of products that read shifted rows: most vectors cross a cache line
BLOCKS = (16, 8)  # numbers of channels that "blocks" makes adjacent, if they divide all channels


@dataclass(frozen=True, slots=True)
class Formula:
    """One way to compute a convolution, and what it costs.

    name              "direct", "rows", "blocks", "gemm" or "winograd": the `method` of topi.conv2d
    tile              2 or 4 for Winograd's F(tile x tile, 3x3), otherwise 0
    multiplications   the number, without multiplications by constants of the transforms
    weight_bytes      the size of the kernel in the form that the products read
    data_bytes        the bytes that are read from and written to all other tensors
    error             the expected error, relative to the largest result
    why_not           why the formula cannot compute this convolution; "" if it can
    moved_bytes       the part of data_bytes that changes of the layout read and write
    pixels            the length of the rows that are cut into vectors; 0 if channels are
    """

    name: str
    tile: int
    multiplications: int
    weight_bytes: int
    data_bytes: int
    error: float
    why_not: str
    moved_bytes: int = 0
    pixels: int = 0

    @property
    def applies(self) -> bool:
        """Whether the formula can compute this convolution."""
        return not self.why_not

    def cycles(self, lanes: int, l2: int, cores: int = 1) -> float:
        """Estimate the cycles on `cores` cores with vectors of `lanes` elements.

        A core does two vector multiply-adds per cycle. Weights that fit in the second-level cache
        are assumed to be there. Other weights come from beyond it, as in a network, where
        other layers use the caches between two calls. All cores share the
        bandwidth beyond it.
        """
        far_cycles = self.weight_bytes / FAR_BYTES_PER_CYCLE if self.weight_bytes > l2 else 0
        near_cycles = (self.data_bytes - self.moved_bytes) / NEAR_BYTES_PER_CYCLE
        near_cycles += self.moved_bytes / MOVED_BYTES_PER_CYCLE
        products = self.multiplications / (2 * lanes)
        if self.pixels:  # the last vector of a row has unused elements
            products *= SHIFTED * -(-self.pixels // lanes) * lanes / self.pixels
        return far_cycles + (products + near_cycles) / cores


class Formulas(tuple[Formula, ...]):
    """The formulas of one convolution; print it to see a table."""

    __slots__ = ()

    def __str__(self) -> str:
        head = ("formula", "multiplications", "weight bytes", "data bytes", "error", "")
        return "\n".join(_table_lines([head, *map(_row, self)]))

    __repr__ = __str__


def _row(f: Formula) -> tuple[str, ...]:
    name = f"{f.name} F({f.tile}x{f.tile}, 3x3)" if f.tile else f.name
    if not f.applies:
        return name, "", "", "", "", f"no: {f.why_not}"
    numbers = f.multiplications, f.weight_bytes, f.data_bytes
    return name, *(f"{n:,}" for n in numbers), f"{f.error:.1e}", ""


def _table_lines(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Yield the lines of a table: the first column is aligned left, numbers right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for first, *numbers, note in rows:
        cells = [n.rjust(w) for n, w in zip(numbers, widths[1:], strict=False)]
        yield "  ".join([first.ljust(widths[0]), *cells, note]).rstrip()


def formulas(op: Any) -> Formulas:
    """List the formulas of a convolution, each with its multiplications, bytes and expected error.

    op: a tensor that topi.conv2d or topi.nn.conv2d_winograd returned, or an elementwise stage after
    it. Formulas that cannot compute this convolution are listed with the reason.
    """
    return all_formulas(_convolution_of(op))


def best_formula(
    op: Any, target: str | Target | None = None, methods: Collection[str] = ()
) -> Formula:
    """Return the formula of a convolution that takes the fewest `cycles` on `target`.

    op: as for `formulas`, or a Convolution. methods: the names of the formulas among which to
    choose; by default all. "rows" does the multiplications of "direct" in an order that suits
    vectors, so "direct" is considered only where "rows" is not. Errors are not considered. For a
    GPU the answer is "gemm" where it applies, and otherwise "direct"; for other targets "gemm" is
    considered only if it is named, since a CPU would copy each pixel kh * kw times.
    """
    conv = op if isinstance(op, Convolution) else _convolution_of(op)
    candidates = all_formulas(conv)
    names = [str(m) for m in as_tuple(methods)]
    usable = [f for f in candidates if f.applies and (not names or f.name in names)]
    if not usable:
        why = "no such formula can compute this convolution"
        fix = f"some of {', '.join(sorted({f.name for f in candidates if f.applies}))}"
        raise ExprError(f"topi.best_formula(methods={methods!r})", why, fix)
    to = Target(target)
    if not names:
        usable = _usual(usable, to)
    if any(f.name == "rows" for f in usable):
        usable = [f for f in usable if f.name != "direct"]
    if any(f.tile for f in usable):
        tile = best_tile(conv, to)
        usable = [f for f in usable if f.tile in (0, tile)]
    return _fastest(conv, usable, to, to.num_cores)


def _usual(usable: list[Formula], target: Target) -> list[Formula]:
    """Return the formulas that a target chooses among if none is named."""
    if target.kind != "cuda":
        return [f for f in usable if f.name != "gemm"]
    return [next((f for f in usable if f.name == "gemm"), usable[0])]


def best_tile(conv: Convolution, target: str | Target | None = None) -> int:
    """Return the tile, 2 or 4, with which Winograd's formula should be fastest on one core.

    Ignores the number of cores: a network may run on fewer than the machine has.
    """
    return _fastest(conv, [f for f in all_formulas(conv) if f.tile], Target(target), 1).tile


def _fastest(conv: Convolution, usable: list[Formula], target: Target, cores: int) -> Formula:
    return min(usable, key=lambda f: f.cycles(target.lanes(conv.dtype), target.l2, cores))


def _convolution_of(op: Any) -> Convolution:
    """Return the description of the convolution that `op` computes or reads."""
    op = op.op if isinstance(op, te.Tensor) else op
    ops = [op]
    for at in ops:
        if isinstance(at, te.ComputeOp):
            if isinstance(conv := at.attrs.get(CONVOLUTION), Convolution):
                return conv
            ops += [t.op for t in at.input_tensors if t.op not in ops]
    name = getattr(op, "name", type(op).__name__)
    why = "it is not a convolution of topi, and reads none"
    raise ExprError(f"topi.formulas({name})", why, "the result of topi.conv2d(data, kernel)")


def all_formulas(conv: Convolution) -> Formulas:
    """Return all formulas, including those that cannot compute `conv`."""
    n, c, o = conv.sizes
    high, wide, size = conv.high, conv.wide, conv.dtype.bytes
    ends = n * (c * high.size * wide.size + o * high.out * wide.out) * size
    roundoff = {8: 2.0**-53, 2: 2.0**-11}.get(size, 2.0**-24)  # of one operation
    direct = _direct_formula(conv, ends, roundoff)
    rows, blocks = _rows_formula(conv, direct), _blocks_formula(conv, direct)
    gemm = replace(direct, name="gemm", why_not=next((r[0] for r in gemm_reasons(conv)), ""))
    winograd = (_winograd_formula(conv, t, ends, roundoff) for t in GROWTH)
    return Formulas((direct, rows, blocks, gemm, *winograd))


def _direct_formula(conv: Convolution, ends: int, roundoff: float) -> Formula:
    """Return the textbook formula.

    ends: the bytes of input and output. roundoff: the largest relative error of one operation.
    """
    n, c, o = conv.sizes
    terms = c // conv.groups * conv.high.kernel * conv.wide.kernel
    multiplications = n * conv.high.out * conv.wide.out * o * terms
    error = roundoff * (terms / 6) ** 0.5
    return Formula("direct", 0, multiplications, o * terms * conv.dtype.bytes, ends, error, "")


def _rows_formula(conv: Convolution, direct: Formula) -> Formula:
    """Return the formula "rows": `direct` with a copy of the image and with unused columns."""
    n, c, _ = conv.sizes
    rows_bytes = n * c * conv.high.phases * conv.wide.phases * conv.rows_length * conv.dtype.bytes
    return replace(
        direct,
        name="rows",
        multiplications=direct.multiplications // conv.wide.out * conv.row_length,
        data_bytes=direct.data_bytes + 2 * rows_bytes,
        why_not="" if conv.layout == NCHW else f"it is defined in NCHW, not in {conv.layout}",
        pixels=conv.high.out * conv.row_length,
    )


def _blocks_formula(conv: Convolution, direct: Formula) -> Formula:
    """Return the formula "blocks": `direct` between two changes of the layout."""
    n, c, _ = conv.sizes
    padded = n * c * conv.high.span * conv.wide.span * conv.dtype.bytes
    why_not = "" if block_of(conv) else f"no block of {BLOCKS} channels divides all channels"
    if conv.layout != NCHW:
        why_not = f"it is defined in NCHW, not in {conv.layout}"
    elif conv.groups != 1:
        why_not = f"there are {conv.groups} groups, but its products sum over all channels"
    return replace(
        direct,
        name="blocks",
        data_bytes=3 * direct.data_bytes + 2 * padded,
        why_not=why_not,
        moved_bytes=2 * direct.data_bytes,
    )


def gemm_reasons(conv: Convolution) -> Iterator[Reason]:
    """Yield each reason why the formula "gemm" cannot compute `conv`."""
    if conv.groups != 1:
        yield (f"there are {conv.groups} groups, but its products sum over all channels",)
    if conv.layout not in (NCHW, NHWC):
        yield (f"it is not defined in {conv.layout}",)


def block_of(conv: Convolution) -> int:
    """Return how many channels "blocks" makes adjacent; 0 if no number in BLOCKS fits."""
    if not isinstance(conv.inputs, int) or not isinstance(conv.outputs, int):
        return 0
    common = math.gcd(conv.inputs, conv.outputs)
    return next((b for b in BLOCKS if common and common % b == 0), 0)


def default_formula(conv: Convolution) -> Formula:
    """Return the formula that conv2d uses without a method; its rounding errors are the least."""
    if Target.current().kind == "cuda":
        return best_formula(conv)
    if conv.layout != NCHW:
        return all_formulas(conv)[0]
    return best_formula(conv, methods=("rows", "blocks"))


def _winograd_formula(conv: Convolution, tile: int, ends: int, roundoff: float) -> Formula:
    """Return the formula F(tile x tile, 3x3); the arguments are those of `_direct_formula`."""
    n, c, o = conv.sizes
    tile_rows, tile_columns = conv.tiles(tile)
    products, tiles = (tile + 2) ** 2, n * tile_rows * tile_columns
    return Formula(
        name="winograd",
        tile=tile,
        multiplications=products * tiles * c * o,
        weight_bytes=products * c * o * conv.dtype.bytes,
        data_bytes=ends + 2 * products * tiles * (c + o) * conv.dtype.bytes,
        error=roundoff * (c / 6) ** 0.5 * GROWTH[tile],
        why_not=next((reason[0] for reason in winograd_reasons(conv)), ""),
    )


def winograd_reasons(conv: Convolution) -> Iterator[Reason]:
    """Yield each reason why Winograd's formula cannot compute `conv`, and what to use instead."""
    high, wide = conv.high, conv.wide
    kernel, strides = (high.kernel, wide.kernel), (high.stride, wide.stride)
    spread = high.dilation, wide.dilation
    fix = "topi.conv2d(data, kernel, ...)"
    if kernel != (3, 3):
        yield f"the kernel is {kernel[0]}x{kernel[1]}, but F(2) and F(4) are defined for 3x3", fix
    if strides != (1, 1):
        yield f"the strides are {strides}, but the transforms are for 1", fix
    if spread != (1, 1):
        yield f"the dilation is {spread}, but the transforms are for 1", fix
    if conv.groups != 1:
        yield f"there are {conv.groups} groups, but its products sum over all channels", fix
    if conv.layout not in (NCHW, NHWC):
        yield f"it is not defined in {conv.layout}", "layout='NHWC' or 'NCHW'"
    if not isinstance(conv.inputs, int) or not isinstance(conv.outputs, int):
        yield "the numbers of channels must be constants", "te.placeholder with integer sizes"
    if conv.out_dtype not in ("", conv.dtype):
        yield f"out_dtype is {conv.out_dtype}, but the transforms keep the type of the data", fix
    if not conv.dtype.is_float:
        yield f"the type is {conv.dtype}, but the transforms need fractions", f"{fix}, or topi.cast"
