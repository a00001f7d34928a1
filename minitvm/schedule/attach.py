"""Check where stages are attached: every reader must run inside the loop a stage is computed in.

Steps may come in any order, so a producer may be moved into a loop before its readers are. Until
the readers are moved too, the producer's attachment is pending: `State.pending` lists it, and
lowering refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple, NoReturn

from minitvm import tensor, tir
from minitvm.base import LoweringError, ScheduleError, users_line

from .scans import inside_scans, update_of, within_scans
from .state import At, AtRoot, Inline, Pending, Stage, State, readers


class Position(NamedTuple):
    """A loop, given by its stage and its depth: 0 for the stage's outermost loop."""

    stage: str
    depth: int


def path(state: State, name: str) -> list[Position]:
    """Return the loops at which the stage `name` and its enclosing stages are attached.

    There is one loop per enclosing stage, outermost first. Raises ScheduleError if the attachments
    form a cycle.
    """
    loops: list[Position] = []
    stage = state.stage(name)
    visited = {name}
    while isinstance(stage.attach, At):
        target = state.stage(stage.attach.stage)
        if target.name in visited:
            why = f"{stage.name} and {target.name} would each be computed inside the other"
            fix = "attach the producer inside the consumer, not the other way round"
            raise ScheduleError(f"compute_at of {name}", why, fix)
        visited.add(target.name)
        loops.append(Position(target.name, position(target, stage.attach.axis)))
        stage = target
    loops.reverse()
    return loops


def position(stage: Stage, axis: tensor.Axis) -> int:
    """Return the depth of the loop `axis` in `stage`; raise ScheduleError if `stage` lacks it."""
    for d, a in enumerate(stage.leaves):
        if a is axis:
            return d
    why = "another stage is computed inside it, so this loop must stay"
    raise ScheduleError(f"loop {axis.name!r} of {stage.name}", why, "compute_root that stage first")


def effective_readers(state: State) -> dict[str, list[str]]:
    """Return the readers of each stage, with inlined readers replaced by their own readers."""
    direct = readers(state)
    inlined = {s.name for s in state.stages if isinstance(s.attach, Inline)}
    if not inlined:
        return direct

    readers_of: dict[str, list[str]] = {}
    for name in reversed(direct):  # readers first
        groups = (readers_of[r] if r in inlined else [r] for r in direct[name])
        readers_of[name] = list(dict.fromkeys(n for names in groups for n in names))
    return {name: readers_of[name] for name in direct}


def check_attach(state: State, host: str = "") -> tuple[Pending, ...]:
    """Return the pending attachments to loops of the stage `host`, or to all loops if host is "".

    An attachment is legal if all readers run inside the loop. It is pending if readers outside can
    still be moved into the loop, all of them. Raises ScheduleError for any other attachment.
    """
    attached = [(s, s.attach) for s in state.stages if isinstance(s.attach, At)]
    attached = [(s, at) for s, at in attached if at.stage == host or not host]
    if not attached:
        return ()
    readers_of, inner = effective_readers(state), inside_scans(state)
    pending: list[Pending] = []
    for s, at in attached:
        target = state.stage(at.stage)
        if isinstance(target.attach, Inline):
            why = f"{target.name} is inlined, it has no loops"
            raise ScheduleError(f"compute_at of {s.name}", why)
        missing = _missing(state, s, readers_of, inner)
        if missing:
            pending.append(Pending(s.name, at.stage, target.names[at.axis], missing))
        if not _in_time(state, s.name, inner):
            raise ScheduleError(
                f"compute_at of {s.name} at {at.stage}, loop {at.axis.name!r}",
                "it depends on the previous row, so it must be computed in each step of "
                f"{inner[s.name]}",
                f"one of {', '.join(legal_places(state, s.name))}",
            )
    return tuple(pending)


def _missing(
    state: State, s: Stage, who: dict[str, list[str]], inner: dict[str, str]
) -> tuple[str, ...]:
    """Return the stages to move so that every reader of `s` runs inside the loop that contains `s`.

    Raises ScheduleError if such a stage, or a reader of it, cannot be moved into that loop.
    """
    loop = path(state, s.name)[-1]

    def movers(name: str) -> list[str]:
        outside = [r for r in who[name] if not _inside(state, name, r, loop)]
        mover_of = {r: _mover(state, r, loop.stage, inner) for r in outside}
        stuck = next((r for r, m in mover_of.items() if not m), None)
        if stuck is not None:
            _refuse(state, s, name, stuck, who)
        return list(dict.fromkeys(mover_of.values()))

    first = movers(s.name)
    to_move = list(first)
    for name in to_move:  # grows: the readers of a moved stage must run there, too
        to_move += [m for m in movers(name) if m not in to_move]
    return tuple(first)


def _mover(state: State, reader: str, target: str, inner: dict[str, str]) -> str:
    """Return the stage that could be moved to bring `reader` into a loop of `target`, or "".

    This is the reader itself, or an enclosing stage that no step has moved yet: one that is at root
    or, inside a scan, in the loop over time.
    """
    stage, scan = state.stage(reader), inner.get(target)
    while stage.name != target and isinstance(stage.attach, At):
        if stage.name in inner and stage.attach.stage == scan:
            break
        stage = state.stage(stage.attach.stage)
    fixed = stage.name == target or stage.is_output or update_of(state, stage)
    return "" if fixed else stage.name


def refuse_pending(state: State) -> None:
    """Raise LoweringError if an attachment is still pending."""
    for p in state.pending:
        at = state.stage(p.stage).attach
        assert isinstance(at, At)
        first = p.waits_for[0]
        error = LoweringError(
            f"compute_at of {p.stage} at {p.target}, loop {p.axis!r}",
            f"it waits for {', '.join(p.waits_for)}, computed outside that loop",
            f"compute_at of {first} at {p.target}.{p.axis}, or compute_inline of {first}",
        )
        if at.line:
            error.add_note(f"{p.stage} was placed {at.line}")
        raise error


def without_pending(state: State) -> State:
    """Return the state after moving every stage with a pending compute_at to root."""
    while state.pending:
        waiting = {p.stage for p in state.pending}
        root = {"attach": AtRoot(), "store": None, "double_buffer": False}
        stages = [s.change(**root) if s.name in waiting else s for s in state.stages]
        state = within_scans(state.with_stages(stages))
        state = replace(state, pending=check_attach(state))
    return state


def _inside(state: State, name: str, reader: str, loop: Position) -> bool:
    """Return whether `reader` reads the stage `name` inside `loop`.

    The initial value of a reduction is read outside its first reduce loop.
    """
    stage = state.stage(reader)
    depth = len(stage.leaves)
    if isinstance(stage.op, tensor.ScanOp):  # it reads its first rows before its loop over time
        depth = -1 if any(state.owner(t).name == name for t in stage.op.inits) else depth - 1
    reduction = stage.op.reduction if isinstance(stage.op, tensor.ComputeOp) else None
    if reduction is not None and name in _sources(state, reduction.init):
        depth = next(d for d, a in enumerate(stage.leaves) if a.kind == "reduce") - 1
    positions = [*path(state, reader), Position(reader, depth)]
    return any(p.stage == loop.stage and p.depth >= loop.depth for p in positions)


def _in_time(state: State, name: str, inner: dict[str, str]) -> bool:
    """Return False if the stage `name` is inside a scan but not computed in every time step.

    `inner` maps the stages inside scans to their scans.
    """
    if name not in inner:
        return True
    last = len(state.stage(inner[name]).leaves) - 1
    return any(p.stage == inner[name] and p.depth == last for p in path(state, name))


def _sources(state: State, exprs: Iterable[tir.Expr]) -> set[str]:
    """Return the names of the stages that `exprs` read, directly or through inlined stages."""
    names: set[str] = set()
    for e in exprs:
        for n in tir.walk(e):
            if isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor):
                stage = state.owner(n.buffer)
                names.add(stage.name)
                if isinstance(stage.attach, Inline) and isinstance(stage.op, tensor.ComputeOp):
                    names |= _sources(state, tensor.parts(stage.op))
    return names


def _refuse(state: State, s: Stage, name: str, reader: str, who: dict[str, list[str]]) -> NoReturn:
    """Raise ScheduleError: `reader` reads `name` outside the loop in which `s` is computed.

    `name` is `s`, or a stage that would have to move into the loop with it. `who` maps each stage
    to its readers.
    """
    legal = legal_places(state, s.name)
    assert isinstance(s.attach, At)
    why = f"{reader} reads {name} outside that loop (readers: {', '.join(who[name])})"
    error = ScheduleError(
        f"compute_at of {s.name} at {s.attach.stage}, loop {s.attach.axis.name!r}",
        why if name == s.name else f"{name}, which needs it, cannot move there: {why}",
        f"one of {', '.join(legal)}" if legal else "compute_root, or attach the readers first",
    )
    if s.attach.line not in ("", users_line()):
        error.add_note(f"{s.name} was placed {s.attach.line}")
    error.add_note(reader_tree(state, s.name, set(legal)))
    raise error


def reader_tree(state: State, name: str, legal: set[str]) -> str:
    """Return the program's loops as text; mark the `legal` loops, where `name` can be computed.

    for C.i.outer:      <- B can be computed here
      for C.i.inner:    <- B can be computed here
        C reads B
    """
    reader_names = effective_readers(state)[name]

    def lines(stage: Stage, depth: int) -> list[str]:
        nest: list[str] = []
        names = stage.names
        for a in stage.leaves:
            loop = f"{stage.name}.{names[a]}"
            mark = f"    <- {name} can be computed here" if loop in legal else ""
            nest.append(f"{'  ' * depth}for {loop}:{mark}")
            depth += 1
            for s in state.stages:
                if isinstance(s.attach, At) and s.attach.axis is a and s.name != name:
                    nest += lines(s, depth)
        if stage.name in reader_names:
            nest.append(f"{'  ' * depth}{stage.name} reads {name}")
        return nest

    roots = [s for s in state.stages if isinstance(s.attach, AtRoot) and s.name != name]
    return "\n".join([f"where {name} is read:", *(line for s in roots for line in lines(s, 1))])


def legal_places(state: State, name: str) -> list[str]:
    """Return the loops, as "stage.axis", at which the stage `name` could be computed."""
    return [f"{target}.{loop}" for target, loop in legal_loops(state, name)]


def legal_loops(state: State, name: str) -> list[tuple[str, str]]:
    """Return the (stage, loop) pairs at which the stage `name` could be computed."""
    legal: list[tuple[str, str]] = []
    reader_names, inner = effective_readers(state)[name], inside_scans(state)
    for target in state.stages if reader_names else ():
        if target.name == name or isinstance(target.attach, Inline):
            continue
        names = target.names
        for a in target.leaves:
            trial_state = state.with_stage(state.stage(name).change(attach=At(target.name, a)))
            try:
                loop = path(trial_state, name)[-1]
                if _in_time(trial_state, name, inner) and all(
                    _inside(trial_state, name, r, loop) for r in reader_names
                ):
                    legal.append((target.name, names[a]))
            except ScheduleError:
                continue
    return legal
