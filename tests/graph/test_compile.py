"""Compiled networks compute what numpy computes, whatever passes run and in whatever order."""

import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph, runtime
from minitvm.base import ArgumentError, GraphError

from .conftest import random_network

SMALL = {  # networks with the structure of the large ones, but few channels and pixels
    "resnet18": {"size": 32, "width": 0.125, "classes": 10},
    "resnet50": {"size": 32, "width": 0.125, "classes": 10},
    "resnet3d18": {"frames": 2, "size": 8, "width": 0.125, "classes": 10},
    "mobilenet_v1": {"size": 32, "width": 0.25, "classes": 10},
    "mobilenet_v2": {"size": 32, "width": 0.25, "classes": 10},
    "squeezenet": {"size": 32, "classes": 10},
    "dcgan": {"size": 16, "features": 8},
    "dqn": {"actions": 4},
    "lstm": {"words": 50, "hidden": 24, "steps": 2},
    "bert": {"layers": 1, "hidden": 32, "heads": 4, "length": 12},
}
IMAGES = ("resnet18", "resnet50", "mobilenet_v1", "mobilenet_v2", "squeezenet", "dqn")
ORDERED = graph.PASSES[:-2]  # passes that may run in any order; the last two are always needed
LAST = graph.PASSES[-2:]
LAYOUTS = ("assign_layouts", "choose_formulas")


def small(name: str) -> graph.Graph:
    return getattr(graph.networks, name)(**SMALL[name])


def inputs_of(net: graph.Graph, rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.random(n.type.shape).astype(n.type.dtype.numpy) for n in net.inputs]


def error(found: object, exact: tuple[np.ndarray, ...]) -> float:
    """The largest difference, relative to the largest number of each output."""
    arrays = found if isinstance(found, tuple) else (found,)
    pairs = zip(arrays, exact, strict=True)
    return max(float(np.abs(a - b).max() / np.abs(b).max()) for a, b in pairs)


def tiny(rng: np.random.Generator) -> graph.Graph:
    """Two convolutions that a pass joins, a normalisation, a shortcut, a pooling, a layer."""
    b = graph.Builder("tiny")
    x = b.input("x", (1, 4, 8, 8))
    w = [b.param(f"w{k}", rng.random((8, 4, 3, 3), np.float32) - np.float32(0.5)) for k in range(2)]
    u, v = (b.relu(b.conv2d(x, each, padding=1)) for each in w)
    vectors = [b.param(n, rng.random(8, np.float32) + np.float32(0.5)) for n in "abcd"]
    w3 = b.param("w3", rng.random((8, 8, 3, 3), np.float32) - np.float32(0.5))
    y = b.batch_norm(b.conv2d(b.add(u, v), w3, padding=1), *vectors)
    y = b.max_pool2d(b.relu(b.add(b.identity(y), u)), 2)
    y = b.reshape(y, (1, 128))
    return b.graph(b.dense(y, b.param("w4", rng.random((5, 128), np.float32))))


@pytest.mark.parametrize("name", SMALL)
def test_networks_are_those_of_numpy(name: str, rng) -> None:
    net = small(name)
    inputs = inputs_of(net, rng)
    exact = graph.evaluate(net, *inputs, dtype="float64")
    assert error(graph.compile(net)(*inputs), exact) < (1e-5 if name in IMAGES else 1e-4)
    if name in IMAGES:
        plain = graph.compile(net, winograd=False)
        assert error(plain(*inputs), exact) < 1e-5


def test_two_threads_compute_the_same(rng) -> None:
    net = tiny(rng)
    (x,) = inputs_of(net, rng)
    exact = graph.evaluate(net, x, dtype="float64")
    before = tvm.num_threads()
    try:
        tvm.set_num_threads(2)
        assert error(graph.compile(net, "llvm -num-cores=2")(x), exact) < 1e-5
    finally:
        tvm.set_num_threads(before)


def test_plain_python_computes_the_same(rng) -> None:
    net = tiny(rng)
    (x,) = inputs_of(net, rng)
    exact = graph.evaluate(net, x, dtype="float64")
    assert error(graph.compile(net, "python")(x), exact) < 1e-5


# --- passes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SMALL)
def test_each_pass_alone_and_all_in_any_order_change_nothing_that_is_computed(name, rng) -> None:
    net = small(name)
    inputs = inputs_of(net, rng)
    exact = graph.evaluate(net, *inputs, dtype="float64")
    ways = [(each,) for each in graph.PASSES]
    ways += [tuple(ORDERED[k] for k in rng.permutation(len(ORDERED))) for _ in range(3)]
    for way in (*ways, graph.PASSES):
        changed = graph.optimized(net, passes=way)
        found = graph.evaluate(changed, *inputs, dtype="float64")
        assert error(found, exact) < 1e-5, [n for n, _ in way]  # folded weights are float32


@pytest.mark.parametrize("seed", range(3))
def test_compiled_after_passes_in_any_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = tiny(rng)
    (x,) = inputs_of(net, rng)
    way = tuple(ORDERED[k] for k in rng.permutation(len(ORDERED)))
    found = graph.compile(net, passes=(*way, *LAST))(x)
    exact = graph.evaluate(net, x, dtype="float64")
    assert error(found, exact) < 1e-5, [name for name, _ in way]


@pytest.mark.parametrize("one", ORDERED, ids=lambda each: each[0])
def test_compiled_after_one_pass(one, rng) -> None:
    net = tiny(rng)
    (x,) = inputs_of(net, rng)
    found = graph.compile(net, passes=(one, *LAST))(x)
    assert error(found, graph.evaluate(net, x, dtype="float64")) < 1e-5


@pytest.mark.parametrize("seed", range(12))
def test_random_networks_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    net = random_network(rng, 12)
    inputs = inputs_of(net, rng)
    found = graph.compile(net)(*inputs)
    exact = graph.evaluate(net, *inputs, dtype="float64")
    for a, b in zip(found if isinstance(found, tuple) else (found,), exact, strict=True):
        np.testing.assert_allclose(a, b, 1e-4, 1e-5)


# --- outputs --------------------------------------------------------------------------------------


def test_outputs_may_be_inputs_parameters_and_the_same(rng) -> None:
    b = graph.Builder()
    given, value = rng.random((3, 4), np.float32), rng.random((3, 4), np.float32)
    x, w = b.input("x", (3, 4)), b.param("w", value)
    y = b.add(x, w)
    found = graph.compile(b.graph(y, x, w, y, x, b.relu(y)))(given)
    total = given + value
    for a, e in zip(found, (total, given, value, total, given, total), strict=True):
        np.testing.assert_array_equal(a, e)
    assert len({a.ctypes.data for a in found}) == 6


def test_inputs_that_are_not_read_are_still_inputs(rng) -> None:
    b = graph.Builder()
    x, _ = b.input("x", (2, 2)), b.input("y", (3,))
    module = graph.compile(b.graph(b.relu(x)))
    np.testing.assert_array_equal(module(-np.ones((2, 2)), np.ones(3)), 0)


def test_parameters_may_come_with_the_compilation(rng) -> None:
    b = graph.Builder()
    net = b.graph(b.dense(b.input("x", (2, 8)), b.unknown("w", (4, 8))))
    w, x = rng.random((4, 8), np.float32), rng.random((2, 8), np.float32)
    np.testing.assert_allclose(graph.compile(net, params={"w": w})(x), x @ w.T, 1e-5)


# --- files ----------------------------------------------------------------------------------------

LOADED = """
import sys
import numpy as np
from minitvm import graph
np.save(sys.argv[3], graph.load(sys.argv[1])(np.load(sys.argv[2])))
"""


def test_a_loaded_network_computes_the_same_in_a_new_process(tmp_path: Path, rng) -> None:
    net = tiny(rng)
    module = graph.compile(net)
    (x,) = inputs_of(net, rng)
    paths = [str(tmp_path / name) for name in ("tiny.net", "x.npy", "y.npy")]
    module.export(paths[0])
    np.save(paths[1], x)
    subprocess.run([sys.executable, "-c", LOADED, *paths], check=True, timeout=100)
    np.testing.assert_array_equal(np.load(paths[2]), module(x))


def test_modules_run_in_several_threads(rng) -> None:
    net = tiny(rng)
    module = graph.compile(net)
    given = [inputs_of(net, rng)[0] for _ in range(8)]
    wanted = [np.array(module(x)) for x in given]
    found: dict[int, np.ndarray] = {}

    def run(k: int) -> None:
        found[k] = np.array(module(given[k]))

    threads = [threading.Thread(target=run, args=(k,)) for k in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for k, y in enumerate(wanted):
        np.testing.assert_array_equal(found[k], y)


# --- bad input ------------------------------------------------------------------------------------


def dense() -> graph.Graph:
    b = graph.Builder("net")
    return b.graph(b.dense(b.input("x", (2, 8)), b.unknown("w", (4, 8))))


HUGE = np.broadcast_to(np.int8(1), (2**62,))  # one byte


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({}, "parameters of net: w without a value"),
        ({"v": np.ones((4, 8), "float32")}, "it has no parameter 'v'"),
        ({"w": np.ones((8, 4), "float32")}, r"parameter 'w': float32\[8, 4\] is not"),
        ({"w": np.ones((4, 8), "float64")}, r"parameter 'w': float64\[4, 8\] is not"),
        ({"w": "weights"}, "parameter 'w'"),
        ({"w": HUGE}, "parameter 'w': it cannot be read as an array: Unable to allocate 4.00 EiB"),
        ({"w": [[1.0], [1.0, 2.0]]}, "parameter 'w'"),
        ({"x": np.ones((2, 8), "float32")}, "it has no parameter 'x'"),
        ([1, 2], "not a mapping"),
    ],
)
def test_parameters_that_do_not_fit_are_refused(params, words: str) -> None:
    with pytest.raises(GraphError, match=words):
        graph.compile(dense(), params=params)


@pytest.mark.parametrize("what", [None, 3, "resnet18", lambda x: x])
def test_only_graphs_are_compiled(what) -> None:
    with pytest.raises(GraphError, match="not a graph"):
        graph.compile(what)
    with pytest.raises(GraphError, match="not a graph"):
        graph.optimized(what)
    with pytest.raises(GraphError, match="not a graph"):
        graph.evaluate(what)


@pytest.mark.parametrize(
    "passes", ["fuse", graph.PASSES[-1], 3, None, (graph.passes.fuse,), ((3, graph.passes.fuse),)]
)
def test_passes_that_are_no_pairs_are_refused(passes) -> None:
    with pytest.raises(GraphError, match=r"not a tuple of \(name, function\)\n  try: graph.PASSES"):
        graph.optimized(dense(), passes=passes)


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (
            graph.PASSES[:-1],
            "passes of net: after them, identity is not in a kernel, "
            "and only kernels are compiled\n"
            '  try: end with the pass "fuse": graph.PASSES[-1]',
        ),
        (
            graph.PASSES[-1:],
            "passes of net: after them, an output is an input, a parameter or another output\n"
            '  try: the pass "separate_outputs" before "fuse": graph.PASSES[-2:]',
        ),
    ],
)
def test_passes_without_a_necessary_one_are_refused(passes, message: str) -> None:
    b = graph.Builder("net")
    x = b.input("x", (2, 3))
    with pytest.raises(GraphError) as caught:
        graph.compile(b.graph(x, b.relu(x)), passes=passes)
    assert str(caught.value) == message


def test_inputs_that_do_not_fit_are_refused(rng) -> None:
    module = graph.compile(dense(), params={"w": rng.random((4, 8), np.float32)})
    for given, words in (
        ((), "takes 1 inputs, 0 given"),
        ((1, 2), "takes 1 inputs, 2 given"),
        ((np.ones((8, 2), "float32"),), "has shape"),
        ((np.ones((2, 8), "complex64"),), "complex64"),
        (("image",), "x"),
        ((None,), "x"),
    ):
        with pytest.raises(tvm.TVMError, match=words):
            module(*given)
    with pytest.raises(GraphError, match="1 inputs, not 2"):
        graph.evaluate(dense(), 1, 2)
    with pytest.raises(GraphError, match=r"input x: float32\[8, 2\] is not float32\[2, 8\]"):
        graph.evaluate(dense(), np.ones((8, 2), "float32"))
    with pytest.raises(GraphError, match="input x: it cannot be read as an array: Unable to"):
        graph.evaluate(dense(), HUGE)


def test_sizes_of_zero_and_below_are_refused() -> None:
    for shape in ((0, 8), (-1, 8), (2, 0.5), ("n", 8)):
        with pytest.raises(GraphError, match="input 'x'"):
            graph.Builder().input("x", shape)  # pyright: ignore[reportArgumentType]
    with pytest.raises(GraphError, match="param 'w'"):
        graph.Builder().param("w", np.ones((0, 8), "float32"))


def chosen() -> graph.Graph:
    """Return a network that reads rows of a table of 5 at indices from -5 to 4."""
    b = graph.Builder("rows")
    table = b.param("table", np.arange(10, dtype="float32").reshape(5, 2))
    ids = b.cast(b.reshape(b.input("ids", (1, 2), "int64"), (2,)), dtype="int32")
    return b.graph(b.take(table, ids, axis=0, mode="index"))


def test_indices_count_from_the_end_below_zero() -> None:
    ids, net = np.array([[-5, 4]]), chosen()
    wanted = [[0, 1], [8, 9]]
    np.testing.assert_array_equal(graph.compile(net)(ids), wanted)
    np.testing.assert_array_equal(graph.evaluate(net, ids)[0], wanted)


@pytest.mark.parametrize("at", [-6, 5])
def test_indices_out_of_bounds_are_refused(at: int, tmp_path) -> None:
    module = graph.compile(chosen())
    module.export(tmp_path / "rows")
    for run in (module, runtime.load_network(tmp_path / "rows")):
        with pytest.raises(ArgumentError, match=r"ids: int64\[1, 2\].*indices.* from -5 to 4"):
            run(np.array([[0, at]]))
    with pytest.raises(GraphError, match=f"index {at} is out of bounds"):
        graph.evaluate(chosen(), np.array([[0, at]]))
