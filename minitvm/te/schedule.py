"""The mutable schedule: `s[C].split(i, factor=8)` appends a Step and replaces the State."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from minitvm import schedule, tir
from minitvm.base import ScheduleError, Target, TVMError, as_tuple, debug
from minitvm.explain import Derivation, Explanation, PerformanceWarnings, explain
from minitvm.tensor import Axis, Operation, Tensor, TensorIntrin, tensor_of

from .explain import Diff, bound, difference, guard, step_number
from .inline import auto_inline_broadcast, auto_inline_elementwise, auto_inline_injective
from .python import python_source
from .stage import StageView
from .unsupported import missing_step

# te.schedule.AutoInlineElemWise(s): TVM's names
AutoInlineElemWise = auto_inline_elementwise
AutoInlineBroadcast = auto_inline_broadcast
AutoInlineInjective = auto_inline_injective


def create_schedule(ops: Any) -> Schedule:
    """Create a schedule without steps for one operation or a list of them."""
    operations = as_tuple(ops)
    if not operations:
        raise ScheduleError("create_schedule([])", "there is nothing to compute")
    return Schedule(schedule.initial(tuple(_operation(o) for o in operations)))


def _operation(o: Any) -> Operation:
    if isinstance(o, Tensor):
        return o.op
    if not isinstance(o, Operation):
        what = type(o).__name__ if isinstance(o, Schedule) else repr(o)
        raise ScheduleError(f"create_schedule({what})", "not an operation", "pass C.op")
    return o


class Schedule:
    """A schedule: how to compute some operations. Its methods and the methods of s[C] take steps.

    state      the immutable State after the last step
    steps      the steps taken so far
    """

    def __init__(self, state: schedule.State) -> None:
        self.state = state
        self._before: list[schedule.State] = []  # the state before each step, for undo

    # --- looking ---

    @property
    def steps(self) -> tuple[schedule.Step, ...]:
        """Return the steps taken so far."""
        return self.state.steps

    trace = steps

    @property
    def stages(self) -> list[StageView]:
        """Return all stages, producers first."""
        return [StageView(self, s.name) for s in self.state.stages]

    @property
    def outputs(self) -> list[Operation]:
        """Return the operations whose results the program returns."""
        return [s.op for s in self.state.stages if s.is_output]

    def __getitem__(self, key: Any) -> StageView:
        return StageView(self, self._find(key).name)

    def _find(self, key: Any) -> schedule.Stage:
        """Return the stage of a tensor, operation or name; raise ScheduleError if there is none."""
        if isinstance(key, str):
            return self.state.stage(key)
        op = key.op if isinstance(key, Tensor | StageView) else key
        for s in self.state.stages:
            if s.origin is op or s.op is op:
                return s
        names = ", ".join(s.name for s in self.state.stages)
        name = getattr(key, "name", repr(key))
        why = "it is not part of this schedule"
        raise ScheduleError(f"s[{name}]", why, f"one of its stages: {names}")

    def _now(self, t: Any) -> tuple[str, int]:
        return self._find(t).name, t.value_index if isinstance(t, Tensor) else 0

    # --- changing ---

    def apply(self, step: schedule.Step) -> None:
        """Take one step; if it is illegal, raise ScheduleError and leave the schedule unchanged."""
        # Split checks its size itself, with a better error message
        wrong = "" if isinstance(step, schedule.Split) else schedule.misfit(step)
        if wrong:
            raise ScheduleError(wrong, "the value has the wrong type")
        try:
            new = schedule.apply(self.state, step)
        except TVMError as e:
            raise e from None
        debug(3, f"step {len(new.steps)}: {step}")
        self._before.append(self.state)
        self.state = new

    def undo(self) -> schedule.Step:
        """Undo the last step and return it."""
        if not self._before:
            raise ScheduleError("undo", "no step has been taken")
        last = self.state.steps[-1]
        self.state = self._before.pop()
        return last

    def cache_read(self, tensor: Any, scope: str, readers: Any = None) -> Tensor:
        """Add a stage that copies `tensor` to memory `scope`; return the copy.

        Only `readers` (a stage or a list; by default all stages that read `tensor`) read the copy.
        """
        name, output = self._now(tensor)
        if readers is None:
            t = tensor_of(self.state.stage(name).op, output)
            reader_names = tuple(s.name for s in self.state.stages if t in schedule.inputs(s))
        else:
            reader_names = tuple(self._find(r).name for r in as_tuple(readers))
        return tensor_of(self._added(schedule.CacheRead(name, output, scope, reader_names)), 0)

    def cache_write(self, tensor: Any, scope: str) -> Any:
        """Compute `tensor` in memory `scope`, then copy it; return the tensor in that memory.

        Given a list of all outputs of one operation, return a list.
        """
        outputs = [self._now(t) for t in as_tuple(tensor)]
        names = list(dict.fromkeys(name for name, _ in outputs))
        if len(names) != 1:
            what = f"cache_write of {', '.join(names) or 'nothing'}"
            why = "it takes one tensor, or several outputs of one operation"
            raise ScheduleError(what, why, "one cache_write for each")
        op = self._added(schedule.CacheWrite(names[0], scope))
        copies = [tensor_of(op, i) for _, i in outputs]
        return copies if isinstance(tensor, list | tuple) else copies[0]

    def rfactor(self, tensor: Any, axis: Axis, factor_axis: int = 0) -> Any:
        """Compute a reduction as partial results, one for each value of `axis`, and combine them.

        Return the new tensor of partial results, in which `axis` is dimension `factor_axis`;
        `tensor` then reduces over that dimension, and s[tensor].op has its new axes. If the
        operation has several outputs, return a list of new tensors.
        """
        if not as_tuple(tensor):
            raise ScheduleError("rfactor of nothing", "it takes the output of a reduction")
        stage = self[as_tuple(tensor)[0]]
        name = stage.axis_name(axis, "rfactor")
        op = self._added(schedule.RFactor(stage.name, name, factor_axis))
        parts = [tensor_of(op, i) for i in range(len(op.dtypes))]
        return parts if len(parts) > 1 else parts[0]

    def _added(self, step: schedule.Step) -> Operation:
        """Take a step that adds a stage, and return the operation of the new stage."""
        old = {s.name for s in self.state.stages}
        self.apply(step)
        return next(s.op for s in self.state.stages if s.name not in old)

    # --- explaining ---

    def explain(self, target: str | Target | None = None) -> Explanation:
        """Report where each stage runs, what it allocates, how often it is computed, and why.

        `explain()["B"].recompute` is how often an element of B is computed on average.
        """
        return explain(self.state, target)

    def warnings(self, target: str | Target | None = None) -> PerformanceWarnings:
        """Return warnings about what is likely to be slow on `target`, and why."""
        return PerformanceWarnings(self.explain(target).warnings)

    def explain_bound(self, tensor: Any, axis: Any) -> Derivation:
        """Explain which range of `axis` the stage of `tensor` computes at a time, and why.

        axis   an axis of the stage, its name, or the number of a dimension

        The result prints as a tree, such as: B.i = [i_outer*4, 6], because C reads B[i], ...
        """
        return bound(self.state, self._find(tensor), axis)

    def explain_guard(self, loop: Axis) -> Derivation:
        """Explain each guard (an `if`) on a loop: its cause, and whether the passes remove it.

        The loop may have been split or fused since.
        """
        return guard(self.state, loop)

    def diff(self, step: int = -1) -> Diff:
        """Compare the loops before and after step number `step`: 1 is the first, -1 the last."""
        n = step_number(self.state, step)
        at = n - 1 - len(self.steps)
        return difference([*self._before, self.state][at - 1 :], self.step_text(n))

    def step_text(self, step: int = -1) -> str:
        """Return step number `step` as a line of Python: 1 is the first step, -1 the last."""
        steps = self.steps[: step_number(self.state, step)]
        return python_source(self.initial, steps).splitlines()[-1]

    # --- writing down ---

    def python(self) -> str:
        """Return Python code that recreates the schedule.

        The code uses variables with the names of the output tensors, and of the symbolic sizes by
        which loops are split.
        """
        start = self.initial
        return python_source(start, self.steps[len(start.steps) :])

    def to_json(self) -> str:
        """Return the steps as JSON, for Schedule.from_json(text, ops)."""
        return schedule.to_json(self.steps)

    @staticmethod
    def from_json(
        text: str, ops: Any, intrins: Iterable[TensorIntrin] = (), sizes: Iterable[tir.Var] = ()
    ) -> Schedule:
        """Create a schedule of `ops`, and take the steps in `text`, the result of to_json.

        intrins   the tensor intrinsics that the steps use
        sizes     the sizes by which steps split, without those in shapes
        """
        s = create_schedule(ops)
        s.state = schedule.with_sizes(s.state, as_tuple(sizes))
        for intrin in as_tuple(intrins):
            s.state = schedule.know(s.state, intrin)
        for step in schedule.from_json(text):
            s.apply(step)
        return s

    def copy(self) -> Schedule:
        """Return a copy of this schedule; steps on one do not affect the other."""
        new = Schedule(self.state)
        new._before = list(self._before)
        return new

    @property
    def initial(self) -> schedule.State:
        """Return the state before the first step, with the intrinsics and sizes known now."""
        start = self._before[0] if self._before else self.state
        return replace(start, intrins=self.state.intrins, sizes=self.state.sizes)

    def __getattr__(self, name: str) -> Any:
        raise missing_step(name, dir(Schedule), dir(StageView))

    def __repr__(self) -> str:
        lines = [f"schedule of {', '.join(s.name for s in self.state.stages if s.is_output)}"]
        lines += [f"  {v!r}" for v in self.stages]
        return "\n".join(lines + [f"  pending: {p}" for p in self.state.pending])
