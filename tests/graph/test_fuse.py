"""Fusion: which operators become one kernel, shown as text, and that the result stays the same."""

import textwrap

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph
from minitvm.graph import kernels
from minitvm.graph.passes import fuse
from minitvm.graph.passes.fuse import post_dominators

from .conftest import random_network

CONV = "float32[1, 8, 8, 8]"


def network(lines: str, inputs: str = f"x: {CONV}, y: {CONV}") -> graph.Graph:
    return graph.parse(f"def net({inputs}):\n{textwrap.indent(textwrap.dedent(lines), '  ')}")


def kernels_of(lines: str, inputs: str = f"x: {CONV}, y: {CONV}", depth: int = 256) -> list[str]:
    return [node.body.name for node in fuse(network(lines, inputs), depth=depth).calls]


def test_a_kernel_is_a_function_of_normalised_leaves() -> None:
    before = """\
    w = param("stem.w", float32[8, 8, 3, 3])
    c = conv2d(x, w, padding=1)
    s = add(c, y)
    r = relu(s)
    return r"""
    after = """\
    def net(x: float32[1, 8, 8, 8], y: float32[1, 8, 8, 8]):
      stem_w = param("stem.w", float32[8, 8, 3, 3])
      def conv2d_add_relu(p0: TYPE, p1: param[float32[8, 8, 3, 3]], p2: TYPE):
        conv2d_1 = conv2d(p0, p1, padding=1)  # float32[1, 8, 8, 8]
        add_1 = add(conv2d_1, p2)  # float32[1, 8, 8, 8]
        relu_1 = relu(add_1)  # float32[1, 8, 8, 8]
        return relu_1
      conv2d_add_relu_1 = conv2d_add_relu(x, stem_w, y)  # float32[1, 8, 8, 8]
      return conv2d_add_relu_1"""
    assert str(fuse(network(before))) == textwrap.dedent(after).replace("TYPE", CONV)


def test_equal_kernels_print_the_same() -> None:
    lines = """\
    v = param("v", float32[8, 8, 1, 1])
    w = param("w", float32[8, 8, 1, 1])
    a = conv2d(x, v)
    b = relu(a)
    c = conv2d(b, w)
    d = relu(c)
    return d"""
    first, second = fuse(network(lines)).calls
    assert str(first.body) == str(second.body)


RULES = {  # rule -> (lines, the kernels)
    "elementwise operators follow an anchor": (
        """\
        c = batch_matmul(a, b)
        d = multiply(c, b=0.5)
        e = exp(d)
        return e""",
        ["batch_matmul_multiply_exp"],
    ),
    "a residual sum belongs to the last convolution": (
        """\
        c = batch_matmul(a, b)
        d = relu(c)
        e = batch_matmul(d, b)
        f = add(e, c)
        g = relu(f)
        return g""",
        ["batch_matmul", "relu", "batch_matmul_add_relu"],
    ),
    "two anchors are two kernels, and the sum of both is with the first": (
        """\
        c = batch_matmul(a, b)
        d = batch_matmul(b, a)
        e = add(c, d)
        return e""",
        ["batch_matmul", "batch_matmul_add"],
    ),
    "all branches between an operator and its post-dominator are fused": (
        """\
        c = exp(a)
        d = relu(c)
        e = tanh(c)
        f = add(d, e)
        return f""",
        ["exp_relu_tanh_add"],
    ),
    "a branch inside an anchor's kernel is fused, too": (
        """\
        c = batch_matmul(a, b)
        d = sigmoid(c)
        e = multiply(c, d)
        return e""",
        ["batch_matmul_sigmoid_multiply"],
    ),
    "an output is not computed inside another kernel": (
        """\
        c = exp(a)
        d = relu(c)
        return d, c""",
        ["exp", "relu"],
    ),
    "an anchor does not grow by a broadcast to another shape": (
        """\
        c = matmul(x, x)
        d = add(c, a)
        return d""",
        ["matmul", "add"],
    ),
    "elementwise operators go into a reduction": (
        """\
        c = multiply(a, b)
        d = sum(c, axis=2)
        return d""",
        ["multiply_sum"],
    ),
    "elementwise operators go into a softmax": (
        """\
        c = multiply(a, b=0.125)
        d = add(c, b)
        e = softmax(d)
        return e""",
        ["multiply_add_softmax"],
    ),
    "nothing follows a reduction": (
        """\
        c = sum(a, axis=2)
        d = exp(c)
        return d""",
        ["sum", "exp"],
    ),
    "a value that a reduction and another operator read is stored": (
        """\
        c = exp(a)
        d = sum(c, axis=2, keepdims=True)
        e = divide(c, d)
        return e""",
        ["exp", "sum", "divide"],
    ),
    "elementwise operators do not go into an anchor": (
        """\
        c = relu(a)
        d = batch_matmul(c, b)
        return d""",
        ["relu", "batch_matmul"],
    ),
    "operators that move elements are fused with each other and what follows": (
        """\
        c = relu(a)
        d = reshape(c, shape=(2, 64))
        e = transpose(d, axes=(1, 0))
        f = tanh(e)
        return f""",
        ["relu_reshape_transpose_tanh"],
    ),
    "operators that move elements do not follow an anchor": (
        """\
        c = batch_matmul(a, b)
        d = transpose(c, axes=(0, 2, 1))
        return d""",
        ["batch_matmul", "transpose"],
    ),
    "operators that move elements do not go into a reduction": (
        """\
        c = transpose(a, axes=(0, 2, 1))
        d = sum(c, axis=2)
        return d""",
        ["transpose", "sum"],
    ),
    "a concatenate takes in what is elementwise, but no anchors": (
        """\
        c = batch_matmul(a, b)
        d = relu(c)
        e = exp(a)
        f = strided_slice(b, begin=(0, 0, 0), end=(2, 8, 4))
        g = concatenate(d, e, f, axis=2)
        h = tanh(g)
        return h""",
        ["batch_matmul_relu", "exp_strided_slice_concatenate_tanh"],
    ),
    "branches that end in a concatenate and a sum are not one kernel": (
        """\
        c = exp(a)
        d = concatenate(c, b, axis=1)
        e = strided_slice(d, begin=(0, 0, 0), end=(2, 8, 8))
        f = add(e, c)
        return f""",
        ["exp", "concatenate_strided_slice_add"],
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rule(rule) -> None:
    lines, expected = RULES[rule]
    inputs = "a: float32[2, 8, 8], b: float32[2, 8, 8], x: float32[8, 8]"
    assert kernels_of(lines, inputs) == expected


def test_a_kernel_has_at_most_depth_operators() -> None:
    lines = "\n".join([f"x{n + 1} = tanh(x{n})" for n in range(7)] + ["return x7"])
    sizes = [name.count("tanh") for name in kernels_of(lines, "x0: float32[4]", depth=3)]
    assert sum(sizes) == 7
    assert max(sizes) == 3


def test_level_0_is_one_kernel_for_each_operator() -> None:
    lines = "a = exp(x)\nb = relu(a)\nreturn b"
    assert [n.body.name for n in fuse(network(lines), level=0).calls] == ["exp", "relu"]


def test_a_fused_network_is_not_fused_again() -> None:
    once = fuse(network("a = exp(x)\nb = relu(a)\nreturn b"))
    assert str(fuse(once)) == str(once)


def test_a_network_without_operators_stays() -> None:
    assert str(fuse(network("return x"))) == str(network("return x"))


def test_a_deep_network_is_fused_without_recursion() -> None:
    b = graph.Builder()
    node = b.input("x", (4,))
    for _ in range(3000):
        node = b.relu(node)
    sizes = [len(k.body.calls) for k in fuse(b.graph(node)).calls]
    assert sum(sizes) == 3000
    assert max(sizes) <= 256


def test_post_dominators_are_what_every_path_passes(rng) -> None:
    for _ in range(30):
        net = random_network(rng, 12)
        readers, outputs = net.readers(), set(net.outputs)
        after: dict[graph.Node, list[graph.Node]] = {}  # what all paths to an output pass
        for node in reversed(net.calls):
            paths = [after[r] for r in readers[node]]
            common = [n for n in paths[0] if all(n in p for p in paths)] if paths else []
            after[node] = [node, *([] if node in outputs else common)]
            found = post_dominators(net)[node].node
            assert found is (after[node][1] if len(after[node]) > 1 else None)


def run(fused: graph.Graph, inputs: list) -> list:
    """Compute a network kernel by kernel with compiled functions."""
    values = dict(zip(fused.inputs, inputs, strict=True))
    functions = kernels.compiled([node.body for node in fused.calls], "llvm -num-cores=1")
    values |= {n: fused.params[n.name] for n in fused.nodes if n.op == "param"}
    for node, f in zip(fused.calls, functions, strict=True):
        values[node] = tvm.nd.empty(node.type.shape, node.type.dtype)
        f(*[values[n] for n in node.inputs], values[node])
    return [np.asarray(values[n]) for n in fused.outputs]


@pytest.mark.parametrize("seed", range(60))
@pytest.mark.parametrize("level", [0, 1])
def test_a_fused_network_computes_the_same(seed, level) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, int(rng.integers(1, 16)))
    inputs = [rng.random(n.type.shape, np.float32) - 0.5 for n in net.inputs]
    fused = fuse(net, level=level)
    assert all(n.op == "kernel" for n in fused.calls)
    assert str(graph.parse(str(fused))) == str(fused)
    for a, b in zip(graph.evaluate(fused, *inputs), graph.evaluate(net, *inputs), strict=True):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(12))
def test_compiled_kernels_compute_the_same(seed) -> None:
    rng = np.random.default_rng(100 + seed)
    net = random_network(rng, 10)
    inputs = [rng.random(n.type.shape, np.float32) - 0.5 for n in net.inputs]
    exact = graph.evaluate(net, *inputs, dtype="float64")
    for found, value in zip(run(fuse(net), inputs), exact, strict=True):
        np.testing.assert_allclose(found, value, 1e-4, 1e-4 * np.abs(value).max())
