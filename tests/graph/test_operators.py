"""Each operator's formula, compiled by its default schedule, computes what its reference does."""

import inspect

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph, te, topi

X = (2, 8, 6, 6)
PLACES = np.array([[2, -1, 0], [0, 9, -9]])  # two of them are out of bounds
BYTES = np.array([0, 1, 7, 200], "uint8")
BLOCKS = np.random.default_rng(0).integers(-128, 128, (1, 2, 5, 5, 1, 16)).astype("int8")
TAPS = np.random.default_rng(1).integers(-128, 128, (2, 2, 3, 3, 16, 16)).astype("int8")
BIASES = (1_000 * np.arange(-16, 16, dtype="int32")).reshape(2, 1, 16)
CASES = {  # operator -> shapes of its inputs, attributes
    "acosh": [(np.array([1, 1.5, 40], "float32"), {})],
    "add": [((8, 6), (6,), {}), ((8, 6), {"b": 2.0})],
    "attention": [((1, 4, 9, 8), (1, 2, 9, 8), (1, 2, 9, 8), {"causal": True})],
    "avg_pool2d": [
        (X, {"kernel": 3, "strides": 2, "padding": 1, "count_include_pad": False}),
        (X, {"kernel": 3, "padding": 2, "count_include_pad": False, "dilation": 2}),
    ],
    "batch_matmul": [((3, 4, 5), (3, 5, 6), {})],
    "batch_norm": [(X, (8,), (8,), (8,), (8,), {})],
    "bitwise_and": [(BYTES, BYTES[::-1], {})],
    "bitwise_not": [(BYTES, {}), (PLACES, {})],
    "bitwise_or": [(BYTES, BYTES[::-1], {})],
    "bitwise_xor": [(BYTES, BYTES[::-1], {})],
    "broadcast_to": [((6, 1), {"shape": (2, 6, 5)}), ((6,), {"shape": (6, 6)})],
    "clip": [(X, {"a_min": 0.2, "a_max": 0.6})],
    "cast": [(X, {"dtype": "int32"})],
    "concatenate": [((2, 3), (2, 5), {"axis": 1}), ((2, 3), (2, 3), (2, 3), {})],
    "conv2d": [
        (X, (16, 8, 3, 3), {"padding": 1}),
        (X, (16, 4, 3, 3), {"strides": 2, "padding": (1, 0, 1, 0), "groups": 2}),
        ((2, 6, 6, 8), (3, 3, 8, 16), {"padding": 1, "layout": "NHWC", "method": "winograd"}),
        ((2, 6, 6, 8), (3, 3, 1, 8), {"padding": 1, "layout": "NHWC", "groups": 8}),
    ],
    "conv2d_transpose": [((1, 4, 5, 5), (4, 3, 4, 4), {"strides": 2, "padding": 1})],
    "conv3d": [((1, 3, 4, 5, 5), (4, 3, 3, 3, 3), {"padding": 1, "strides": 2})],
    "cumprod": [((3, 4), {"axis": 1})],
    "cumsum": [((3, 4), {"axis": a, "exclusive": a > 0, "reverse": a < 1}) for a in (0, 1)],
    "dense": [((4, 8), (6, 8), (6,), {}), ((4, 8), (6, 8), {})],
    "floor_mod": [((8, 6), (6,), {}), (PLACES, np.array([2, -2, 3]), {})],
    "fmod": [((8, 6), (6,), {}), (PLACES, np.array([2, -2, 3]), {})],
    "gather": [((3, 4), PLACES, {"axis": 0})],
    "gather_nd": [((2, 3, 4), PLACES[:, :1], {"batch_dims": 1}), ((4, 3, 5), PLACES[:, :2], {})],
    "global_avg_pool2d": [(X, {}), (X, {"layout": "NHWC"})],
    "gru": [((3, 2, 24), (24, 8), (1, 2, 8), (8,), {})],
    "lstm": [((3, 2, 32), (32, 8), (2, 2, 8), {"reverse": True})],
    "grid_sample": [
        (X, (2, 3, 4, 2), {"mode": m, "padding_mode": p, "align_corners": p == "border"})
        for m, p in (("nearest", "border"), ("linear", "zeros"), ("cubic", "reflection"))
    ],
    "layer_norm": [((4, 32), (32,), (32,), {})],
    "left_shift": [(BYTES, np.array([3, 1, 0, 7], "uint8"), {})],
    "matmul": [((4, 8), (8, 6), {}), ((8, 4), (6, 8), {"transpose_a": True, "transpose_b": True})],
    "max": [(X, {"axis": (2, 3), "keepdims": True})],
    "max_pool2d": [
        (X, {"kernel": 3, "strides": 2, "padding": 1}),
        (X, {"kernel": 2, "padding": 1, "strides": 1, "dilation": (2, 3)}),
    ],
    "mean": [(X, {"axis": (2, 3)})],
    "pad": [((2, 3), {"pad_before": (1, 0), "pad_after": (0, 2), "pad_value": 7.0})],
    "reshape": [(X, {"shape": (16, 36)})],
    "rnn": [((3, 2, 8), (8, 8), (1, 2, 8), {"activation": "relu"})],
    "resample": [((4, 3), PLACES.T % 4, np.full((3, 2), 0.4, "float32"), {"axis": 0})],
    "right_shift": [(BYTES, np.array([3, 1, 0, 7], "uint8"), {})],
    "scatter_elements": [
        ((3, 4), PLACES, (2, 3), {"axis": 1, "reduction": r}) for r in ("none", "add", "max")
    ],
    "scatter_nd": [((4, 3), PLACES[:, 1:2], (2, 3), {}), ((4, 3), PLACES[:, :2], (2,), {})],
    "strided_slice": [((8, 6), {"begin": (1, 0), "end": (7, 6), "strides": (2, 1)})],
    "sum": [(X, {"axis": 1})],
    "topk": [((8, 6), {"k": 4}), ((8, 6), {"k": 8, "axis": 0, "largest": False})],
    "trunc_divide": [(PLACES, np.array([2, -2, 3]), {})],
    "transpose": [(X, {"axes": (0, 2, 3, 1)})],
    "vta_conv2d": [
        (BLOCKS, TAPS, BIASES, {"stride": 2, "padding": 1, "shift": 9, "low": -128}),
        (
            *(BLOCKS, TAPS, BIASES, BLOCKS[::-1]),
            {"stride": 1, "padding": 1, "shift": 9, "residual_shift": 8},
        ),
    ],
    "vta_pack": [((2, 32, 3, 4), {"blocks": (1, 16)})],
    "vta_unpack": [(BLOCKS, {})],
    "where": [((8, 6), (8, 6), (6,), {})],
}
WITH_INTEGERS = ("cache_update", "cached_attention", "dense_int8", "take")  # see other tests
QUANTISED = ("add_requantised", "dequantise", "quantise", "requantise")  # see test_quantise.py
LISTED = [(name, *case) for name, cases in CASES.items() for case in cases]
LISTED += [
    (name, *([(8, 6)] * sum(p.default is p.empty for p in parameters)), {})
    for name, each in graph.OPERATORS.items()
    if name not in (*CASES, *WITH_INTEGERS, *QUANTISED)
    and (parameters := inspect.signature(each.formula).parameters.values())
]


def dtype_of(x):
    return x.dtype if isinstance(x, np.ndarray) else np.float32


@pytest.mark.parametrize("case", LISTED, ids=lambda case: case[0])
def test_the_formula_computes_what_the_reference_does(case, rng) -> None:
    name, *shapes, attrs = case  # or arrays
    operator = graph.OPERATORS[name]
    values = [
        np.ascontiguousarray(x if isinstance(x, np.ndarray) else rng.uniform(-1, 1, x), dtype_of(x))
        for x in shapes
    ]
    with np.errstate(all="ignore"):
        if not np.isfinite(operator.reference(*values, **attrs)).all():  # log, sqrt, power, ...
            values = [abs(x) for x in values]
    inputs = [te.placeholder(x.shape, x.dtype.name, name=f"x{k}") for k, x in enumerate(values)]
    out = operator.formula(*inputs, **attrs)
    found = tvm.nd.empty(out.shape, out.dtype)
    tvm.build(topi.schedule(out), [*inputs, out])(*values, found)
    np.testing.assert_allclose(found, operator.reference(*values, **attrs), 2e-5, 2e-5)


def test_take_chooses_rows(rng) -> None:
    table, rows = rng.random((5, 4), np.float32), np.array([[4, 0], [2, 9]], "int32")
    b = graph.Builder()
    x, i = b.input("x", (5, 4)), b.input("i", (2, 2), "int32")
    (found,) = graph.evaluate(b.graph(b.take(x, i, axis=0)), table, rows)
    np.testing.assert_array_equal(found, table[[[4, 0], [2, 4]]])
