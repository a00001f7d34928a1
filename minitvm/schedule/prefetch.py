"""The step that prefetches a tensor."""

from __future__ import annotations

from dataclasses import dataclass

from .marks import with_pragma
from .state import State, inputs
from .step import Checks, LoopName, StageName, Step, has_body, is_loop


@dataclass(frozen=True, slots=True)
class Prefetch(Step):
    """Prefetch what a loop will read from a tensor `offset` iterations later; this is only a hint.

    for i in range(8):            # pragma prefetch = ('A', 2)
      C[i] = A[i]            ->   for i in range(8):
                                    C[i] = A[i]
    """

    tensor: StageName
    axis: LoopName
    offset: int = 1

    def checks(self, state: State) -> Checks:
        yield from has_body(self, state)
        stage, source = state.stage(self.stage), state.stage(self.tensor).op
        yield from is_loop(stage, self.axis)
        if all(t.op is not source for t in inputs(stage)):
            names = ", ".join(dict.fromkeys(t.op.name for t in inputs(stage))) or "nothing"
            yield f"{stage.name} does not read {self.tensor}", f"it reads {names}"
        if self.offset < 0:
            yield f"it is {self.offset} iterations ahead", "an integer >= 0"

    def apply(self, state: State) -> State:
        return with_pragma(state, self.stage, self.axis, "prefetch", (self.tensor, self.offset))
