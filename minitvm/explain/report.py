"""Report on a schedule, stage by stage: where it is computed, its memory, work and guards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from minitvm import lowering, schedule, tensor, tir
from minitvm.base import ScheduleError, Target

from .derive import PrintedLoops, loops_of, plain, span
from .guards import cause_of
from .hottest import is_small
from .stages import compiled, performance_warnings
from .warning import PerformanceWarning
from .work import UNKNOWN, StoreCounts, number, work_of


@dataclass(frozen=True, slots=True)
class LoopReport:
    """The report on one loop.

    extent: the number of iterations, or a formula as a string if it is symbolic.
    kind: how the loop runs, such as "serial" or "reduce, unroll".
    """

    name: str
    extent: int | str
    kind: str

    def __str__(self) -> str:
        return f"{self.name} ({self.extent}{'' if self.kind == 'serial' else ', ' + self.kind})"


@dataclass(frozen=True, slots=True, repr=False)
class StageReport:
    """The report on one stage.

    place      where the stage is computed, and why
    region     the part computed in one iteration of the loop it is attached to, one string per
               dimension; () for a stage at root
    memory     scope, type and shape of the stage's buffer
    bytes      the size of the buffer; None if it is symbolic
    loops      the stage's loops, outermost first
    work       how many stores the stage executes, and how many distinct elements it stores
    reads      (tensor, loads per store) for each tensor that is read
    terms      how many terms a reduction adds for one output element, otherwise 1
    guards     (condition, cause) of each guard
    warnings   what is likely slow in the stage
    """

    name: str
    place: str
    region: tuple[str, ...] = ()
    memory: str = ""
    bytes: int | None = None
    loops: tuple[LoopReport, ...] = ()
    work: StoreCounts = UNKNOWN
    reads: tuple[tuple[str, int], ...] = ()
    terms: int | str = 1
    guards: tuple[tuple[str, str], ...] = ()
    warnings: tuple[PerformanceWarning, ...] = ()

    @property
    def recompute(self) -> Fraction | None:
        """Return the recompute factor, stores / elements; 1 if nothing is computed twice."""
        return self.work.factor

    @property
    def per_tile(self) -> Fraction | None:
        """Return the recompute factor away from the edges of the tensor, or None if unknown.

        This is the limit of `recompute` for large tensors.
        """
        return self.work.per_tile

    def facts(self) -> Iterator[tuple[str, str]]:
        """Yield (title, text) for each line of the printed report."""
        yield "where", self.place
        for r in self.region:
            yield "region", r
        if self.memory:
            size = "" if self.bytes is None else f", {self.bytes} bytes"
            yield "memory", self.memory + size
            yield "loops", ", ".join(map(str, self.loops)) or "none: one point"
            yield "work", self._work()
            yield "loads", self._loads()
            yield from (("guard", f"{c}, because {why}") for c, why in self.guards)
        for w in self.warnings:
            yield "warning", str(w).replace("\n ", ";")

    def _work(self) -> str:
        """Describe how many stores the stage executes, for how many elements, and the ratio."""
        if self.recompute is None:
            return "not counted: sizes or data decide, or an intrinsic stores"
        text = (
            f"recompute factor {number(self.recompute)}: "
            f"{self.work.stores} stores for {self.work.elements} elements"
        )
        if self.per_tile is not None and self.per_tile != self.recompute:
            text += f"; {number(self.per_tile)} away from the edges"
        return text

    def _loads(self) -> str:
        total = sum(n for _, n in self.reads)
        names = ", ".join(f"{name} {n}" for name, n in self.reads)
        text = f"{total} a store" + (f" ({names})" if names else "")
        return text if self.terms == 1 else f"{text}, for each of {self.terms} terms"

    def __str__(self) -> str:
        return "\n".join([self.name, *(f"  {title:8} {text}" for title, text in self.facts())])

    __repr__ = __str__


@dataclass(frozen=True, slots=True, repr=False)
class Explanation:
    """A report on a whole schedule, one paragraph per stage, producers first.

    small   whether the program has so few operations that no slow loop matters
    """

    stages: tuple[StageReport, ...]
    small: bool = False

    def __getitem__(self, name: str) -> StageReport:
        """Return the report on the stage `name`; raise ScheduleError if it does not exist."""
        for s in self.stages:
            if s.name == name:
                return s
        names = ", ".join(s.name for s in self.stages)
        raise ScheduleError(f"no stage called {name!r}", "", f"one of {names}")

    @property
    def warnings(self) -> tuple[PerformanceWarning, ...]:
        """Return the three most important warnings, the largest estimated factor first.

        For a small program, return only steps without effect.
        """
        warnings = [w for s in self.stages for w in s.warnings if not (self.small and w.factor)]
        return tuple(sorted(warnings, key=lambda w: -w.factor)[:3])

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.stages))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        parts: list[str] = []
        for s in self.stages:
            rows = [f"| {title} | {_cell(text)} |" for title, text in s.facts()]
            parts.append("\n".join([f"**{s.name}**", "", "| | |", "|:--|:--|", *rows]))
        return "\n\n".join(parts)


def _cell(text: str) -> str:
    """Escape the characters of `text` that have a meaning in Markdown tables, such as * and |."""
    for sign in "\\|*_<[]`":
        text = text.replace(sign, "&lt;" if sign == "<" else f"\\{sign}")
    return text


# --- making the report ----------------------------------------------------------------------------


@lowering.within_stack
def explain(state: schedule.State, target: str | Target | None = None) -> Explanation:
    """Return a report on every stage of the schedule `state`.

    The vector length and the number of threads come from `target`. A stage whose attachment is
    pending is reported as if it were at root.
    """
    pending_note = {p.stage: f"pending: {p}; this report shows it at root" for p in state.pending}
    state = schedule.without_pending(state)
    loops = loops_of(state)
    final = compiled(loops)
    warnings = performance_warnings(loops, final, Target(target))
    reports: list[StageReport] = []
    scans = [(s.name, s.op) for s in state.stages if isinstance(s.op, tensor.ScanOp)]
    states = [(t, name) for name, op in scans for t in op.states]
    for s in state.stages:
        if isinstance(s.op, tensor.PlaceholderOp):
            state_of = next((scan for t, scan in states if t.op is s.op), None)
            where = "an input" if state_of is None else f"the rows that {state_of} has so far"
            reports.append(StageReport(s.name, where))
        elif isinstance(s.attach, schedule.Inline):
            readers = ", ".join(schedule.effective_readers(state)[s.name])
            reports.append(StageReport(s.name, f"inlined in {readers}: never stored"))
        else:
            stage = loops.stage(s.name)
            if isinstance(stage.op, tensor.ComputeOp):
                of_stage = tuple(w for w in warnings if w.stage == s.name)
                reports.append(_report(loops, stage, stage.op, of_stage))
            else:
                where = f"{_place(loops, stage)}; {_given(loops, stage)}"
                reports.append(StageReport(s.name, where))
    return Explanation(
        tuple(replace(r, place=pending_note.get(r.name, r.place)) for r in reports), is_small(final)
    )


def _given(loops: PrintedLoops, stage: schedule.Stage) -> str:
    """Describe how an extern operation or a scan, which have no formula, is computed."""
    if isinstance(stage.op, tensor.ExternOp):
        return "its loops are written by hand, not scheduled"
    names = ", ".join(loops.loop(stage, a) for a in stage.leaves)
    return f"its first rows are copied, the others computed in its loop {names}"


def _report(
    loops: PrintedLoops,
    stage: schedule.Stage,
    op: tensor.ComputeOp,
    warnings: tuple[PerformanceWarning, ...],
) -> StageReport:
    buffer = loops.context.buffers[tensor.tensor_of(op, 0)]
    shape = ", ".join(map(loops.show, buffer.shape))
    argument = " (an argument)" if tensor.tensor_of(op, 0) in loops.context.not_allocated else ""
    reads, terms = _reads(op)
    guards = loops.domain(stage.name).guards
    return StageReport(
        stage.name,
        _place(loops, stage),
        _regions(loops, stage, op),
        f"{buffer.scope} {', '.join(map(str, op.dtypes))}[{shape}]{argument}",
        _bytes(op, buffer),
        tuple(_loop_reports(loops, stage)),
        work_of(loops, stage),
        reads,
        loops.show(terms) if isinstance(terms, tir.Expr) else terms,
        tuple((loops.show(g.condition), cause_of(loops, stage, g)) for g in guards),
        warnings,
    )


def _place(loops: PrintedLoops, stage: schedule.Stage) -> str:
    """Describe where the stage is computed, and why this is legal."""
    readers = ", ".join(schedule.effective_readers(loops.context.state)[stage.name])
    if stage.is_output:
        return "at root: an output is stored as a whole"
    if not isinstance(stage.attach, schedule.At) and stage.name in loops.prepacked:
        return f"before the calls, once: it depends on constants alone (read by {readers})"
    if not isinstance(stage.attach, schedule.At):
        return f"at root: as a whole, before its readers ({readers or 'nothing'})"
    target = loops.stage(stage.attach.stage)
    loop = loops.loop(target, stage.attach.axis)
    where = f"in loop {loop} of {target.name}, around all that reads it ({readers})"
    if stage.store is None:
        return where
    host = loops.stage(stage.store.stage)
    return f"{where}; kept throughout loop {loops.loop(host, stage.store.axis)} of {host.name}"


def _regions(loops: PrintedLoops, stage: schedule.Stage, op: tensor.ComputeOp) -> tuple[str, ...]:
    """Describe the region that one iteration of the attach loop needs; () for a stage at root."""
    if not isinstance(stage.attach, schedule.At):
        return ()
    domain = loops.domain(stage.name)
    return tuple(
        f"{plain(a.name)} = {span(loops, domain.start[a], domain.extents[a])}"
        f", {loops.show(domain.extents[a])} of {loops.show(a.extent)}"
        for a in op.axis
    )


def _bytes(op: tensor.ComputeOp, buffer: tir.Buffer) -> int | None:
    """Return the bytes that all outputs occupy, including gaps from strides; None if symbolic."""
    size = tir.elements(buffer)
    return size * sum(d.bytes for d in op.dtypes) if isinstance(size, int) else None


def _loop_reports(loops: PrintedLoops, stage: schedule.Stage) -> Iterator[LoopReport]:
    for a in stage.leaves:
        n = loops.domain(stage.name).extents[a]
        note = stage.note(a)
        kind = note.kind if not note.thread else f"{note.kind} {note.thread}"
        if note.intrin is not None:
            kind = f"tensorize {note.intrin.name}"
        if a.kind == "reduce":
            kind = "reduce" if kind == "serial" else f"reduce, {kind}"
        yield LoopReport(loops.loop(stage, a), n if isinstance(n, int) else loops.show(n), kind)


def _reads(op: tensor.ComputeOp) -> tuple[tuple[tuple[str, int], ...], tir.Index]:
    """Return the loads per store from each tensor, and the number of terms per output element."""
    loads: Counter[str] = Counter()
    terms: tir.Index = 1
    for e in op.body[:1] if op.reduction is not None else op.body:
        for part in e.sources if isinstance(e, tensor.Reduce) else (e,):
            for n in tir.walk(part):
                if isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor):
                    loads[n.buffer.name] += 1
    for a in op.reduce_axis:
        terms = tir.mul(terms, a.extent)
    return tuple(loads.items()), terms
