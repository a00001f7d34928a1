"""Which stages of a network topi.schedule computes in one loop nest."""

from typing import Any

import pytest

import minitvm as tvm
from minitvm import te, topi

TARGET = "llvm -num-cores=1"


def place(*shape: int) -> te.Tensor:
    return te.placeholder(shape, name=f"x{shape[-1]}")


def roots(out: te.Tensor) -> list[str]:
    """Return the stages that are computed in loops of their own."""
    stages = topi.schedule(out, TARGET).stages
    own = [s for s in stages if isinstance(s.op, te.ComputeOp) and not s.is_inlined]
    return [s.name for s in own if not s.is_attached]


def image(*shape: int) -> te.Tensor:
    return te.placeholder(shape, name="image")


def conv(layout: str = "NHWC", **more: Any) -> te.Tensor:
    shape = {"NHWC": (1, 14, 14, 32), "NCHW": (1, 32, 14, 14)}[layout]
    kernel = {"NHWC": (3, 3, 32, 32), "NCHW": (32, 32, 3, 3)}[layout]
    x, w = image(*shape), te.placeholder(kernel, name="w")
    y = topi.conv2d(x, w, padding=1, layout=layout, **more)
    bias = te.placeholder((32,) if layout == "NHWC" else (32, 1, 1), name="b")
    return topi.relu(topi.add(topi.add(y, bias), te.placeholder(y.shape, name="residual")))


X = place(64, 96)
ONE_NEST = {  # name -> result; its first stages pack or pad
    "matmul": topi.gelu(topi.add(topi.matmul(X, place(96, 80)), place(80))),
    "conv2d NHWC": conv(),
    "conv2d NCHW": conv("NCHW", method="rows"),
    "winograd": conv(method="winograd"),
    "max_pool2d": topi.relu(topi.max_pool2d(image(1, 14, 14, 32), 3, 2, 1, layout="NHWC")),
    "transpose": topi.relu(topi.transpose(X)),
    "reshape and transpose": topi.transpose(topi.reshape(X, (64, 6, 16)), (1, 0, 2)),
    "concatenate": topi.concatenate((topi.relu(X), topi.exp(X)), 1),
    "softmax": topi.softmax(topi.add(topi.multiply(X, 0.125), place(96))),
    "layer_norm": topi.layer_norm(topi.add(X, X), place(96), place(96)),
    "sum": topi.sum(topi.relu(X), 1),
    "max over the first dimension": topi.max(topi.add(X, place(96)), 0),
}
COPIES = ("w.global", "image.global", "T_rows", "x80.global", "WK", "U")


@pytest.mark.parametrize("name", ONE_NEST)
def test_one_nest(name) -> None:
    out = ONE_NEST[name]
    assert [r for r in roots(out) if r not in COPIES] == [out.op.name]


def test_a_reduction_computes_what_it_reads() -> None:
    x = place(16, 4)
    s = topi.schedule(topi.sum(topi.relu(x), 0), TARGET)
    body = str(tvm.lower(s, [x, s.outputs[0].output(0)], simple_mode=True)).splitlines()
    assert (
        body[-1].strip().endswith("T_sum[i0_inner] + max(x4[k0_outer*8 + k0_inner, i0_inner], 0.0)")
    )


def test_what_two_reductions_read_is_stored() -> None:
    y = topi.exp(X)
    assert roots(topi.add(topi.sum(y, 1), topi.max(y, 1)))[0] == y.op.name


def test_what_a_reduction_reads_repeatedly_is_stored() -> None:
    y = topi.exp(place(8))
    k = te.reduce_axis((0, 8), "k")
    out = te.compute((16,), lambda i: te.sum(y[k] * i, k), name="out", tag="reduction")
    assert roots(out)[0] == y.op.name
