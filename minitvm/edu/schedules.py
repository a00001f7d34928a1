"""Ready-made parts for schedules: right results, facts of the loops, costs, and speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from minitvm.accesses import record
from minitvm.cachesim import Cache, simulate
from minitvm.driver import build, lower
from minitvm.te import Schedule
from minitvm.tensor import PlaceholderOp, Tensor, evaluate
from minitvm.tir import PrimFunc, Stmt, interpret, text

from .bench import Ratio, race
from .checkers import (
    Arguments,
    Array,
    random_inputs,
    shapes,
    spread,
    told,
    wrong_element,
    wrong_type,
)
from .data import operations
from .item import PASSED, Answer, AnswerError, Outcome, Part, Rng, failed

Cost: TypeAlias = Callable[[Any, Sequence[Tensor]], float]
CORE = "llvm -num-cores=1"
ROUGH = 1e-2  # tolerance where only work that is left out is looked for


def tensors_of(arguments: Sequence[Any]) -> list[Tensor]:
    """The inputs and results of the problems among the arguments, in their order.

    A tensor that another one reads is computed on the way: a schedule need not store it.
    """
    found = [x for x in spread(arguments) if isinstance(x, Tensor)]
    read = {
        id(t.op)
        for op in operations(found)
        if not isinstance(op, PlaceholderOp)
        for t in op.input_tensors
    }
    return [t for t in found if isinstance(t.op, PlaceholderOp) or id(t.op) not in read]


def schedule_of(answer: Answer, arguments: Sequence[Any]) -> tuple[Schedule, list[Tensor]]:
    """The schedule that the student returns, and the inputs and results of the problem.

    Raises AnswerError if it is no schedule.
    """
    got = answer(*arguments)
    if not isinstance(got, Schedule):
        what = f"a {type(got).__name__} was returned, and a schedule is asked for"
        raise AnswerError("wrong-type", what)
    return got, tensors_of(arguments)


def right_schedule(
    answer: Answer, arguments: Sequence[Any], rng: Rng, target: str
) -> tuple[Schedule, list[Tensor]]:
    """The same, once its results are known to be right: whatever is counted must be work done.

    A function may return another schedule than it did for the part before, and a legal schedule
    may leave work out (set_store_predicate). Raises AnswerError if results differ.
    """
    s, tensors = schedule_of(answer, arguments)
    inputs = random_inputs(tensors, rng)
    results = results_of(s, tensors, inputs, target)
    if wrong := wrong_results(results, tensors, inputs, ROUGH, ROUGH, "", ""):
        raise AnswerError(
            "wrong-value", f"it computes {wrong.got}, not {wrong.expected}: {wrong.where}"
        )
    return s, tensors


def wrong_results(
    results: Sequence[Array], tensors: Sequence[Tensor], inputs: dict[Tensor, Array],
    rtol: float, atol: float, case: str, why: str,
) -> Outcome | None:  # fmt: skip
    """The outcome for results that are not those of the formula; None if they are right.

    Integers have to be equal, whatever the tolerance.
    """
    outputs = [t for t in tensors if t not in inputs]
    for t, got, want in zip(outputs, results, evaluate(outputs, inputs), strict=True):
        where = f"{case}{t.name} for inputs of shape {shapes(inputs)}"
        near = (rtol, atol) if t.dtype.is_float else (0.0, 0.0)
        if wrong := wrong_element(got, want, *near, where, why):
            return wrong
    return None


# --- results -------------------------------------------------------------------------------------


def schedule_correct(
    arguments: Arguments,
    *,
    title: str = "the right result, compiled, for random shapes",
    cases: int = 2,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    target: str = CORE,
    weight: float = 1.0,
    why: str = "",
) -> Part:
    """A function that returns a schedule, or a loop program, that computes what the formula says.

    target   "llvm", or "interpreter": slow, and sees reads of memory that nobody wrote. Loop
             programs are always interpreted; their parameters are the tensors, in order.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        for n in range(cases):
            args = arguments(rng)
            s, tensors = answer(*args), tensors_of(args)
            if not isinstance(s, Schedule | PrimFunc):
                return wrong_type("a schedule, or a loop program", s)
            inputs = random_inputs(tensors, rng)
            results, case = results_of(s, tensors, inputs, target), f"case {n + 1}: "
            if wrong := wrong_results(results, tensors, inputs, rtol, atol, case, why):
                return wrong
        return PASSED

    return Part("correctness", title, weight, check)


def results_of(
    s: Schedule | PrimFunc, tensors: Sequence[Tensor], inputs: dict[Tensor, Array], target: str
) -> list[Array]:
    """What a program computes: one array for each tensor that is no input."""
    if isinstance(s, Schedule) and target != "interpreter":
        return called(build(s, tensors, target=target), tensors, inputs)
    loops = s if isinstance(s, PrimFunc) else lower(s, tensors, until="nest")
    return called(partial(interpret, loops), tensors, inputs)


def called(
    f: Callable[..., Any], tensors: Sequence[Tensor], inputs: dict[Tensor, Array]
) -> list[Array]:
    """What `f` stores, called with one array for each tensor: the arrays of those not in inputs."""
    arrays = {t: inputs[t] if t in inputs else garbage(t) for t in tensors}
    f(*arrays.values())
    return [a for t, a in arrays.items() if t not in inputs]


# --- loops ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fact:
    """Something that must hold: `holds(answer)`; `id` ends up in the message "fact:<id>"."""

    id: str
    expected: str
    holds: Callable[[Any], bool]
    why: str = ""


def facts(
    arguments: Arguments,
    required: Sequence[Fact],
    *,
    of: str = "schedule",
    title: str = "what the loops must look like",
    weight: float = 1.0,
    until: str = "",
    target: str = CORE,
) -> Part:
    """Facts about the answer: the share of them that hold is the score.

    of   what `holds` gets: "schedule", "loops" (the lowered program, after the pass `until`),
         "text" (the loops as printed) or "answer" (whatever was returned, not run)
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        if of == "answer":
            subject = answer(*args)
        else:
            s, tensors = right_schedule(answer, args, rng, target)
            loops = s if of == "schedule" else lower(s, tensors, until=until or None)
            subject = str(loops) if of == "text" else loops
        broken = [fact for fact in required if not fact.holds(subject)]
        if not broken:
            return PASSED
        first, share = broken[0], 1 - len(broken) / len(required)
        got = f"not so ({len(broken)} of {len(required)} facts do not hold)"
        return failed(
            f"fact:{first.id}", expected=first.expected, got=got, why=first.why, score=share
        )

    return Part("property", title, weight, check)


def same_text(
    reference: Callable[..., PrimFunc | Schedule | Stmt],
    arguments: Arguments,
    *,
    title: str = "the loops, line by line",
    until: str = "nest",
    weight: float = 1.0,
    why: str = "",
) -> Part:
    """A schedule, loop program or statement that prints exactly as the reference's does.

    reference   called with what the problem made; one of the three comes out
    until       the pass after which schedules are printed
    """

    def printed(x: Any, tensors: Sequence[Tensor]) -> list[str]:
        loops = lower(x, tensors, until=until) if isinstance(x, Schedule) else x
        return (str(loops) if isinstance(loops, PrimFunc) else text(loops)).splitlines()

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        tensors = tensors_of(args)
        want, got = printed(reference(*spread(args)), tensors), printed(answer(*args), tensors)
        for n in range(max(len(want), len(got))):
            w, g = (lines[n] if n < len(lines) else "(the end)" for lines in (want, got))
            if w != g:
                return failed(
                    "other-loops", expected=w.strip(), got=g.strip(), where=f"line {n + 1}", why=why
                )
        return PASSED

    return Part("property", title, weight, check)


def visit_order(
    order: Callable[..., Sequence[Sequence[int]]],
    arguments: Arguments,
    *,
    title: str = "the order in which elements are visited",
    weight: float = 1.0,
    why: str = "",
    target: str = CORE,
) -> Part:
    """A schedule that visits the elements of its result in a given order.

    order   called with what the problem made: the indices wanted, [[0, 0], [0, 1], ...]
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = right_schedule(answer, args, rng, target)
        want = [tuple(at) for at in order(*spread(args))]
        got = visits(s, tensors)
        for n, (w, g) in enumerate(zip(want, got, strict=False)):
            if w != g:
                where = f"visit {n + 1} of {len(want)}, arguments ({', '.join(map(told, args))})"
                return failed("wrong-order", expected=str(w), got=str(g), where=where, why=why)
        if len(got) != len(want):
            expected, found = f"{len(want)} visits", f"{len(got)} visits"
            return failed("wrong-order", expected=expected, got=found, why=why)
        return PASSED

    return Part("property", title, weight, check)


def visits(s: Schedule, tensors: Sequence[Tensor]) -> list[tuple[int, ...]]:
    """The elements of the last tensor in the order of its stores; stores in a row are one visit."""
    trace = record(s, tensors)
    n = [b.name for b in trace.buffers].index(tensors[-1].name)
    stored = trace.index[(trace.buffer == n) & trace.write]
    turns = stored[np.r_[True, stored[1:] != stored[:-1]]]
    places = np.unravel_index(turns, trace.buffers[n].shape)
    return list(zip(*(axis.tolist() for axis in places), strict=True))


# --- costs ---------------------------------------------------------------------------------------


def misses(cache: Cache | None = None) -> Cost:
    """The simulated cache misses of a schedule; by default in the first level of a usual CPU."""
    chosen = cache or Cache.l1()

    def cost(s: Any, tensors: Sequence[Tensor]) -> float:
        return float(simulate(chosen, record(s, tensors)).misses)

    return cost


def at_most(
    cost: Cost,
    reference: Callable[..., Any],
    arguments: Arguments,
    *,
    factor: float = 1.0,
    worst: float = 0.0,
    unit: str = "cache misses",
    message: str = "too-many-misses",
    title: str = "",
    weight: float = 1.0,
    why: str = "",
    target: str = CORE,
) -> Part:
    """A deterministic cost that stays below `factor` times that of the reference.

    cost        cost(schedule, tensors of the problem): misses(cache), cycles, bytes, ...
    reference   called with what the problem made: an answer to compare with

    worst       where the score begins, in terms of the reference; 0 for none
    Above the bound b the score falls as b / cost does, and is 0 from 4 b on; with `worst` it falls
    evenly, to 0 there.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = right_schedule(answer, args, rng, target)
        best = float(cost(reference(*spread(args)), tensors))
        bound, got = factor * best, float(cost(s, tensors))
        if got <= bound:
            return PASSED
        if worst:
            score = max(0.0, (worst * best - got) / (worst * best - bound))
        else:
            score = bound / got if got < 4 * bound else 0.0
        expected, found = f"at most {bound:,.0f} {unit}", f"{got:,.0f} {unit}"
        return failed(message, expected=expected, got=found, why=why, score=score)

    return Part("property", title or f"few {unit}", weight, check)


def speed(
    reference: Callable[..., Schedule],
    arguments: Arguments,
    *,
    ratio: float = 1.2,
    worst: float = 10.0,
    target: str = CORE,
    title: str = "as fast as the reference",
    weight: float = 1.0,
    why: str = "",
) -> Part:
    """A schedule that runs in at most `ratio` times the time of the reference: full points.

    Above that the score is ratio * T_ref / T, and 0 from worst * T_ref on (the formula of
    Stanford's CS149, assignment 3). A machine that is too busy to measure gives no verdict.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = schedule_of(answer, args)
        inputs = random_inputs(tensors, rng)
        yours, got = _timed(s, tensors, inputs, target)
        theirs, want = _timed(reference(*spread(args)), tensors, inputs, target)
        found = race(theirs, yours)
        for mine, right in zip(got, want, strict=True):  # what was timed must be work done
            if wrong := wrong_element(mine, right, ROUGH, ROUGH, shapes(inputs), why):
                return wrong
        return timed_outcome(found, ratio, why, worst)

    return Part("speed", title, weight, check)


def _timed(
    s: Schedule, tensors: Sequence[Tensor], inputs: dict[Tensor, Array], target: str
) -> tuple[Callable[[], None], list[Array]]:
    """A call that runs the compiled schedule once, on arrays of its own; and those it writes."""
    f = build(s, tensors, target=target)
    arrays = {t: inputs[t].copy() if t in inputs else garbage(t) for t in tensors}
    return lambda: f(*arrays.values()), [a for t, a in arrays.items() if t not in inputs]


def garbage(t: Tensor) -> Array:
    """What memory for a result holds before."""
    return np.full(t.shape, 77, t.dtype.numpy)


def timed_outcome(found: Ratio, ratio: float, why: str, worst: float = 10.0) -> Outcome:
    """The outcome for a measured ratio of times. It names no seconds: those never repeat."""
    if found.busy:
        reason = "the machine is busy: two runs of the same program differ too much"
        return Outcome("inconclusive", 0.0, "", got=reason)
    if found.ratio <= ratio:
        return PASSED
    score = 0.0 if found.ratio >= worst else ratio / found.ratio
    expected = f"at most {ratio:g} times the time of the reference"
    got = f"{found.ratio:.3g} times"
    return failed("too-slow", expected=expected, got=got, why=why, score=score)
