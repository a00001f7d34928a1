"""Sketches of the form S S R S R S for tests and benchmarks, as Ansor makes them.

matmul(512, 512, 512, level=1, packed=True)      a product with a register tile and a packed B
conv(28, 128, 128, 3, 1, "NHWC", level=2)        a convolution that pads its input
over(stage output, ...)                          any formula with spatial and reduce axes
"""

from collections.abc import Sequence
from typing import Any

from minitvm import schedule, te, tensor, topi, tune

UNROLL = (0, 16, 64, 512)


class Draft:
    """A schedule under construction: steps are taken with example sizes, parameters are noted."""

    def __init__(self, args: Sequence[Any], outputs: Sequence[Any]) -> None:
        self.args = tuple(args)
        self.s = te.create_schedule([t.op for t in outputs])
        self.initial = self.s.state
        self.knobs: list[tune.Knob] = []
        self.parameters: list[tune.Parameter] = []

    def knob(self, knob: tune.Knob) -> int:
        self.knobs.append(knob)
        return len(self.knobs) - 1

    def parameter(self, field: str, *parts: tuple[int, int]) -> None:
        """The last step has a parameter that these (knob, part) pairs set."""
        self.parameters.append(tune.Parameter(len(self.s.steps) - 1, field, parts))

    def split(self, t: Any, axis: Any, knob: int, parts: Sequence[Any]) -> list[Any]:
        """Split an axis into one loop more than there are `parts`, outermost first.

        A part is the number of a part of the knob, or several: (2, 3) is their product.
        """
        levels = list[Any]()
        for n in range(len(parts)):
            outer, axis = self.s[t].split(axis, factor=1)
            inner = [q for p in parts[n:] for q in (p if isinstance(p, tuple) else (p,))]
            self.parameter("factor", *((knob, q) for q in inner))
            levels.append(outer)
        return [*levels, axis]

    def sketch(self, name: str) -> tune.Sketch:
        steps = list(self.s.steps)
        for h in self.parameters:
            if h.field == "layout":
                name, axes = steps[h.step].stage, steps[h.step].axes
                layout = (f"{axes[1]} // {{}}", axes[0], f"{axes[1]} % {{}}")
                steps[h.step] = schedule.TransformLayout(name, axes, layout)
        space = tune.Space(tuple(self.knobs))
        return tune.Sketch(
            name, self.args, self.initial, tuple(steps), tuple(self.parameters), space
        )


def over(
    args: Sequence[Any],
    main: Any,
    *,
    level: int = 0,
    last: Any = None,
    packed: Any = None,
    pads: Sequence[Any] = (),
    pad_at: int | str = "root",
    unroll: str = "pragma",
) -> tune.Sketch:
    """The sketch of `main`: its spatial axes in four levels, its reduce axes in two.

    level     0: `main` is computed at root; 1 or 2: in a tile of that level of its copy or reader
    last      an elementwise reader of `main` that is the output; None: `main` is
    packed    an input [k, j] that is copied into panels as wide as the innermost tile of j
    pads      stages that `main` reads; pad_at: "root", "inline", or the level they are computed at
    unroll    "pragma", or "tile": the loops of the register tile are marked
    """
    d = Draft(args, [main if last is None else last])
    s, out, t = d.s, main if last is None else last, main
    if last is None and level:
        t = s.cache_write(main, "local")
    panel = s.cache_read(packed, "global", [t]) if packed is not None else None
    axes, reduce = s[t].op.axis, s[t].op.reduce_axis
    knobs = [d.knob(tune.split_knob(f"tile_{a.name}", a.extent, 4, innermost=64)) for a in axes]
    inner = [d.knob(tune.split_knob(f"tile_{a.name}", a.extent, 2)) for a in reduce]
    pragma = d.knob(tune.number_knob("unroll", UNROLL))
    if level == 0 and last is not None:
        raise ValueError("a reader needs a tile of `main` to read")
    split = [d.split(t, a, g, (1, 2, 3)) for a, g in zip(axes, knobs, strict=True)]
    parts = [d.split(t, a, g, (1,)) for a, g in zip(reduce, inner, strict=True)]
    order = [[x[n] for x in split] for n in range(4)]
    halves = [[x[n] for x in parts] for n in range(2)]
    s[t].reorder(*order[0], *order[1], *halves[0], *order[2], *halves[1], *order[3])
    top, outer = t, order[0]
    if level:
        of = [
            d.split(out, a, g, _levels(level)) for a, g in zip(s[out].op.axis, knobs, strict=True)
        ]
        s[out].reorder(*[x[n] for n in range(level + 1) for x in of])
        s[t].compute_at(s[out], of[-1][level - 1])
        s[out].vectorize(of[-1][level])
        top, outer = out, [x[0] for x in of]
    for pad in pads:
        _place(d, pad, t, top, pad_at, order, halves)
    if panel is not None:
        s[panel].transform_layout(lambda k, j: (j // 1, k, j % 1))
        d.parameter("layout", (knobs[-1], 3))
        if level:
            s[panel].compute_at(s[top], outer[-1])
        _, ji = s[panel].split(s[panel].op.axis[-1], factor=1)
        d.parameter("factor", (knobs[-1], 3))
        s[panel].vectorize(ji)
    if panel is None:
        fused = s[top].fuse(*outer) if len(outer) > 1 else outer[0]
        s[top].parallel(fused)
    first = s[t].leaf_iter_vars[0]
    s[t].pragma(first, "auto_unroll_max_step", 0)
    d.parameter("value", (pragma, 0))
    s[t].pragma(first, "unroll_explicit", 1)
    s[t].vectorize(order[3][-1])
    for a in order[3][:-1] if unroll == "tile" else ():
        s[t].unroll(a)
    return d.sketch(f"{main.name}, level {level}")


def _levels(level: int) -> tuple[Any, ...]:
    """The parts of the loops of a copy: at level 1 one inner loop, at level 2 two."""
    return {1: ((1, 2, 3),), 2: (1, (2, 3))}[level]


def _place(d: Draft, pad: Any, t: Any, top: Any, at: int | str, order: Any, halves: Any) -> None:
    if at == "inline":
        d.s[pad].compute_inline()
        return
    if at != "root":
        loops = [order[0], order[1], halves[0], order[2], halves[1]][int(at)]
        d.s[pad].compute_at(d.s[t], loops[-1])
    _, inner = d.s[pad].split(d.s[pad].op.axis[-1], factor=16)
    d.s[pad].vectorize(inner)


def matmul(
    m: int, n: int, k: int, level: int, *, packed: bool = False, unroll: str = "pragma",
    relu: bool = False,
) -> tune.Sketch:  # fmt: skip
    a, b = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    c = topi.matmul(a, b, name="C")
    last = topi.relu(c) if relu else None
    args = [a, b, c if last is None else last]
    return over(args, c, level=level, last=last, packed=b if packed else None, unroll=unroll)


def conv(
    size: int, ci: int, co: int, kernel: int, stride: int, layout: str, level: int, *,
    pad_at: int | str = "root", relu: bool = False, unroll: str = "pragma",
) -> tune.Sketch:  # fmt: skip
    """A convolution that pads its input by kernel // 2; weights [O, I, H, W] or [H, W, I, O]."""
    p, nchw = kernel // 2, layout == "NCHW"
    o, h = (size + 2 * p - kernel) // stride + 1, size + 2 * p
    x = te.placeholder((1, ci, size, size) if nchw else (1, size, size, ci), name="X")
    w = te.placeholder((co, ci, kernel, kernel) if nchw else (kernel, kernel, ci, co), name="W")

    def inside(y: Any, z: Any) -> Any:
        return te.all(y >= p, y < size + p, z >= p, z < size + p)

    source, pads = x, list[Any]()
    if p and nchw:
        source = te.compute(
            (1, ci, h, h),
            lambda n, c, y, z: te.if_then_else(inside(y, z), x[n, c, y - p, z - p], 0.0),
            name="pad",
        )
    elif p:
        source = te.compute(
            (1, h, h, ci),
            lambda n, y, z, c: te.if_then_else(inside(y, z), x[n, y - p, z - p, c], 0.0),
            name="pad",
        )
    pads = [source] if p else []
    rc = te.reduce_axis((0, ci), "rc")
    ry, rx = te.reduce_axis((0, kernel), "ry"), te.reduce_axis((0, kernel), "rx")
    if nchw:
        y = te.compute(
            (1, co, o, o),
            lambda n, f, y, z: te.sum(
                source[n, rc, y * stride + ry, z * stride + rx] * w[f, rc, ry, rx], [rc, ry, rx]
            ),
            name="Y",
        )
    else:
        y = te.compute(
            (1, o, o, co),
            lambda n, y, z, f: te.sum(
                source[n, y * stride + ry, z * stride + rx, rc] * w[ry, rx, rc, f], [ry, rx, rc]
            ),
            name="Y",
        )
    last = topi.relu(y) if relu else None
    args = [x, w, y if last is None else last]
    return over(args, y, level=level, last=last, pads=pads, pad_at=pad_at, unroll=unroll)


def elementwise(m: int, n: int) -> tune.Sketch:
    """A chain of two stages, the first in tiles of the second, at a fused loop."""
    a, b = te.placeholder((m, n), name="A"), te.placeholder((n,), name="bias")
    x = te.compute((m, n), lambda i, j: a[i, j] * 2.0 + b[j], name="scaled")
    y = te.compute((m, n), lambda i, j: te.exp(x[i, j]) - x[i, j], name="Y")
    d = Draft([a, b, y], [y])
    rows, columns = (d.knob(tune.split_knob(f"tile_{v}", e, 2)) for v, e in (("i", m), ("j", n)))
    io, ii = d.split(y, d.s[y].op.axis[0], rows, (1,))
    jo, ji = d.split(y, d.s[y].op.axis[1], columns, (1,))
    d.s[y].reorder(io, jo, ii, ji)
    d.s[y].parallel(d.s[y].fuse(io, jo))
    d.s[y].vectorize(ji)
    d.s[x].compute_at(d.s[y], ii)
    d.s[x].vectorize(d.s[x].op.axis[1])
    return d.sketch("elementwise")


def scalar(n: int) -> tune.Sketch:
    """A sum without axes, with loops of one iteration around it."""
    a, k = te.placeholder((n,), name="A"), te.reduce_axis((0, n), name="k")
    y = te.compute((), lambda: te.sum(a[k], axis=k), name="Y")
    d = Draft([a, y], [y])
    d.split(y, d.s[y].op.reduce_axis[0], d.knob(tune.split_knob("tile_k", n, 2)), (1,))
    d.s[y].unroll(d.s[y].fuse(d.s[y].fuse(), d.s[y].leaf_iter_vars[1]))
    d.s[y].fuse()
    return d.sketch("scalar")


def softmax(m: int, n: int) -> tune.Sketch:
    """Four stages, each of which reads the one before, all in a loop over blocks of rows."""
    a = te.placeholder((m, n), name="A")
    y = topi.softmax(a)
    d = Draft([a, y], [y])
    stages = [v for v in d.s.stages if not isinstance(v.op, tensor.PlaceholderOp)]
    rows, columns = (d.knob(tune.split_knob(f"tile_{v}", e, 2)) for v, e in (("i", m), ("j", n)))
    io, ii = d.split(y, d.s[y].op.axis[0], rows, (1,))
    _, ji = d.split(y, d.s[y].op.axis[1], columns, (1,))
    d.s[y].vectorize(ji)
    d.s[y].parallel(io)
    for v in stages:
        if v.op is not d.s[y].op:
            d.s[v.op.output(0)].compute_at(d.s[y], ii)
    return d.sketch("softmax")


def stencil(m: int, n: int, sizes: Sequence[tuple[int, int]], *, wrap: bool) -> tune.Sketch:
    """Reads that differ by constants and, with `wrap`, one along the diagonal that starts again."""
    a = te.placeholder((m + 2, n), name="A")

    def formula(i: Any, j: Any) -> Any:
        column = a[i, j] + a[i + 1, j] + a[i + 2, j]
        return column + a[j % m, j] if wrap else column

    y = te.compute((m, n), formula, name="Y")
    d = Draft([a, y], [y])
    knob = d.knob(tune.sizes_knob("tiles", sizes))
    i, j = d.s[y].op.axis
    d.s[y].split(i, factor=1)
    d.parameter("factor", (knob, 0))
    _, ji = d.s[y].split(j, factor=1)
    d.parameter("factor", (knob, 1))
    d.s[y].vectorize(ji)
    return d.sketch("stencil")
