"""Derive the sketches of a computation: derive states by rules, then annotate them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from minitvm import schedule, tensor, tune
from minitvm.base import ArgumentError, Target

from .annotate import annotated
from .rules import RULES, Rule
from .state import State

MOST = 10_000  # the most steps of a derivation; the largest known derivation takes some hundreds

# watch(state, stage, rule, new) is called for each state that a rule returns; `new` may be `state`
Watch: TypeAlias = Callable[[State, str, Rule, State], None]


def derived(
    initial: schedule.State,
    target: Target,
    rules: Sequence[Rule] = RULES,
    watch: Watch | None = None,
) -> list[State]:
    """Return the states that the rules derive, visiting stages from the output to the inputs.

    watch   is called with each step of the derivation
    Raises ArgumentError after 10,000 steps, because then a rule most likely applies forever.
    """
    first = State(initial)
    waiting, found, steps = [(first, len(first.stages) - 1)], list[State](), 0
    while waiting:
        state, at = waiting.pop()
        steps += 1
        if steps > MOST:
            why = f"the derivation has not ended after {MOST:,} steps"
            fix = "a rule whose condition does not hold for the states that the rule returns"
            raise ArgumentError(f"sketch rules at stage {state.stages[at]!r}", why, fix)
        if at < 0:
            found.append(state)
            continue
        waiting += reversed(_branches(state, at, target, rules, watch))
    return found


def _branches(
    state: State, at: int, target: Target, rules: Sequence[Rule], watch: Watch | None
) -> list[tuple[State, int]]:
    """Apply all rules whose condition holds at a stage, up to the first exclusive rule."""
    found, stage = list[tuple[State, int]](), state.stages[at]
    if not isinstance(state.s.state.stage(stage).op, tensor.ComputeOp):
        return [(state, at - 1)]
    for rule in rules:
        if rule.meets(state, stage, target):
            for new, after in rule.apply(state, stage, target):
                if new is not state:
                    new.rules = (*state.rules, rule.name)
                if watch is not None:
                    watch(state, stage, rule, new)
                found.append((new, after))
            if rule.exclusive:
                break
    return found


def states(
    initial: schedule.State, target: Target, rules: Sequence[Rule] = RULES
) -> list[tuple[str, State]]:
    """Return the names and the states of all sketches of a computation."""
    return [
        (", ".join((f"sketch {n}", *new.choices)), new)
        for n, state in enumerate(derived(initial, target, rules))
        for new in annotated(state, target)
    ]


def sketches(
    args: Sequence[tensor.Tensor],
    initial: schedule.State,
    target: Target,
    rules: Sequence[Rule] = RULES,
) -> tuple[tune.Sketch, ...]:
    """Return the sketches of a computation; `args` are the arguments of its programs."""
    return tuple(new.sketch(name, args) for name, new in states(initial, target, rules))
