"""Objectives that a task scheduler minimises, and their gradients by the latencies of tasks.

    f1  sum            sum_j sum_i w_ji g_i                          the latency of all networks
    f2  requirements   sum_j max(sum_i w_ji g_i, L_j)                until all meet their bounds
    f3  geomean        -(prod_j B_j / sum_i w_ji g_i)^(1/m)          the mean speed-up
    f4  early-stop     sum_j sum_i w_ji max(g_i, ES_i)               without stalled tasks

g_i is the latency of task i in seconds, w_ji how often network j calls it, m the number of
networks; L_j, B_j and ES_i are bounds, reference latencies and floors (Ansor paper, section 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from minitvm import tensor, tune

Objective: TypeAlias = Callable[[Sequence[float]], float]  # objective(latency of each task)
Weights: TypeAlias = Sequence[Sequence[float]]  # [network][task]: calls of the task

STEP = 1e-4  # relative change of a latency, for the derivative of an objective
ALIKE = math.log(1.618)  # log(operations) of similar tasks differs by less than this
PATIENCE = 5  # a slow task with this many more rounds than any similar task counts as different


def network_latencies(weights: Weights, latencies: Sequence[float]) -> list[float]:
    """Return the latency of each network."""
    return [sum(w * g for w, g in zip(row, latencies, strict=True) if w) for row in weights]


def total(weights: Weights) -> Objective:
    """Return f1, the sum of the latencies of all networks."""
    return lambda latencies: sum(network_latencies(weights, latencies))


def requirements(weights: Weights, bounds: Sequence[float]) -> Objective:
    """Return f2, the sum of the latencies of all networks, each raised at least to its bound."""

    def objective(latencies: Sequence[float]) -> float:
        seconds = network_latencies(weights, latencies)
        return sum(map(max, seconds, bounds))

    return objective


def geomean(weights: Weights, references: Sequence[float]) -> Objective:
    """Return f3: minus the geometric mean of (reference latency) / (latency) of the networks."""

    def objective(latencies: Sequence[float]) -> float:
        seconds = network_latencies(weights, latencies)
        ratios = [b / g for b, g in zip(references, seconds, strict=True)]
        return -(math.prod(ratios) ** (1 / len(ratios)))

    return objective


def early_stop(weights: Weights, floors: Sequence[float]) -> Objective:
    """Return f4, which is f1 with each latency raised at least to its floor; 0 means no floor."""
    f1 = total(weights)
    return lambda latencies: f1([*map(max, latencies, floors)])


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a task, from which its gradient is computed.

    latency   the shortest latency so far, in seconds
    rounds    the number of rounds of measurements; it may have a fraction
    before    the latency `backward_window` rounds ago; None if there were fewer rounds
    flops     the arithmetic operations of a call
    """

    latency: float
    rounds: float
    before: float | None
    flops: float

    @property
    def rate(self) -> float:
        """Return the speed in operations per second."""
        return self.flops / self.latency if self.latency else 0.0


def slopes(
    tasks: Sequence[Progress],
    similar: Sequence[Sequence[int]],
    *,
    alpha: float = 0.2,
    beta: float = 2.0,
    window: int = 3,
) -> list[float]:
    """Return how the latency of each task is expected to change in a round.

    alpha     the weight of the mean change in the last `window` rounds; a guess has the other part
    beta      a task should reach at least 1/beta of the speed of the fastest similar task
    similar   the numbers of the tasks that are similar to each task
    The guess is the lower of two changes: the latency falls to 0 in as many rounds as there were so
    far; or it falls in one round to the latency at the speed that `beta` promises.
    """
    slopes = list[float]()
    for task, others in zip(tasks, similar, strict=True):
        backward = 0.0 if task.before is None else (task.latency - task.before) / window
        forward = -task.latency / max(task.rounds, 1)
        if others:
            best = max(task.rate, *(tasks[k].rate for k in others))
            if best:
                forward = min(forward, beta * task.flops / best - task.latency)
        slopes.append(alpha * backward + (1 - alpha) * forward)
    return slopes


def derivative(objective: Objective, latencies: Sequence[float], n: int) -> float:
    """Return the derivative of the objective with respect to the latency of task n, from below."""
    step = STEP * latencies[n]
    less = [*latencies]
    less[n] -= step
    return (objective(latencies) - objective(less)) / step if step else 0.0


# --- similarity ----------------------------------------------------------------------------------


def neighbours(tasks: Sequence[tune.Task]) -> list[set[int]]:
    """Return for each task the others with the same operators and about as many operations."""
    names, sizes = [_operators(t) for t in tasks], [math.log(t.flops + 1) for t in tasks]
    return [
        {
            k
            for k in range(len(tasks))
            if k != n and names[k] == names[n] and abs(sizes[k] - sizes[n]) < ALIKE
        }
        for n in range(len(tasks))
    ]


def _operators(task: tune.Task) -> tuple[str, ...]:
    ops = tensor.producers_first(tuple(t.op for t in task.outputs))
    return tuple(op.name for op in ops if not isinstance(op, tensor.PlaceholderOp))


def part_from(
    similar: Sequence[set[int]], tasks: Sequence[Progress], n: int, *, beta: float
) -> None:
    """Make task n similar to no task if it stays slow although it had many more rounds."""
    others = similar[n]
    if not others:
        return
    best = max(tasks[k].rate for k in others)
    if (
        tasks[n].rate < best / beta
        and tasks[n].rounds > max(tasks[k].rounds for k in others) + PATIENCE
    ):
        for k in others:
            similar[k].discard(n)
        others.clear()
