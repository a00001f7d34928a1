"""Tune the kernels of a network: slow kernels that may become faster get the most trials.

tuned = graph.tune(net, seconds=300, log="resnet.jsonl")      calling it again resumes
module = graph.compile(net, pick=tuned.pick, passes=tuned.passes)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from minitvm import auto_scheduler, schedule, te
from minitvm.base import BuildError, GraphError, Target, TVMError
from minitvm.tune import Limits, Log, MeasureOptions, Outcome, Stopwatch, Task, replayed

from . import passes
from .comparison import Comparison, compare
from .compile import compile
from .kernels import tensors
from .node import PARAM, Graph
from .pipeline import PASSES, Pass, Settings
from .tasks import GraphTask, Tasks, extract_tasks

MIN_SECONDS = 1e-3  # seconds, the least budget of a search
# how many times as fast as its default a kernel must be, beyond chance, if only measured alone
ALONE = 1.05


@dataclass(frozen=True, slots=True)
class Choice:
    """A kernel that became faster.

    body      the kernel
    formula   what its fastest program computes: the body, or the same by another formula
    key       the key of the program's formulas
    steps     the steps of its schedule
    """

    body: Graph
    formula: Graph
    key: str
    steps: tuple[schedule.Step, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """Tuned kernels of a network; print shows a table.

    tasks        all kernels of the network
    outcome      the outcome of tuning the kernels that have sketches
    untuned      the kernels without sketches, with the reason; they keep their default schedule
    selected     the kernels that became faster
    comparison   the times of the network with tuned kernels and with the defaults; None if it was
                 not measured
    """

    tasks: Tasks
    target: Target
    outcome: auto_scheduler.TasksOutcome
    untuned: Sequence[tuple[str, str]] = ()
    selected: tuple[Choice, ...] = ()
    comparison: Comparison | None = None

    @property
    def formulas(self) -> Mapping[Graph, Graph]:
        """Return {kernel: the same kernel by another formula}, where that became faster."""
        return {c.body: c.formula for c in self.selected if c.formula != c.body}

    @property
    def passes(self) -> tuple[tuple[str, Pass], ...]:
        """Return graph.PASSES, and a pass after them that uses the formulas that became faster."""

        def use_formulas(graph: Graph, _: Settings) -> Graph:
            return passes.use_formulas(graph, self.formulas)

        return (*PASSES, ("use_formulas", use_formulas))

    def pick(self, outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
        """Return the schedule of a kernel; None to use the default schedule.

        Use it in graph.compile(net, target, pick=tuned.pick, passes=tuned.passes), with the target
        that was tuned.
        """
        key = _key(outputs) if str(target) == str(self.target) else None
        for choice in self.selected:
            if choice.key == key:
                return replayed(te.create_schedule([t.op for t in outputs]).state, choice.steps)
        return None

    def __str__(self) -> str:
        lines = [str(self.outcome)]
        lines += [f"{name} keeps its default: {why}" for name, why in self.untuned]
        count = len(self.selected)
        lines.append(f"kernels faster than their default: {count} of {len(self.tasks)}")
        if self.formulas:
            lines.append(f"{len(self.formulas)} of them by another formula")
        if self.comparison is not None:
            lines.append(f"{self.comparison}{'' if self.selected else ', which are kept'}")
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
    timer: Callable[[], float] = time.perf_counter,
) -> Tuned:
    """Search for faster kernels of a network until the time or the trials are used up.

    target, winograd   as in graph.compile; pass the same values to graph.compile. With winograd,
                       each convolution is tuned by all formulas that can compute it
    seconds            time for deriving the sketches, and wall time of the search from its first
                       result on; see below for what comes after it
    trials             number for all kernels together, including trials in the log
    batch              trials of a kernel in a round
    strategy           which kernel is tuned next: "gradient", "round-robin", "sequential"
    measure            how to measure; by default, constants are in no cache when a kernel starts,
                       as in a network
    on                 is called with each event: auto_scheduler.TasksLine() draws a progress bar
    A kernel is selected if its best program is faster than its default when both are measured
    alternately: alone, at the end of the search, and by at least 2 % in the network, where all such
    kernels are compared with the defaults. None is selected if the network does not become faster.
    Both come after `seconds`: the fastest five programs of each kernel are compiled and measured
    again, and the comparison compiles the network two or three times and runs it for a few seconds.
    If tuning is stopped or a parameter has no value, the network is not measured; then 5 % alone is
    enough.
    """
    Limits(trials, seconds)  # an impossible budget is refused before the work begins
    watch, to = Stopwatch(timer), Target(target)
    kernels = extract_tasks(graph, to, winograd=winograd)
    tunable, untuned = list[tuple[GraphTask, list[Graph], Task]](), list[tuple[str, str]]()
    for kernel in kernels:
        others = passes.other_formulas(kernel.body) if winograd else []
        try:
            tunable.append((kernel, others, task_of(kernel, others)))
        except TVMError as e:
            untuned.append((kernel.name, str(e).splitlines()[0]))
    if not tunable:
        why = "no kernel has a sketch: " + "; ".join(f"{name}, {why}" for name, why in untuned[:3])
        raise GraphError(f"tuning of {graph.name}", why)
    tasks, weights = [task for *_, task in tunable], [kernel.count for kernel, *_ in tunable]
    scheduler = auto_scheduler.TaskScheduler(tasks, weights, strategy=strategy, rng=rng)
    outcome = scheduler.tune(
        trials=trials,
        seconds=None if seconds is None else max(seconds - watch.counted(), MIN_SECONDS),
        batch=batch,
        early_stopping_task=early_stopping_task,
        log=log,
        measure=measure or MeasureOptions(cold=True),
        on=on,
        timer=timer,
    )
    tuned = Tuned(kernels, to, outcome, untuned)
    faster, clearly_faster = list[Choice](), list[Choice]()
    for (kernel, others, _), task_outcome in zip(tunable, outcome.outcomes, strict=True):
        gain = task_outcome.compared
        if task_outcome.found and gain is not None and gain.middle > 1:
            faster.append(_choice(kernel.body, others, task_outcome))
            clearly_faster += faster[-1:] if gain.is_faster and gain.middle >= ALONE else []
    without_network = replace(tuned, selected=tuple(clearly_faster))
    known = all(n.op != PARAM or n.name in graph.params for n in graph.nodes)
    if not faster or not known or outcome.ended == "stopped":
        return without_network
    try:
        return _compared(tuned, graph, faster, winograd)
    except (KeyboardInterrupt, BuildError):  # the search is done, and must not be lost
        return without_network


def task_of(kernel: GraphTask, others: Sequence[Graph] = ()) -> Task:
    """Return the task of tuning a kernel by sketches; raise TVMError if there are no sketches.

    others   bodies that compute the same by other formulas
    """
    dag, *formulas = map(_dag, (kernel.body, *others))
    sketches = auto_scheduler.sketches([dag, *formulas], kernel.target)
    if not sketches:
        raise GraphError(f"tuning of {kernel.name}", "no sketch rule applies")
    workload = str(kernel.body.outputs[0].type), _key(dag.outputs)
    return Task(kernel.name, workload, kernel.target, dag.tensors, dag.flop_ct, sketches)


def _choice(body: Graph, others: Sequence[Graph], outcome: Outcome) -> Choice:
    """Return the fastest program of a kernel, which may compute one of its other formulas."""
    number, row = outcome.best.candidate
    sketch = outcome.task.sketches[number]
    key = _key(sketch.args[-1:])
    formula = next((other for other in others if _key(_dag(other).outputs) == key), body)
    return Choice(body, formula, key, sketch.filled(row))


def _compared(tuned: Tuned, graph: Graph, faster: Iterable[Choice], winograd: bool) -> Tuned:
    """Select the kernels of `faster` that are faster in the network, if it becomes faster."""
    default = compile(graph, tuned.target, winograd=winograd, pick=lambda outputs, target: None)
    bodies = [kernel.body for kernel in tuned.tasks]

    def measured(choices: Iterable[Choice]) -> tuple[Tuned, Comparison]:
        candidate = replace(tuned, selected=tuple(choices))
        module = compile(
            graph, tuned.target, winograd=winograd, pick=candidate.pick, passes=candidate.passes
        )
        comparison = compare(default, module, bodies)
        return replace(candidate, comparison=comparison), comparison

    candidate, times = measured(faster)
    selected = [choice for choice in candidate.selected if times.is_faster(choice.body)]
    if 0 < len(selected) < len(candidate.selected):
        candidate, times = measured(selected)
    return (
        candidate if selected and times.tuned < times.default else replace(candidate, selected=())
    )


def _dag(body: Graph) -> auto_scheduler.ComputeDAG:
    inputs, output = tensors(body)
    return auto_scheduler.ComputeDAG((*inputs, output))


def _key(outputs: Sequence[te.Tensor]) -> str:
    """Return the key of the formulas that `outputs` depend on, whatever the order of inputs."""
    return auto_scheduler.ComputeDAG(te.create_schedule([t.op for t in outputs])).workload_key()
