"""conv2d in NHWC and NCHWc against numpy, its schedule, and what it refuses."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import schedule, te, topi
from minitvm.testing import assert_allclose
from minitvm.topi.conv_channels_plan import Sizes, Tile, cost, panels_outside, plan
from minitvm.topi.layouts import Layout, layout_of
from tests.seeds import seeds

ONE, TWO = "llvm -num-cores=1", "llvm -num-cores=2"
NARROW = "llvm -num-cores=1 -mattr=-avx512f"
Array = np.ndarray[Any, Any]


def convolution(x: Array, w: Array, strides: Any, pad: Any, dilation: Any, groups: int) -> Array:
    """conv2d of NHWC images with a kernel HWIO, by the definition."""
    kh, kw, inner, outputs = w.shape
    each = outputs // groups
    top, left, bottom, right = pad
    x = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
    high = (x.shape[1] - dilation[0] * (kh - 1) - 1) // strides[0] + 1
    wide = (x.shape[2] - dilation[1] * (kw - 1) - 1) // strides[1] + 1
    out = np.zeros((x.shape[0], high, wide, outputs))
    for ky, kx, g in np.ndindex(kh, kw, groups):
        rows = x[:, ky * dilation[0] :: strides[0], :, g * inner : (g + 1) * inner][:, :high]
        part = rows[:, :, kx * dilation[1] :: strides[1]][:, :, :wide]
        own = slice(g * each, (g + 1) * each)
        out[..., own] += part @ w[ky, kx, :, own]
    return out


def stored(x: Array, layout: Layout) -> Array:
    """The NHWC images `x` in another layout."""
    if not layout.block:
        return x
    n, h, w, c = x.shape
    blocks = x.reshape(n, h, w, c // layout.block, layout.block)
    return np.ascontiguousarray(blocks.transpose(0, 3, 1, 2, 4))


def check(
    name: str,
    image: tuple[int, int, int, int],
    kernel: tuple[int, int, int],
    options: tuple[Any, Any, Any, int],
    target: str,
    epilogue: bool = False,
    constant: bool = True,
) -> te.Schedule:
    """Compare conv2d with numpy. image: [N, H, W, C]; kernel: (height, width, outputs)."""
    strides, pad, dilation, groups = options
    layout = layout_of("test", name)
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, image).astype("float32")
    w = rng.uniform(-1, 1, (*kernel[:2], image[3] // groups, kernel[2])).astype("float32")
    want = stored(convolution(x, w, *options), layout)
    arrays = {"x": stored(x, layout), "w": w.transpose(3, 2, 0, 1) if layout.block else w}
    inputs = {
        n: te.placeholder(a.shape, name=n, constant=constant and n == "w")
        for n, a in arrays.items()
    }
    out = topi.conv2d(inputs["x"], inputs["w"], strides, pad, dilation, groups, layout=name)
    if epilogue:
        shape = (kernel[2] // layout.block, 1, 1, layout.block) if layout.block else kernel[2:]
        for n, sizes in (("bias", shape), ("residual", out.shape)):
            inputs[n] = te.placeholder(sizes, name=n)
            arrays[n] = rng.uniform(-1, 1, sizes).astype("float32")
        out = topi.add(topi.relu(topi.add(out, inputs["bias"])), inputs["residual"])
        out = topi.clip(out, -1, 6)
        want = np.clip(np.maximum(want + arrays["bias"], 0) + arrays["residual"], -1, 6)
    s = topi.schedule(out, target)
    got = np.full(out.shape, np.nan, "float32")
    f = tvm.build(s, [*inputs.values(), out], target)
    f(*(np.ascontiguousarray(a) for a in arrays.values()), got)
    assert_allclose(got, want, rtol=1e-4, atol=1e-4)
    return s


def draw(rng: np.random.Generator) -> tuple[Any, ...]:
    """Some convolution that is legal: the arguments of `check` without the target."""

    def pick(*values: Any) -> Any:
        return values[rng.integers(len(values))]

    groups, block = pick(1, 1, 1, 2, 3), pick(0, 0, 1, 4, 6, 16)
    unit = math.lcm(groups, block or groups)
    channels, outputs = unit * pick(1, 2, 5), unit * pick(1, 3, 8, 24)
    kernel = pick(1, 2, 3, 5), pick(1, 3, 4)
    strides, dilation = (pick(1, 2, 3), pick(1, 1, 2)), (pick(1, 1, 2), pick(1, 1, 3))
    pad = tuple(int(n) for n in rng.integers(0, 3, 4))
    sizes = [
        max(1, (k - 1) * d + 1 - pad[n] - pad[n + 2]) + int(rng.integers(12))
        for n, (k, d) in enumerate(zip(kernel, dilation, strict=True))
    ]
    name = f"NCHW{block}c" if block else "NHWC"
    image = pick(1, 1, 2), sizes[0], sizes[1], channels
    return name, image, (*kernel, outputs), (strides, pad, dilation, groups)


@pytest.mark.parametrize("seed", seeds(12, 100))
def test_any_convolution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    target = (ONE, ONE, TWO, NARROW)[seed % 4]
    check(*draw(rng), target, epilogue=seed % 2 == 0, constant=seed % 3 > 0)


@pytest.mark.parametrize(
    ("name", "target"), [("NHWC", "python"), ("NCHW4c", "python"), ("NCHW4c", "numba")]
)
def test_other_targets(name: str, target: str) -> None:
    check(name, (1, 4, 3, 8), (3, 2, 12), ((1, 2), (1, 0, 1, 1), (1, 1), 2), target, True)


@pytest.mark.parametrize("target", [ONE, TWO])
@pytest.mark.parametrize(
    ("image", "outputs"),
    [((2, 29, 29, 32), 64), ((1, 7, 7, 256), 192)],
    ids=["rows outside", "panels outside"],
)
def test_large_convolutions(image: Any, outputs: int, target: str) -> None:
    options = (1, 1), (1, 1, 1, 1), (1, 1), 1
    for name in ("NHWC", "NCHW16c"):
        s = check(name, image, (3, 3, outputs), options, target, epilogue=True)
        assert ("parallel" in repr(s["T_clip"])) == (target == TWO)


@pytest.mark.parametrize("target", [ONE, TWO])
@pytest.mark.parametrize("outputs", [16, 200])  # with many, the loop over panels is outermost
def test_a_symbolic_batch_is_one_build_for_many_sizes(target: str, outputs: int) -> None:
    n = te.var("n")
    x, w = te.placeholder((n, 6, 5, 8), name="x"), te.placeholder((3, 3, 8, outputs), name="w")
    out = topi.relu(topi.conv2d(x, w, 1, 1, layout="NHWC"))
    f = tvm.build(topi.schedule(out, target), [x, w, out], target)
    rng = np.random.default_rng(1)
    for batch in (1, 3):
        a, b = (rng.uniform(-1, 1, s).astype("float32") for s in ((batch, 6, 5, 8), w.shape))
        got = np.zeros((batch, 6, 5, outputs), "float32")
        f(a, b, got)
        want = convolution(a, b, (1, 1), (1, 1, 1, 1), (1, 1), 1)
        assert_allclose(got, np.maximum(want, 0), rtol=1e-4, atol=1e-4)


def test_symbolic_and_empty_channels_have_a_schedule_too() -> None:
    c = te.var("c")
    x, w = te.placeholder((1, 4, 4, c), name="x"), te.placeholder((3, 3, c, 5), name="w")
    out = topi.conv2d(x, w, layout="NHWC")
    f = tvm.build(topi.schedule(out), [x, w, out])
    for channels in (0, 3):
        got = np.full(out.shape, np.nan, "float32")
        f(np.ones((1, 4, 4, channels), "float32"), np.ones((3, 3, channels, 5), "float32"), got)
        assert (got == 9 * channels).all()


def test_constant_weights_are_packed_once() -> None:
    x = te.placeholder((1, 6, 6, 8), name="x")
    w = te.placeholder((3, 3, 8, 48), name="w", constant=True)
    out = topi.conv2d(x, w, layout="NHWC")
    func = tvm.lower(topi.schedule(out, ONE), [x, w, out], target=ONE)
    assert func.prepack is not None
    assert "w[" not in str(func.body)
    f = tvm.build(topi.schedule(out, ONE), [x, w, out], ONE)
    a, b = np.ones(x.shape, "float32"), np.ones(w.shape, "float32")
    got = np.zeros(out.shape, "float32")
    f.bind(w=b)(a, got)
    assert (got == 72).all()


@pytest.mark.parametrize(
    ("size", "inputs", "outputs", "cores", "loops"),
    [
        (7, 64, 64, 1, []),
        (7, 64, 2048, 1, ["rx.rc.fused", "c.outer"]),  # this panel, and the next one
        (7, 64, 2048, 2, ["rx.rc.fused"]),  # the next panel may be for another thread
        (28, 64, 512, 1, []),  # each weight is used so often that waiting for it costs little
        (28, 512, 512, 1, ["rx.rc.fused"]),  # the image takes up the cache
    ],
)
def test_large_weights_are_requested_before_they_are_used(
    size: int, inputs: int, outputs: int, cores: int, loops: list[str]
) -> None:
    target = tvm.Target(f"llvm -num-cores={cores}").on(l1=32 << 10, l2=1 << 20)
    x = te.placeholder((1, size, size, inputs), name="x")
    w = te.placeholder((1, 1, inputs, outputs), name="w", constant=True)
    steps = topi.schedule(topi.conv2d(x, w, layout="NHWC"), target).steps
    assert [s.axis for s in steps if isinstance(s, schedule.Prefetch)] == loops


def test_rows_of_pixels_are_copied_once() -> None:
    x, w = te.placeholder((1, 20, 20, 16), name="x"), te.placeholder((3, 3, 16, 16), name="w")
    out = topi.conv2d(x, w, 1, 1, layout="NHWC")
    func = tvm.lower(topi.schedule(out, ONE), [x, w, out], target=ONE)
    assert "T_pad = allocate((1, 22, 22, 16)" not in str(func)  # a few rows at a time
    plain = topi.conv2d(x, w, 1, 0, layout="NHWC")
    assert "T_pad" not in str(tvm.lower(topi.schedule(plain, ONE), [x, w, plain], target=ONE))


# --- the tile ------------------------------------------------------------------------------------


def sizes(
    high: int, wide: int, outputs: int, terms: int, image: int = 1 << 18, channels: int = 64
) -> Sizes:
    return Sizes(1, outputs, high, wide, terms, image, terms * outputs * 4, 4, channels * 4)


NHWC = layout_of("test", "NHWC")
HERE = tvm.Target(ONE)


@pytest.mark.parametrize("target", [ONE, NARROW])
@pytest.mark.parametrize(
    "z",
    [sizes(56, 56, 64, 576), sizes(7, 7, 512, 4608), sizes(112, 112, 24, 96), sizes(1, 1, 1, 1)],
)
def test_a_tile_fits_the_registers_and_the_image(z: Sizes, target: str) -> None:
    to = tvm.Target(target)
    t = plan(z, NHWC, z.outputs, to, to.lanes("float32"))
    assert t.high * t.wide * t.vectors + t.vectors + 1 <= to.vector_registers
    assert t.high <= z.high
    assert t.wide <= z.wide


def test_tiles_in_a_narrow_image_span_rows() -> None:
    wide = tvm.Target("llvm -num-cores=1 -mattr=+avx512f")
    assert plan(sizes(7, 7, 512, 512), NHWC, 512, wide, 16) == Tile(2, 7, 2, 16)


@pytest.mark.parametrize(
    ("name", "outputs", "groups", "lanes"),
    [
        ("NHWC", 64, 1, 16),
        ("NHWC", 24, 3, 8),
        ("NHWC", 9, 3, 1),
        ("NHWC", 5, 1, 4),
        ("NCHW12c", 48, 1, 4),
        ("NCHW64c", 128, 1, 16),
    ],
)
def test_a_vector_stays_in_a_block_and_in_a_group(
    name: str, outputs: int, groups: int, lanes: int
) -> None:
    layout = layout_of("test", name)
    t = plan(sizes(14, 14, outputs, 64), layout, outputs // groups, HERE, 16)
    assert t.lanes == lanes
    assert groups == 1 or outputs // groups % t.channels == 0
    small, large = sorted((t.channels, layout.block or t.channels))
    assert large % small == 0


def test_more_loads_and_panels_that_overflow_a_cache_cost_more() -> None:
    z = sizes(56, 56, 64, 576)
    assert cost(z, Tile(1, 28, 1, 16), HERE) > cost(z, Tile(1, 14, 2, 16), HERE)
    near, far = (sizes(56, 56, 64, n) for n in (HERE.l2 // 4 // 32, HERE.l2 // 2 // 32))
    tile = Tile(1, 14, 2, 16)
    assert cost(far, tile, HERE) > cost(near, tile, HERE)


@pytest.mark.parametrize(
    ("channels", "l1", "pixels"),
    [(1008, 32, 14), (1024, 32, 9), (1040, 32, 14), (2048, 32, 9), (2048, 48, 14)],
)
def test_pixels_in_one_set_of_the_cache_are_few(channels: int, l1: int, pixels: int) -> None:
    wide = tvm.Target(ONE).on(vector_bytes=64, vector_registers=32, l1=l1 << 10, l2=1 << 20)
    tile = plan(sizes(14, 14, 256, channels, channels=channels), NHWC, 256, wide, 16)
    assert tile.high * tile.wide == pixels


def test_the_operand_that_is_too_large_for_the_cache_is_read_once() -> None:
    tile = Tile(1, 14, 2, 16)
    heavy, big = sizes(14, 14, 512, HERE.l2 // 64), sizes(56, 56, 64, 64, 4 * HERE.l2)
    assert panels_outside(heavy, tile, HERE, threads=False)
    assert not panels_outside(big, tile, HERE, threads=False)
    both_fit = replace(sizes(14, 14, 512, HERE.l2 // 4096), image=1 << 10)
    assert panels_outside(both_fit, tile, HERE, threads=False)  # the next panel is requested
    cores = tvm.Target("llvm -num-cores=40")
    assert panels_outside(big, tile, cores, threads=True)  # 56 rows are too few for 40 cores


# --- what is refused -----------------------------------------------------------------------------


def place(*shape: int) -> te.Tensor:
    return te.placeholder(shape, name="A" if len(shape) == 5 or shape[0] == 1 else "W")


IMAGE, BLOCKS = place(1, 9, 9, 12), place(1, 2, 9, 9, 6)
REFUSED: list[tuple[Callable[[], Any], str]] = [
    (
        lambda: topi.conv2d(IMAGE, place(3, 3, 12, 8), groups=5, layout="NHWC"),
        "conv2d of A, W: 8 output channels cannot be divided into 5 groups",
    ),
    (
        lambda: topi.conv2d(IMAGE, place(3, 3, 12, 8), groups=2, layout="NHWC"),
        "conv2d of A, W: the data has 12 channels, but the kernel reads 12 in each of 2 group(s)\n"
        "  try: pass a kernel [KH, KW, C / groups, O]",
    ),
    (
        lambda: topi.conv2d(IMAGE, place(12, 3, 12, 8), padding=(1, 0), layout="NHWC"),
        "a window over A: it spans 12 pixels, but the image has 11, including the padding",
    ),
    (
        lambda: topi.conv2d(IMAGE, place(3, 12, 8), layout="NHWC"),
        "conv2d of A, W: they have 4 and 3 dimensions, not 4 and 4\n"
        "  try: data in layout NHWC and a kernel [KH, KW, C / groups, O]",
    ),
    (
        lambda: topi.conv2d(IMAGE, place(8, 12, 3, 3), layout="NCHW6c"),
        "conv2d of A, W: they have 4 and 4 dimensions, not 5 and 4\n"
        "  try: data in layout NCHW6c and a kernel [O, C / groups, KH, KW]",
    ),
    (
        lambda: topi.conv2d(BLOCKS, place(12, 12, 3, 3), layout="NCHW4c"),
        "conv2d of A, W: the last dimension of the data is 6, not 4\n"
        "  try: layout NCHW6c, or other data",
    ),
    (
        lambda: topi.conv2d(BLOCKS, place(8, 12, 3, 3), layout="NCHW6c"),
        "layout NCHW6c: 8 channels cannot be divided into blocks of 6\n"
        "  try: NHWC, or a block that divides the channels",
    ),
    (
        lambda: topi.conv2d(IMAGE, place(3, 3, 12, 8), layout="HWCN"),
        "topi.conv2d: layout 'HWCN': no such layout\n  try: 'NCHW', 'NHWC' or 'NCHW16c'",
    ),
    (
        lambda: topi.conv2d(IMAGE, place(3, 3, 12, 8), method="rows", layout="NHWC"),
        "conv2d: method 'rows': it is defined in NCHW, not in NHWC\n  try: method='best'",
    ),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_does_not_fit_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(tvm.ExprError) as e:
        make()
    assert str(e.value).split("\nat ")[0] == message
