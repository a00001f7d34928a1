"""The operations of kernels, which profiles show as GFLOP/s."""

import pytest

from minitvm import graph
from minitvm.graph.counts import operations_of


def _operations(b: graph.Builder, *outputs: graph.Node) -> int:
    return operations_of(b.graph(*outputs))


def test_a_multiply_add_of_a_product_counts_as_two() -> None:
    b = graph.Builder("dense")
    y = b.dense(b.input("x", (4, 16)), b.input("w", (8, 16)))
    assert _operations(b, y) == 2 * 4 * 16 * 8


@pytest.mark.parametrize("method", ["", "direct", "winograd"])
@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
def test_a_convolution_counts_as_its_textbook_formula(method: str, layout: str) -> None:
    b = graph.Builder("conv")
    shapes = ((1, 16, 12, 12), (32, 16, 3, 3))
    if layout == "NHWC":
        shapes = ((1, 12, 12, 16), (3, 3, 16, 32))
    x, w = b.input("x", shapes[0]), b.input("w", shapes[1])
    y = b.call("conv2d", x, w, padding=1, layout=layout, method=method)
    assert _operations(b, y) == 2 * 12 * 12 * 16 * 32 * 9


def test_elementwise_operators_count_one_for_each_element() -> None:
    b = graph.Builder("elements")
    x = b.input("x", (8, 32))
    assert _operations(b, b.relu(b.add(b.tanh(x), x))) == 3 * 8 * 32


def test_elements_that_move_are_not_counted() -> None:
    b = graph.Builder("moves")
    x = b.transpose(b.input("x", (8, 32)), axes=(1, 0))
    assert _operations(b, b.reshape(b.concatenate(x, x, axis=0), shape=(64, 8))) == 0


def test_pooling_counts_each_pixel_of_a_window() -> None:
    b = graph.Builder("pool")
    y = b.max_pool2d(b.input("x", (1, 16, 9, 9)), 3, 2)
    assert _operations(b, y) == 16 * 4 * 4 * 9


def test_a_profile_shows_the_rate_of_each_call() -> None:
    b = graph.Builder("dense")
    x, w = b.input("x", (4, 16)), b.input("w", (8, 16))
    module = graph.compile(b.graph(b.relu(b.dense(x, w))), "python")
    (call,) = module.plan.calls
    assert call.operations == 2 * 4 * 16 * 8 + 4 * 8
