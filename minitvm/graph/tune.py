"""Tune the kernels of a network: slow kernels that may become faster get the most trials.

tuned = graph.tune(net, seconds=300, log="resnet.jsonl")      calling it again resumes
module = graph.compile(net, pick=tuned.pick)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from minitvm import auto_scheduler, schedule, te
from minitvm.base import GraphError, Target, TVMError
from minitvm.tune import Log, MeasureOptions, Outcome, Task

from .node import Graph
from .tasks import GraphTask, Tasks, extract_tasks

LEAST = 1.05  # how many times as fast as its default a tuned kernel must be to be used: smaller
# gains are within the noise, and do not carry over to a whole network


@dataclass(frozen=True, slots=True)
class Tuned:
    """Tuned kernels of a network; print shows a table.

    tasks     all kernels of the network
    outcome   the outcome of tuning the kernels that have sketches
    chosen    key of a kernel's formulas -> the steps of its schedule, if it became faster
    untuned   the kernels without sketches, with the reason; they keep their default schedule
    """

    tasks: Tasks
    target: Target
    outcome: auto_scheduler.TasksOutcome
    chosen: Mapping[str, tuple[schedule.Step, ...]]
    untuned: Sequence[tuple[str, str]]

    def pick(self, outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
        """Return the schedule of a kernel; None to use the default schedule.

        Use it in graph.compile(net, target, pick=tuned.pick), with the target that was tuned.
        """
        steps = self.chosen.get(_key(outputs)) if str(target) == str(self.target) else None
        if steps is None:
            return None
        s = te.create_schedule([t.op for t in outputs])
        for step in steps:
            s.apply(step)
        return s

    def __str__(self) -> str:
        lines = [str(self.outcome)]
        lines += [f"{name} keeps its default: {why}" for name, why in self.untuned]
        count = len(self.chosen)
        lines.append(f"{count} of {len(self.tasks)} kernels are faster than their default")
        return "\n".join(lines)


def tune(
    graph: Graph,
    target: str | Target | None = None,
    *,
    seconds: float | None = None,
    trials: int | None = None,
    batch: int = 8,
    log: Log | str | Path | None = None,
    winograd: bool = True,
    strategy: auto_scheduler.Strategy = "gradient",
    early_stopping_task: int | None = None,
    measure: MeasureOptions | None = None,
    on: auto_scheduler.TasksListener | None = None,
    rng: np.random.Generator | None = None,
) -> Tuned:
    """Search for faster kernels of a network until the time or the trials are used up.

    target, winograd   as in graph.compile; pass the same values to graph.compile
    trials             number for all kernels together, including trials in the log
    batch              trials of a kernel in a round
    strategy           which kernel is tuned next: "gradient", "round-robin", "sequential"
    measure            how to measure; by default, constants are in no cache when a kernel starts,
                       as in a network
    on                 is called with each event: auto_scheduler.TasksLine() draws a progress bar
    A tuned kernel is used if it is at least 5 % faster than its default, measured alternately.
    """
    to = Target(target)
    kernels = extract_tasks(graph, to, winograd=winograd)
    tasks, weights, untuned = list[Task](), list[int](), list[tuple[str, str]]()
    for kernel in kernels:
        try:
            tasks.append(task_of(kernel))
            weights.append(kernel.count)
        except TVMError as e:
            untuned.append((kernel.name, str(e).splitlines()[0]))
    if not tasks:
        why = "no kernel has a sketch: " + "; ".join(f"{name}, {why}" for name, why in untuned[:3])
        raise GraphError(f"tuning of {graph.name}", why)
    scheduler = auto_scheduler.TaskScheduler(tasks, weights, strategy=strategy, rng=rng)
    outcome = scheduler.tune(
        trials=trials,
        seconds=seconds,
        batch=batch,
        early_stopping_task=early_stopping_task,
        log=log,
        measure=measure or MeasureOptions(cold=True),
        on=on,
    )
    return Tuned(kernels, to, outcome, _chosen(outcome.outcomes), untuned)


def task_of(kernel: GraphTask) -> Task:
    """Return the task of tuning a kernel by sketches; raise TVMError if there are no sketches."""
    dag = auto_scheduler.ComputeDAG(kernel.args)
    sketches = auto_scheduler.sketches(dag.tensors, dag.initial, kernel.target)
    if not sketches:
        raise GraphError(f"tuning of {kernel.name}", "no sketch rule applies")
    workload = str(kernel.body.outputs[0].type), dag.workload_key()
    return Task(kernel.name, workload, kernel.target, dag.tensors, dag.flop_ct, sketches)


def _chosen(outcomes: Sequence[Outcome]) -> dict[str, tuple[schedule.Step, ...]]:
    """Return the steps of the candidates that are clearly faster than the default."""
    found = dict[str, tuple[schedule.Step, ...]]()
    for outcome in outcomes:
        if outcome.gain >= LEAST:
            sketch, row = outcome.best.candidate
            found[outcome.task.workload[-1]] = outcome.task.sketches[sketch].filled(row)
    return found


def _key(outputs: Sequence[te.Tensor]) -> str:
    """Return the key of the formulas that `outputs` depend on."""
    return auto_scheduler.ComputeDAG(te.create_schedule([t.op for t in outputs])).workload_key()
