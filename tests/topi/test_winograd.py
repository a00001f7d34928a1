"""conv2d_winograd against numpy: values, rounding errors, refusals, and the costs of formulas."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tensor, tir, topi
from minitvm.topi.convolution import CONVOLUTION, Convolution
from minitvm.topi.formulas import GROWTH, best_formula, best_tile
from minitvm.topi.layouts import NHWC
from minitvm.topi.window import Window
from minitvm.topi.winograd import TRANSFORMS
from minitvm.topi.winograd_schedule import Plan, plan

ONE = "llvm -num-cores=1"


def place(*shape: int, name: str = "X", dtype: str = "float32", constant: bool = False) -> Any:
    return te.placeholder(shape, dtype, name, constant=constant)


def convolution(x: Any, w: Any, pad: Any) -> Any:
    """The convolution of x [N, H, W, C] with w [3, 3, C, O] in float64."""
    top, left, bottom, right = pad
    x = np.pad(x.astype("float64"), ((0, 0), (top, bottom), (left, right), (0, 0)))
    high, wide = x.shape[1] - 2, x.shape[2] - 2
    return sum(
        x[:, ky : ky + high, kx : kx + wide] @ w[ky, kx].astype("float64")
        for ky in range(3)
        for kx in range(3)
    )


def error(got: Any, wanted: Any) -> float:
    """The largest error, relative to the largest value."""
    return float(abs(got - wanted).max() / abs(wanted).max())


# --- values --------------------------------------------------------------------------------------


def run(case: tuple[int, ...], pad: Any, tile: int, layout: str, target: str, extra: int) -> float:
    """The error of one convolution; extra: how many elementwise stages follow it."""
    n, high, wide, c, o = case
    rng, nhwc = np.random.default_rng(list(case)), layout == "NHWC"
    x = rng.standard_normal((n, high, wide, c)).astype("float32")
    w = rng.standard_normal((3, 3, c, o)).astype("float32")
    wanted = convolution(x, w, pad)
    if not nhwc:
        wanted = wanted.transpose(0, 3, 1, 2)
        x, w = x.transpose(0, 3, 1, 2).copy(), w.transpose(3, 2, 0, 1).copy()
    arrays, inputs = [x, w], [place(*x.shape), place(*w.shape, name="W")]
    out = topi.nn.conv2d_winograd(*inputs, pad, tile, layout)
    if extra > 0:
        inputs.append(place(*((o,) if nhwc else (o, 1, 1)), name="bias"))
        arrays.append(rng.standard_normal(inputs[-1].shape).astype("float32"))
        out, wanted = topi.add(out, inputs[-1]), wanted + arrays[-1]
    if extra > 1:
        inputs.append(place(*wanted.shape, name="residual"))
        arrays.append(rng.standard_normal(wanted.shape).astype("float32"))
        out, wanted = topi.add(out, inputs[-1]), wanted + arrays[-1]
    if extra > 2:
        out, wanted = topi.relu(out), np.maximum(wanted, 0)
    got = np.full(wanted.shape, np.nan, "float32")
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, got)
    return error(got, wanted)


@pytest.mark.parametrize(
    ("case", "pad", "tile", "layout", "extra"),
    [
        ((1, 8, 8, 32, 32), (1, 1, 1, 1), 4, "NHWC", 3),
        ((2, 7, 9, 17, 40), (0, 1, 2, 0), 2, "NHWC", 1),
        ((1, 13, 6, 3, 5), (2, 0, 1, 2), 4, "NHWC", 0),
        ((3, 5, 4, 16, 24), (1, 1, 1, 1), 2, "NCHW", 3),
        ((1, 4, 6, 8, 16), (0, 0, 0, 0), 4, "NCHW", 2),
        ((1, 3, 4, 20, 1), (0, 0, 0, 0), 2, "NHWC", 2),  # one tile, one output channel
    ],
)
def test_it_equals_numpy(
    case: tuple[int, ...], pad: tuple[int, ...], tile: int, layout: str, extra: int
) -> None:
    assert run(case, pad, tile, layout, ONE, extra) < 3e-5


@pytest.mark.parametrize("tile", [2, 4])
def test_every_target_computes_it(tile: int) -> None:
    for target in ("python", "llvm -num-cores=1 -mattr=-avx512f"):
        assert run((1, 4, 5, 2, 3), (1, 0, 1, 1), tile, "NHWC", target, 1) < 3e-5


def test_blocks_of_tiles_run_in_parallel() -> None:
    case = (1, 34, 34, 64, 64)
    assert run(case, (1, 1, 1, 1), 2, "NHWC", "llvm -num-cores=2", 1) < 2e-6


@pytest.mark.parametrize(
    ("batch", "size", "channels", "tile"),
    [(1, 28, 128, 2), (1, 55, 16, 4), (1, 7, 512, 4), (3, 28, 128, 2), (2, 7, 512, 2)],
)
@pytest.mark.parametrize("cores", [1, 2])
def test_a_block_computes_only_its_own_tiles(
    batch: int, size: int, channels: int, tile: int, cores: int
) -> None:
    facts = {"vector_bytes": 64, "vector_registers": 32, "l2": 1 << 20}
    target = tvm.Target(f"llvm -num-cores={cores}").on(**facts)
    x = place(batch, size, size, channels)
    w = place(3, 3, channels, 64, name="W", constant=True)
    out = topi.nn.conv2d_winograd(x, w, 1, tile)
    block = plan(out.op.attrs[CONVOLUTION], tile, target).block
    lowered = tvm.lower(topi.schedule(out, target), [x, w, out], target=target)
    arrays = [n.buffer for n in tir.walk(lowered.body) if isinstance(n, tir.Allocate)]
    assert max(b.shape[2] for b in arrays if b.name == "V") == block * -(-size // tile)


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("channels", [8, 160])  # blocks of an image; all images, to read U once
def test_one_build_serves_any_batch(channels: int, cores: int) -> None:
    n, target = te.var("n"), f"llvm -num-cores={cores}"
    x, w = place(n, 9, 10, channels), place(3, 3, channels, channels, name="W", constant=True)  # type: ignore[arg-type]
    conv = topi.conv2d(x, w, padding=1, layout="NHWC", method="winograd")
    out = topi.relu(conv)
    s = topi.schedule(out, target)
    assert s["V"].is_attached == (channels == 8)
    f = tvm.build(s, [x, w, out], target)
    for batch in (1, 2, 3, 5, 17):
        rng = np.random.default_rng(batch)
        a, b = (
            rng.uniform(-1, 1, z).astype("float32") for z in ((batch, 9, 10, channels), w.shape)
        )
        got = np.full((batch, 9, 10, channels), np.nan, "float32")
        f(a, b, got)
        wanted = np.maximum(convolution(a, b, (1, 1, 1, 1)), 0)
        assert error(got, wanted) < 3e-5


def test_what_follows_may_be_a_reduction_or_several_readers() -> None:
    x, w = place(1, 6, 6, 8), place(3, 3, 8, 16, name="W")
    c = topi.nn.conv2d_winograd(x, w, 1, 2)
    out = topi.sum(topi.add(topi.relu(c), c), (1, 2))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(t.shape).astype("float32") for t in (x, w))
    got = np.zeros((1, 16), "float32")
    tvm.build(topi.schedule(out), [x, w, out])(a, b, got)
    wanted = convolution(a, b, (1, 1, 1, 1))
    assert error(got, (np.maximum(wanted, 0) + wanted).sum((1, 2))) < 1e-5


def test_the_transforms_of_a_constant_kernel_are_computed_beforehand() -> None:
    x, w = place(1, 6, 6, 16), place(3, 3, 16, 32, name="W", constant=True)
    out = topi.nn.conv2d_winograd(x, w, 1, 2)
    s = topi.schedule(out, ONE)
    main = tvm.lower(s, [x, w, out], target=ONE)
    assert main.prepack is not None
    assert [p.name for p in main.prepack.params] == ["W", "U"]
    assert not any(isinstance(n, tir.Load) and n.buffer.name == "W" for n in tir.walk(main.body))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(t.shape).astype("float32") for t in (x, w))
    got = np.zeros(out.shape, "float32")
    tvm.build(s, [x, w, out], ONE).bind(W=b)(a, got)
    assert error(got, convolution(a, b, (1, 1, 1, 1))) < 3e-5


# --- rounding errors -----------------------------------------------------------------------------


def plain(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape)


def large_mean(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.standard_normal(shape) + 1000


def large_channel(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    x = rng.standard_normal(shape)
    x[..., 3] *= 1000
    return x


@pytest.mark.parametrize(("tile", "limit"), [(2, 2e-6), (4, 3e-5)])
def test_rounding_errors_stay_within_their_limits(tile: int, limit: float) -> None:
    shape, channels, outputs = (1, 12, 12, 256), 256, 32
    x, w = place(*shape), place(3, 3, channels, outputs, name="W")
    out = topi.nn.conv2d_winograd(x, w, 1, tile)
    f = tvm.build(topi.schedule(out, ONE), [x, w, out], ONE)
    got = np.zeros(out.shape, "float32")
    kinds: list[Callable[..., Any]] = [plain, large_mean, large_channel]
    for data in kinds:
        rng = np.random.default_rng(1)
        a = data(rng, shape).astype("float32")
        b = rng.standard_normal((3, 3, channels, outputs)).astype("float32")
        f(a, b, got)
        found = error(got, convolution(a, b, (1, 1, 1, 1)))
        assert found <= limit, data.__name__
        if data is plain:  # what topi.formulas expects, within a factor of two
            expected = next(e.error for e in topi.formulas(out) if e.tile == tile)
            assert expected / 2 < found < expected * 2


@pytest.mark.parametrize("tile", [2, 4])
def test_transforms_are_exact_and_give_the_growth_of_errors(tile: int) -> None:
    ways, a = TRANSFORMS[tile], tile + 2
    g, bt, at = (
        np.transpose([ways_of([float(n == k) for n in range(size)]) for k in range(size)])
        for ways_of, size in ((ways.kernel, 3), (ways.data, a), (ways.output, a))
    )
    d, k = np.random.default_rng(0).standard_normal((2, a))
    wanted = [d[y : y + 3] @ k[:3] for y in range(tile)]
    np.testing.assert_allclose(at @ ((g @ k[:3]) * (bt @ d)), wanted, rtol=1e-12)
    growth = (at**2 @ ((bt**2).sum(1) * (g**2).sum(1))).max() / 3
    assert growth == pytest.approx(GROWTH[tile], rel=1e-3)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "kernel", "options", "says"),
    [
        (
            (1, 8, 8, 4),
            (3, 3, 4, 8),
            {"strides": 2},
            "the strides are (2, 2), but the transforms are for 1\n"
            "  try: topi.conv2d(data, kernel, ...)",
        ),
        (
            (1, 8, 8, 4),
            (5, 5, 4, 8),
            {},
            "the kernel is 5x5, but F(2) and F(4) are defined for 3x3\n"
            "  try: topi.conv2d(data, kernel, ...)",
        ),
        (
            (1, 8, 8, 4),
            (3, 3, 2, 8),
            {"groups": 2},
            "there are 2 groups, but its products sum over all channels\n"
            "  try: topi.conv2d(data, kernel, ...)",
        ),
        (
            (1, 8, 8, 4),
            (3, 3, 4, 8),
            {"dilation": (1, 2)},
            "the dilation is (1, 2), but the transforms are for 1\n"
            "  try: topi.conv2d(data, kernel, ...)",
        ),
        (
            (1, 8, 8, 4),
            (3, 3, 3, 8),
            {},
            "the data has 4 channels, but the kernel reads 3 in each of 1 group(s)\n"
            "  try: pass a kernel [KH, KW, C / groups, O]",
        ),
        (
            (1, 4, 8, 8),
            (8, 4, 3),
            {"layout": "NCHW"},
            "they have 4 and 3 dimensions, not 4 and 4\n"
            "  try: data in layout NCHW and a kernel [O, C / groups, KH, KW]",
        ),
        (
            (1, 2, 8, 8, 4),
            (8, 8, 3, 3),
            {"layout": "NCHW4c"},
            "it is not defined in NCHW4c\n  try: layout='NHWC' or 'NCHW'",
        ),
        (
            (1, 8, 8, 4),
            (3, 3, 4, 8),
            {"tile": 3},
            "no such tile\n  try: 2, 4, or None to choose",
        ),
    ],
)
def test_what_it_cannot_compute_is_refused(
    shape: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any], says: str
) -> None:
    with pytest.raises(tvm.ExprError) as refused:
        topi.nn.conv2d_winograd(place(*shape), place(*kernel, name="W"), 1, **options)
    assert str(refused.value).split(": ", 1)[1].removeprefix("tile=3: ") == says


def test_integers_are_refused() -> None:
    x, w = place(1, 8, 8, 4, dtype="int32"), place(3, 3, 4, 8, name="W", dtype="int32")
    with pytest.raises(tvm.ExprError, match="the type is int32, but the transforms need fractions"):
        topi.nn.conv2d_winograd(x, w)


# --- formulas ------------------------------------------------------------------------------------


def test_formulas_are_listed_as_a_table() -> None:
    c = topi.conv2d(place(1, 128, 28, 28), place(128, 128, 3, 3, name="W"), padding=1)
    assert str(topi.formulas(topi.relu(c))) == (
        "formula               multiplications  weight bytes  data bytes    error\n"
        "direct                    115,605,504       589,824     802,816  8.3e-07\n"
        "rows                      123,863,040       589,824   1,726,464  8.3e-07\n"
        "blocks                    115,605,504       589,824   3,330,048  8.3e-07\n"
        "gemm                      115,605,504       589,824     802,816  8.3e-07\n"
        "winograd F(2x2, 3x3)       51,380,224     1,048,576   7,225,344  4.6e-07\n"
        "winograd F(4x4, 3x3)       28,901,376     2,359,296   4,415,488  8.7e-06"
    )


def test_formulas_that_do_not_apply_say_why() -> None:
    table = topi.formulas(topi.conv2d(place(1, 8, 9, 9), place(8, 4, 3, 3, name="W"), 2, groups=2))
    assert [(f.name, f.why_not) for f in table if not f.applies] == [
        ("blocks", "there are 2 groups, but its products sum over all channels"),
        ("gemm", "there are 2 groups, but its products sum over all channels"),
        ("winograd", "the strides are (2, 2), but the transforms are for 1"),
        ("winograd", "the strides are (2, 2), but the transforms are for 1"),
    ]
    nhwc = topi.formulas(topi.nn.conv2d_winograd(place(1, 8, 8, 4), place(3, 3, 4, 8, name="W")))
    assert [(f.name, f.why_not) for f in nhwc if not f.applies] == [
        ("rows", "it is defined in NCHW, not in NHWC"),
        ("blocks", "it is defined in NCHW, not in NHWC"),
    ]


def test_formulas_of_what_is_no_convolution_are_refused() -> None:
    with pytest.raises(tvm.ExprError) as refused:
        topi.formulas(topi.relu(place(3)))
    assert str(refused.value) == (
        "topi.formulas(T_relu): it is not a convolution of topi, and reads none\n"
        "  try: the result of topi.conv2d(data, kernel)"
    )


def layer(size: int, inputs: int, outputs: int, batch: int = 1) -> Convolution:
    side = Window(size, 3, 1, 1, 1, 1)
    return Convolution(batch, inputs, outputs, 1, side, side, NHWC, tvm.base.FLOAT32)


def test_large_weights_decide_for_smaller_tiles() -> None:
    machine: Any = tvm.Target(ONE)
    for name, number in (("l2", 1 << 20), ("vector_bytes", 64)):
        object.__setattr__(machine, name, number)
    assert [
        best_tile(layer(*shape), machine)
        for shape in ((56, 64, 64), (28, 128, 128), (14, 256, 256), (7, 512, 512))
    ] == [4, 4, 2, 2]
    assert best_tile(layer(14, 256, 256, batch=8), machine) == 4  # each weight is used more often
    assert best_formula(layer(56, 64, 64), machine).name == "winograd"
    assert best_formula(layer(56, 2, 2), machine).name == "direct"  # the transforms cost too much


def test_narrow_images_are_faster_in_blocks_of_channels() -> None:
    machine = tvm.Target(ONE).on(vector_bytes=64, vector_registers=32, l2=1 << 21)
    found: list[str] = []
    for size, channels, side in ((56, 64, 1), (56, 64, 3), (7, 512, 3)):
        image, kernel = place(1, channels, size, size), place(channels, channels, side, side)
        out = topi.conv2d(image, kernel, padding=side // 2)
        found.append(topi.best_formula(out, machine, ("rows", "blocks")).name)
    assert found == ["rows", "blocks", "blocks"]


def test_more_cores_favour_the_formula_with_fewer_bytes() -> None:
    """Multiplications are divided among the cores; the way to memory is shared."""
    machine: Any = tvm.Target(ONE)
    for name, number in (("l2", 1 << 21), ("vector_bytes", 64)):
        object.__setattr__(machine, name, number)
    found = []
    for cores in (1, 2):
        object.__setattr__(machine, "num_cores", cores)
        found.append(best_formula(layer(7, 512, 512), machine).name)
    assert found == ["winograd", "direct"]
    assert best_formula(layer(56, 64, 64), machine).name == "winograd"


def test_plans_follow_from_the_machine() -> None:
    machine = tvm.Target(ONE).on(vector_bytes=64, vector_registers=32, l2=1 << 20)
    assert plan(layer(56, 64, 64), 4, machine) == Plan(2, (14, 32), 32, 16, 16, False)
    assert plan(layer(28, 128, 128), 4, machine) == Plan(7, (13, 32), 32, 16, 16, False)
    assert plan(layer(7, 512, 512), 2, machine) == Plan(4, (8, 32), 32, 16, 16, False)
    assert plan(layer(7, 512, 512), 2, machine.on(num_cores=2)).block == 2


@pytest.mark.parametrize("method", ["winograd", "best"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_conv2d_computes_by_the_formula_it_is_told(method: str, layout: str) -> None:
    nhwc = layout == "NHWC"
    shapes = ((1, 8, 8, 32), (3, 3, 32, 32)) if nhwc else ((1, 32, 8, 8), (32, 32, 3, 3))
    data, kernel = place(*shapes[0]), place(*shapes[1], name="W", constant=True)
    out = topi.conv2d(data, kernel, padding=1, method=method, layout=layout)
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(n).astype("float32") for n in shapes)
    y = np.zeros(out.shape, "float32")
    tvm.build(topi.schedule(out), [data, kernel, out]).bind(W=w)(x, y)
    plain = topi.conv2d(data, kernel, padding=1, method="direct", layout=layout)
    (wanted,) = tensor.evaluate([plain], {data: x, kernel: w})
    assert error(y, wanted) < 3e-5
