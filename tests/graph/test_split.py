"""split_concatenate: a convolution of a concatenate becomes a sum of convolutions."""

import textwrap

import numpy as np
import pytest

from minitvm import graph
from minitvm.graph.passes import fuse, split_concatenate

INPUTS = "a: float32[1, 6, 6, 8], b: float32[1, 6, 6, 4]"


def network(lines: str, inputs: str = INPUTS) -> graph.Graph:
    return graph.parse(f"def net({inputs}):\n{textwrap.indent(textwrap.dedent(lines), '  ')}")


def lines_of(net: graph.Graph) -> list[str]:
    return [line.split("  #")[0].strip() for line in str(net).splitlines()[1:]]


FIRE = """\
w = param("w", float32[1, 1, 12, 4])
c = concatenate(a, b, axis=3)
y = conv2d(c, w, layout="NHWC")
z = relu(y)
return z"""


def test_a_convolution_becomes_a_sum() -> None:
    assert lines_of(split_concatenate(network(FIRE))) == [
        'w = param("w", float32[1, 1, 12, 4])',
        "strided_slice_1 = strided_slice(w, begin=(0, 0, 8, 0), end=(1, 1, 12, 4))",
        'conv2d_1 = conv2d(b, strided_slice_1, layout="NHWC")',
        "strided_slice_2 = strided_slice(w, begin=(0, 0, 0, 0), end=(1, 1, 8, 4))",
        'conv2d_2 = conv2d(a, strided_slice_2, layout="NHWC")',
        "add_1 = add(conv2d_1, conv2d_2)",
        "relu_1 = relu(add_1)",
        "return relu_1",
    ]


def test_the_sum_is_computed_in_the_second_convolution() -> None:
    names = [node.body.name for node in fuse(split_concatenate(network(FIRE))).calls]
    assert names == ["strided_slice", "strided_slice", "conv2d", "conv2d_add_relu"]


def test_a_pooling_moves_before_a_concatenate_and_a_convolution_follows() -> None:
    net = split_concatenate(
        network(
            """\
            w = param("w", float32[1, 1, 12, 4])
            c = concatenate(a, b, axis=-1)
            p = max_pool2d(c, kernel=3, strides=2, layout="NHWC")
            y = conv2d(p, w, layout="NHWC")
            return y"""
        )
    )
    operators = [node.op for node in net.calls if node.op != "strided_slice"]
    assert operators == ["max_pool2d", "conv2d", "max_pool2d", "conv2d", "add"]


KEPT = {
    "it is an output": FIRE.replace("return z", "return z, c"),
    "another operator reads it": FIRE.replace("return z", "t = tanh(c)\nreturn z, t"),
    "rows are concatenated": """\
        w = param("w", float32[1, 1, 8, 4])
        c = concatenate(a, a, axis=1)
        y = conv2d(c, w, layout="NHWC")
        return y""",
    "the partial results are larger": FIRE.replace("12, 4]", "12, 16]"),
    "the convolution has groups": """\
        w = param("w", float32[1, 1, 6, 4])
        c = concatenate(a, b, axis=3)
        y = conv2d(c, w, layout="NHWC", groups=2)
        return y""",
}


@pytest.mark.parametrize("why", KEPT)
def test_a_concatenate_stays_if(why) -> None:
    net = network(KEPT[why])
    assert split_concatenate(net) is net


@pytest.mark.parametrize("layout", ["NCHW", "NHWC"])
@pytest.mark.parametrize("pooled", [False, True])
def test_a_split_network_computes_the_same(layout, pooled, rng) -> None:
    b = graph.Builder()
    form = (lambda c: (2, 9, 9, c)) if layout == "NHWC" else (lambda c: (2, c, 9, 9))
    parts = [b.input(f"x{c}", form(c)) for c in (5, 3, 8)]
    kernel = (3, 3, 16, 6) if layout == "NHWC" else (6, 16, 3, 3)
    node = b.concatenate(*parts, axis=3 if layout == "NHWC" else 1)
    if pooled:
        node = b.max_pool2d(node, kernel=3, strides=2, padding=1, layout=layout)
    w = b.param("w", rng.standard_normal(kernel).astype("float32"))
    net = b.graph(b.conv2d(node, w, strides=2, padding=1, layout=layout))
    values = [rng.standard_normal(p.type.shape).astype("float32") for p in parts]
    split = split_concatenate(net)
    assert "concatenate" not in [n.op for n in split.calls]
    (found,), (exact,) = (graph.evaluate(g, *values) for g in (split, net))
    np.testing.assert_allclose(found, exact, 1e-4, 1e-4)
