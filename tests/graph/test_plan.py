"""Memory plans: nothing that is in use is overwritten, and little memory is enough."""

import textwrap

import numpy as np
import pytest

from minitvm import graph
from minitvm.graph import plan
from minitvm.graph.evaluate import value_of
from minitvm.graph.passes import fuse

from .conftest import random_network

PLANS = {
    "pool": plan.pool_plan,
    "pool in place": lambda g: plan.pool_plan(g, in_place=True),
    "offsets": plan.offset_plan,
    "offsets in place": lambda g: plan.offset_plan(g, in_place=True),
}


def network(lines: str, inputs: str = "x: float32[64], y: float32[64]", level: int = 0):
    lines = textwrap.indent(textwrap.dedent(lines), "  ")
    return fuse(graph.parse(f"def net({inputs}):\n{lines}"), level=level)


def offsets(found: plan.Plan) -> dict[str, int]:
    return {node.body.calls[-1].op: at for node, at in found.offsets.items()}


CHAIN = network("a = exp(x)\nb = relu(a)\nc = tanh(b)\nd = sigmoid(c)\ne = abs(d)\nreturn e")


def test_two_tensors_of_a_chain_are_in_use_at_a_time() -> None:
    assert plan.naive_bytes(CHAIN) == 4 * 256
    assert plan.live_bytes(CHAIN) == 2 * 256
    for make in (plan.pool_plan, plan.offset_plan):
        found = make(CHAIN)
        assert offsets(found) == {"exp": 0, "relu": 256, "tanh": 0, "sigmoid": 256}
        assert found.bytes == 512


def test_in_place_one_tensor_is_enough_for_a_chain() -> None:
    for make in (plan.pool_plan, plan.offset_plan):
        found = make(CHAIN, in_place=True)
        assert set(found.offsets.values()) == {0}
        assert found.bytes == 256


def test_inputs_and_outputs_are_not_in_the_arena() -> None:
    net = network("a = exp(x)\nb = relu(a)\nreturn b, a")
    assert plan.offset_plan(net) == plan.Plan({}, 0)
    assert plan.live_bytes(net) == plan.naive_bytes(net) == 0


def test_offsets_are_aligned() -> None:
    net = network("a = exp(x)\nb = relu(a)\nc = tanh(b)\nreturn c", "x: float32[3]")
    assert offsets(plan.offset_plan(net)) == {"exp": 0, "relu": 64}


def test_a_view_lies_in_the_memory_of_its_input() -> None:
    net = network("a = exp(x)\nb = reshape(a, shape=(8, 8))\nc = tanh(b)\nd = relu(a)\nreturn c, d")
    exp, view = plan.offset_plan(net).offsets
    assert plan.is_view(view)
    assert not plan.is_view(exp)
    for make in (plan.pool_plan, plan.offset_plan):
        assert make(net) == plan.Plan({exp: 0, view: 0}, 256)


def test_a_view_of_an_input_has_its_own_memory() -> None:
    net = network("a = reshape(x, shape=(8, 8))\nb = tanh(a)\nreturn b")
    assert plan.offset_plan(net).bytes == 256


OVER = {  # what is computed from a, which exp has made -> whether it may be written over a
    "relu(a)": True,
    "add(a, y)": True,
    "add(a, a)": True,
    "subtract(y, a)": True,
    "reshape(a, shape=(8, 8))": True,
    "transpose(a, axes=(1, 0))": False,
    "take(a, a, axis=0)": False,
    "cast(a, dtype='float64')": False,
    "sum(a, axis=0, keepdims=True)": False,
    "matmul(a, y)": False,
}


@pytest.mark.parametrize("formula", OVER)
def test_only_elementwise_kernels_write_over_an_input(formula) -> None:
    shape = "8, 8" if formula.startswith(("transpose", "matmul")) else "64"
    inputs = f"x: {'int32' if 'take' in formula else 'float32'}[{shape}], y: float32[{shape}]"
    net = network(f"a = abs(x)\nb = {formula}\nc = relu(b)\nreturn c", inputs)
    first, second = plan.offset_plan(net, in_place=True).offsets.values()
    assert (first == second) is OVER[formula]


def test_an_input_that_is_read_afterwards_is_not_overwritten() -> None:
    net = network("a = exp(x)\nb = relu(a)\nc = tanh(b)\nd = add(c, a)\nreturn d")
    found = offsets(plan.offset_plan(net, in_place=True))
    assert found["relu"] == found["tanh"] != found["exp"]


def test_a_moved_copy_inside_the_kernel_forbids_overwriting() -> None:
    lines = (
        "a = matmul(x, x)\nb = transpose(a, axes=(1, 0))\nc = add(b, a)\nd = matmul(c, c)\nreturn d"
    )
    net = network(lines, "x: float32[8, 8]", level=1)
    assert [n.body.name for n in net.calls] == ["matmul", "transpose_add", "matmul"]
    assert len(set(plan.offset_plan(net, in_place=True).offsets.values())) == 2


def test_a_pool_grows_a_smaller_block_and_leaves_one_that_is_far_too_large() -> None:
    sizes = "float32[64], y: float32[64]"
    lines = """\
    a = exp(x)
    b = sum(a, axis=0, keepdims=True)
    c = tanh(b)
    d = sigmoid(c)
    e = concatenate(d, y, axis=0)
    f = exp(e)
    g = abs(f)
    return g"""
    found = plan.pool_plan(network(lines, f"x: {sizes}"))
    by_name = {n.body.calls[-1].op + str(n.type.elements): at for n, at in found.offsets.items()}
    assert by_name["tanh1"] == by_name["exp64"]  # 256 bytes for 64: within the factor of 16
    assert found.bytes < plan.naive_bytes(network(lines, f"x: {sizes}"))


def check(net: graph.Graph, found: plan.Plan, in_place: bool) -> None:
    """Run a network in one arena, element by element where a kernel writes over its input."""
    calls, outputs = net.calls, set(net.outputs)
    assert set(found.offsets) == {n for n in calls if n not in outputs}
    arena = np.full(found.bytes + 1, 77, np.uint8)
    rng = np.random.default_rng(0)
    inputs = [rng.random(n.type.shape, np.float32) for n in net.inputs]
    values = dict(zip(net.inputs, inputs, strict=True))
    values |= {n: net.params[n.name] for n in net.nodes if n.op == "param"}
    host = plan.hosts(net, in_place)
    for node in calls:
        given = [values[n] for n in node.inputs]
        result = value_of(node, given)
        if node in found.offsets:
            at = found.offsets[node]
            assert at % 64 == 0
            assert at + node.type.bytes <= found.bytes
            place = arena[at : at + node.type.bytes].view(node.type.dtype.numpy)
            values[node] = place.reshape(node.type.shape)
            shared = [n for n in node.inputs if np.shares_memory(values[n], values[node])]
            assert all(host.get(n) is host[node] for n in shared)
            values[node][...] = result
        else:
            values[node] = result
    exact = graph.evaluate(net, *inputs)
    for node, value in zip(net.outputs, exact, strict=True):
        np.testing.assert_array_equal(values[node], value)


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("level", [0, 1])
def test_nothing_in_use_is_overwritten(name, level) -> None:
    rng, in_place = np.random.default_rng(7), "place" in name
    for _ in range(60):
        net = fuse(random_network(rng, int(rng.integers(1, 25))), level=level)
        found = PLANS[name](net)
        check(net, found, in_place)
        least = plan.live_bytes(net, in_place)
        assert least <= found.bytes
        if "offsets" in name:
            assert found.bytes <= plan.naive_bytes(net)


def resnet(b: graph.Builder, blocks: list[int]) -> graph.Graph:
    """Return a network like ResNet-50, whose tensors are as large as a network's."""
    node = b.input("x", (1, 56, 56, 64))
    for stage, count in enumerate(blocks):
        wide = 64 << stage
        for n in range(count):
            step = 2 if n == 0 and stage else 1
            high, deep = node.type.shape[1], node.type.shape[3]

            def conv(x, k, ins, outs, strides=1, at=f"{stage}.{n}"):
                w = b.unknown(f"{at}.{len(b._leaves)}", (k, k, ins, outs))
                c = b.conv2d(x, w, strides, k // 2, layout="NHWC")
                return b.add(c, b.unknown(f"{at}.{len(b._leaves)}", (outs,)))

            y = b.relu(conv(node, 1, deep, wide))
            y = b.relu(conv(y, 3, wide, wide, step))
            short = node if n else conv(node, 1, deep, 4 * wide, step)
            node = b.relu(b.add(conv(y, 1, wide, 4 * wide), short))
            assert node.type.shape[1] == high // step
    return b.graph(b.reshape(b.global_avg_pool2d(node, layout="NHWC"), (1, 2048)))


def test_resnet_50_needs_little_more_than_what_is_live() -> None:
    net = fuse(resnet(graph.Builder("resnet"), [3, 4, 6, 3]))
    for make in (plan.offset_plan, plan.pool_plan):
        assert make(net).bytes <= 0.25 * plan.naive_bytes(net)
    assert plan.offset_plan(net).bytes <= 1.1 * plan.live_bytes(net)


def test_a_kernel_that_reads_a_tensor_and_its_view_writes_over_neither() -> None:
    net = graph.parse(
        textwrap.dedent("""\
        def net(x: float32[8, 8]):
          def make(p0: float32[8, 8]):
            y = exp(p0)
            return y
          def view(p0: float32[8, 8]):
            y = reshape(p0, shape=(8, 8))
            return y
          def moved(p0: float32[8, 8], p1: float32[8, 8]):
            t = transpose(p1, axes=(1, 0))
            y = add(p0, t)
            return y
          a = make(x)
          b = view(a)
          c = moved(a, b)
          d = make(c)
          return d""")
    )
    a, b, c = plan.offset_plan(net, in_place=True).offsets.values()
    assert a == b != c
