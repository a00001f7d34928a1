"""Operations are counted as in a textbook, whatever formula computes the operator."""

from __future__ import annotations

import pytest

from minitvm import auto_scheduler, autotvm, graph, te, topi
from minitvm.base import ArgumentError, Target
from minitvm.graph.tune import task_of


def image(*shape: int, name: str = "x") -> te.Tensor:
    return te.placeholder(shape, name=name)


def test_a_multiply_add_counts_as_two_operations() -> None:
    c = topi.matmul(image(8, 8), image(8, 8))
    assert topi.flops([c]) == 2 * 8**3
    assert topi.flops([topi.relu(c)]) == 2 * 8**3 + 8**2


def test_a_reduction_counts_with_its_greatest_length() -> None:
    qkv = [image(1, 1, 64, 8, name=name) for name in "qkv"]
    assert topi.flops([topi.attention(*qkv, causal=True)]) == topi.flops([topi.attention(*qkv)])
    lengths = te.placeholder((1,), "int32")
    one = topi.cached_attention(image(1, 1, 1, 8), *qkv[1:], lengths)
    assert topi.flops([one]) < topi.flops([topi.attention(*qkv)])


@pytest.mark.parametrize("method", ["direct", "rows", "blocks", "winograd"])
def test_a_convolution_counts_as_the_direct_one_with_the_taps_in_its_padding(method: str) -> None:
    y = topi.conv2d(image(1, 512, 7, 7), image(512, 512, 3, 3), padding=1, method=method)
    assert topi.flops([y]) == 2 * 7 * 7 * 512 * 512 * 9


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_winograd_counts_as_the_direct_convolution(layout: str, tile: int) -> None:
    nhwc = layout == "NHWC"
    x = image(*((1, 14, 14, 64) if nhwc else (1, 64, 14, 14)))
    w = image(*((3, 3, 64, 32) if nhwc else (32, 64, 3, 3)))
    y = topi.conv2d_winograd(x, w, 1, tile, layout)
    assert topi.flops([topi.relu(y)]) == 2 * 14 * 14 * 64 * 32 * 9 + 14 * 14 * 32


def test_groups_and_strides_of_a_convolution() -> None:
    y = topi.conv2d(image(2, 8, 9, 9), image(16, 2, 3, 3), strides=2, groups=4)
    assert topi.flops([y]) == 2 * 2 * 16 * 4 * 4 * 2 * 9
    y = topi.depthwise_conv2d(image(1, 8, 9, 9), image(8, 1, 3, 3), 1, 1)
    assert topi.flops([y]) == 2 * 8 * 9 * 9 * 9
    x, w = te.placeholder((1, 9, 9, 8), "uint8"), te.placeholder((3, 3, 8, 1), "int8")
    with Target("llvm -mattr=+avx512f,+avx512bw,+avx512vl,+avx512vnni"):
        y = topi.depthwise_conv2d(x, w, 1, 1, layout="NHWC")  # by dot products of four rows
    assert topi.flops([y]) == 2 * 8 * 9 * 9 * 9


def test_a_convolution_of_bytes_counts_once() -> None:
    x, w = te.placeholder((1, 9, 9, 8), "uint8"), te.placeholder((3, 3, 8, 32), "int8")
    assert topi.flops([topi.conv2d(x, w, padding=1, layout="NHWC")]) == 2 * 9 * 9 * 32 * 8 * 9


@pytest.mark.parametrize(
    ("operator", "each"),
    [
        (topi.gelu, 1),
        (topi.tanh, 1),
        (topi.silu, 1),
        (lambda x: topi.add(x, x), 1),
        (lambda x: topi.transpose(x, (1, 0)), 0),
        (lambda x: topi.pad(x, (1, 1), (1, 1)), 0),
    ],
)
def test_elementwise_operators_count_one_for_each_element(operator, each: int) -> None:
    assert topi.flops([operator(image(8, 32))]) == each * 8 * 32


def test_other_formulas_count_each_operator_and_function() -> None:
    x = image(8)
    assert topi.flops([te.compute((8,), lambda i: te.exp(x[i]) * 2.0 + 1.0)]) == 3 * 8


def test_a_symbolic_size_is_refused() -> None:
    x = te.placeholder((te.var("n"),), name="x")
    with pytest.raises(ArgumentError, match=r"T_relu.*symbolic size"):
        topi.flops([topi.relu(x)])


def test_all_searches_count_the_same() -> None:
    b = graph.Builder("conv")
    net = b.graph(b.conv2d(b.input("x", (1, 32, 28, 28)), b.input("w", (32, 32, 3, 3)), padding=1))
    for kernel in graph.extract_tasks(net, "llvm -num-cores=1"):
        if "conv2d" in kernel.name:
            assert kernel.operations == task_of(kernel).flops == 2 * 28 * 28 * 32 * 32 * 9
    a, b = image(8, 8, name="a"), image(8, 8, name="b")
    dag = auto_scheduler.ComputeDAG([a, b, topi.matmul(a, b)])
    assert dag.flop_ct == autotvm.task_for("matmul", (8, 8, 8)).flops == 2 * 8**3
