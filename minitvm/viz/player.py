"""NestPlayer: the steps of a schedule, its loops, and the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from minitvm import driver, schedule, te, tensor
from minitvm.base import LoweringError, ScheduleError, Target, TVMError

from .blocks import Nest, arguments, check_schedule, code_links, nest_of
from .boxes import Box, column, paragraph, row, sized, text
from .controls import Button, CodeLine, Control, Frame, Layout, Panel, Slider, TextInput, numbered
from .figure import WIDTH, Figure
from .grids import Grid, corner_note, grids_box, grids_of, order_frames
from .nest import nest_ascii, nest_box
from .order import Order, order_of
from .scene import Scene

NEST, GAP = 400, 20  # pixels: width of the loops, and from there to the tensors
NO_ORDER = Order((), 0, {})
ANNOTATIONS = ("vectorize", "unroll", "parallel")


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """The parts of the picture of a program after the first steps of its schedule.

    error   why the program has no loops to draw, if `nest` is None; otherwise ""
    note    why the order of the iterations is not shown, or is shown in part; otherwise ""
    """

    nest: Nest | None
    order: Order = NO_ORDER
    grids: tuple[Grid, ...] = ()
    frames: tuple[Frame, ...] = ()
    note: str = ""
    error: str = ""

    @property
    def first(self) -> int:
        """Return the index of the frame shown first: one that reads, halfway through the run."""
        half = len(self.frames) // 2
        return next((n for n, t in enumerate(self.order.ticks) if n >= half and t.reads), half)


def moment(state: schedule.State) -> Moment:
    """Return the nest, order, grids and frames that are drawn for a schedule state."""
    try:
        nest = nest_of(state)
    except TVMError as e:
        return Moment(None, error=f"no loops: {e}")
    try:
        order = order_of(nest.body)
    except TVMError as e:
        return Moment(nest, note=f"the order is not shown: {e.args[0]}: {e.args[1]}")
    grids = grids_of(order)
    frames = order_frames(nest, order, grids)
    return Moment(nest, order, tuple(grids), frames, corner_note(nest, order))


def history(s: te.Schedule) -> tuple[tuple[schedule.State, int], ...]:
    """Return the states after 0, 1, 2, ... steps, each with the index of its last code line."""
    back = s.copy()
    states = [(back.state, back.python().count("\n"))]
    while back.steps:
        back.undo()
        states.append((back.state, back.python().count("\n")))
    return tuple(reversed(states))


def reordered(leaves: Sequence[str], moved: str, to: str) -> list[str]:
    """Return the loops from `moved` to `to` in their new order: a b c d, drag d to b -> d b c"""
    i, j = leaves.index(moved), leaves.index(to)
    part = [x for x in leaves[min(i, j) : max(i, j) + 1] if x != moved]
    return [*part, moved] if i < j else [moved, *part]


class NestPlayer(Figure):
    """Show the loops of a schedule as bars: step through it, reorder, split, annotate, play.

    The slider goes through the steps taken so far. After the last one the loops can be changed:
    drag a bar onto another of the same stage (or press Alt+arrows) to reorder; the buttons split,
    fuse or annotate the selected loop. An illegal step changes nothing and shows the reason.
    `schedule` is the result, `schedule.python()` its code; the given schedule does not change.

    The grids are the tensors: the browser plays, tick by tick, which elements are read (sky blue)
    and written (orange, thick border). Only the first iterations of each loop of a large program
    are played, and a note says so.

    args     inputs and outputs as for lower(); by default all of them
    target   the target whose lowering passes decide whether a step is legal
    """

    def __init__(
        self,
        s: te.Schedule,
        args: Sequence[Any] | None = None,
        *,
        target: str | Target | None = None,
    ) -> None:
        check_schedule("NestPlayer", s)
        self._args = arguments(s.state) if args is None else args
        self._target = Target(target)
        with suppress(LoweringError):  # a schedule without loops is shown, too
            driver.lower(s, self._args, target=self._target)  # raises for arguments that do not fit
        self._factor = "4"
        self._show(s.copy(), len(s.steps))
        super().__init__()

    def _show(self, s: te.Schedule, step: int) -> None:
        """Show the state of a schedule after its first `step` steps."""
        past = history(s)
        current = moment(past[step][0])
        self.schedule, self._past, self._step, self._now = s, past, step, current

    # --- what is shown ---

    def title(self) -> str:
        """Return the title, such as "step 2 of 5: s[C].vectorize(j)"."""
        step, last = self._step, len(self._past) - 1
        what = self.schedule.step_text(step) if step else "nothing done yet"
        return f"step {step} of {last}: {what}"

    def body(self) -> Box:
        """Draw the nest on the left, the tensors on the right."""
        shown_moment = self._now
        head = text(self.title(), size=13, mono=True, bold=True, width=WIDTH)
        if shown_moment.nest is None:
            return column(head, paragraph(shown_moment.error, WIDTH, "soft"))
        note = paragraph(shown_moment.note, WIDTH - NEST - GAP, "soft")
        tensors = column(grids_box(shown_moment.grids, shown_moment.order), note, gap=10)
        return sized(column(head, row(nest_box(shown_moment.nest, NEST), tensors, gap=GAP)), WIDTH)

    def picture(self) -> Scene:
        """Draw the scene at a tick halfway through the run, with the accessed elements marked."""
        frames, half = self._now.frames, self._now.first
        if not frames:
            return self.scene()
        earlier = {key: "seen" for f in frames[:half] for key in f.marks if key.startswith("cell:")}
        return self.stopped(replace(frames[half], marks={**earlier, **frames[half].marks}))

    def ascii(self) -> str:
        shown_moment = self._now
        body = (
            shown_moment.error if shown_moment.nest is None else nest_ascii(shown_moment.nest, 22)
        )
        return "\n".join(part for part in (self.title(), body, shown_moment.note) if part)

    def layout(self) -> Layout:
        shown_moment = self._now
        code = (
            ()
            if shown_moment.nest is None
            else (Panel("loops", numbered(shown_moment.nest.lines)),)
        )
        return Layout(
            controls=self._controls(len(self._past) - 1),
            frames=shown_moment.frames,
            trail="seen",
            first=shown_moment.first,
            links={} if shown_moment.nest is None else code_links(shown_moment.nest),
            panels=(*code, Panel("schedule", self._steps())),
            selectable="loop:",
            draggable=True,
        )

    def _controls(self, last: int) -> tuple[Control, ...]:
        return (
            Slider("step", "step", 0, last, self._step),
            TextInput("factor", "factor", self._factor, 3),
            Button(
                "split", "split", tip="the selected loop in two, the inner one of factor iterations"
            ),
            Button("fuse", "fuse", tip="the selected loop and the next inner one of its stage"),
            *(Button(n, n, tip=f"{n} the selected loop") for n in ANNOTATIONS),
            Button("undo", "undo", last > 0, "take the last step back"),
        )

    def _steps(self) -> tuple[CodeLine, ...]:
        """Return the schedule as Python, with the line of the current step marked."""
        current = self._past[self._step][1]
        return tuple(
            CodeLine(text, note="now" if n == current else "later" if n > current else "")
            for n, text in enumerate(self.schedule.python().split("\n"))
        )

    # --- what happens ---

    def on(self, name: str, value: Any) -> str | None:
        """Handle a control, click or drag. An illegal step raises an error and changes nothing."""
        match name:
            case "step":
                self._show(self.schedule, value)
            case "factor":
                self._factor = value.strip()
            case "click":
                return self._describe(value)
            case "undo":
                new = self.schedule.copy()
                undone = new.step_text() if new.steps else ""
                new.undo()
                self._show(new, len(new.steps))
                return f"taken back: {undone}"
            case "drag":
                return self._take(partial(self._reorder, *value))
            case "split":
                return self._take(self._split)
            case "fuse":
                return self._take(self._fuse)
            case _:
                return self._take(partial(self._annotate, name))
        return None

    def _describe(self, key: str) -> str:
        """Describe a loop's bar, such as "i_outer of C: parallel × 8"; "" for other keys."""
        owners = self._owners()
        if self._now.nest is None or key not in owners:
            return ""
        bar = next(b for b in self._now.nest.all() if b.key == key)
        return f"{bar.label} of {owners[key][0]}: {bar.note}"

    def _take(self, act: Callable[[te.Schedule], tensor.Axis]) -> str:
        """Apply the step `act` to a copy of the schedule; keep the copy if it can be lowered.

        Return the step as Python. An illegal step raises an error and changes nothing.
        """
        last = len(self._past) - 1
        if self._step < last:
            what = f"a change at step {self._step} of {last}"
            raise ScheduleError(what, "later steps follow", f"move the slider to step {last}")
        new = self.schedule.copy()
        axis = act(new)
        if self._now.nest is not None:  # lowering finds some steps illegal
            driver.lower(new, self._args, target=self._target)
        self._show(new, len(new.steps))
        self.selected = ""  # or the bar of the axis, if it has one
        for key, (stage, name) in self._owners().items():
            if new.state.stage(stage).names.get(axis) == name:
                self.selected = key
        return new.step_text()

    def _owners(self) -> dict[str, tuple[str, str]]:
        return {} if self._now.nest is None else self._now.nest.owners

    def _owner(self, key: str) -> tuple[str, str]:
        """Return (stage, axis) of a loop's bar, by name; raise ScheduleError for other keys."""
        owners = self._owners()
        if key not in owners:
            loop = key.partition(":")[2]
            what = f"loop {loop!r}" if loop else "no loop is selected"
            why = "not a loop of the schedule" if loop else ""
            raise ScheduleError(what, why, "click the bar of a loop")
        return owners[key]

    def _chosen(self) -> tuple[str, tensor.Axis]:
        """Return the name of the stage and the axis of the selected loop."""
        stage, name = self._owner(self.selected)
        return stage, axes_of(self.schedule[stage])[name]

    def _reorder(self, moved: str, to: str, s: te.Schedule) -> tensor.Axis:
        (stage, name), (other_stage, other_loop) = self._owner(moved), self._owner(to)
        if stage != other_stage:
            what = f"reorder {name} of {stage} and {other_loop} of {other_stage}"
            fix = f"compute_at moves a whole stage: s[{stage}].compute_at(s[{other_stage}], ...)"
            raise ScheduleError(what, "loops of different stages cannot change places", fix)
        axes = axes_of(s[stage])
        names = {axis: name for name, axis in axes.items()}
        leaves = [names[axis] for axis in s[stage].leaf_iter_vars]
        s[stage].reorder(*(axes[n] for n in reordered(leaves, name, other_loop)))
        return axes[name]

    def _split(self, s: te.Schedule) -> tensor.Axis:
        stage, axis = self._chosen()
        if not self._factor.isdecimal():
            why = "a factor is a whole number, 1 or more"
            raise ScheduleError(f"split of {axis.name!r} by {self._factor!r}", why, "4")
        return s[stage].split(axis, factor=int(self._factor))[0]

    def _fuse(self, s: te.Schedule) -> tensor.Axis:
        stage, axis = self._chosen()
        leaves = s[stage].leaf_iter_vars
        inner = leaves[next(n for n, a in enumerate(leaves, 1) if a is axis) :]
        if not inner:
            why = f"this is the innermost loop of {stage}"
            raise ScheduleError(f"fuse of {axis.name!r}", why, "select an outer loop")
        return s[stage].fuse(axis, inner[0])

    def _annotate(self, kind: str, s: te.Schedule) -> tensor.Axis:
        stage, axis = self._chosen()
        getattr(s[stage], kind)(axis)
        return axis


def axes_of(stage: te.StageView) -> dict[str, tensor.Axis]:
    """Return the axes of a stage by their names in the schedule."""
    return {name: axis for axis, name in stage.schedule.state.stage(stage.name).names.items()}
