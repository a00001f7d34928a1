"""Networks whose kernels take the times of the frozen tables: tuning them takes no time.

A kernel of a network is replaced by the table that resembles it: a product of matrices for 1x1
convolutions and dense layers, a 3x3 convolution, a depthwise one; others count as depthwise. Times
are scaled to the operations of the kernel, so that the shares of the kernels are those of the
network, and the searches converge as they do on the tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from minitvm import auto_scheduler, graph, te, tune

BATCH = 8


@dataclass
class Scaled:
    """A measurer that looks the times up in a table, and scales them.

    The default schedule counts as infinitely slow, so the latency is that of the best candidate.
    """

    table: tune.TableMeasurer
    scale: float
    reference_cost: float = math.inf

    def measure(self, programs: Iterable[tune.Program]) -> Iterator[tune.Result]:
        """Yield the result of each program, in order."""
        for result in self.table.measure(programs):
            yield self._scaled(result)

    def remeasure(self, programs: Sequence[tune.Program]) -> list[tune.Result]:
        """Return the results of programs and of the default."""
        return [*map(self._scaled, self.table.remeasure(programs))]

    def _scaled(self, result: tune.Result) -> tune.Result:
        return replace(result, seconds=tuple(self.scale * s for s in result.seconds))


@dataclass(frozen=True)
class Replay:
    """The tasks of a network, how often it calls each, and the measurer of each.

    floor   the latency of the network with the best candidate of every table
    """

    tasks: list[tune.Task]
    weights: list[int]
    measurers: dict[tune.Task, tune.Measures]
    floor: float


def replay(net: graph.Graph) -> Replay:
    """Return the tasks of a network, with times from the tables."""
    tables = {name: tune.load_table(name) for name in ("matmul", "conv2d", "depthwise")}
    tasks, weights, floor = list[tune.Task](), list[int](), 0.0
    measurers = dict[tune.Task, tune.Measures]()
    for kernel in graph.extract_tasks(net, "llvm -num-cores=1", winograd=False):
        table = tables[_table(kernel)]
        flops = max(kernel.operations, 1e5)  # copies take time, too
        tasks.append(_task(table, flops))
        weights.append(kernel.count)
        scale = flops / table.about["flops"]
        measurers[tasks[-1]] = Scaled(tune.TableMeasurer(table, tasks[-1]), scale)
        floor += kernel.count * scale * table.best
    return Replay(tasks, weights, measurers, floor)


def _table(kernel: graph.GraphTask) -> str:
    """Return the table that resembles a kernel."""
    heavy = next((n for n in kernel.body.calls if n.op in ("conv2d", "dense", "matmul")), None)
    if heavy is None:
        return "depthwise"
    if heavy.op == "conv2d" and heavy.attrs.get("groups", 1) > 1:
        return "depthwise"
    kernel_sizes = sorted(heavy.inputs[1].type.shape)[:2]
    return "conv2d" if heavy.op == "conv2d" and kernel_sizes != [1, 1] else "matmul"


def _task(table: tune.Table, flops: float) -> tune.Task:
    a = te.placeholder((16,), name="A")
    b = te.compute((16,), lambda i: a[i] + a[i], name=table.name)
    initial = te.create_schedule(b.op).state
    sketch = tune.Sketch("table", (a, b), initial, (), (), table.space)
    return tune.Task(table.name, (int(flops),), table.target, (a, b), flops, (sketch,))


Policies = Callable[[tune.Task, np.random.Generator], tune.Policy]


def guided(task: tune.Task, rng: np.random.Generator) -> tune.Policy:
    """Return the default policy, which sees the options of the knobs."""
    return tune.GuidedPolicy(task, rng, columns=tune.knob_columns(task))


@dataclass(frozen=True)
class Area:
    """The mean latency of a network over the trials, from the first round of all tasks on.

    excess   the latency above that of the best candidates of the tables; only this can be lowered
    """

    latency: float
    excess: float


def area(
    given: Replay,
    strategy: auto_scheduler.Strategy,
    seed: int,
    trials: int,
    policy: Policies = tune.RandomPolicy,
) -> Area:
    """Tune a network with `trials` trials per task on average; return its mean latency."""
    scheduler = auto_scheduler.TaskScheduler(
        given.tasks,
        given.weights,
        strategy=strategy,
        policy=policy,
        measurers=given.measurers.__getitem__,
        rng=np.random.default_rng(seed),
    )
    rounds = scheduler.tune(trials=trials * len(given.tasks), batch=BATCH).rounds
    mean = float(np.mean([r.latency for r in rounds[len(given.tasks) - 1 :]]))
    return Area(mean, mean - given.floor)
