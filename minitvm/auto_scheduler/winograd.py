"""A sketch rule for Winograd's convolutions: the schedule of topi, with open sizes.

The other rules tile one stage at a time. Winograd's formula has seven stages whose tiles depend on
each other, so this rule takes all steps at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from minitvm import te, tensor, topi, tune
from minitvm.base import Target

from .state import State


def can_plan(state: State, stage: str, target: Target) -> bool:
    """Return whether a stage is the only output, and reads or is a result of conv2d_winograd."""
    has_no_steps = len(state.s.steps) == len(state.initial.steps)
    outputs = [s.name for s in state.initial.stages if s.is_output]
    return has_no_steps and outputs == [stage] and len(_results(state.op(stage))) == 1


def plan(state: State, stage: str, target: Target) -> Iterator[tuple[State, int]]:
    """Take the steps of topi's schedule for Winograd, with an open block and register tile.

                              for block:
    for i, j, p, c: V = ...     for i, j, p, c: V[i, j, p, c] = ...
    for i, j, p, o: M = ...  -> for i, j, oo, po: M[i, j, po + pi, oo + oi] = ...   a register tile
    for y, x, o: out = ...      for y, x, o: out[y, x, o] = ...
    """
    sketch = _planned(state.op(stage), target)
    new = state.filled_by(sketch)
    new.choices = (*new.choices, "plan")
    yield new, -1


def _planned(output: te.ComputeOp, target: Target) -> tune.Sketch:
    """Return the sketch of all plans for the convolution that `output` is or reads."""
    (result,) = _results(output)
    options_of = dict[str, topi.Options]()

    def known(options: topi.Options) -> Any:
        options_of[options.stage] = options
        return options.known

    topi.schedule(output.output(0), target, choose=known)
    fields = options_of[result.name].fields
    space = tune.Space(tuple(tune.knob_of(name, values) for name, values in fields.items()))

    def make(row: Sequence[int]) -> tune.Made:
        values = space.options(row)

        def chosen(options: topi.Options) -> Any:
            return options.plan(values) if options.stage == result.name else options.known

        return tune.Made(topi.schedule(output.output(0), target, choose=chosen), ())

    sketch = tune.traced("winograd", space, make, np.random.default_rng(0))
    assert sketch is not None  # plans differ in numbers only
    return sketch


def _results(output: tensor.Operation) -> list[te.ComputeOp]:
    """Return the results of conv2d_winograd among the operations that `output` depends on."""
    ops = tensor.producers_first((output,))
    return [op for op in ops if isinstance(op, te.ComputeOp) and op.tag == topi.WINOGRAD]
