"""Networks whose convolutions run on the simulated accelerator."""

from dataclasses import replace

import numpy as np
import pytest

from minitvm import accel, graph, runtime, vta
from minitvm.base import GraphError, MeasureError

from .integer_networks import integer_values

SHAPE = (1, 16, 8, 8)


def images(rng: np.random.Generator, shape: tuple[int, ...], count: int) -> list[np.ndarray]:
    """Random images with smooth regions, as pictures have them."""
    n, c, h, w = shape
    coarse = rng.standard_normal((count, n, c, -(-h // 8), -(-w // 8)), np.float32)
    smooth = np.kron(coarse, np.ones((8, 8), np.float32))[..., :h, :w]
    return list(smooth + rng.standard_normal((count, *shape), np.float32) / 2)


def residual_network(rng: np.random.Generator, blocks: int = 2) -> graph.Graph:
    """A stem, blocks of two convolutions with random strides and channels, and a classifier."""
    net = graph.networks.layers.Layers("small", int(rng.integers(1 << 30)))
    x = net.b.input("x", (1, 3, 16, 16))
    x = net.b.relu(net.norm(net.conv(x, "stem", 16, 3, padding=1), "stem.bn"))
    x = net.b.max_pool2d(x, 3, 2, 1)
    for k in range(blocks):
        stride, channels = int(rng.integers(1, 3)), int(rng.choice([16, 32, 40]))
        x = graph.networks.residual.basic(net, x, f"block{k}", channels, stride)
    return net.b.graph(net.dense(net.flat_mean(x), "fc", 10))


def quantised(net: graph.Graph, rng: np.random.Generator) -> graph.Graph:
    """The network with powers of two as scales."""
    return graph.quantise(net, images(rng, net.inputs[0].type.shape, 3), powers_of_two=True)


def with_all_bytes(net: graph.Graph) -> graph.Graph:
    """The network that also returns the bytes of every quantise node."""
    return replace(net, outputs=(*(n for n in net.nodes if n.op == "quantise"), *net.outputs))


def check_exact(net: graph.Graph, image: np.ndarray) -> list[str]:
    """Compare bytes and outputs with integers in numpy; return what ran on the accelerator."""
    whole = with_all_bytes(net)
    placed = [d.name for d in graph.explain(whole, "vta").operators if d.where == "vta"]
    results = graph.compile(whole, "vta")(image)
    expected = integer_values(net, image, placed)
    for node, result in zip(whole.outputs, results, strict=True):
        np.testing.assert_array_equal(result, expected[node], err_msg=node.name)
    return placed


@pytest.mark.parametrize("seed", range(3))
def test_random_residual_networks_equal_integers_in_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = quantised(residual_network(rng), rng)
    (image,) = images(rng, net.inputs[0].type.shape, 1)
    check_exact(net, image)


@pytest.fixture(scope="module")
def small() -> graph.Graph:
    """One block of 16 channels, with scales that are powers of two."""
    rng = np.random.default_rng(7)
    b = graph.Builder("small")
    x = b.input("x", SHAPE)
    inner = b.relu(b.conv2d(x, weight(b, rng, "first"), padding=1, name="first"))
    outer = b.conv2d(inner, weight(b, rng, "second"), padding=1, name="second")
    y = b.relu(b.add(outer, x))
    last = b.param("last.weight", rng.standard_normal((10, 16, 1, 1), np.float32))
    return quantised(b.graph(b.conv2d(y, last, name="last")), rng)


def weight(b: graph.Builder, rng: np.random.Generator, name: str) -> graph.Node:
    """Weights [16, 16, 3, 3] after which the activations keep their size."""
    return b.param(f"{name}.weight", rng.standard_normal((16, 16, 3, 3), np.float32) / 12)


def image_of(net: graph.Graph) -> np.ndarray:
    (image,) = images(np.random.default_rng(1), net.inputs[0].type.shape, 1)
    return image


def test_scales_are_powers_of_two_that_hold_the_largest_value(small) -> None:
    scales = [n.attrs["scale"] for n in small.nodes if n.op == "quantise"]
    weights = [a for name, a in small.params.items() if name.endswith("scale")]
    assert [np.frexp(s)[0].tolist() for s in (*scales, *weights)] == (
        [0.5] * 3 + [[0.5] * 16] * 2 + [[0.5] * 10]
    )
    codes = [a for name, a in small.params.items() if name.endswith("int8")]
    assert all(63 < np.abs(a).max() <= 127 for a in codes)


def test_explain_says_what_runs_where(small) -> None:
    assert str(graph.explain(small, "vta")) == (
        "x                        quantise             cpu\n"
        "x                        vta_pack             cpu\n"
        "first                    vta_conv2d           vta\n"
        "second                   vta_conv2d           vta\n"
        "second                   vta_unpack           cpu\n"
        "last                     conv2d               cpu: its result is read as real numbers\n"
        "last                     dequantise           cpu"
    )


def test_blocks_stay_packed_between_layers(small) -> None:
    module = graph.compile(small, "vta")
    names = [module.lib.kernels[call.kernel].name for call in module.plan.calls]
    assert [n for n in names if "pack" in n] == ["quantise_vta_pack", "vta_unpack_transpose"]
    assert check_exact(small, image_of(small)) == ["first", "second"]


def test_cycles_are_those_of_the_programs(small) -> None:
    module = graph.compile(small, "vta")
    first, second = (f for f in module.lib.kernels if isinstance(f, runtime.AcceleratorFunction))
    cycles = module.cycles
    assert [row.total for row in cycles.rows] == [first.run().cycles, second.run().cycles]
    assert cycles.total == sum(row.total for row in cycles.rows)
    assert cycles.rows[0].products == 8 * 8 * 9  # one output pixel and kernel position a cycle
    assert [line.split()[0] for line in str(cycles).splitlines()] == (
        ["call", "first", "second", "2", f"{cycles.seconds * 1e3:.4g}"]
    )
    assert all(vta.verify(f).ok for f in (first, second))


def test_another_machine_computes_the_same_in_other_cycles(small) -> None:
    image, module = image_of(small), graph.compile(small, "vta")
    with vta.Environment(replace(vta.vta_pynq, name="narrow", port_bytes=2)):
        other = graph.compile(small, "vta")
    np.testing.assert_array_equal(other(image), module(image))
    assert other.cycles.total > module.cycles.total


def test_flipping_a_bit_of_a_weight_changes_the_result(small) -> None:
    image, module = image_of(small), graph.compile(small, "vta")
    right = module(image)
    (name,) = (n for n in module.params if n.startswith("first") and n.endswith("blocks"))
    weights = module.params[name].copy()
    weights[0, 0, 1, 1, 3, 5] ^= 64
    module.set_input(name, weights)
    assert not np.array_equal(module(image), right)


def test_a_removed_push_is_reported(small) -> None:
    module = graph.compile(small, "vta")
    kernels = list(module.lib.kernels)
    at = next(k for k, f in enumerate(kernels) if isinstance(f, runtime.AcceleratorFunction))
    f = kernels[at]
    program = without_a_push(f.program)
    kernels[at] = runtime.AcceleratorFunction(f.func, program, f.config, {})
    broken = runtime.create(module.plan, runtime.Library(tuple(kernels)))
    broken.set_input(**module.params)
    assert not vta.verify(kernels[at]).ok
    with pytest.raises(MeasureError, match="deadlocks"):
        broken(image_of(small))
    with pytest.raises(MeasureError, match="deadlocks"):
        _ = broken.cycles


def without_a_push(program: accel.Program) -> accel.Program:
    """The program in which the first instruction that passes a token on does not do so."""
    instructions = list(program.instructions)
    at = next(k for k, each in enumerate(instructions) if each.flags.push_next)
    flags = replace(instructions[at].flags, push_next=False)
    instructions[at] = replace(instructions[at], flags=flags)
    return replace(program, instructions=tuple(instructions))


def test_other_networks_run_on_the_cpu(small, rng) -> None:
    net = residual_network(rng, 1)
    examples = images(rng, net.inputs[0].type.shape, 3)
    module = graph.compile(net, "vta")
    np.testing.assert_allclose(module(examples[0]), *graph.evaluate(net, examples[0]), 1e-4, 1e-4)
    assert str(module.cycles) == "no call runs on the accelerator"
    decisions = graph.explain(graph.quantise(net, examples), "vta").operators
    assert {d.where for d in decisions} == {"cpu"}
    (why,) = (d.why for d in decisions if d.name == "block0.conv1" and d.op == "conv2d")
    assert why == "its tensors are not int8 with zero point 0"


def test_networks_of_any_size_are_refused(small) -> None:
    with pytest.raises(GraphError, match="programs for the accelerator have fixed sizes"):
        graph.compile_dynamic(lambda n: small, "vta")


@pytest.mark.slow
def test_resnet18_equals_integers_in_numpy() -> None:
    rng = np.random.default_rng(0)
    net = quantised(graph.networks.resnet18(), rng)
    (image,) = images(rng, (1, 3, 224, 224), 1)
    assert len(check_exact(net, image)) == 19
    cycles = graph.compile(net, "vta").cycles
    assert cycles.utilisation >= 0.8
