"""Random operators of networks, elementwise stages around them, and what they should compute."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gcd, sqrt
from typing import Any

import numpy as np

from minitvm import graph, te, tir, topi
from minitvm.tensor import PlaceholderOp

Rng = np.random.Generator
Make = Callable[[te.Tensor], te.Tensor]

LAYOUTS = ("NCHW", "NHWC", "NCHW4c", "NCHW8c", "NCHW16c")
WINOGRAD_ERROR = {2: 2e-6, 4: 3e-5}  # relative to the largest result
IMAGES = ("conv2d", "depthwise_conv2d", "max_pool2d", "avg_pool2d", "global_avg_pool2d")
PYTHON_POINTS = 4_000  # what the interpreter computes in less than a second


@dataclass(frozen=True)
class Operator:
    """An operator and its operands.

    text     its name and arguments, for messages
    inputs   the operands; the elementwise stage in front reads the first one
    make     defines the result from the first operand, by the formula that is tested
    plain    the same by the textbook formula
    layout   that of the result; the channels of a product are its columns, as in NHWC
    terms    the length of the sums
    points   the number of products, for a symbolic batch those of one image
    error    the error that is allowed for real numbers, relative to the largest result
    exact    whether the result is exact if the operands are small integers
    """

    text: str
    inputs: list[te.Tensor]
    make: Make
    plain: Make
    layout: str
    terms: int
    points: int
    error: float = 0.0
    exact: bool = True


@dataclass(frozen=True)
class Case:
    """A network to test: what it computes, from what, and how it is built and called.

    plain    the outputs by textbook formulas, and then what they are computed from
    bound    whether constants are bound before the calls
    batches  the size of the symbolic batch in each call; one call if there is none
    error    the error that is allowed, relative to the largest number in `plain`; 0 if exact
    reals    whether the inputs are real numbers, not small integers
    """

    text: str
    inputs: list[te.Tensor]
    outs: list[te.Tensor]
    plain: list[te.Tensor]
    target: str
    bound: bool
    batches: list[int]
    error: float
    reals: bool


def pick(rng: Rng, choices: Any) -> Any:
    return choices[int(rng.integers(len(choices)))]


def chance(rng: Rng, p: float) -> bool:
    return bool(rng.random() < p)


def between(rng: Rng, low: int, high: int) -> int:
    return int(rng.integers(low, high, endpoint=True))


def sizes(shape: Any) -> str:
    return "x".join(map(tir.text, shape))


def place(rng: Rng, shape: Any, name: str, dtype: str, p: float = 0.0) -> te.Tensor:
    """An input, with probability `p` a constant."""
    known = all(isinstance(n, int) for n in shape)
    return te.placeholder(shape, dtype, name, constant=known and chance(rng, p))


def fixed(t: te.Tensor) -> bool:
    """Whether the input `t` is a constant."""
    return isinstance(t.op, PlaceholderOp) and t.op.constant


def batch(rng: Rng, most: int) -> Any:
    """A number of images or matrices, now and then symbolic."""
    return te.var("n") if chance(rng, 0.1) else between(rng, 1, most)


def type_of(rng: Rng) -> str:
    return pick(rng, ["float32"] * 12 + ["float64", "int32"])


# --- convolutions and pooling --------------------------------------------------------------------


@dataclass(frozen=True)
class Slide:
    """How a kernel of height x width moves over images; the sizes of the images fit it."""

    kernel: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int, int, int]
    dilation: tuple[int, int]
    image: tuple[int, int]

    def __str__(self) -> str:
        return f"strides {self.strides}, padding {self.padding}, dilation {self.dilation}"

    @property
    def positions(self) -> int:
        found = 1
        for d in (0, 1):
            reach = (self.kernel[d] - 1) * self.dilation[d] + 1
            padded = self.image[d] + self.padding[d] + self.padding[d + 2]
            found *= (padded - reach) // self.strides[d] + 1
        return found


def slide(rng: Rng, three: bool = False, pools: bool = False) -> Slide:
    """A random Slide.

    three: a 3x3 kernel that moves by one pixel. pools: no dilation, and no window outside an image.
    """
    square = pick(rng, [1, 2, 3, 3, 5])
    kernel = (square, square) if chance(rng, 0.6) else (between(rng, 1, 5), between(rng, 1, 5))
    strides, dilation = (1, 1), (1, 1)
    if three:
        kernel = (3, 3)
    elif chance(rng, 0.5):
        strides = between(rng, 1, 3), between(rng, 1, 3)
    if not pools and not three and chance(rng, 0.3):
        dilation = between(rng, 1, 3), between(rng, 1, 3)
    around, more = pick(rng, [0, 1, 2, 3]), pick(rng, [0, 3, 10, 16])
    most = [min(around, k - 1) if pools else around for k in kernel]
    top, left, bottom, right = (between(rng, 0, n) for n in (*most, *most))

    def size(d: int, padding: int) -> int:
        least = (kernel[d] - 1) * dilation[d] + 1 - padding
        return max(1, least) + between(rng, 0, more)

    image = size(0, top + bottom), size(1, left + right)
    return Slide(kernel, strides, (top, left, bottom, right), dilation, image)


def stored(layout: str, n: Any, c: int, image: tuple[int, int]) -> tuple[Any, ...]:
    """The shape of images in a layout."""
    if layout == "NHWC":
        return n, *image, c
    block = int(layout[4:-1] or 1) if layout != "NCHW" else 0
    return (n, c // block, *image, block) if block else (n, c, *image)


def weights(layout: str, o: int, c: int, kernel: tuple[int, int]) -> tuple[int, ...]:
    """The shape of a kernel; o and c are C and M if it is that of a depthwise convolution."""
    return (*kernel, c, o) if layout == "NHWC" else (o, c, *kernel)


def channels(rng: Rng, layout: str) -> int:
    """A number of channels, which are whole blocks."""
    if layout in ("NCHW", "NHWC"):
        return pick(rng, [between(rng, 1, 40), between(rng, 1, 8), 16, 32])
    return int(layout[4:-1]) * between(rng, 1, 3)


def conv2d(rng: Rng) -> Operator:
    three = chance(rng, 0.5)
    layout, dtype = pick(rng, (*LAYOUTS, "NCHW", *("NHWC",) * (1 + 2 * three))), type_of(rng)
    c, o, at = channels(rng, layout), channels(rng, layout), slide(rng, three)
    groups = 1
    if not three and chance(rng, 0.4):
        if layout in ("NCHW", "NHWC") and chance(rng, 0.5):
            o = c * between(rng, 1, 2)
        groups = pick(rng, [g for g in range(1, 41) if gcd(c, o) % g == 0])
    data = place(rng, stored(layout, batch(rng, 2), c, at.image), "data", dtype)
    kernel = place(rng, weights(layout, o, c // groups, at.kernel), "kernel", dtype, 0.6)
    options = (at.strides, at.padding, at.dilation, groups)

    def defined(x: te.Tensor, method: str) -> te.Tensor:
        return topi.conv2d(x, kernel, *options, method=method, layout=layout)

    textbook = defined(data, "direct")
    legal = [f.name for f in topi.formulas(textbook) if f.applies and not f.tile]
    tiles = [f.tile for f in topi.formulas(textbook) if f.applies and f.tile]
    method, tile = pick(rng, ["", "best", *legal]), 0
    if tiles and chance(rng, 0.7):
        method, tile = "winograd", pick(rng, [0, *tiles])
    make: Make = partial(defined, method=method)
    if tile:
        make = lambda x: topi.nn.conv2d_winograd(x, kernel, at.padding, tile, layout)  # noqa: E731
    tiled = bool(tiles) and method in ("winograd", "best")
    terms = c // groups * at.kernel[0] * at.kernel[1]
    return Operator(
        f"conv2d {layout} {method or 'default'}{tile or ''} of {sizes(data.shape)} {dtype} and "
        f"{sizes(kernel.shape)}, {at}, {groups} groups",
        [data, kernel],
        make,
        partial(defined, method="direct"),
        layout,
        terms,
        at.positions * o * terms,
        error=WINOGRAD_ERROR[tile or 4] if tiled else 0,
        exact=tile == 2 or not tiled,
    )


def depthwise(rng: Rng) -> Operator:
    layout, dtype, at = pick(rng, LAYOUTS), type_of(rng), slide(rng)
    c, several = channels(rng, layout), pick(rng, [1, 1, 2, 3])
    data = place(rng, stored(layout, batch(rng, 2), c, at.image), "data", dtype)
    shape = (*at.kernel, c, several) if layout == "NHWC" else (c, several, *at.kernel)
    kernel = place(rng, shape, "kernel", dtype, 0.6)

    def make(x: te.Tensor) -> te.Tensor:
        return topi.depthwise_conv2d(x, kernel, at.strides, at.padding, at.dilation, layout)

    terms = at.kernel[0] * at.kernel[1]
    text = f"depthwise_conv2d {layout} of {sizes(data.shape)} {dtype} and {sizes(shape)}, {at}"
    points = at.positions * c * several * terms
    return Operator(text, [data, kernel], make, make, layout, terms, points)


def pool(rng: Rng) -> Operator:
    layout, dtype = pick(rng, LAYOUTS), pick(rng, ["float32"] * 5 + ["float64"])
    at = slide(rng, pools=True)
    c, inside = channels(rng, layout), chance(rng, 0.5)
    data = place(rng, stored(layout, batch(rng, 2), c, at.image), "data", dtype)
    name = pick(rng, ["max_pool2d", "avg_pool2d", "global_avg_pool2d"])
    options = (at.kernel, at.strides, at.padding)
    make: Make = {
        "max_pool2d": lambda x: topi.max_pool2d(x, *options, layout),
        "avg_pool2d": lambda x: topi.avg_pool2d(x, *options, inside, layout),
        "global_avg_pool2d": lambda x: topi.global_avg_pool2d(x, layout),
    }[name]
    terms = at.image[0] * at.image[1] if name[0] == "g" else at.kernel[0] * at.kernel[1]
    text = f"{name} {layout} of {sizes(data.shape)} {dtype}, {at.kernel}, {at}, {inside}"
    points = (1 if name[0] == "g" else at.positions) * c * terms
    return Operator(text, [data], make, make, layout, terms, points, exact=name == "max_pool2d")


def layout_transform(rng: Rng) -> Operator:
    source, result = (str(x) for x in rng.permutation(LAYOUTS)[:2])
    blocked = source[4:] or result[4:]
    c = 16 * between(rng, 1, 3) if blocked else between(rng, 1, 70)
    image = between(rng, 1, 20), between(rng, 1, 20)
    dtype = pick(rng, ["float32", "float32", "float64", "int32", "int8"])
    data = place(rng, stored(source, batch(rng, 2), c, image), "data", dtype)

    def make(x: te.Tensor) -> te.Tensor:
        return topi.layout_transform(x, source, result)

    text = f"layout_transform {source} to {result} of {sizes(data.shape)} {dtype}"
    return Operator(text, [data], make, make, result, 1, c * image[0] * image[1])


# --- products ------------------------------------------------------------------------------------


def product(rng: Rng) -> Operator:
    """dense, matmul or batch_matmul; few rows, a deep sum, and 8-bit operands now and then."""
    name = pick(rng, ["dense", "matmul", "batch_matmul"])
    dtype = pick(rng, ["float32"] * 8 + ["float64", "int32", "int8"])
    m, n, k = (pick(rng, [between(rng, 1, 9), between(rng, 1, 80), 32]) for _ in range(3))
    k = between(rng, 500, 2500) if chance(rng, 0.05) else k
    ta, tb = name != "dense" and chance(rng, 0.3), name == "dense" or chance(rng, 0.5)
    points, rows, pairs = m * n * k, m, []
    if name == "batch_matmul":
        count = batch(rng, 3)
        pairs = [count, count if chance(rng, 0.7) else 1]
        pairs = pairs[::-1] if chance(rng, 0.5) else pairs
        points *= max(x if isinstance(x, int) else 1 for x in pairs)
    elif chance(rng, 0.1):
        rows = te.var("n")
    a = place(rng, (*pairs[:1], *((k, rows) if ta else (rows, k))), "a", dtype, 0.1)
    b = place(rng, (*pairs[1:], *((n, k) if tb else (k, n))), "b", dtype, 0.5)
    out_dtype = "int32" if dtype == "int8" else ""

    def make(x: te.Tensor) -> te.Tensor:
        if name == "dense":
            return topi.dense(x, b, out_dtype=out_dtype)
        multiply = topi.matmul if name == "matmul" else topi.batch_matmul
        return multiply(x, b, ta, tb, out_dtype)

    text = f"{name} of {sizes(a.shape)} and {sizes(b.shape)} {dtype}, transposed {ta}, {tb}"
    return Operator(text, [a, b], make, make, "NHWC", k, points)


# --- elementwise stages --------------------------------------------------------------------------

FUNCTIONS = tuple(  # all elementwise operators of one tensor whose other arguments can be left out
    each
    for each in graph.OPERATORS.values()
    if each.fusion == graph.Fusion.ELEMENTWISE
    and sum(p.default is p.empty for p in inspect.signature(each.formula).parameters.values()) == 1
)
STEEPEST = 8  # the largest slope of a function between the limits of its argument


def limits(function: graph.Operator) -> tuple[float, float]:
    """Limits between which all values of the function are finite."""
    with np.errstate(all="ignore"):
        finite = np.isfinite(function.reference(np.linspace(-2, 2, 9))).all()
    return (-2, 2) if finite else (0.5, 2)


def per_channel(t: te.Tensor, layout: str) -> tuple[Any, ...]:
    """The shape of a tensor with one element for each channel of `t`, which broadcasts to `t`."""
    if layout == "NHWC":
        return t.shape[-1:]
    return (t.shape[1], 1, 1, *t.shape[4:])


def in_front(rng: Rng, o: Operator) -> tuple[str, te.Tensor, te.Tensor]:
    """A stage that computes the first operand: its name, its input, and its result."""
    data, factor = o.inputs[0], pick(rng, [2, -2])
    kinds = ["relu", "scale", "layout"] if o.text.startswith(IMAGES) else ["relu", "scale"]
    kind = pick(rng, kinds)
    if kind == "layout":
        source = "NHWC" if o.layout != "NHWC" else "NCHW"
        n, c, *image = pixel_sizes(data, o.layout)
        other = place(rng, stored(source, n, c, (image[0], image[1])), "data", str(data.dtype))
        return kind, other, topi.layout_transform(other, source, o.layout)
    return kind, data, topi.relu(data) if kind == "relu" else topi.multiply(data, factor)


def pixel_sizes(t: te.Tensor, layout: str) -> tuple[Any, ...]:
    """The number, channels, height and width of images."""
    if layout == "NHWC":
        n, high, wide, c = t.shape
        return n, c, high, wide
    n, outer, high, wide, *block = t.shape
    return n, outer * (block or [1])[0], high, wide


def after(
    rng: Rng, result: te.Tensor, layout: str, first: te.Tensor, n: int
) -> tuple[str, list[te.Tensor], Make]:
    """A stage that follows the operator: its name, its inputs, and its definition.

    first: the operand of the operator, which is added if it fits.
    """
    kind = pick(rng, ["bias", "affine", "relu", "residual", "clip", "function"])
    dtype, shape = str(result.dtype), per_channel(result, layout)
    if kind == "function" and dtype.startswith("float"):
        function = pick(rng, FUNCTIONS)
        low, high = limits(function)

        def applied(x: te.Tensor) -> te.Tensor:
            return topi.cast(function.formula(topi.clip(x, low, high)), dtype)  # isnan returns bool

        return f"function {function.name}", [], applied
    if kind in ("relu", "function"):
        return "relu", [], topi.relu
    if kind == "clip":
        return kind, [], lambda x: topi.clip(x, -3, 6)
    if kind == "residual":
        if sizes(first.shape) == sizes(result.shape) and first.dtype is result.dtype:
            return "residual of the data", [], lambda x: topi.add(x, first)
        other = place(rng, result.shape, f"residual{n}", dtype)
        swap = chance(rng, 0.5)
        return kind, [other], lambda x: topi.add(other, x) if swap else topi.add(x, other)
    bias = place(rng, shape, f"bias{n}", dtype, 0.3)
    if kind == "bias":
        return kind, [bias], lambda x: topi.add(x, bias)
    scale = place(rng, shape, f"scale{n}", dtype, 0.3)
    return kind, [scale, bias], lambda x: topi.add(topi.multiply(x, scale), bias)


def behind(rng: Rng, t: te.Tensor, layout: str) -> tuple[str, list[te.Tensor], Make]:
    """An operator that reads `t`: its name, its further inputs, and its definition."""
    dtype = str(t.dtype)
    if t.ndim < 4:
        if t.ndim == 3 or chance(rng, 0.3):
            return "sum of the rows", [], lambda x: topi.sum(x, -1)
        w = place(rng, (channels(rng, layout), t.shape[-1]), "W", dtype, 0.5)
        return f"dense {sizes(w.shape)}", [w], lambda x: topi.dense(x, w)
    _, c, high, wide = pixel_sizes(t, layout)
    kind = pick(rng, ["max_pool2d", "conv2d", "conv2d", "depthwise_conv2d", "layout_transform"])
    if kind == "max_pool2d":
        kernel = min(2, high), min(2, wide)
        return kind, [], lambda x: topi.max_pool2d(x, kernel, layout=layout)
    if kind == "layout_transform":
        other = "NCHW" if layout == "NHWC" else "NHWC"
        return kind, [], lambda x: topi.layout_transform(x, layout, other)
    if kind == "depthwise_conv2d":
        shape = (3, 3, c, 1) if layout == "NHWC" else (c, 1, 3, 3)
        w = place(rng, shape, "W", dtype, 0.5)
        return kind, [w], lambda x: topi.depthwise_conv2d(x, w, 1, 1, layout=layout)
    size = pick(rng, [1, 3])
    w = place(rng, weights(layout, channels(rng, layout), c, (size, size)), "W", dtype, 0.5)
    make: Make = lambda x: topi.conv2d(x, w, 1, size // 2, layout=layout)  # noqa: E731
    return f"conv2d {sizes(w.shape)}", [w], make


# --- cases ---------------------------------------------------------------------------------------

DRAWS = (*(conv2d,) * 6, depthwise, depthwise, pool, pool, layout_transform, *(product,) * 3)
TARGETS = (
    *("llvm -num-cores=1",) * 9,
    *("llvm -num-cores=2",) * 6,
    *("llvm -num-cores=1 -mattr=-avx512f",) * 4,
    "python",
)


def draw(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    o = DRAWS[seed % len(DRAWS)](rng)
    inputs, words, growth = list(o.inputs), [o.text], 1.0
    x = o.inputs[0]
    if chance(rng, 0.2):
        word, inputs[0], x = in_front(rng, o)
        words.append(f"{word} in front")
    result, plain = o.make(x), o.plain(x)
    outs, wanted = [result], [plain]
    for n in range(pick(rng, [0, 0, 1, 2, 3])):
        word, more, stage = after(rng, result, o.layout, x, n)
        words.append(word)
        inputs += more
        growth *= STEEPEST if "function" in word else 2 if word == "affine" else 1
        outs.append(stage(outs[-1]))
        wanted.append(stage(wanted[-1]))
    if chance(rng, 0.15):
        word, more, stage = behind(rng, outs[-1], o.layout)
        words.append(word)
        inputs += more
        growth *= 20 if more else 2
        outs.append(stage(outs[-1]))
        wanted.append(stage(wanted[-1]))
    both = len(outs) > 1 and chance(rng, 0.05)
    kept = [0, -1] if both else [-1]
    target = pick(rng, TARGETS)
    if target == "python" and o.points > PYTHON_POINTS:
        target = TARGETS[0]
    symbolic = any(not isinstance(size, int) for t in inputs for size in t.shape)
    dtype = str(result.dtype)
    reals = dtype.startswith("float") and chance(rng, 0.3)
    inexact = reals or not o.exact or any("function" in word for word in words)
    unit = 2.0**-53 if dtype == "float64" else 2.0**-24
    error = (max(o.error, 4 * unit * sqrt(o.terms)) * growth) if inexact else 0.0
    bound = any(fixed(t) for t in inputs) and chance(rng, 0.6)
    words += ["both are outputs"] * both + ["bound"] * bound + [target]
    return Case(
        "; ".join(words),
        inputs,
        [outs[i] for i in kept],
        [*(wanted[i] for i in kept), *wanted],
        target,
        bound,
        [1, 3, 0] if symbolic else [1],
        error,
        reals,
    )
