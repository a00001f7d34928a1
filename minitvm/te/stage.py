"""StageView, one stage s[C] of a schedule. Its methods take schedule steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from minitvm import tir
from minitvm.base import ScheduleError, TVMError, as_tuple, check_flag
from minitvm.schedule import (
    Annotate,
    At,
    Bind,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    DoubleBuffer,
    Fuse,
    Inline,
    Pragma,
    Prefetch,
    Relation,
    Reorder,
    SetScope,
    SetStorePredicate,
    Split,
    Stage,
    State,
    Step,
    StorageAlign,
    StoreAt,
    Tensorize,
    TransformLayout,
    axis_names,
    constants,
    is_loop,
    know,
    parts,
    program_sizes,
    with_sizes,
)
from minitvm.tensor import Axis, Operation, TensorIntrin, is_from_data

from .thread import ThreadAxis, predicate
from .unsupported import missing_stage_step


class Recorder(Protocol):
    """The interface of Schedule that stages use: it takes steps and undoes them."""

    state: State

    @property
    def steps(self) -> tuple[Step, ...]: ...
    def apply(self, step: Step) -> None: ...
    def undo(self) -> Step: ...
    def cache_read(self, tensor: Any, scope: str) -> Any: ...
    def __getitem__(self, key: Any) -> StageView: ...


class StageView:
    """One stage of a schedule, s[C]. Its methods take schedule steps; loops are passed as axes."""

    def __init__(self, schedule: Recorder, name: str) -> None:
        self.schedule = schedule
        self.name = name

    @property
    def _stage(self) -> Stage:
        return self.schedule.state.stage(self.name)

    @property
    def op(self) -> Operation:
        """Return the operation; its `axis` and `reduce_axis` are the loops before any step."""
        return self._stage.op

    @property
    def is_output(self) -> bool:
        """Return whether the stage computes an output of the program."""
        return self._stage.is_output

    @property
    def is_inlined(self) -> bool:
        """Return whether the stage is inlined into its readers."""
        return isinstance(self._stage.attach, Inline)

    @property
    def is_attached(self) -> bool:
        """Return whether the stage is computed inside a loop of another stage (compute_at)."""
        return isinstance(self._stage.attach, At)

    @property
    def leaf_iter_vars(self) -> list[Axis]:
        """Return the current loops, outermost first."""
        return list(self._stage.leaves)

    @property
    def relations(self) -> tuple[Relation, ...]:
        """Return the splits and fuses of this stage's loops, in the order they were made."""
        return self._stage.relations

    def axis_name(self, a: Any, verb: str) -> str:
        """Return the name of `a`; raise ScheduleError if it is not an axis of this stage.

        verb   the step that needs the axis, for the message
        """
        if not isinstance(a, Axis):
            fix = f"s[{self.name}].op.axis, or what split, fuse and tile return"
            raise ScheduleError(f"{verb} of {a!r} in {self.name}", "not an axis", fix)
        if a not in self._stage.names:
            others = [s.name for s in self.schedule.state.stages if a in s.names]
            why = f"that axis belongs to {others[0] if others else 'no stage of this schedule'}"
            fix = f"one of its loops: {', '.join(self._stage.loops) or 'none'}"
            raise ScheduleError(f"{verb} of {a.name!r} in {self.name}", why, fix)
        return self._stage.names[a]

    def _size(self, axis: str, n: Any) -> int | str | None:
        """Convert the size of a split to a field of Split: an int, or text such as "n // 4".

        None is returned as it is. A variable that is no size of the program yet becomes one: its
        value is an argument of the compiled function. Raises ScheduleError for any other size.
        """
        if n is None or type(n) is int:
            return n
        try:
            size = tir.index(n)
        except TVMError:
            size = None
        if isinstance(size, int) and not isinstance(n, bool):
            return size
        if isinstance(size, tir.Expr) and not is_from_data(size):
            used = tir.variables(size)
            state = self.schedule.state
            if not any(isinstance(v, Axis) for v in used):
                state = with_sizes(state, used)
            known = program_sizes(state)
            if all(known.get(v.name) is v for v in used):
                self.schedule.state = state
                return tir.text(size)
        shown = tir.text(n) if isinstance(n, tir.Expr) else repr(n)
        why = "the size of a part is an integer >= 1"
        if isinstance(n, tir.Expr):
            why += ", or an expression of sizes (te.var, te.size_var) with names of their own"
        raise ScheduleError(f"split of {axis!r} by {shown}", why)

    def split(
        self,
        axis: Axis,
        factor: Any = None,
        nparts: Any = None,
        disable_predication: bool = False,
    ) -> tuple[Axis, Axis]:
        """Split a loop into two nested loops; return (outer, inner).

        factor    the number of iterations of the inner loop; or instead
        nparts    the number of iterations of the outer loop
        disable_predication   promise that the size divides the extent, so that the loops need no
                  guard; the promise is checked

        A size is an integer or an expression of symbolic sizes, such as n // 4. A te.var that is
        in no shape is an argument: lower(s, [q, A, C]). Each call of the compiled function checks
        that the size is >= 1.
        """
        name = self.axis_name(axis, "split")
        exact = check_flag("split: disable_predication", disable_predication)
        before = self.schedule.state
        try:
            sizes = self._size(name, factor), self._size(name, nparts)
            self.schedule.apply(Split(self.name, name, *sizes, exact))
        except TVMError:
            self.schedule.state = before
            raise
        relation = self._stage.relations[-1]
        return relation.outer, relation.inner

    def fuse(self, *axes: Axis) -> Axis:
        """Fuse nested loops, given outermost first, into one; return a single loop as it is.

        fuse() adds an outermost loop of one iteration, so that a scalar has a loop to bind, too.
        """
        if len(axes) == 1:
            for why, fix in is_loop(self._stage, self.axis_name(axes[0], "fuse")):
                raise ScheduleError(f"fuse in {self.name}", why, fix)
            return axes[0]
        self.schedule.apply(Fuse(self.name, tuple(self.axis_name(a, "fuse") for a in axes)))
        return self._stage.leaves[0] if not axes else parts(self._stage.relations[-1])[0]

    def reorder(self, *axes: Axis) -> None:
        """Nest the given loops in this order, outermost first; other loops keep their positions."""
        self.schedule.apply(Reorder(self.name, tuple(self.axis_name(a, "reorder") for a in axes)))

    def tile(self, *args: Any, **factors: Any) -> tuple[Axis, ...]:
        """Split two or three loops, then nest all outer loops outside all inner loops.

        tile(y, x, fy, fx) returns yo, xo, yi, xi; tile(y, x, k, fy, fx, fk) returns yo, xo, ko, yi,
        xi, ki.
        """
        sizes = [*args, *factors.values()]
        n = sum(isinstance(a, Axis) for a in sizes)
        if n not in (2, 3) or len(sizes) != 2 * n:
            what = f"tile in {self.name}"
            why = f"{n} axes and {len(sizes) - n} factors are given"
            raise ScheduleError(what, why, "tile(y, x, fy, fx) or tile(y, x, k, fy, fx, fk)")
        before = len(self.schedule.steps)
        try:
            pairs = [self.split(a, factor=f) for a, f in zip(sizes[:n], sizes[n:], strict=True)]
            loops = (*(o for o, _ in pairs), *(i for _, i in pairs))
            self.reorder(*loops)
        except ScheduleError:  # undo the steps that were taken
            while len(self.schedule.steps) > before:
                self.schedule.undo()
            raise
        return loops

    def vectorize(self, axis: Axis) -> None:
        """Vectorize the loop: compute all its iterations at once, as the lanes of vectors."""
        self._annotate(axis, "vectorize")

    def unroll(self, axis: Axis) -> None:
        """Unroll the loop: repeat its body once per iteration."""
        self._annotate(axis, "unroll")

    def parallel(self, axis: Axis) -> None:
        """Distribute the loop's iterations over CPU threads."""
        self._annotate(axis, "parallel")

    def _annotate(self, axis: Axis, kind: Any) -> None:
        self.schedule.apply(Annotate(self.name, self.axis_name(axis, kind), kind))

    def pragma(self, axis: Axis, key: str, value: Any = 1) -> None:
        """Attach a pragma to a loop: pragma(k, "auto_unroll_max_step", 16).

        A key that no pass knows stays in the program, where your own passes can use it. As in TVM,
        the keys "vectorize" and "unroll" have the effect of these methods.
        """
        if isinstance(key, str) and key in ("vectorize", "unroll"):  # pyright: ignore[reportUnnecessaryIsInstance]
            return self._annotate(axis, key)
        self.schedule.apply(Pragma(self.name, self.axis_name(axis, "pragma"), key, value))

    def compute_at(self, target: Any, axis: Axis) -> None:
        """Compute this stage inside the loop `axis` of the stage `target`, such as s[P].

        If not all readers are inside that loop yet, the step stays in `state.pending` until later
        steps place them there.
        """
        stage = self.schedule[target]
        self.schedule.apply(ComputeAt(self.name, stage.name, stage.axis_name(axis, "compute_at")))

    def store_at(self, target: Any, axis: Axis) -> None:
        """Keep this stage's results while the loop `axis` of `target` runs; compute each once."""
        stage = self.schedule[target]
        self.schedule.apply(StoreAt(self.name, stage.name, stage.axis_name(axis, "store_at")))

    def compute_inline(self) -> None:
        """Substitute this stage's formula into its readers, so that no result is stored."""
        self.schedule.apply(ComputeInline(self.name))

    def compute_root(self) -> None:
        """Compute the whole stage before its readers, as by default; this undoes compute_at, ..."""
        self.schedule.apply(ComputeRoot(self.name))

    def bind(self, axis: Axis, thread: ThreadAxis) -> None:
        """Bind the loop's iterations to threads: bind(i, te.thread_axis("threadIdx.x"))."""
        name = self.axis_name(axis, "bind")
        if not isinstance(thread, ThreadAxis):  # pyright: ignore[reportUnnecessaryIsInstance]
            what = f"bind of {name!r} in {self.name} to {thread!r}"
            raise ScheduleError(what, "not a thread", 'te.thread_axis("threadIdx.x")')
        self.schedule.apply(Bind(self.name, name, thread.thread_tag, thread.extent))

    def double_buffer(self) -> None:
        """Compute this stage one iteration ahead of its readers, using twice the memory."""
        self.schedule.apply(DoubleBuffer(self.name))

    def storage_align(self, axis: Axis, factor: int, offset: int = 0) -> None:
        """Pad rows so that the stride of `axis` is `offset` more than a multiple of `factor`."""
        name = self.axis_name(axis, "storage_align")
        self.schedule.apply(StorageAlign(self.name, name, factor, offset))

    def prefetch(self, tensor: Any, axis: Axis, offset: int = 1) -> None:
        """Prefetch the elements of `tensor` that loop `axis` reads `offset` iterations later."""
        name, source = self.axis_name(axis, "prefetch"), self.schedule[tensor].name
        self.schedule.apply(Prefetch(self.name, source, name, offset))

    def set_store_predicate(self, cond: Any) -> None:
        """Store results only if `cond` is true; it consists of comparisons of axes and te.all."""
        axes, conds = predicate(self._stage, cond)
        self.schedule.apply(SetStorePredicate(self.name, axes, conds))

    def set_scope(self, scope: str) -> None:
        """Choose the memory of this stage's result: "global", "shared", "local", ..."""
        self.schedule.apply(SetScope(self.name, scope))

    def tensorize(self, axis: Axis, intrin: TensorIntrin) -> None:
        """Replace the loop `axis` and all loops inside it by calls of `intrin`."""
        name = self.axis_name(axis, "tensorize")
        before = self.schedule.state
        try:
            self.schedule.state = know(before, intrin)
            self.schedule.apply(Tensorize(self.name, name, intrin.name))
        except TVMError:
            self.schedule.state = before
            raise

    def transform_layout(self, fn: Callable[..., Any]) -> None:
        """Store element (k, j) of the result at index fn(k, j) of a buffer with another shape.

        transform_layout(lambda k, j: (j // 16, k, j % 16)) packs panels of 16 columns. A constant
        is copied into the new layout by a stage of its own, which runs before the calls.
        """
        if not hasattr(fn, "__code__"):
            what = f"transform_layout of {self.name}: {fn!r}"
            raise ScheduleError(what, "not a function", "lambda i, j: ...")
        names = axis_names(fn)
        new_indices = as_tuple(fn(*(tir.Var(n, 0) for n in names)))
        layout = tuple(tir.text(tir.index(p)) for p in new_indices)
        name = self.name
        if self.op in constants(self.schedule.state):
            name = self.schedule[self.schedule.cache_read(self.op.output(0), "global")].name
        self.schedule.apply(TransformLayout(name, names, layout))

    def __getattr__(self, name: str) -> Any:
        raise missing_stage_step(self.__dict__.get("name", "..."), name, dir(StageView))

    def __repr__(self) -> str:
        loops: list[str] = []
        for name, a in self._stage.loops.items():
            kind = self._stage.note(a).kind
            loops.append(name if kind == "serial" else f"{name} ({kind})")
        return f"{self.name}: {', '.join(loops) or 'no loops'}"
