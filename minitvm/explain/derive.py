"""Explain the bounds of a stage's loops, as small trees of claims and reasons.

Lowering records the origin of each bound (lowering.Domain); this module turns it into text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from minitvm import lowering, schedule, tensor, tir
from minitvm.base import ScheduleError


@dataclass(frozen=True, slots=True, repr=False)
class Derivation:
    """A claim and the reasons from which it follows, printed as an indented list."""

    claim: str
    because: tuple[Derivation, ...] = ()

    def lines(self, depth: int = 0) -> Iterator[str]:
        """Yield the claim, indented by 2 * `depth` spaces, then its reasons, two spaces more."""
        yield "  " * depth + self.claim
        for reason in self.because:
            yield from reason.lines(depth + 1)

    def __str__(self) -> str:
        return "\n".join(self.lines())

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return f"```text\n{self}\n```"


@dataclass(frozen=True, slots=True, eq=False)
class PrintedLoops:
    """The loops of a schedule state before the first pass, and their printed names.

    prepacked   the names of the stages that are computed before the calls; their loops come first
    """

    state: schedule.State
    context: lowering.LoweringContext
    body: tir.Stmt
    printer: tir.Printer
    prepacked: frozenset[str]

    def stage(self, name: str) -> schedule.Stage:
        """Return the stage called `name`, with the formulas of inlined stages substituted."""
        return self.context.state.stage(name)

    def domain(self, name: str) -> lowering.Domain:
        """Return the domain of the stage called `name`: the part that its loops compute at once."""
        return self.context.domains[name]

    def show(self, e: tir.Index) -> str:
        """Return `e` as text, with the loop names of the printed program."""
        return self.printer.expr(e)

    def loop(self, stage: schedule.Stage, a: tensor.Axis) -> str:
        """Return the printed name of the loop `a`, or its axis name if it is not printed."""
        var = self.domain(stage.name).loops.get(a)
        return plain(stage.names[a]) if var is None else self.show(var)


@lowering.within_stack
def loops_of(state: schedule.State) -> PrintedLoops:
    """Return the loops of `state`, with all inputs and outputs as arguments."""
    context = lowering.allocate(lowering.normalize(state))
    prepacked, main = lowering.prepack_stages(context)
    body, printer = lowering.nest(context, [*prepacked, *main]), tir.Printer()
    for t, b in context.buffers.items():
        if t in context.not_allocated:
            printer.name(b)
    for _ in printer.lines(body):
        pass
    return PrintedLoops(state, context, body, printer, frozenset(s.name for s in prepacked))


def plain(name: str) -> str:
    """Return an axis name as it is printed: i.outer -> i_outer."""
    return name.replace(".", "_")


# --- steps ----------------------------------------------------------------------------------------


def origin(state: schedule.State, stage: schedule.Stage, r: schedule.Relation) -> str:
    """Return the step that made the relation, in words: "split(i, factor=4), step 3"."""
    names = stage.names
    if isinstance(r, schedule.SplitRelation):
        kind = "nparts" if r.factor is None else "factor"
        what = f"split({plain(names[r.parent])}, {kind}={tir.text(r.size)})"
    else:
        what = f"fuse({plain(names[r.outer])}, {plain(names[r.inner])})"

    def makes(step: schedule.Step) -> bool:
        if isinstance(r, schedule.SplitRelation):
            return isinstance(step, schedule.Split) and step.axis == names[r.parent]
        return isinstance(step, schedule.Fuse) and names[r.inner] in step.axes

    return what + _last_step(state, stage.name, makes)


def _last_step(state: schedule.State, name: str, matches: Callable[[schedule.Step], bool]) -> str:
    """Return the number of the last step of a stage that matches: ", step 4"; "" without one."""
    for n in range(len(state.steps), 0, -1):
        step = state.steps[n - 1]
        if step.stage == name and matches(step):
            return f", step {n}"
    return ""


def made_by(stage: schedule.Stage, a: tensor.Axis) -> schedule.Relation | None:
    """Return the split or fuse that made the axis `a`; None for an axis of the formula."""
    for r in stage.relations:
        if any(a is m for m in schedule.parts(r)):
            return r
    return None


# --- bounds ---------------------------------------------------------------------------------------


def explain_bound(state: schedule.State, name: str, axis: str) -> Derivation:
    """Explain which part of the axis called `axis` the stage `name` computes, and why.

    B.i = [i_outer*4, 6]: elements i_outer*4 .. i_outer*4 + 5 of 12, because C reads B[i], ...
    """
    stage = state.stage(name)
    if not isinstance(stage.op, tensor.ComputeOp):
        raise ScheduleError(f"bounds of {name}", "no formula computes it, so it has no axes")
    if isinstance(stage.attach, schedule.Inline):
        readers = ", ".join(schedule.effective_readers(state)[name])
        return Derivation(
            f"{name}.{plain(axis)}: nothing is stored, {name} is inlined in {readers}"
        )
    loops = loops_of(state)
    return _bound(loops, loops.stage(name), axis_called(loops.stage(name), axis))


def axis_called(stage: schedule.Stage, name: str) -> tensor.Axis:
    """Return the axis of `stage` called `name`; raise ScheduleError if it does not exist."""
    for a, axis_name in stage.names.items():
        if axis_name == name:
            return a
    known = f"one of {', '.join(stage.names.values())}"
    raise ScheduleError(f"axis {name!r} of {stage.name}", "there is no such axis", known)


def _bound(loops: PrintedLoops, stage: schedule.Stage, a: tensor.Axis) -> Derivation:
    relation = made_by(stage, a)
    if relation is not None:
        return _made_bound(loops, stage, a, relation)
    if any(a is s for s in schedule.singletons(stage)):
        return Derivation(
            f"{stage.name}.{plain(stage.names[a])} = [0, 1]: 1 iteration, from fuse()"
        )
    domain = loops.domain(stage.name)
    lo, size = domain.start[a], domain.extents[a]
    claim = (
        f"{stage.name}.{plain(a.name)} = [{loops.show(lo)}, {loops.show(size)}]: "
        f"elements {span(loops, lo, size)} of {loops.show(a.extent)}"
    )
    if a.kind == "reduce":
        return Derivation(claim, (Derivation("because a reduction folds all of its axis"),))
    if stage.is_output:
        why = f"because {stage.name} is an output: all of it is computed"
        return Derivation(claim, (Derivation(why),))
    return Derivation(claim, tuple(_region(loops, stage, a)))


def span(loops: PrintedLoops, lo: tir.Index, size: tir.Index) -> str:
    """Return the first and last of `size` elements as text: (i*4, 4) -> "i*4 .. i*4 + 3"."""
    return f"{loops.show(lo)} .. {loops.show(tir.sub(tir.add(lo, size), 1))}"


def _made_bound(
    loops: PrintedLoops, stage: schedule.Stage, a: tensor.Axis, r: schedule.Relation
) -> Derivation:
    """Derive the extent of an axis that a split or fuse made from the extents of its parents."""
    extents = loops.domain(stage.name).extents
    size = loops.show(extents[a])
    claim = f"{stage.name}.{plain(stage.names[a])} = [0, {size}]: {size} iterations"
    step = origin(loops.state, stage, r)
    if isinstance(r, schedule.FuseRelation):
        parts = loops.show(extents[r.outer]), loops.show(extents[r.inner])
        why = Derivation(f"because {' * '.join(parts)} = {size}, from {step}")
        return Derivation(
            claim, (why, _bound(loops, stage, r.outer), _bound(loops, stage, r.inner))
        )
    whole = loops.show(extents[r.parent])
    if a is (r.outer if r.factor is None else r.inner):  # the part with the given size
        short = "" if size == loops.show(r.size) else f" of {whole}, fewer than {r.size}"
        why = f"because it is the part that {step} gives a size{short}"
    else:
        other_extent = loops.show(extents[r.inner if a is r.outer else r.outer])
        why = f"because {whole} / {other_extent} rounded up is {size}, from {step}"
    return Derivation(claim, (Derivation(why), _bound(loops, stage, r.parent)))


def _region(loops: PrintedLoops, stage: schedule.Stage, a: tensor.Axis) -> Iterator[Derivation]:
    """Yield the reasons why this part of axis `a` is computed, such as what each reader reads."""
    op, domain = stage.op, loops.domain(stage.name)
    assert isinstance(op, tensor.ComputeOp)
    d, required = next(n for n, b in enumerate(op.axis) if b is a), domain.required
    for reader in dict.fromkeys(read.reader for read in required.reads):
        loads = [read for read in required.reads if read.reader == reader]
        yield _reader(loops, stage, loops.stage(reader), loads, d)
    for reader in required.whole_readers:
        yield Derivation(f"because {reader} reads all of it")
    if isinstance(stage.attach, schedule.At):
        at = loops.stage(stage.attach.stage)
        where = f"{loops.loop(at, stage.attach.axis)} of {at.name}"
        # no step attaches a stage inside a scan
        step = _last_step(loops.state, stage.name, lambda s: isinstance(s, schedule.ComputeAt))
        suffix = f" (compute_at{step})" if step else ""
        yield Derivation(f"in each iteration of {where}, where {stage.name} is computed{suffix}")
    scope = loops.context.buffers[tensor.tensor_of(op, 0)].scope
    for v in required.shared:
        yield Derivation(f"for all iterations of {loops.show(v)}: they share the {scope} memory")
    if (touched_region := required.touched[d]) is not None:
        yield from _adjusted(stage, domain, a, touched_region)


def _reader(
    loops: PrintedLoops,
    stage: schedule.Stage,
    reader: schedule.Stage,
    reads: list[lowering.Read],
    d: int,
) -> Derivation:
    """Derive which elements one reader reads along dimension `d`.

    "because C reads B[i], B[i + 2]", with the values of i and the range of each index as reasons.
    """
    domain, fixed = loops.domain(reader.name), loops.domain(stage.name).fixed
    loads = {tir.text(r.load): (r.load.indices[d], r.spans[d]) for r in reversed(reads)}
    loads = dict(reversed(loads.items()))
    axes = {v: None for i, _ in loads.values() for v in tir.variables(i)}
    reasons: list[Derivation] = []
    for a in axes:
        if isinstance(a, tensor.Axis):
            value = domain.values.get(a, a)
            moving_loops = [_variable(loops, stage, v, fixed) for v in tir.variables(value)]
            shown = loops.show(value)
            if shown == plain(a.name) and len(moving_loops) == 1:
                reasons.append(Derivation(f"with {moving_loops[0].claim}"))
            else:
                head = f"with {plain(a.name)} = {shown}" if shown != plain(a.name) else "with"
                reasons.append(Derivation(head, tuple(moving_loops)))
    for text, (i, (lo, hi)) in loads.items():
        data = any(isinstance(n, tir.AsIndex) for n in tir.walk(i))
        why = ": its index comes from data, so it may be any element" if data else ""
        reach = (
            loops.show(lo) if tir.prove_equal(lo, hi) else f"{loops.show(lo)} .. {loops.show(hi)}"
        )
        reasons.append(Derivation(f"{text} is {reach}{why}"))
    return Derivation(f"because {reader.name} reads {', '.join(loads)}", tuple(reasons))


def _variable(
    loops: PrintedLoops, stage: schedule.Stage, v: tir.Var, fixed: set[tir.Var]
) -> Derivation:
    """Describe the range of the variable `v`: "i_inner in 0..3 (loop of split(...), step 3)".

    Variables in `fixed` and symbolic sizes are described as fixed.
    """
    name = loops.show(v)
    if any(v is a for a in fixed):
        return Derivation(f"{name} fixed: {stage.name} is computed inside that loop")
    for s in loops.context.state.stages:
        loop = loops.context.domains.get(s.name)
        for a, var in loop.loops.items() if loop is not None else ():
            if var is v:
                assert loop is not None
                relation = made_by(s, a)
                cause = (
                    f"loop of {s.name if relation is None else origin(loops.state, s, relation)}"
                )
                last = loops.show(tir.sub(loop.extents[a], 1))
                return Derivation(f"{name} in 0..{last} ({cause})")
    return Derivation(f"{name} fixed: a size")


def _adjusted(
    stage: schedule.Stage, domain: lowering.Domain, a: tensor.Axis, touched: lowering.Interval
) -> Iterator[Derivation]:
    """Explain why the computed part of `a` differs from `touched`, the part that is read.

    Yields nothing if the two are equal.
    """
    lo, size = domain.start[a], domain.extents[a]
    if tir.prove_equal(lo, touched[0]) and tir.prove_equal(
        tir.sub(tir.add(lo, size), 1), touched[1]
    ):
        return
    if stage.store is not None and not isinstance(size, int):
        yield Derivation("what earlier iterations computed is kept: only what is new is computed")
    elif tir.prove_equal(lo, 0) and tir.prove_equal(size, a.extent):
        yield Derivation("all of it: the part that is read is not smaller, or not known")
    elif isinstance(touched[0], int) and isinstance(touched[1], int):
        yield Derivation("clipped to the tensor")
    else:
        yield Derivation("as large as the largest iteration needs: its memory has one size")
