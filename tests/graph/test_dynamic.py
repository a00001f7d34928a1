"""Networks of any batch or length, compiled once: results, memory, files and refusals."""

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import graph, runtime
from minitvm.base import ArgumentError, BuildError, GraphError
from minitvm.graph import Builder, Graph
from minitvm.graph.affine import merged, sized
from minitvm.runtime import DynamicModule, Extent

TARGET = "llvm -num-cores=1"
Make = Callable[[int], Graph]


def numbers(shape: tuple[int, ...], seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype("float32")


def mlp(n: int) -> Graph:
    """Two dense layers for a batch of n rows."""
    b = Builder("mlp")
    x = b.input("x", (n, 20))
    h = b.relu(
        b.add(b.dense(x, b.param("w1", numbers((33, 20), 1))), b.param("b1", numbers((33,), 2)))
    )
    return b.graph(b.softmax(b.dense(h, b.param("w2", numbers((5, 33), 3)))))


def attention(n: int) -> Graph:
    """Two heads of attention over a text of n words, with a residual and a normalisation."""
    b = Builder("attention")
    x = b.input("x", (1, n, 16))
    rows = b.reshape(x, (n, 16))

    def heads(name: str, seed: int, axes: tuple[int, int, int]) -> Any:
        y = b.dense(rows, b.param(name, numbers((16, 16), seed)))
        return b.transpose(b.reshape(y, (n, 2, 8)), axes)

    q, k, v = heads("q", 1, (1, 0, 2)), heads("k", 2, (1, 2, 0)), heads("v", 3, (1, 0, 2))
    shares = b.softmax(b.multiply(b.batch_matmul(q, k), 8**-0.5))
    y = b.reshape(b.transpose(b.batch_matmul(shares, v), (1, 0, 2)), (1, n, 16))
    gain, bias = b.param("gain", numbers((16,), 4)), b.param("bias", numbers((16,), 5))
    return b.graph(b.layer_norm(b.add(x, y), gain, bias))


def images(n: int) -> Graph:
    """A convolution, a residual one, a pooling and a dense layer for n images."""
    b = Builder("images")
    x = b.input("images", (n, 3, 12, 12))
    y = b.relu(b.conv2d(x, b.param("w1", numbers((8, 3, 3, 3), 1)), padding=1))
    z = b.add(y, b.conv2d(y, b.param("w2", numbers((8, 8, 3, 3), 2)), padding=1))
    pooled = b.max_pool2d(z, 2, 2)
    return b.graph(b.dense(b.reshape(pooled, (n, 8 * 36)), b.param("w3", numbers((4, 288), 3))))


def places(n: int) -> Graph:
    """Words with the first rows of a table of positions, and causal attention over them."""
    b = Builder("places")
    table = b.param("table", numbers((64, 16)))
    x = b.add(b.input("x", (n, 16)), b.strided_slice(table, (0, 0), (n, 16)))
    q = b.reshape(b.dense(x, b.param("w", numbers((16, 16), 1))), (1, 1, n, 16))
    return b.graph(b.attention(q, q, q, causal=True))


def remembering(n: int) -> Graph:
    """The hidden states of an LSTM over n words."""
    b = Builder("remembering")
    gates = b.dense(b.input("x", (n, 6)), b.param("w", numbers((16, 6), 1)))
    start, recurrent = b.param("start", numbers((2, 1, 4))), b.param("u", numbers((16, 4), 2))
    states = b.lstm(b.reshape(gates, (n, 1, 16)), recurrent, start)
    return b.graph(b.strided_slice(states, (1, 0, 0, 0), (n + 1, 1, 1, 4)))


def two_inputs(n: int) -> Graph:
    """Tensors of n and n + 1 rows; the second output has 2 n + 1."""
    b = Builder("two")
    x, y = b.input("x", (n, 4)), b.input("y", (n + 1, 4))
    both = b.concatenate(x, y, axis=0)
    last = b.strided_slice(y, (n, 0), (n + 1, 4))
    return b.graph(b.add(b.exp(x), last), b.multiply(both, 2.0))


def random_rows(seed: int) -> Make:
    """A random network of operators whose first dimension, or whose last one, is dynamic."""

    def make(n: int) -> Graph:
        rng, b = np.random.default_rng(seed), Builder(f"random{seed}")
        x = b.input("x", (n, 6))
        kept = [x]
        for k in range(int(rng.integers(3, 8))):
            x = kept[int(rng.integers(len(kept)))]
            match int(rng.integers(8)):
                case 0:
                    x = b.dense(x, b.param(f"w{k}", numbers((6, 6), 10 * seed + k)))
                case 1:
                    x = b.softmax(x)
                case 2:
                    x = b.add(x, kept[int(rng.integers(len(kept)))])
                case 3:
                    x = b.softmax(b.transpose(x, (1, 0)))
                    x = b.transpose(x, (1, 0))
                case 4:
                    scores = b.matmul(x, b.transpose(x, (1, 0)))
                    x = b.matmul(b.tanh(scores), x)
                case 5:
                    x = b.reshape(b.sigmoid(b.reshape(x, (2 * n, 3))), (n, 6))
                case 6:
                    x = b.subtract(x, b.mean(x, axis=0, keepdims=True))
                case _:
                    x = b.concatenate(
                        b.strided_slice(x, (0, 2), (n, 6)),
                        b.strided_slice(x, (0, 0), (n, 2)),
                        axis=1,
                    )
            kept.append(x)
        return b.graph(kept[-1], b.max(kept[len(kept) // 2], axis=1))

    return make


def check(module: Any, make: Make, sizes: Any) -> None:
    """Compare a module with the definition of its network, at these sizes."""
    for n in sizes:
        net = make(n)
        inputs = [numbers(node.type.shape, n + k) for k, node in enumerate(net.inputs)]
        results = module(*inputs)
        for a, b in zip(
            results if isinstance(results, tuple) else (results,),
            graph.evaluate(net, *inputs, dtype="float64"),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4 * np.abs(b).max())


@pytest.fixture(scope="module")
def network() -> DynamicModule:
    return graph.compile_dynamic(mlp, TARGET, special=(1, 4))


def test_one_module_takes_batches_from_1_to_17(network: DynamicModule) -> None:
    check(network, mlp, range(1, 18))


def test_lengths_that_were_never_seen_have_their_own_memory() -> None:
    module = graph.compile_dynamic(attention, TARGET)
    check(module, attention, (40, 1, 2, 7, 100, 33))
    sizes = [module.at(n).plan.arena_bytes for n in (1, 7, 40, 100)]
    assert sizes == sorted(set(sizes))


@pytest.mark.parametrize("make", [images, two_inputs])
def test_convolutions_slices_and_several_inputs_have_any_size(make: Make) -> None:
    check(graph.compile_dynamic(make, TARGET, typical=6), make, (1, 2, 5, 6, 13))


def test_an_lstm_runs_a_thousand_steps() -> None:
    check(graph.compile_dynamic(remembering, TARGET), remembering, (1, 7, 1000))


def test_a_part_of_a_table_may_depend_on_n() -> None:
    module = graph.compile_dynamic(places, TARGET, largest=64)
    assert (64, 16) in [spec.shape for spec in module.plan.params]
    check(module, places, (1, 2, 5, 40, 64))
    with pytest.raises(ArgumentError, match="n is 65, and 64 is the largest"):
        module(numbers((65, 16)))


def test_parameters_may_be_parts_of_that_for_the_largest_n() -> None:
    module = graph.compile_dynamic(positions, TARGET, largest=64)
    assert [spec.shape for spec in module.plan.params] == [(64, 4)]
    check(module, positions, (1, 2, 40, 64))


@pytest.mark.parametrize("target", ["numba", "python"])
def test_other_targets_run_dynamic_networks(target: str) -> None:
    check(graph.compile_dynamic(attention, target, special=(3,)), attention, (1, 3, 5))


@pytest.mark.parametrize("seed", range(6))
def test_random_networks_are_right_at_every_size(seed: int) -> None:
    make = random_rows(seed)
    check(graph.compile_dynamic(make, TARGET, special=(2,)), make, (1, 2, 3, 9, 16, 31))


def test_special_sizes_have_kernels_of_their_own_and_share_the_parameters(
    network: DynamicModule,
) -> None:
    kernels = {n: {c.kernel for c in network.plan.calls_at(n)} for n in (1, 2, 3, 4)}
    assert kernels[2] == kernels[3]
    assert kernels[1].isdisjoint(kernels[2] | kernels[4])
    assert kernels[4].isdisjoint(kernels[2])
    assert [*network.params] == ["w1", "b1", "w2"]


def test_threads_call_a_module_with_different_sizes(network: DynamicModule) -> None:
    def work(thread: int) -> None:
        for k in range(20):
            check(network, mlp, [1 + (3 * thread + k) % 11])

    with ThreadPoolExecutor(8) as executor:
        for future in [executor.submit(work, n) for n in range(8)]:
            future.result(timeout=120)


def test_a_profile_names_the_calls(network: DynamicModule) -> None:
    profile = network.profile(numbers((7, 20)), number=2)
    assert [c.kernel for c in profile.calls] == [f.name for f in network.lib.kernels[:3]]


def test_three_graphs_become_one_whose_sizes_contain_n() -> None:
    text = str(merged([two_inputs(n) for n in (8, 9, 10)], 8))
    assert "y: float32[n + 1, 4]" in text
    assert "strided_slice(y, begin=(n, 0), end=(n + 1, 4))" in text
    assert str(sized(merged([mlp(n) for n in (8, 9, 10)], 8), 3)) == str(mlp(3))


@pytest.mark.parametrize(
    ("extent", "size", "n"),
    [(Extent(4, 1), 13, 3), (Extent(4, 1), 14, None), (Extent(1, 5), 5, None)],
)
def test_an_extent_tells_the_size(extent: Extent, size: int, n: int | None) -> None:
    assert extent.size(size) == n


# --- files ---------------------------------------------------------------------------------------

LOADS = """
import sys
import numpy as np
from minitvm import graph
module = graph.load(sys.argv[1])
for n in (1, 3, 4, 17):
    x = np.load(sys.argv[2])[:n]
    np.save(f"{sys.argv[2]}.{n}.npy", module(x))
"""


def test_another_process_loads_a_file_for_all_sizes(network: DynamicModule, tmp_path: Path) -> None:
    x = numbers((17, 20))
    np.save(tmp_path / "x.npy", x)
    network.export(tmp_path / "net")
    words = [sys.executable, "-c", LOADS, str(tmp_path / "net"), str(tmp_path / "x.npy")]
    subprocess.run(words, check=True, timeout=120)
    for n in (1, 3, 4, 17):
        np.testing.assert_array_equal(np.load(tmp_path / f"x.npy.{n}.npy"), network(x[:n]))


def test_damaged_files_are_refused(network: DynamicModule, tmp_path: Path) -> None:
    path = tmp_path / "net"
    network.export(path)
    data = path.read_bytes()
    for size in (0, 20, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:size])
        with pytest.raises((ArgumentError, BuildError)):
            runtime.load_network(path)
    for at in (3, 200, len(data) // 2, len(data) - 5):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises((ArgumentError, BuildError)):
            runtime.load_network(path)


# --- refusals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("inputs", "words"),
    [
        ((), "takes 1 inputs, 0 given"),
        ((numbers((3, 21)),), "has shape (3, 21)"),
        ((numbers((0, 20)),), "no n >= 1 fits the given shapes [0, 20]"),
        ((numbers((20,)),), "has shape (20,)"),
        ((numbers((2, 20)).astype(complex),), "has dtype complex128"),
        (([[1.0]],), "not an array"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(
    network: DynamicModule, inputs: Any, words: str
) -> None:
    with pytest.raises(ArgumentError) as caught:
        network(*inputs)
    assert words in str(caught.value)


def test_inputs_of_different_sizes_are_refused() -> None:
    module = graph.compile_dynamic(two_inputs, TARGET)
    with pytest.raises(ArgumentError, match="no n >= 1 fits the given shapes"):
        module(numbers((3, 4)), numbers((3, 4)))


def deep(n: int) -> Graph:
    """As many operators as rows."""
    b = Builder("deep")
    x = b.input("x", (n, 4))
    y = x
    for _ in range(n):
        y = b.softmax(y)
    return b.graph(y)


def square(n: int) -> Graph:
    b = Builder("square")
    x = b.input("x", (n, n))
    return b.graph(b.softmax(b.reshape(x, (n * n,)), name="flat"))


def positions(n: int) -> Graph:
    b = Builder("positions")
    return b.graph(b.add(b.input("x", (n, 4)), b.param("table", numbers((n, 4)))))


def deeper(n: int) -> Graph:
    """A table that has another dimension for the largest n."""
    b = Builder("deeper")
    table = b.param("table", numbers((n, 4) if n < 64 else (64, 4, 1)))
    return b.graph(b.add(b.input("x", (n, 4)), b.reshape(table, (n, 4))))


def scaled(n: int) -> Graph:
    b = Builder("scaled")
    return b.graph(b.multiply(b.input("x", (n, 4)), 1.0 / n, name="scale"))


def taken(n: int) -> Graph:
    b = Builder("taken")
    x, at = b.input("x", (n, 4)), b.input("at", (3,), "int32")
    return b.graph(b.take(x, at, axis=0, mode="index"))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (deep, "its number of nodes depends on n"),
        (square, "not affine in n: 256, 289, 324"),
        (positions, "parameter 'table': its value depends on n; add reads it"),
        (scaled, "not affine in n: 0.0625"),
        (taken, "input 'at': its elements are indices of a dimension whose size depends on n"),
    ],
)
def test_networks_of_other_forms_are_refused(make: Make, words: str) -> None:
    with pytest.raises(GraphError) as caught:
        graph.compile_dynamic(make, TARGET)
    assert words in str(caught.value)


def test_a_table_of_another_rank_is_no_prefix() -> None:
    with pytest.raises(
        GraphError, match=r"'table'.*\n  try: pass largest=, and let this parameter"
    ):
        graph.compile_dynamic(deeper, TARGET, largest=64)


def test_a_cache_of_any_length_does_not_limit_positions() -> None:
    def make(n: int) -> Graph:
        b = Builder("cache")
        cache, new = b.input("cache", (1, 1, n, 4)), b.input("new", (1, 1, 1, 4))
        return b.graph(b.cache_update(cache, new, b.input("at", (1,), "int32")))

    module = graph.compile_dynamic(make, "python")
    cache, new = numbers((1, 1, 5, 4)), numbers((1, 1, 1, 4), 1)
    np.testing.assert_array_equal(module(cache, new, np.array([4]))[0, 0, 4], new[0, 0, 0])
    np.testing.assert_array_equal(module(cache, new, np.array([5])), cache)


@pytest.mark.parametrize("options", [{"special": (0,)}, {"typical": 1.5}, {"largest": 0}])
def test_sizes_are_ints_of_at_least_1(options: Any) -> None:
    with pytest.raises(GraphError, match="not an int of at least 1"):
        graph.compile_dynamic(mlp, TARGET, **options)
