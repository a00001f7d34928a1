"""The formulas of a computation, and facts about them that a search needs."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from minitvm import schedule, te, tensor, topi
from minitvm.base import ArgumentError, Reason, as_tuple, check_kind, raise_first

from . import analysis
from .loop_state import LoopState
from .state import State
from .text import exact, formula
from .workload_registry import tensors_of


@dataclass(frozen=True, slots=True, eq=False, init=False)
class ComputeDAG:
    """The operations of a computation, producers first.

    tensors   the inputs, then the outputs: the arguments of a program
    ops       the operations that the outputs depend on
    flop_ct   the arithmetic operations of one call; 0 if they depend on data
    initial   the schedule without steps
    """

    tensors: tuple[te.Tensor, ...]
    ops: tuple[te.ComputeOp | te.PlaceholderOp, ...]
    flop_ct: float
    initial: schedule.State

    def __init__(self, compute: str | Sequence[te.Tensor] | te.Schedule) -> None:
        """Collect the operations that `compute` depends on.

        compute   the inputs and outputs, a workload key, or a schedule, whose steps are ignored
        Raises ArgumentError if the sketch rules cannot schedule them.
        """
        tensors = _tensors(compute)
        outputs = tuple(t.op for t in tensors if not isinstance(t.op, te.PlaceholderOp))
        raise_first(ArgumentError, "ComputeDAG", _about(outputs))
        ops = tensor.producers_first(outputs)
        inputs = [op for op in ops if isinstance(op, te.PlaceholderOp)]
        missing = [op.name for op in inputs if not any(op is t.op for t in tensors)]
        if missing:
            why = f"the list lacks {', '.join(missing)}"
            raise ArgumentError("ComputeDAG", why, "all inputs, then the outputs")
        ragged = any(analysis.is_ragged(op) for op in ops if isinstance(op, te.ComputeOp))
        flops = 0.0 if ragged else topi.flops([op.output(0) for op in outputs])
        initial = te.create_schedule(list(outputs)).state
        for name, value in zip(self.__slots__, (tensors, tuple(ops), flops, initial), strict=True):
            object.__setattr__(self, name, value)

    @property
    def outputs(self) -> tuple[te.Tensor, ...]:
        """Return the tensors that a program computes."""
        return tuple(t for t in self.tensors if not isinstance(t.op, te.PlaceholderOp))

    def get_init_state(self) -> LoopState:
        """Return the state without steps, so that a user can add steps by hand."""
        return LoopState(State(self.initial), self)

    def apply_steps_from_state(
        self, state: State | LoopState
    ) -> tuple[te.Schedule, list[te.Tensor]]:
        """Return the schedule of a state, and the arguments of its program.

        Raises ArgumentError if sizes are open, as in the state of a sketch.
        """
        state = state.state_object if isinstance(state, LoopState) else state
        check_kind("state", state, State, fix="dag.get_init_state()")
        if state.knobs:
            why = f"{', '.join(g.name for g in state.knobs)} are open"
            raise ArgumentError("program of a sketch", why, "state.program(row)")
        return te.Schedule(state.s.state), list(self.tensors)

    def print_python_code_from_state(self, state: State | LoopState) -> str:
        """Return the schedule of a state as Python code."""
        return self.apply_steps_from_state(state)[0].python()

    def workload_key(self) -> str:
        """Return a key made of a hash of the formulas and the shapes; equal formulas share it."""
        text = "\n".join(line for op in self.ops for line in exact(op))
        digest = hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()
        return json.dumps([digest, *([*map(int, t.shape)] for t in self.tensors)])  # pyright: ignore[reportArgumentType]

    def __str__(self) -> str:
        return "\n".join(line for op in self.ops for line in formula(op)) + "\n"


def _tensors(compute: str | Sequence[te.Tensor] | te.Schedule) -> tuple[te.Tensor, ...]:
    if isinstance(compute, str):
        return tensors_of(compute)
    if isinstance(compute, te.Schedule):
        outputs = [op.output(0) for op in compute.outputs]
        inputs = [
            op.output(0)
            for op in tensor.producers_first(tuple(compute.outputs))
            if isinstance(op, te.PlaceholderOp)
        ]
        return (*inputs, *outputs)
    tensors = as_tuple(compute)
    if not tensors or not all(isinstance(t, te.Tensor) for t in tensors):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ArgumentError(f"ComputeDAG({compute!r})", "these are not tensors", "[A, B, C]")
    return tensors


def _about(outputs: Sequence[tensor.Operation]) -> Iterator[Reason]:
    """Yield (why, fix) for each reason why a computation cannot be tuned."""
    if not outputs:
        yield "there is nothing to compute", "the inputs and the outputs: [A, B, C]"
    for op in tensor.producers_first(tuple(outputs)):
        match op:
            case te.ComputeOp():
                sizes = [
                    *op.axis,
                    *(a for a in op.reduce_axis if not tensor.is_from_data(a.extent)),
                ]
                symbolic_names = [a.name for a in sizes if not isinstance(a.extent, int)]
                if symbolic_names:
                    why = f"the length of {symbolic_names[0]} of {op.name} is symbolic"
                    yield why, "a constant shape"
            case te.PlaceholderOp():
                pass
            case tensor.ExternOp():
                yield f"{op.name} is a te.extern, which has no loops to tile", "te.compute"
            case tensor.ScanOp():
                yield f"{op.name} is a te.scan, which no sketch rule can tile", "te.compute"
