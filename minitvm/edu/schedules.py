"""Make parts of items that check schedules: results, facts about the loops, costs, speed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from minitvm import cachesim, driver, te, tensor, tir
from minitvm.base import Target

from .apart import code_process, for_reference, record
from .bench import REPEAT, Ratio, time_ratio
from .checkers import (
    Arguments,
    Array,
    describe,
    expanded,
    random_inputs,
    shapes,
    wrong_element,
    wrong_type,
)
from .data import operations
from .item import PASSED, Answer, AnswerError, Outcome, Part, Rng, failed

Cost: TypeAlias = Callable[[Any, Sequence[tensor.Tensor]], float]
CORE = "llvm -num-cores=1"
LOOSE = 1e-2  # tolerance for checks that only look for missing work


def tensors_of(arguments: Sequence[Any]) -> list[tensor.Tensor]:
    """Return the inputs and results of the problems among the arguments, in their order.

    Intermediate tensors, which another tensor reads, are left out: a schedule need not store them.
    """
    tensors = [x for x in expanded(arguments) if isinstance(x, tensor.Tensor)]
    tensors_read = {
        id(t.op)
        for op in operations(tensors)
        if not isinstance(op, tensor.PlaceholderOp)
        for t in op.input_tensors
    }
    return [
        t for t in tensors if isinstance(t.op, tensor.PlaceholderOp) or id(t.op) not in tensors_read
    ]


def schedule_of(
    answer: Answer, arguments: Sequence[Any]
) -> tuple[te.Schedule, list[tensor.Tensor]]:
    """Return the student's schedule, and the inputs and results of the problem.

    Raises AnswerError if the answer is not a schedule.
    """
    result = answer(*arguments)
    if not isinstance(result, te.Schedule):
        what = f"it returned a {type(result).__name__}, not a schedule"
        raise AnswerError("wrong-type", what)
    return result, tensors_of(arguments)


def right_schedule(
    answer: Answer, arguments: Sequence[Any], rng: Rng, target: str = CORE
) -> tuple[te.Schedule, list[tensor.Tensor]]:
    """Return what schedule_of returns, after checking that the schedule computes right results.

    Each call needs this check: a function may return a different schedule each time, and a cheap
    schedule may omit work (set_store_predicate). Raises AnswerError if results are wrong.
    """
    s, tensors = schedule_of(answer, arguments)
    inputs = random_inputs(tensors, rng)
    results = results_of(s, tensors, inputs, target)
    if wrong := wrong_results(results, tensors, inputs, LOOSE, LOOSE, "", ""):
        what = f"it computes {wrong.got}, not {wrong.expected}: {wrong.where}"
        raise AnswerError("wrong-value", what)
    return s, tensors


def wrong_results(
    results: Sequence[Array], tensors: Sequence[tensor.Tensor], inputs: dict[tensor.Tensor, Array],
    rtol: float, atol: float, case: str, why: str,
) -> Outcome | None:  # fmt: skip
    """Return the outcome for results that differ from the formula; None if they are right.

    Integers must be equal, whatever the tolerance.
    """
    outputs = [t for t in tensors if t not in inputs]
    for t, got, want in zip(outputs, results, tensor.evaluate(outputs, inputs), strict=True):
        where = f"{case}{t.name} for inputs of shape {shapes(inputs)}"
        tolerances = (rtol, atol) if t.dtype.is_float else (0.0, 0.0)
        if wrong := wrong_element(got, want, *tolerances, where, why):
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
    """Make a graded part: the schedule or loop program of the student computes the right results.

    target   "llvm", or "interpreter", which is slow and detects uninitialised reads. Loop programs
             are always interpreted; their parameters are the tensors, in order.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        for n in range(cases):
            args = arguments(rng)
            s, tensors = answer(*args), tensors_of(args)
            if not isinstance(s, te.Schedule | tir.PrimFunc):
                return wrong_type("a schedule, or a loop program", s)
            inputs = random_inputs(tensors, rng)
            results, case = results_of(s, tensors, inputs, target), f"case {n + 1}: "
            if wrong := wrong_results(results, tensors, inputs, rtol, atol, case, why):
                return wrong
        return PASSED

    return Part("correctness", title, weight, check)


def results_of(
    s: te.Schedule | tir.PrimFunc,
    tensors: Sequence[tensor.Tensor],
    inputs: dict[tensor.Tensor, Array],
    target: str,
) -> list[Array]:
    """Run a schedule or loop program; return an array for each tensor that is not an input.

    Machine code for a CPU runs in a process of its own; loop programs and kernels of a simulated
    GPU are interpreted here.
    """
    if isinstance(s, te.Schedule) and target != "interpreter":
        if Target(target).kind == "llvm":
            return code_process().run(s, tensors, inputs, target)
        return run_function(driver.build(s, tensors, target=target), tensors, inputs)
    loops = s if isinstance(s, tir.PrimFunc) else driver.lower(s, tensors, until="nest")
    return run_function(partial(tir.interpret, loops), tensors, inputs)


def run_function(
    f: Callable[..., Any], tensors: Sequence[tensor.Tensor], inputs: dict[tensor.Tensor, Array]
) -> list[Array]:
    """Call `f` with one array for each tensor; return the arrays of tensors not in `inputs`."""
    arrays = {t: inputs[t] if t in inputs else filled(t) for t in tensors}
    f(*arrays.values())
    return [a for t, a in arrays.items() if t not in inputs]


# --- loops ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Fact:
    """A condition: if holds(subject) is false, the part fails with the message id "fact:<id>"."""

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
    """Make a part that checks facts; its score is the share of `required` facts that hold.

    of   the subject of the facts: "schedule", "loops" (the program lowered up to the pass `until`),
         "text" (the loops as printed) or "answer" (the returned value, which is not run)
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        if of == "answer":
            subject = answer(*args)
        else:
            s, tensors = right_schedule(answer, args, rng, target)
            loops = s if of == "schedule" else driver.lower(s, tensors, until=until or None)
            subject = str(loops) if of == "text" else loops
        broken = [fact for fact in required if not fact.holds(subject)]
        if not broken:
            return PASSED
        first, share = broken[0], 1 - len(broken) / len(required)
        summary = f"this does not hold ({len(broken)} of {len(required)} facts fail)"
        return failed(f"fact:{first.id}", first.expected, summary, why=first.why, score=share)

    return Part("property", title, weight, check)


def same_text(
    reference: Callable[..., tir.PrimFunc | te.Schedule | tir.Stmt],
    arguments: Arguments,
    *,
    title: str = "the loops, line by line",
    until: str = "nest",
    weight: float = 1.0,
    why: str = "",
) -> Part:
    """Make a part that compares a schedule, loop program or statement with a reference as text.

    reference   called with the values of the problem; returns any of the three kinds
    until       the pass after which schedules are printed
    """

    def printed(x: Any, tensors: Sequence[tensor.Tensor]) -> list[str]:
        loops = driver.lower(x, tensors, until=until) if isinstance(x, te.Schedule) else x
        return (str(loops) if isinstance(loops, tir.PrimFunc) else tir.text(loops)).splitlines()

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        tensors = tensors_of(args)
        want, got = printed(reference(*expanded(args)), tensors), printed(answer(*args), tensors)
        for n in range(max(len(want), len(got))):
            w, g = (lines[n] if n < len(lines) else "(the end)" for lines in (want, got))
            if w != g:
                where = f"line {n + 1}"
                return failed("other-loops", w.strip(), g.strip(), where=where, why=why)
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
    """Make a part that checks in which order a schedule stores the elements of its result.

    order   called with the values of the problem; returns the indices, [[0, 0], [0, 1], ...]
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = right_schedule(answer, args, rng, target)
        want = [tuple(at) for at in order(*expanded(args))]
        got = visits(s, tensors)
        for n, (w, g) in enumerate(zip(want, got, strict=False)):
            if w != g:
                shown = ", ".join(map(describe, args))
                where = f"visit {n + 1} of {len(want)}, arguments ({shown})"
                return failed("wrong-order", str(w), str(g), where=where, why=why)
        if len(got) != len(want):
            return failed("wrong-order", f"{len(want)} visits", f"{len(got)} visits", why=why)
        return PASSED

    return Part("property", title, weight, check)


def visits(s: te.Schedule, tensors: Sequence[tensor.Tensor]) -> list[tuple[int, ...]]:
    """Return the indices stored to the last tensor, in order, without immediate repetitions."""
    trace = record(s, tensors)
    n = [b.name for b in trace.buffers].index(tensors[-1].name)
    stored = trace.index[(trace.buffer == n) & trace.write]
    elements = stored[np.r_[True, stored[1:] != stored[:-1]]]
    places = np.unravel_index(elements, trace.buffers[n].shape)
    return list(zip(*(axis.tolist() for axis in places), strict=True))


# --- costs ---------------------------------------------------------------------------------------


def misses(cache: cachesim.Cache | None = None) -> Cost:
    """Return a cost function: the simulated misses in `cache`, by default a common L1 cache."""
    simulated_cache = cache or cachesim.Cache.l1()

    def cost(s: Any, tensors: Sequence[tensor.Tensor]) -> float:
        return float(cachesim.simulate(simulated_cache, record(s, tensors)).misses)

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
    """Make a part that requires a cost of at most `factor` times the reference's cost.

    cost        cost(schedule, tensors of the problem): misses(cache), cycles, bytes, ...
    reference   called with the values of the problem; returns an answer to compare with
    worst       the multiple of the reference's cost at which a linear score reaches 0

    Above the bound b, the score is b / cost, or 0 from 4 * b on. With `worst` it falls linearly.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = right_schedule(answer, args, rng, target)
        with for_reference():
            best = float(cost(reference(*expanded(args)), tensors))
        bound, got = factor * best, float(cost(s, tensors))
        if got <= bound:
            return PASSED
        if worst:
            score = max(0.0, (worst * best - got) / (worst * best - bound))
        else:
            score = bound / got if got < 4 * bound else 0.0
        limit, case = f"at most {bound:,.0f} {unit}", ", ".join(map(describe, args))
        return failed(message, limit, f"{got:,.0f} {unit}", why=why, case=case, score=score)

    return Part("property", title or f"few {unit}", weight, check)


def speed(
    reference: Callable[..., te.Schedule],
    arguments: Arguments,
    *,
    ratio: float = 1.2,
    worst: float = 10.0,
    target: str = CORE,
    title: str = "as fast as the reference",
    weight: float = 1.0,
    why: str = "",
) -> Part:
    """Make a part that requires a running time T of at most `ratio` times the reference's, T_ref.

    Above that, the score falls linearly in T_ref / T, to 0 at T = worst * T_ref (much like the
    formula of Stanford's CS149, assignment 3). On a busy machine the outcome is "inconclusive".
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = schedule_of(answer, args)
        inputs = random_inputs(tensors, rng)
        answer_process = code_process()
        with for_reference():
            reference_process = code_process()
        got = answer_process.run(s, tensors, inputs, target)
        want = reference_process.run(reference(*expanded(args)), tensors, inputs, target)
        times = time_ratio(
            partial(reference_process.seconds, REPEAT),
            partial(answer_process.seconds, REPEAT),
            partial(_speed_score, ratio=ratio, worst=worst),
        )
        for result, right in zip(got, want, strict=True):  # the timed run must have done the work
            if wrong := wrong_element(result, right, LOOSE, LOOSE, shapes(inputs), why):
                return wrong
        return timed_outcome(times, ratio, why, worst)

    return Part("speed", title, weight, check)


def filled(t: tensor.Tensor) -> Array:
    """Return an array for the result `t`, filled with 77 to detect missing stores."""
    return np.full(t.shape, 77, t.dtype.numpy)


def timed_outcome(times: Ratio, ratio: float, why: str, worst: float = 10.0) -> Outcome:
    """Return the outcome for a ratio of times; omit seconds, because they differ in each run."""
    if times.busy:
        reason = "the machine is busy: two runs of the same program differ too much"
        return Outcome("inconclusive", 0.0, "", got=reason)
    score = _speed_score(times.ratio, ratio, worst)
    if score == 1:
        return PASSED
    expected = f"at most {ratio:g} times the time of the reference"
    return failed("too-slow", expected, f"{times.ratio:.3g} times", why=why, score=score)


def _speed_score(got: float, ratio: float, worst: float) -> float:
    """Return 1 up to `ratio`; above it, the score falls linearly in 1 / got, to 0 at `worst`."""
    return 1.0 if got <= ratio else max(0.0, (1 / got - 1 / worst) / (1 / ratio - 1 / worst))
