"""Derive the sketches of a computation: derive states by rules, then annotate them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from minitvm import schedule, te, tensor, tune
from minitvm.base import ArgumentError, Reason, Target, raise_first

from . import annotate, gpu_annotate
from .dag import ComputeDAG
from .gpu_rules import GPU_RULES
from .rules import RULES, Rule
from .state import State

OTHER = "formula"  # names of sketches of other formulas begin with it
MAX_STEPS = (
    10_000  # the most steps of a derivation; the largest known derivation takes some hundreds
)

# watch(state, stage, rule, new) is called for each state that a rule returns; `new` may be `state`
Watch: TypeAlias = Callable[[State, str, Rule, State], None]


def rules_for(target: Target) -> tuple[Rule, ...]:
    """Return the built-in rules for a kind of target."""
    return GPU_RULES if target.kind == "cuda" else RULES


def derived(
    initial: schedule.State,
    target: Target,
    rules: Sequence[Rule] | None = None,
    watch: Watch | None = None,
) -> list[State]:
    """Return the states that the rules derive, visiting stages from the output to the inputs.

    rules   by default rules_for(target)
    watch   is called with each step of the derivation
    Raises ArgumentError after 10,000 steps, because then a rule most likely applies forever.
    """
    rules, first = rules_for(target) if rules is None else rules, State(initial)
    stack, derived, steps = [(first, len(first.stages) - 1)], list[State](), 0
    while stack:
        state, at = stack.pop()
        steps += 1
        if steps > MAX_STEPS:
            why = f"the derivation has not ended after {MAX_STEPS:,} steps"
            fix = "a rule whose condition does not hold for the states that the rule returns"
            raise ArgumentError(f"sketch rules at stage {state.stages[at]!r}", why, fix)
        if at < 0:
            derived.append(state)
            continue
        stack += reversed(_branches(state, at, target, rules, watch))
    return derived


def _branches(
    state: State, at: int, target: Target, rules: Sequence[Rule], watch: Watch | None
) -> list[tuple[State, int]]:
    """Apply all rules whose condition holds at a stage, up to the first exclusive rule."""
    branches, stage = list[tuple[State, int]](), state.stages[at]
    if not isinstance(state.s.state.stage(stage).op, tensor.ComputeOp):
        return [(state, at - 1)]
    for rule in rules:
        if rule.meets(state, stage, target):
            for new, after in _checked(rule, rule.apply(state, stage, target)):
                if new is not state:
                    new.rules = (*state.rules, rule.name)
                if watch is not None:
                    watch(state, stage, rule, new)
                branches.append((new, after))
            if rule.exclusive:
                break
    return branches


def _checked(rule: Rule, branches: object) -> Iterator[tuple[State, int]]:
    """Yield what a rule returned, or raise ArgumentError; users write rules too."""
    branch_list: Iterable[object] = branches if isinstance(branches, Iterable) else (branches,)  # pyright: ignore[reportUnknownVariableType]
    for branch in branch_list:
        match branch:
            case [State() as new, int(after)] if after in range(-1, len(new.stages)):
                yield new, after
            case _:
                shown = "a State" if isinstance(branch, State) else repr(branch)
                why = f"it yields {shown}, not a state and the number of the stage to visit next"
                fix = "yield new, new.stages.index(stage) - 1"
                raise ArgumentError(f"sketch rule {rule.name!r}", why, fix)


def states(
    dags: Sequence[ComputeDAG], target: Target, rules: Sequence[Rule] | None = None
) -> list[tuple[str, ComputeDAG, State]]:
    """Return the names, formulas and states of all sketches of a computation.

    dags   the task's formulas, then other formulas for the same results
    Raises ArgumentError if the inputs or results of the formulas differ.
    """
    raise_first(ArgumentError, "sketches of several formulas", _about(dags))
    return [
        (", ".join((*_formula(k), f"sketch {n}", *new.choices)), dag, _annotated(new, target))
        for k, dag in enumerate(dags)
        for n, new in enumerate(derived(dag.initial, target, rules))
    ]


def _annotated(state: State, target: Target) -> State:
    if target.kind == "cuda":
        return gpu_annotate.annotated(state)
    return annotate.annotated(state, target)


def _formula(k: int) -> tuple[str, ...]:
    return (f"{OTHER} {k}",) if k else ()


def is_other_formula(record: tune.Record) -> bool:
    """Return whether a program computes another formula than the task's own."""
    return record.sketch.startswith(OTHER)


def _about(dags: Sequence[ComputeDAG]) -> Iterator[Reason]:
    first, *others = (", ".join(map(_described, dag.tensors)) for dag in dags)
    for k, other in enumerate(others, 1):
        if other != first:
            yield (f"formula {k} has the arguments {other}, but the first one {first}",)


def _described(t: te.Tensor) -> str:
    """Return what the caller of a program must know of an argument: "constant W float32[3, 3]"."""
    if not isinstance(t.op, te.PlaceholderOp):
        return f"result {t.dtype}{[*t.shape]}"
    return f"{'constant ' if t.op.constant else ''}{t.name} {t.dtype}{[*t.shape]}"


def sketches(
    dags: Sequence[ComputeDAG], target: Target, rules: Sequence[Rule] | None = None
) -> tuple[tune.Sketch, ...]:
    """Return the sketches of a computation; `dags` as in `states`."""
    return tuple(new.sketch(name, dag.tensors) for name, dag, new in states(dags, target, rules))
