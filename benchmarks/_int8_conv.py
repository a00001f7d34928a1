"""Quantised convolutions of ResNets, ONNX Runtime and the peak; import after arguments()."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from _common import Row, best_seconds, prepared
from _conv import LAYERS as RESNET18
from _conv import Layer

import minitvm as tvm
from minitvm import te, topi
from minitvm.runtime.aligned import empty_aligned

STEPS, CHAINS, LANES = 1 << 16, 24, 16
SCALES = 0.02, 0.01, 0.9  # of data, weights and results
ZERO_X, ZERO_Y = 7, 3
LAYERS = {  # C: of ResNet-18; R: of ResNet-50; D: depthwise, of MobileNet-V2
    **RESNET18,
    "R1": Layer(56, 64, 256, 1, 1),
    "R2": Layer(56, 256, 64, 1, 1),
    "R3": Layer(28, 512, 128, 1, 1),
    "R4": Layer(14, 1024, 256, 1, 1),
    "R5": Layer(7, 512, 2048, 1, 1),
    "D1": Layer(112, 32, 32, 3, 1, 32),
    "D2": Layer(112, 96, 96, 3, 2, 96),
    "D3": Layer(56, 144, 144, 3, 1, 144),
    "D4": Layer(14, 384, 384, 3, 1, 384),
    "D5": Layer(14, 576, 576, 3, 2, 576),
    "D6": Layer(7, 960, 960, 3, 1, 960),
}


def measure(case: str, threads: int, rounds: int, to: str) -> Row:
    """Measure a layer in turns with ONNX Runtime and, on one thread, the peak; compare results."""
    layer = LAYERS[case]
    rng = np.random.default_rng(0)
    x = aligned(rng.integers(0, 256, (1, layer.size, layer.size, layer.inputs), "uint8"))
    shape = (layer.kernel, layer.kernel, layer.inputs // layer.groups, layer.outputs)
    w = rng.integers(-127, 128, shape, "int8")
    bias = rng.integers(-1000, 1000, layer.outputs, "int32")
    run, out = ours(layer, x, w, bias, to)
    peers = {
        "onnxruntime": lambda: by_onnx_runtime(layer, x, w, bias, threads, out),
        "ort_nhwc": lambda: by_onnx_runtime(layer, x, w, bias, threads, out, nhwc=True),
    }
    runs = {"ours": run, **prepared(peers)}
    work = dict.fromkeys(runs, layer.operations)
    if threads == 1:
        runs["peak"], work["peak"] = peak(to)
    burst = max(3, min(50, int(2e9 / layer.operations)))
    seconds = best_seconds(runs, rounds, pause=0.3 if threads > 1 else 0.0, burst=burst)
    rates = {name: work[name] / t / 1e9 for name, t in seconds.items()}
    return Row(case, threads, "GOP/s", rates.pop("ours"), rates)


def ours(
    layer: Layer, x: np.ndarray, w: np.ndarray, bias: np.ndarray, to: str
) -> tuple[Callable[[], object], np.ndarray]:
    """Build our kernel with its weights packed; return a call of it and its result."""
    data = te.placeholder(x.shape, "uint8", name="X")
    weights = te.placeholder(w.shape, "int8", name="W", constant=True)
    b = te.placeholder(bias.shape, "int32", name="bias")
    scale = te.placeholder(bias.shape, "float32", name="scale")
    options: dict[str, Any] = {"layout": "NHWC", "pad_value": ZERO_X, "groups": layer.groups}
    sums = topi.conv2d(data, weights, layer.stride, layer.pad, **options)
    q = topi.requantise(sums, b, scale, ZERO_Y)
    f = tvm.build(topi.schedule(q, to), [data, weights, b, scale, q], to).bind(W=w)
    sx, sw, sy = map(np.float32, SCALES)
    folded = bias - ZERO_X * w.sum((0, 1, 2), dtype="int32")
    factors = np.full(bias.shape, sx * sw / sy, "float32")
    out = empty_aligned(tuple(q.shape), np.dtype("uint8"))
    f(x, folded, factors, out)
    return lambda: f(x, folded, factors, out), out


def by_onnx_runtime(
    layer: Layer,
    x: np.ndarray,
    w: np.ndarray,
    bias: np.ndarray,
    threads: int,
    want: np.ndarray,
    nhwc: bool = False,
) -> Callable[[], object]:
    """Return a call of ONNX Runtime's QLinearConv, whose result must equal `want`.

    nhwc: call the operator of its own domain that computes in NHWC; that of ONNX computes in NCHW,
    with two transposes, which a whole network has only at its ends.
    """
    import onnxruntime
    from onnx import TensorProto, helper, numpy_helper

    sx, sw, sy = map(np.float32, SCALES)
    constants = {
        "sx": sx, "zx": np.uint8(ZERO_X), "W": np.ascontiguousarray(w.transpose(3, 2, 0, 1)),
        "sw": np.full(bias.shape, sw, "float32"), "zw": np.zeros(bias.shape, "int8"),
        "sy": sy, "zy": np.uint8(ZERO_Y), "bias": bias,
    }  # fmt: skip
    own = {"domain": "com.microsoft", "channels_last": 1} if nhwc else {}
    node = helper.make_node(
        "QLinearConv", ["X", *constants], ["Y"], **own,
        strides=[layer.stride] * 2, pads=[layer.pad] * 4, kernel_shape=[layer.kernel] * 2,
        group=layer.groups,
    )  # fmt: skip
    arrays = [numpy_helper.from_array(np.asarray(a), name) for name, a in constants.items()]
    if not nhwc:
        x, want = (aligned(a.transpose(0, 3, 1, 2)) for a in (x, want))
    ends = [
        [helper.make_tensor_value_info(name, TensorProto.UINT8, a.shape)]
        for name, a in (("X", x), ("Y", want))
    ]
    graph = helper.make_graph([node], "layer", *ends, arrays)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains, ir_version=8)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(
        model.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    binding = session.io_binding()  # no copies of data and result
    y = empty_aligned(want.shape, want.dtype)
    binding.bind_cpu_input("X", x)
    binding.bind_output("Y", "cpu", 0, np.uint8, y.shape, y.ctypes.data)
    session.run_with_iobinding(binding)
    np.testing.assert_array_equal(y, want)

    def run() -> np.ndarray:
        session.run_with_iobinding(binding)
        return y  # which the binding itself does not keep alive

    return run


def aligned(a: np.ndarray) -> np.ndarray:
    """Return a copy of `a` at the start of a cache line."""
    copy = empty_aligned(a.shape, a.dtype)
    copy[...] = a
    return copy


def peak(to: str) -> tuple[Callable[[], object], int]:
    """Return a call that only adds dot products of bytes in registers, and its operations.

    for k in range(STEPS):
      tile[c, :] = dot4(tile[c, :], X[0 : 4], Y)      for each chain c
    """
    x = te.placeholder((4,), "uint8", name="X")
    y = te.placeholder((LANES, 4), "int8", name="Y")
    k, byte = te.reduce_axis((0, STEPS), "k"), te.reduce_axis((0, 4), "byte")

    def dot(_: Any, j: Any) -> Any:
        product = x(byte).astype("int32") * y(j, byte).astype("int32")
        return te.sum(product, axis=[k, byte])

    z = te.compute((CHAINS, LANES), dot, name="Z")
    s = te.create_schedule(z.op)
    tile = s[s.cache_write(z, "local")]
    (c, j), (steps, four) = tile.op.axis, tile.op.reduce_axis
    tile.reorder(steps, c, j, four)
    tile.unroll(c)
    tile.tensorize(j, topi.tensor_intrin.dot4_intrin(LANES))
    s[z].unroll(s[z].op.axis[0])
    s[z].vectorize(s[z].op.axis[1])
    f = tvm.build(s, [x, y, z], to)
    arrays = np.ones(4, "uint8"), np.ones((LANES, 4), "int8"), np.zeros((CHAINS, LANES), "int32")
    return lambda: f(*arrays), 2 * 4 * STEPS * CHAINS * LANES
