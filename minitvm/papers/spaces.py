"""The tasks whose measurements are recorded: two templates of convolutions, and one of products.

The layers are those of ResNet-18 that Chen et al. 2018 name C1 to C12 (Table 1), for one image,
channels last, with constant weights. `task("C9-avx512")` is the layer C9 on a machine with AVX-512,
and `task("C9-winograd")` computes it by Winograd's formula, with weights that are transformed
beforehand ("PT" in the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from minitvm import autotvm, te, topi
from minitvm.base import ArgumentError, Target


@dataclass(frozen=True, slots=True)
class Convolution:
    """A layer: an image of size x size x channels, kernels of kernel x kernel, and a stride."""

    size: int
    channels: int
    filters: int
    kernel: int
    stride: int

    @property
    def args(self) -> tuple[int, ...]:
        """Return the arguments of the template."""
        return self.size, self.channels, self.filters, self.kernel, self.stride

    def __str__(self) -> str:
        image = f"{self.size} x {self.size} x {self.channels}"
        return f"{self.kernel} x {self.kernel} / {self.stride}, {image} -> {self.filters} channels"


LAYERS = {
    "C1": Convolution(224, 3, 64, 7, 2),
    "C2": Convolution(56, 64, 64, 3, 1),
    "C3": Convolution(56, 64, 64, 1, 1),
    "C4": Convolution(56, 64, 128, 3, 2),
    "C5": Convolution(56, 64, 128, 1, 2),
    "C6": Convolution(28, 128, 128, 3, 1),
    "C7": Convolution(28, 128, 256, 3, 2),
    "C8": Convolution(28, 128, 256, 1, 2),
    "C9": Convolution(14, 256, 256, 3, 1),
    "C10": Convolution(14, 256, 512, 3, 2),
    "C11": Convolution(14, 256, 512, 1, 2),
    "C12": Convolution(7, 512, 512, 3, 1),
}
PRODUCTS = {"matmul-512": 512, "matmul-1024": 1024}
WINOGRAD = ("C2-winograd", "C6-winograd", "C9-winograd", "C12-winograd")
OTHER_MACHINE = ("C7-avx512", "C9-avx512")  # recorded again with AVX-512
TARGETS = {"avx512": "llvm -num-cores=1", "": "llvm -num-cores=1 -mattr=-avx512f"}


@cache
def task(name: str, target: Target | None = None) -> autotvm.Task:
    """Return the task with this name: "C1" to "C12", "matmul-512", "C9-avx512" or "C9-winograd".

    target   whose caches and vectors candidates are judged by, if not those of this machine
    """
    layer = name.removesuffix("-avx512")
    target = target or Target(TARGETS["avx512" if layer != name else ""])
    if layer in LAYERS:
        return autotvm.task.create("papers/conv2d", LAYERS[layer].args, target)
    if layer in PRODUCTS:
        return autotvm.task.create("papers/matmul", (PRODUCTS[layer],), target)
    if name in WINOGRAD:
        args = LAYERS[name.removesuffix("-winograd")].args[:3]
        return autotvm.task.create("papers/winograd", args, target)
    known = ", ".join((*LAYERS, *PRODUCTS, *OTHER_MACHINE, *WINOGRAD))
    raise ArgumentError(f"task {name!r}", "there is no such task", f"one of {known}")


@autotvm.template("papers/conv2d")
def conv2d(
    size: int, channels: int, filters: int, kernel: int, stride: int
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Convolve one image, channels last; the padding keeps size / stride rows and columns."""
    pad, out_size = kernel // 2, -(-size // stride)
    data = te.placeholder((1, size, size, channels), name="data")
    weights = te.placeholder((kernel, kernel, channels, filters), name="weights", constant=True)
    wide = (out_size - 1) * stride + kernel

    def border(n: te.Expr, y: te.Expr, x: te.Expr, c: te.Expr) -> te.Expr:
        inside = te.all(y >= pad, y < size + pad, x >= pad, x < size + pad)
        return te.if_then_else(inside, data[n, y - pad, x - pad, c], 0.0)

    padded = te.compute((1, wide, wide, channels), border, name="padded") if pad else data
    dy, dx = te.reduce_axis((0, kernel), name="dy"), te.reduce_axis((0, kernel), name="dx")
    c = te.reduce_axis((0, channels), name="c")

    def element(n: te.Expr, y: te.Expr, x: te.Expr, f: te.Expr) -> te.Expr:
        pixel = padded[n, y * stride + dy, x * stride + dx, c]
        return te.sum(pixel * weights[dy, dx, c, f], axis=[dy, dx, c])

    out = te.compute((1, out_size, out_size, filters), element, name="out")
    s = te.create_schedule(out.op)
    tile = s.cache_write(out, "local")
    n, y, x, f = s[out].op.axis
    _, rows, columns, vector = s[tile].op.axis
    dy, dx, c = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    few_columns = out_size <= 7  # then more ways to tile channels take the place of columns
    cfg.define_split("tile_y", y, num_outputs=2, max_factor=2 if 14 < out_size < 100 else 7)
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=28)
    _define_channels(
        cfg, f, c, widest=512 if few_columns else 128, deepest=32 if few_columns else 8
    )

    yo, yi = cfg["tile_y"].apply(s, out, y)
    xo, xi = cfg["tile_x"].apply(s, out, x)
    fo, fi = cfg["tile_f"].apply(s, out, f)
    s[out].reorder(n, fo, yo, xo, yi, xi, fi)
    s[out].vectorize(fi)
    s[tile].compute_at(s[out], xo)
    co, ci = cfg["tile_c"].apply(s, tile, c)
    group, vector = s[tile].split(vector, factor=cfg["lanes"].val)
    s[tile].reorder(dy, dx, co, rows, *cfg["order"].apply(s, tile, [ci, columns]), group, vector)
    s[tile].vectorize(vector)
    s[tile].unroll(group)
    if pad:
        s[padded].vectorize(s[padded].op.axis[3])
    if cfg["pack"].val:
        width = cfg["tile_f"].size[-1]

        def strips(dy: te.Expr, dx: te.Expr, c: te.Expr, f: te.Expr) -> tuple[te.Expr, ...]:
            return f // width, dy, dx, c, f % width

        packed = s.cache_read(weights, "global", [tile])
        s[packed].transform_layout(strips)
        s[packed].vectorize(s[packed].op.axis[-1])
    return s, [data, weights, out]


@autotvm.template("papers/winograd")
def winograd(size: int, channels: int, filters: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Convolve one image with 3 x 3 kernels by F(2 x 2) or F(4 x 4); the knobs are topi's plan."""
    data = te.placeholder((1, size, size, channels), name="data")
    weights = te.placeholder((3, 3, channels, filters), name="weights", constant=True)
    cfg = autotvm.get_config()
    cfg.define_knob("formula", [2, 4])
    cfg.define_knob("blocks", [1, 2, 4, 7])
    cfg.define_knob("rows", [1, 2, 3, 4, 6, 7, 8, 12])
    cfg.define_knob("vectors", [1, 2, 3, 4, 6, 8])
    cfg.define_knob("lanes", [4, 8])
    cfg.define_knob("data_lanes", [4, 8, 16])
    cfg.define_knob("ahead", [1, 4, 16])
    cfg.multi_filter(lambda c: c["rows"].val * c["vectors"].val <= 32)
    formula = cfg["formula"].val
    rows_of_tiles = -(-size // formula)
    values = {
        "block": -(-rows_of_tiles // min(cfg["blocks"].val, rows_of_tiles)),
        "tile": (cfg["rows"].val, cfg["vectors"].val * cfg["lanes"].val),
        **{name: cfg[name].val for name in ("lanes", "data_lanes", "ahead")},
    }
    out = topi.conv2d_winograd(data, weights, padding=1, tile=formula)
    s = topi.schedule([out], Target.current(), choose=lambda options: options.plan(values))
    return s, [data, weights, out]


@autotvm.template("papers/matmul")
def matmul(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """Multiply an n x n matrix by a constant n x n matrix."""
    data = te.placeholder((n, n), name="data")
    weights = te.placeholder((n, n), name="weights", constant=True)
    c = te.reduce_axis((0, n), name="c")

    def element(x: te.Expr, f: te.Expr) -> te.Expr:
        return te.sum(data[x, c] * weights[c, f], axis=c)

    out = te.compute((n, n), element, name="out")
    s = te.create_schedule(out.op)
    tile = s.cache_write(out, "local")
    x, f = s[out].op.axis
    columns, vector = s[tile].op.axis
    (c,) = s[tile].op.reduce_axis

    cfg = autotvm.get_config()
    cfg.define_split("tile_x", x, num_outputs=2, max_factor=256)
    _define_channels(cfg, f, c, widest=128, deepest=16)

    xo, xi = cfg["tile_x"].apply(s, out, x)
    fo, fi = cfg["tile_f"].apply(s, out, f)
    s[out].reorder(fo, xo, xi, fi)
    s[out].vectorize(fi)
    s[tile].compute_at(s[out], xo)
    co, ci = cfg["tile_c"].apply(s, tile, c)
    group, vector = s[tile].split(vector, factor=cfg["lanes"].val)
    s[tile].reorder(co, *cfg["order"].apply(s, tile, [ci, columns]), group, vector)
    s[tile].vectorize(vector)
    s[tile].unroll(group)
    if cfg["pack"].val:
        width = cfg["tile_f"].size[-1]

        def strips(c: te.Expr, f: te.Expr) -> tuple[te.Expr, ...]:
            return f // width, c, f % width

        packed = s.cache_read(weights, "global", [tile])
        s[packed].transform_layout(strips)
        s[packed].vectorize(s[packed].op.axis[-1])
    return s, [data, weights, out]


def _define_channels(cfg: Any, f: te.Axis, c: te.Axis, widest: int, deepest: int) -> None:
    """Define the knobs of the loops over the channels f of the result and c of the image."""

    def is_wide(split: autotvm.SplitEntity) -> bool:
        return 8 <= split.size[-1] <= widest

    cfg.define_split("tile_f", f, num_outputs=2, filter=is_wide)
    cfg.define_split("tile_c", c, num_outputs=2, max_factor=deepest)
    cfg.define_knob("lanes", [4, 8, 16])
    cfg.define_reorder("order", [0, 1], "all")
    cfg.define_knob("pack", [0, 1])
