"""A task whose candidates take a time that a formula gives: searches run without compiling."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from minitvm import te, topi, tune
from minitvm.base import Target

N = 512


def sketch(name: str = "tiles", n: int = N, allowed=None) -> tune.Sketch:
    """Tile i, j and k of a matrix product; unroll as a knob says."""
    a, b = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    c = topi.matmul(a, b)
    s = te.create_schedule(c.op)
    start = s.state
    i, j = s[c].op.axis
    (k,) = s[c].op.reduce_axis
    for axis in (i, j):
        _, inner = s[c].split(axis, factor=2)
        s[c].split(inner, factor=2)
    s[c].split(k, factor=2)
    s[c].pragma(s[c].leaf_iter_vars[0], "auto_unroll_max_step", 0)
    knobs = (
        tune.split_knob("i", n, 3),
        tune.split_knob("j", n, 3),
        tune.split_knob("k", n, 2),
        tune.number_knob("unroll", [0, 16, 64]),
    )
    parameters = (
        tune.Parameter(0, "factor", ((0, 1), (0, 2))),
        tune.Parameter(1, "factor", ((0, 2),)),
        tune.Parameter(2, "factor", ((1, 1), (1, 2))),
        tune.Parameter(3, "factor", ((1, 2),)),
        tune.Parameter(4, "factor", ((2, 1),)),
        tune.Parameter(5, "value", ((3, 0),)),
    )
    return tune.Sketch(
        name, (a, b, c), start, tuple(s.steps), parameters, tune.Space(knobs, allowed)
    )


def task(*sketches: tune.Sketch) -> tune.Task:
    """Return a matmul task with the given sketches, by default one."""
    sketches = sketches or (sketch(),)
    args = sketches[0].args
    n = args[0].shape[0]
    target = Target("llvm -num-cores=1")
    return tune.Task("matmul", (n, n, n, "float32"), target, args, 2.0 * n**3, sketches)


def seconds(found: tune.Task, candidate: tune.Candidate) -> float:
    """Return the time of a candidate: best for tiles of 4 x 64, long k, little unrolling."""
    space = found.sketches[candidate.sketch].space
    options = [
        knob.options[option] for knob, option in zip(space.knobs, candidate.row, strict=True)
    ]
    i, j, k, unroll = options
    wish = ((i[2], 4), (j[2], 64), (i[1], 16), (j[1], 2), (k[1], 128), (unroll + 1, 17))
    off = sum(abs(math.log2(have / want)) for have, want in wish)
    return 1e-3 * (1 + 0.15 * off + 0.5 * candidate.sketch)


@dataclass
class Machine:
    """A measurer that computes; it lowers nothing. `wrong(number)` makes a trial fail."""

    task: tune.Task
    wrong: Callable[[int], tune.Result | None] = lambda number: None
    cost: float = 0.1  # seconds of a trial, by `now`
    ahead: int = 0  # programs that are asked for before a result is given
    now: float = 0.0
    asked: list[tune.Candidate] = field(default_factory=list)
    finals: int = 0
    reference_cost: float = 2e-3

    def measure(self, programs: Iterable[tune.CandidateProgram]) -> Iterator[tune.Result]:
        waiting = list[tune.Candidate]()
        for program in programs:
            candidate = program.candidate
            self.asked.append(candidate)
            waiting.append(candidate)
            if len(waiting) > self.ahead:
                yield self._result(waiting.pop(0))
        for candidate in waiting:
            yield self._result(candidate)

    def _result(self, candidate: tune.Candidate) -> tune.Result:
        self.now += self.cost
        number = len(self.asked)
        return self.wrong(number) or tune.Result((seconds(self.task, candidate),))

    def remeasure(self, programs: Sequence[tune.CandidateProgram]) -> list[tune.Result]:
        self.finals += 1
        times = [seconds(self.task, program.candidate) for program in programs]
        return [tune.Result((t * 1.01,)) for t in times] + [tune.Result((self.reference_cost,))]

    def timer(self) -> float:
        return self.now


def guided(found: tune.Task, rng: np.random.Generator, **options) -> tune.GuidedPolicy:
    """Return the default policy with columns that tell all candidates of a fake apart."""
    return tune.GuidedPolicy(found, rng, columns=tune.knob_columns(found), **options)


def search(found: tune.Task | None = None, policy=None, **options) -> tune.Outcome:
    """Run a search on a fake machine, from seed 0; `policy` may be a function of (task, rng)."""
    found = found or task()
    machine = options.pop("machine", None) or Machine(found)
    rng = np.random.default_rng(options.pop("seed", 0))
    if policy is None or callable(policy):
        policy = (policy or guided)(found, rng)
    return tune.run(
        found, policy, measurer=machine, rng=rng, timer=machine.timer, clock=lambda: 7.0, **options
    )
