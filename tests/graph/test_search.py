"""graph.search: its rules, its path through networks that are worse first, its costs."""

import textwrap
from collections.abc import Iterator

import numpy as np
import pytest

from minitvm import graph, vta
from minitvm.base import TVMError
from minitvm.graph import passes
from minitvm.graph.networks.layers import Layers
from minitvm.graph.networks.residual import basic
from minitvm.graph.substitutions import View

RULES = {rule.name: rule for rule in graph.RULES}
INPUTS = "x: float32[1, 4, 6, 6], y: float32[1, 4, 6, 6]"


def network(lines: str, inputs: str = INPUTS) -> graph.Graph:
    """The network of a text, with random values of its parameters."""
    net = graph.parse(f"def net({inputs}):\n{textwrap.indent(textwrap.dedent(lines), '  ')}")
    rng = np.random.default_rng(0)
    return net.with_params(
        {
            n.name: rng.standard_normal(n.type.shape, np.float32)
            for n in net.nodes
            if n.op == "param"
        }
    )


def assert_same(a: graph.Graph, b: graph.Graph) -> None:
    """Both networks compute the same from random inputs."""
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(n.type.shape, np.float32) for n in a.inputs]
    outputs = (graph.evaluate(net, *inputs, dtype="float64") for net in (a, b))
    for x, y in zip(*outputs, strict=True):
        np.testing.assert_allclose(x, y, 1e-5, 1e-5 * abs(x).max())


def after(rule: str, lines: str) -> str:
    """The calls of a network after the first match of a rule, which computes what it did before."""
    net = network(lines)
    match = next(RULES[rule].matches(View(net)))
    changed = passes.fold_constants(match.applied(net))
    assert_same(net, changed)
    text = str(changed).splitlines()[1:]
    return "\n".join(t.split("  #")[0].strip() for t in text if " = param(" not in t)


def test_a_1x1_kernel_grows_to_the_3x3_kernel_beside_it() -> None:
    assert (
        after(
            "enlarge kernel",
            """\
            u = param("u", float32[8, 4, 1, 1])
            v = param("v", float32[8, 4, 3, 3])
            a = conv2d(x, u, strides=(2, 2))
            b = conv2d(x, v, padding=1, strides=2)
            return a, b""",
        )
        == "conv2d_1 = conv2d(x, u_pad, padding=1, strides=2)\n"
        "conv2d_2 = conv2d(x, v, padding=1, strides=2)\n"
        "return conv2d_1, conv2d_2"
    )


def test_convolutions_of_one_input_merge_with_bias_and_relu() -> None:
    assert (
        after(
            "merge convolutions",
            """\
            u = param("u", float32[8, 4, 3, 3])
            v = param("v", float32[4, 4, 3, 3])
            p = param("p", float32[8, 1, 1])
            q = param("q", float32[4, 1, 1])
            a = conv2d(x, u)
            b = add(a, p)
            c = relu(b)
            d = conv2d(x, v)
            e = add(d, q)
            f = relu(e)
            return c, f""",
        )
        == "conv2d_1 = conv2d(x, u_concatenate)\n"
        "add_1 = add(conv2d_1, p_concatenate)\n"
        "relu_1 = relu(add_1)\n"
        "strided_slice_1 = strided_slice(relu_1, begin=(0, 0, 0, 0), end=(1, 8, 4, 4))\n"
        "strided_slice_2 = strided_slice(relu_1, begin=(0, 8, 0, 0), end=(1, 12, 4, 4))\n"
        "return strided_slice_1, strided_slice_2"
    )


SLICES = """\
    t = tanh(x)
    a = strided_slice(t, begin=(0, 0, 0, 0), end=(1, 1, 6, 6))
    b = strided_slice(t, begin=(0, 1, 0, 0), end=(1, 4, 6, 6))
    c = relu(a)
"""


def test_relu_of_a_slice_becomes_a_maximum_with_a_floor_that_others_do_not_notice() -> None:
    assert (
        after("lift relu", f"{SLICES}    return b, c") == "tanh_1 = tanh(x)\n"
        "maximum_1 = maximum(tanh_1, floor)\n"
        "strided_slice_1 = strided_slice(maximum_1, begin=(0, 1, 0, 0), end=(1, 4, 6, 6))\n"
        "strided_slice_2 = strided_slice(maximum_1, begin=(0, 0, 0, 0), end=(1, 1, 6, 6))\n"
        "return strided_slice_1, strided_slice_2"
    )


def test_relu_of_all_slices_becomes_one_relu() -> None:
    text = after("lift relu", f"{SLICES}    d = relu(b)\n    return c, d")
    assert text.startswith("tanh_1 = tanh(x)\nrelu_1 = relu(tanh_1)\n")
    assert text.count("relu(") == 1


def test_slices_that_follow_each_other_join() -> None:
    lines = f"{SLICES}    d = concatenate(a, b, axis=1)\n    return d"
    assert after("join slices", lines) == "tanh_1 = tanh(x)\nreturn tanh_1"


def test_a_sum_of_convolutions_of_one_input_adds_their_kernels() -> None:
    assert (
        after(
            "add kernels",
            """\
            u = param("u", float32[8, 4, 3, 3])
            v = param("v", float32[8, 4, 3, 3])
            p = param("p", float32[8, 1, 1])
            a = conv2d(x, u)
            b = add(a, p)
            c = conv2d(x, v)
            d = add(b, c)
            return d""",
        )
        == "conv2d_1 = conv2d(x, u_add)\nadd_1 = add(conv2d_1, p)\nreturn add_1"
    )


SUM = """\
    u = param("u", float32[2, 4, 3, 3])
    v = param("v", float32[2, 4, 3, 3])
    a = conv2d(x, u)
    b = conv2d(y, v)
    c = add(a, b)
    return c"""
WHOLE = """\
    w = param("w", float32[2, 8, 3, 3])
    a = concatenate(x, y, axis=1)
    b = conv2d(a, w)
    return b"""


def test_a_sum_of_convolutions_is_one_of_a_concatenate() -> None:
    assert after("concatenate sum", SUM) == (
        "concatenate_1 = concatenate(x, y, axis=1)\n"
        "conv2d_1 = conv2d(concatenate_1, u_concatenate)\n"
        "return conv2d_1"
    )


def test_a_convolution_of_a_concatenate_is_a_sum() -> None:
    assert after("split concatenate", WHOLE) == (
        "conv2d_1 = conv2d(y, w_strided_slice)\n"
        "conv2d_2 = conv2d(x, w_strided_slice2)\n"
        "add_1 = add(conv2d_1, conv2d_2)\n"
        "return add_1"
    )


def test_a_convolution_and_a_1x1_convolution_are_one() -> None:
    assert (
        after(
            "compose convolutions",
            """\
            u = param("u", float32[8, 4, 3, 3])
            p = param("p", float32[8, 1, 1])
            v = param("v", float32[2, 8, 1, 1])
            q = param("q", float32[2, 1, 1])
            a = conv2d(x, u, padding=1)
            b = add(a, p)
            c = conv2d(b, v)
            d = add(c, q)
            return d""",
        )
        == "conv2d_1 = conv2d(x, v_reshape_matmul_reshape, padding=1)\n"
        "add_1 = add(conv2d_1, v_reshape2_matmul_reshape)\n"
        "add_2 = add(add_1, q)\n"
        "return add_2"
    )


REFUSED = {
    "enlarge kernel": """\
        u = param("u", float32[8, 4, 1, 1])
        v = param("v", float32[8, 4, 3, 3])
        a = conv2d(x, u)
        b = conv2d(x, v)
        return a, b""",
    "merge convolutions": """\
        u = param("u", float32[8, 4, 1, 1])
        v = param("v", float32[8, 4, 3, 3])
        a = conv2d(x, u)
        b = conv2d(x, v, padding=1)
        return a, b""",
    "lift relu": f"{SLICES}    return a, b, c",
    "join slices": f"{SLICES}    d = concatenate(b, a, axis=1)\n    return d",
    "add kernels": SUM,
    "concatenate sum": SUM.replace("return c", "return a, c"),
    "split concatenate": WHOLE.replace("axis=1", "axis=2").replace("2, 8, 3, 3", "2, 4, 3, 3"),
    "compose convolutions": """\
        u = param("u", float32[8, 4, 3, 3])
        v = param("v", float32[2, 8, 1, 1])
        a = conv2d(x, u)
        b = conv2d(a, v, padding=1)
        return b""",
}


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_leaves_alone_what_it_would_change(rule: str) -> None:
    assert not list(RULES[rule].matches(View(network(REFUSED[rule]))))


# --- the search ----------------------------------------------------------------------------------


def fire(size: int = 14) -> graph.Graph:
    """A fire module of SqueezeNet (Iandola et al. 2016), after its squeezing convolution."""
    net = Layers("fire", 0)
    x = net.b.input("x", (1, 16, size, size))
    one = net.b.relu(net.conv(x, "one", 64, 1, bias=True))
    three = net.b.relu(net.conv(x, "three", 64, 3, bias=True, padding=1))
    return net.b.graph(net.b.concatenate(one, three, axis=1))


def block() -> graph.Graph:
    """The first block of a stage of ResNet-18: its shortcut has a 1x1 convolution."""
    net = Layers("block", 0)
    return net.b.graph(basic(net, net.b.input("x", (1, 16, 14, 14)), "block", 32, 2))


def test_a_fire_module_becomes_one_kernel_by_a_step_that_is_worse() -> None:
    found = graph.search(fire(), alpha=1.05, check=True)
    assert [s.rule for s in found.steps] == ["enlarge kernel", "merge convolutions", "join slices"]
    assert [s.where for s in found.steps] == ["one", "one", "concatenate"]
    assert found.steps[0].cost > found.costs[0] > found.steps[1].cost > found.costs[1]
    assert found.worse == found.steps[:1]
    assert [k.body.name for k in passes.fuse(found.best).calls] == ["conv2d_add_relu"]
    assert_same(found.start, found.best)


def test_a_residual_block_becomes_two_kernels_by_steps_that_are_worse() -> None:
    found = graph.search(block(), alpha=1.05, check=True)
    assert [s.rule for s in found.steps] == ["enlarge kernel", "merge convolutions", "lift relu"]
    assert found.steps[0].cost > found.costs[0]
    assert_same(block(), found.best)


@pytest.mark.parametrize("net", [fire, block])
def test_steps_that_save_something_are_not_enough(net) -> None:
    greedy, relaxed = (graph.search(net(), alpha=alpha) for alpha in (1.0, 1.05))
    assert not greedy.worse
    assert relaxed.costs[1] < greedy.costs[1] <= greedy.costs[0] == relaxed.costs[0]


def test_the_path_is_printed() -> None:
    lines = str(graph.search(fire())).splitlines()
    assert [line[:24].strip() for line in lines[:-1]] == [
        "start",
        "enlarge kernel",
        "merge convolutions",
        "join slices",
    ]
    assert [line.split()[3:] for line in lines[1:3]] == [["worse", "one"], ["one"]]
    assert lines[-1].endswith("with alpha 1.05, parts: 1, networks: 5")


def test_a_machine_that_starts_kernels_at_once_gains_nothing_from_a_larger_kernel() -> None:
    found = graph.search(fire(), graph.MachineCost(peak=1e11, bandwidth=1e11, launch=0))
    assert "enlarge kernel" not in [step.rule for step in found.steps]


def test_any_function_is_a_cost() -> None:
    found = graph.search(fire(), lambda net: len(passes.fuse(net).calls), alpha=1.2)
    assert found.costs == (3, 1)


def test_a_kernel_on_a_described_machine_takes_its_launch_and_the_longer_of_two_times() -> None:
    net = network("""\
        t = tanh(x)
        s = strided_slice(t, begin=(0, 1, 0, 0), end=(1, 4, 6, 6))
        return t, s""")
    kernel = 2 * 4 * 4 * 36  # bytes of x and t; the slice lies in one piece
    assert graph.MachineCost(1e30, 2.0, 10.0)(net) == 10 + kernel / 2
    assert graph.MachineCost(1e-3, 1e30, 0)(net) == 4 * 36 * 1e3
    assert graph.MachineCost(1e30, 1e30, 1.0)(network("t = tanh(x)\nreturn t, x")) == 1.0


def test_measured_kernels_are_kept_in_a_file(tmp_path) -> None:
    log = tmp_path / "kernels.jsonl"
    net = fire(4)
    with graph.MeasuredCost(log, "llvm -num-cores=1") as cost:
        first = cost(net)
        assert first == cost(net) > 0
    lines = log.read_text().splitlines()
    with graph.MeasuredCost(log, "llvm -num-cores=1") as again:
        assert again(net) == pytest.approx(first)
    assert log.read_text().splitlines() == lines
    assert len(lines) == len(set(lines)) == 3


def test_cycles_are_those_of_the_best_tiling() -> None:
    b = graph.Builder()
    weights = np.ones((16, 32, 3, 3), np.float32)
    x = b.input("x", (1, 32, 8, 8))
    y = b.conv2d(x, b.param("w", weights), padding=1)
    layer = vta.Convolution(size=(8, 8), channels=(32, 16), residual_dtype="int8")
    best = vta.best_tiling(layer, threads=2, most=5)
    assert graph.CycleCost()(b.graph(b.relu(y))) == best.cycles
    moved = 2 * 32 * 8 * 8 / 8  # bytes of int8, through a port of 8 bytes a cycle
    assert graph.CycleCost()(b.graph(b.tanh(x))) == moved


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda: graph.MachineCost(0, 1, 1),
        lambda: graph.MachineCost(1, "1", 1),
        lambda: graph.MachineCost(1, 1, float("nan")),
        lambda: graph.A100(5),
        lambda: graph.MeasuredCost(5),
        lambda: graph.CycleCost()(None),
        lambda: graph.search(5),
    ],
)
def test_nonsense_costs_are_refused(nonsense) -> None:
    with pytest.raises(TVMError):
        nonsense()


def random_images(rng: np.random.Generator, size: int) -> graph.Graph:
    """A network of `size` random layers for images, which often share inputs."""
    net = Layers("random", int(rng.integers(1000)))
    images = [net.b.input("x", (1, 4, 5, 5))]
    for k in range(size):
        x = images[int(rng.integers(max(0, len(images) - 3), len(images)))]
        images.append(_random_layer(net, x, images, f"layer{k}", rng))
    return net.b.graph(images[-1], net.b.relu(images[int(rng.integers(1, len(images)))]))


def _random_layer(net: Layers, x: graph.Node, images: list, name: str, rng) -> graph.Node:
    b, same = net.b, [n for n in images if n.type == x.type]
    y = same[int(rng.integers(len(same)))]
    match int(rng.integers(6)):
        case 0:
            return b.add(x, y)
        case 1 if x.type.shape[1] < 17:
            return b.concatenate(x, y, axis=1)
        case 2 | 3:
            one, three = (_random_conv(net, x, f"{name}.{k}", 4, k, rng) for k in (1, 3))
            return b.add(one, three) if rng.random() < 0.3 else b.concatenate(one, three, axis=1)
        case _:
            k, channels = int(rng.choice([1, 3])), int(rng.choice([4, 8]))
            return _random_conv(net, x, name, channels, k, rng)


def _random_conv(net: Layers, x: graph.Node, name: str, channels: int, k: int, rng) -> graph.Node:
    conv = net.conv(x, name, channels, k, bias=bool(rng.random() < 0.5), padding=k // 2)
    return net.b.relu(conv) if rng.random() < 0.5 else conv


def networks() -> Iterator[graph.Graph]:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        yield random_images(rng, int(rng.integers(3, 14)))


def test_random_networks_compute_what_they_did_before_the_search() -> None:
    used = set()
    for net in networks():
        found = graph.search(net, alpha=1.5, budget=60, part=8, check=True)
        assert_same(net, found.best)
        assert found.costs[1] <= found.costs[0]
        used |= {step.rule for step in found.steps}
    assert used >= set(RULES) - {"concatenate sum"}  # launches decide, and it saves none


def test_the_same_search_twice_is_the_same() -> None:
    net = graph.networks.squeezenet(size=64)
    first, second = (graph.search(net, budget=20) for _ in range(2))
    assert str(first) == str(second)
    assert first.best == second.best


def test_a_large_network_is_searched_in_parts() -> None:
    net = graph.networks.squeezenet(size=48)
    found = graph.search(net)
    assert found.parts > 3
    assert found.tried < 300  # networks that differ in the computation of weights are the same
    assert [step.rule for step in found.steps].count("enlarge kernel") == 8
    assert found.costs[1] < 0.8 * found.costs[0]
    assert found.steps[-1].cost == found.costs[1]
    assert_same(net, found.best)


def test_parameters_that_parts_add_have_names_of_their_own() -> None:
    net = graph.networks.resnet18(size=32, width=0.25)
    found = graph.search(net, part=20)
    assert [step.rule for step in found.steps].count("lift relu") == 3
    assert_same(net, found.best)


def test_a_network_without_a_cut_is_one_part() -> None:
    b = graph.Builder()
    x = y = b.input("x", (1, 4, 4, 4))
    for _ in range(30):
        y = b.tanh(b.add(x, y))
    assert graph.search(b.graph(b.add(x, y))).parts == 1


def test_the_budget_bounds_the_networks_and_progress_sees_each() -> None:
    seen = []
    net = fire()
    found = graph.search(net, budget=3, progress=lambda *row: seen.append(row))
    assert found.tried == 4  # and the whole network
    assert [n for n, _, _ in seen] == [2, 3]


def test_a_rule_that_is_wrong_is_found_out() -> None:
    def wrong(view: View) -> Iterator[graph.Match]:
        for node in view.graph.calls:
            if node.op == "relu":
                yield graph.Match((node,), {node: node.inputs[0]})

    rule = graph.Rule("no relu", "relu(x)", "x", wrong)
    with pytest.raises(TVMError, match="rule 'no relu' at relu: the outputs of fire change"):
        graph.search(fire(), rules=(rule,), cost=lambda g: len(g.calls), check=True)


@pytest.mark.parametrize(
    "nonsense",
    [
        {"alpha": 0.9},
        {"alpha": float("nan")},
        {"alpha": "1"},
        {"budget": 0},
        {"part": 0},
        {"rules": graph.RULES[0]},
        {"rules": (1,)},
        {"cost": 3},
    ],
)
def test_nonsense_is_refused(nonsense: dict) -> None:
    with pytest.raises(TVMError, match=f"^search: {next(iter(nonsense))}"):
        graph.search(fire(), **nonsense)
