"""The step that marks a loop so that data is loaded into the cache before it is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from .attach import path
from .marks import with_pragma
from .state import State, inputs
from .step import Checks, LoopName, StageName, Step, has_body, is_loop


@dataclass(frozen=True, slots=True)
class Prefetch(Step):
    """Prefetch the part of a tensor that a loop reads `offset` iterations later.

    for i in range(8):            # pragma prefetch = ('A', 2)
      C[i] = A[i]            ->   for i in range(8):
                                    C[i] = A[i]
    """

    tensor: StageName
    axis: LoopName
    offset: int = 1
    samples: ClassVar = {"offset": (0, 1, 2)}

    def checks(self, state: State) -> Checks:
        yield from has_body(self, state)
        stage, source = state.stage(self.stage), state.stage(self.tensor).op
        yield from is_loop(stage, self.axis)
        inner_stages = (
            s for s in state.stages if any(p.stage == self.stage for p in path(state, s.name))
        )
        read_ops = [t.op for s in (stage, *inner_stages) for t in inputs(s)]
        if source not in read_ops:
            names = ", ".join(dict.fromkeys(op.name for op in read_ops)) or "nothing"
            yield f"{stage.name} does not read {self.tensor}", f"it reads {names}"
        if self.offset < 0:
            yield f"the offset is {self.offset}", "an integer >= 0"

    def apply(self, state: State) -> State:
        return with_pragma(state, self.stage, self.axis, "prefetch", (self.tensor, self.offset))
