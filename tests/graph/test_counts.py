"""What a network costs: operators, kernels, transposes, bytes, multiplications."""

import numpy as np

from minitvm import graph

TARGET = "llvm -mcpu=skylake-avx512"


def zeros(b: graph.Builder, name: str, *shape: int) -> graph.Node:
    return b.param(name, np.zeros(shape, np.float32))


def test_operators_in_kernels_are_counted_and_bytes_between_them_are_not() -> None:
    b = graph.Builder()
    x = b.input("x", (64, 16))
    net = b.graph(b.transpose(b.relu(b.dense(x, zeros(b, "w", 32, 16)))))
    found = graph.counts(net, TARGET)
    size = 64 * 32 * 4
    own = 4 * (64 * 16 + 32 * 16)
    assert found == graph.Counts(3, 3, 1, own + 5 * size, 64 * 32 * 16)
    fused = graph.counts(graph.optimized(net, TARGET, passes=graph.PASSES[-1:]), TARGET)
    assert (fused.operators, fused.transposes, fused.multiplications) == (3, 1, 64 * 32 * 16)
    assert fused.bytes == found.bytes - 2 * size * (3 - fused.kernels)


def test_an_input_that_is_read_twice_is_moved_once() -> None:
    b = graph.Builder()
    x = b.input("x", (8,))
    assert graph.counts(b.graph(b.add(x, x))).bytes == 2 * 32


def of_conv(x: tuple[int, ...], w: tuple[int, ...], op: str = "conv2d", **attrs) -> int:
    b = graph.Builder()
    y = b.call(op, b.input("x", x), zeros(b, "w", *w), **attrs)
    return graph.counts(b.graph(y), TARGET).multiplications


def test_multiplications() -> None:
    assert of_conv((2, 6, 9, 9), (4, 6, 3, 3), strides=2) == 2 * 4 * 4 * 4 * 54
    assert of_conv((1, 6, 5, 5), (6, 1, 3, 3), groups=6) == 9 * 6 * 9
    assert of_conv((1, 2, 4, 4, 4), (3, 2, 3, 3, 3), "conv3d") == 8 * 3 * 54
    assert of_conv((1, 6, 5, 5), (6, 4, 3, 3), "conv2d_transpose") == 25 * 6 * 36
    assert of_conv((7, 5), (7, 3), "matmul", transpose_a=True) == 5 * 3 * 7
    assert of_conv((2, 5, 7), (2, 7, 3), "batch_matmul") == 2 * 5 * 3 * 7
    assert of_conv((7, 5), (7, 5), "multiply") == 0


def test_winograd_multiplies_less() -> None:
    b = graph.Builder()
    x, w = b.input("x", (1, 32, 32, 32)), zeros(b, "w", 3, 3, 32, 32)
    both = [
        graph.counts(b.graph(b.conv2d(x, w, padding=1, layout="NHWC", method=m)), TARGET)
        for m in ("", "winograd")
    ]
    assert both[0].multiplications / both[1].multiplications in (2.25, 4.0)  # F(2, 3), F(4, 3)


def test_a_line_for_people() -> None:
    b = graph.Builder()
    text = str(graph.counts(b.graph(b.relu(b.input("x", (1000,))))))
    assert text == "1 operator, 1 kernel, 0 transposes, 0.01 MB moved, 0.00 M multiplications"
