"""The distinct kernels of a network as tasks, and networks with tuned kernels."""

import numpy as np
import pytest

from minitvm import autotvm, graph, topi
from minitvm.base import ArgumentError, GraphError


@pytest.mark.parametrize(
    ("name", "kernels", "convolutions", "calls"),
    [("resnet50", 28, 24, 57), ("mobilenet_v2", 33, 30, 55)],
)
def test_the_kernels_of_a_network(name: str, kernels: int, convolutions: int, calls: int) -> None:
    net = getattr(graph.networks, name)()
    tasks = graph.extract_tasks(net, "llvm -mcpu=skylake-avx512 -num-cores=1")
    assert len(tasks) == kernels
    assert sum("conv2d" in t.name for t in tasks) == convolutions
    assert sum(t.count for t in tasks) == calls
    lines = str(tasks).splitlines()
    assert len(lines) == kernels + 2
    assert lines[-1].startswith(f"{name}: {kernels} kernels, {calls} calls, ")
    known = [t.workload[0] for t in tasks if t.workload is not None]
    assert {"conv2d_nhwc", "dense"} <= set(known)
    assert ("depthwise_nhwc" in known) == (name == "mobilenet_v2")


def test_operations_are_those_of_the_convolutions() -> None:
    tasks = graph.extract_tasks(graph.networks.mobilenet_v2(), "llvm")
    total = sum(t.count * t.operations for t in tasks)
    assert 2 * 300e6 < total < 2 * 320e6  # 300 million multiply-adds (Sandler et al. 2018)
    module = graph.compile(pointwise(np.random.default_rng(0)))
    assert [c.operations for c in module.plan.calls] == [2 * 64 * 16 * 32 + 64 * 32]


def pointwise(rng: np.random.Generator) -> graph.Graph:
    b = graph.Builder("pointwise")
    x = b.input("x", (1, 8, 8, 16))
    w = b.param("w", rng.random((1, 1, 16, 32), np.float32))
    return b.graph(b.relu(b.conv2d(x, w, layout="NHWC")))


def depthwise(rng: np.random.Generator) -> graph.Graph:
    b = graph.Builder("depthwise")
    x = b.input("x", (1, 8, 8, 16))
    w = b.param("w", rng.random((3, 3, 1, 16), np.float32))
    return b.graph(b.relu(b.conv2d(x, w, padding=1, groups=16, layout="NHWC")))


@pytest.mark.parametrize("make", [pointwise, depthwise])
def test_a_tuned_kernel_is_used(make, rng) -> None:
    net, target = make(rng), "llvm -num-cores=1"
    x = rng.random((1, 8, 8, 16), np.float32)
    plain = graph.compile(net, target)
    (task,) = autotvm.task.extract_from_program(graph.extract_tasks(net, target))
    assert task.key in {t.task.key for t in graph.extract_tasks(net, target) if t.task}
    (row,) = task.config_space.space.sample(np.random.default_rng(1), 1)
    config = task.config_space.entity(tuple(map(int, row)))
    measured = autotvm.MeasureResult((1e-9,), 0, 0.0, 0.0)
    history = autotvm.ApplyHistoryBest(
        [(autotvm.MeasureInput(task.target, task, config), measured)]
    )
    picked = graph.compile(net, target, pick=history.schedule)
    with history:
        inside = graph.compile(net, target)
    assert picked.lib.kernels == inside.lib.kernels
    assert picked.lib.kernels != plain.lib.kernels
    exact = graph.evaluate(net, x, dtype="float64")[0]
    for module in (plain, picked, inside):
        np.testing.assert_allclose(module(x), exact, 1e-5)


def test_each_task_is_extracted_once_and_only_with_a_template(rng) -> None:
    b = graph.Builder()
    x = b.input("x", (4, 8))
    w = b.param("w", rng.random((8, 8), np.float32))
    y = b.dense(b.relu(b.dense(x, w)), w)  # one dense layer with relu, one without: one template
    tasks = graph.extract_tasks(b.graph(b.sum(y, axis=0)), "llvm")
    assert sum(t.workload is not None for t in tasks) == 2
    (task,) = autotvm.task.extract_from_program(tasks)
    assert task.name == "dense"
    assert [t.task for t in tasks if "sum" in t.name] == [None]


def test_other_objects_are_refused() -> None:
    with pytest.raises(ArgumentError, match=r"it has no method tasks"):
        autotvm.task.extract_from_program(graph.networks.dqn())  # pyright: ignore[reportArgumentType]
    with pytest.raises(GraphError, match="not a graph"):
        graph.extract_tasks(topi)  # pyright: ignore[reportArgumentType]
