"""The formulas of convolutions: chosen by an estimate, and replaced by faster ones."""

from __future__ import annotations

import numpy as np

from minitvm import graph
from minitvm.base import Target
from minitvm.graph import passes

TARGET = Target("llvm -num-cores=1")


def float32(b: graph.Builder, name: str, *shape: int) -> graph.Node:
    rng = np.random.default_rng(0)
    return b.param(name, rng.standard_normal(shape).astype(np.float32))


def test_winograd_is_chosen_where_it_should_be_faster_and_only_if_allowed() -> None:
    b = graph.Builder()
    x = b.input("x", (1, 56, 56, 64))
    y = b.conv2d(x, float32(b, "w", 3, 3, 64, 64), padding=1, layout="NHWC")
    net = b.graph(b.conv2d(y, float32(b, "v", 1, 1, 64, 64), layout="NHWC"))
    assert [n.attrs.get("method") for n in passes.choose_formulas(net, TARGET).calls] == [
        "winograd",
        None,
    ]
    assert passes.choose_formulas(net, TARGET, winograd=False) is net


def test_a_gpu_computes_convolutions_as_products() -> None:
    b = graph.Builder()
    y = b.conv2d(b.input("x", (1, 8, 9, 9)), float32(b, "w", 17, 8, 3, 3), padding=1)
    net = b.graph(b.relu(b.conv2d(y, float32(b, "v", 20, 17, 1, 1))))
    chosen = passes.choose_formulas(net, Target("cuda -sim"))
    assert [n.attrs.get("method") for n in chosen.calls] == ["gemm", "gemm", None]
    x = np.random.default_rng(1).random((1, 8, 9, 9), np.float32)
    found, expected = (graph.compile(net, target=t)(x) for t in ("cuda -sim", "llvm"))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


def layer(layout: str, method: str = "") -> graph.Graph:
    """A 3x3 convolution of 8 channels, and relu."""
    b = graph.Builder("layer")
    nhwc = layout == "NHWC"
    x = b.input("x", (1, 6, 6, 8) if nhwc else (1, 8, 6, 6))
    w = float32(b, "w", *((3, 3, 8, 16) if nhwc else (16, 8, 3, 3)))
    attrs = {"method": method} if method else {}
    return b.graph(b.relu(b.call("conv2d", x, w, padding=1, layout=layout, **attrs)))


def test_other_formulas_of_a_convolution() -> None:
    direct, winograd = layer("NHWC"), layer("NHWC", "winograd")
    assert passes.other_formulas(direct) == [winograd]
    assert passes.other_formulas(winograd) == [direct]
    blocks = layer("NCHW")  # the default for so narrow an image
    assert passes.other_formulas(blocks) == [layer("NCHW", "winograd")]
    assert passes.other_formulas(layer("NCHW", "winograd")) == [blocks]


def test_a_strided_or_missing_convolution_has_one_formula() -> None:
    b = graph.Builder()
    x = b.input("x", (1, 6, 6, 8))
    strided = b.conv2d(x, float32(b, "w", 3, 3, 8, 16), padding=1, strides=2, layout="NHWC")
    assert passes.other_formulas(b.graph(strided)) == []
    assert passes.other_formulas(b.graph(b.relu(x))) == []


def test_a_kernel_gets_another_formula() -> None:
    net = passes.fuse(layer("NHWC", "winograd"))
    (kernel,) = net.calls
    (other,) = passes.other_formulas(kernel.body)
    found = passes.use_formulas(net, {kernel.body: other})
    assert str(net).replace(', method="winograd"', "") == str(found)
    assert passes.use_formulas(net, {other: kernel.body}) is net
    x = np.random.default_rng(1).random((1, 6, 6, 8), np.float32)
    for one in (net, found):
        (expected,) = graph.evaluate(net, x)
        np.testing.assert_allclose(graph.compile(one, TARGET, passes=())(x), expected, rtol=1e-4)
