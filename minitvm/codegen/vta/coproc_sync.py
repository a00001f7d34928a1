"""Synchronise the units of the accelerator with tokens.

The units run concurrently, each with its own instructions in order. A block is a run of
neighbouring statements of one unit. If a block of one unit is followed by a block of another, the
first pushes a token at its end and the second pops the token at its beginning. The last block of a
loop is followed by the first block. Neighbouring blocks are ordered whether or not they share a
buffer.

Source: CoProcInstDepDetector in TVM's coproc_sync.cc; chapter 4.4 of the OSDI'18 paper on TVM.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import lcm
from typing import TypeAlias

from minitvm import lowering, schedule, tir
from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of

from .units import operands

Pair: TypeAlias = tuple[str, str]  # (unit that pushes, unit that pops)
Tokens: TypeAlias = dict[Pair, int]
Build: TypeAlias = Callable[[], tir.Stmt]  # rebuilds the statement with the tokens of its sections
PUSH, POP = "push_dep_to", "pop_dep_from"


@dataclass(slots=True, eq=False)
class Section:
    """A block, or a loop or branch of several blocks, with the tokens before and after it.

    enter, leave   the units with which the section may begin and end
    pops           the tokens that it needs at its beginning, which must be pushed before it
    pushes         the tokens that it leaves over at its end, which must be popped after it
    threads        the number of virtual threads that run it, each with its own tokens

    For example, the loop over k of inject_coproc_sync has enter {ld} and leave {ex}. It pops
    {(ex, ld): 1}, a token that must be pushed before the loop, and pushes {(ex, ld): 1}, a token
    that must be popped after the loop.
    """

    stmt: tir.Stmt
    enter: frozenset[str]
    leave: frozenset[str]
    pops: Tokens = field(default_factory=dict[Pair, int])
    pushes: Tokens = field(default_factory=dict[Pair, int])
    threads: int = 1
    before: list[tir.Stmt] = field(default_factory=list[tir.Stmt])
    after: list[tir.Stmt] = field(default_factory=list[tir.Stmt])

    def whole(self) -> tir.Stmt:
        """Return the statement with the tokens before and after it."""
        return tir.seq(*self.before, self.stmt, *self.after)


def inject_coproc_sync(s: tir.Stmt) -> tir.Stmt:
    """Insert the tokens that order blocks of different units.

                                                ex.push_dep_to(ld)
        for k in range(128):                    for k in range(128):
          ld.dma_copy2d(AL, A[k])        ->       ld.pop_dep_from(ex)
          ex.accumulate(AL, CL)                   ld.dma_copy2d(AL, A[k])
                                                  ld.push_dep_to(ex)
                                                  ex.pop_dep_from(ld)
                                                  ex.accumulate(AL, CL)
                                                  ex.push_dep_to(ld)
                                                ld.pop_dep_from(ex)

    Runs before `inject_virtual_thread`: the tokens inserted here are for one thread, and that
    pass copies them. Raises LoweringError if a load would have to wait for a store, because
    there is no queue between those units.
    """
    sections, build = _sections(s)
    _close(sections)
    return build()


def _close(sections: list[Section]) -> None:
    """Push the tokens that the first section needs; pop the tokens that the last section leaves."""
    if sections:
        first, last = sections[0], sections[-1]
        first.before[:0] = [_push(p) for p, n in first.pops.items() for _ in range(n)]
        last.after += [_pop(p) for p, n in last.pushes.items() for _ in range(n)]


def _sections(s: tir.Stmt) -> tuple[list[Section], Build]:
    """Return the sections of `s`, with tokens between them, and a function that rebuilds `s`.

    A loop over virtual threads is not a section: its inner sections, for one thread, may be ordered
    directly with sections outside. Call the function after all tokens are inserted.
    """
    if name := lowering.unit(s):
        return _alone(_block(name, (s,)))
    match s:
        case tir.Seq(parts):
            return _sequence(parts)
        case tir.Allocate(buffer, body):
            sections, build = _sections(body)
            return sections, lambda: tir.Allocate(buffer, build())
        case tir.For(var, extent, body, kind, thread) if kind == "bind" and schedule.is_virtual(
            thread
        ):
            sections, build = _sections(body)
            for section in sections:
                section.threads *= extent if isinstance(extent, int) else 1
            return sections, lambda: tir.For(var, extent, build(), kind, thread)
        case tir.For():
            return _loop(s)
        case tir.If():
            return _branches(s)
        case _:
            return [], lambda: s


def _alone(section: Section) -> tuple[list[Section], Build]:
    return [section], section.whole


def _block(name: str, parts: tuple[tir.Stmt, ...]) -> Section:
    names = frozenset((name,))
    return Section(tir.seq(*parts), names, names)


def _sequence(parts: tuple[tir.Stmt, ...]) -> tuple[list[Section], Build]:
    """Return the sections of `parts`; each one waits for the section before it."""
    merged: list[Section] = []
    builds: list[Build] = []
    for name, stmts in lowering.blocks(parts):
        sections, build = _alone(_block(name, stmts)) if name else _sections(stmts[0])
        if merged and sections:
            _order(merged[-1], sections[0])
        merged += sections
        builds.append(build)
    return merged, lambda: tir.seq(*(build() for build in builds))


def _loop(s: tir.For) -> tuple[list[Section], Build]:
    """Return a loop as one section, whose iterations wait for the iterations before them."""
    inner, build = _sections(s.body)
    if not inner:
        return [], lambda: s
    pushes, pops = _order(inner[-1], inner[0])
    loop = tir.For(s.var, s.extent, build(), s.kind, s.thread)
    return _alone(Section(loop, inner[0].enter, inner[-1].leave, pops=pops, pushes=pushes))


def _branches(s: tir.If) -> tuple[list[Section], Build]:
    """Return an `if` as one section; each branch pushes and pops all of its own tokens."""
    branches = [_sections(part) for part in (s.body, s.orelse) if part is not None]
    full = [sections for sections, _ in branches if sections]
    if not full:
        return [], lambda: s
    for sections in full:
        _close(sections)
    body, *others = [build() for _, build in branches]
    branch = tir.If(s.cond, body, others[0] if others else None, s.likely)
    enter = frozenset[str]().union(*(sections[0].enter for sections in full))
    leave = frozenset[str]().union(*(sections[-1].leave for sections in full))
    return _alone(Section(branch, enter, leave))


def _order(before: Section, after: Section) -> tuple[Tokens, Tokens]:
    """Make `after` wait for `before`; return the tokens that all threads push, and that they pop.

    Tokens that a loop leaves over are popped after it; those that it needs are pushed before it. If
    the numbers of threads differ, the section with fewer threads pushes or pops several tokens:

        ld.work()                               ld.work()
        for t in bind(2, "cthread"):            ld.push_dep_to(ex)       two, for two threads
          ex.work()                      ->     ld.push_dep_to(ex)
          st.work()                             for t in bind(2, "cthread"):
                                                  ex.pop_dep_from(ld)    one in each
                                                  ex.work()
                                                  ...

    In total 2 tokens (ld, ex) are passed: `before` pushes 2, each thread of `after` pops 1.
    """
    pairs = [(f, t) for f in sorted(before.leave) for t in sorted(after.enter) if f != t]
    pushes, pops = dict(before.pushes), dict(after.pops)  # of one thread
    for pair in pairs:
        if set(pair) == {lowering.LOAD, lowering.STORE}:
            raise _no_queue(before, after)
        total = lcm(pushes.get(pair, 1) * before.threads, pops.get(pair, 1) * after.threads)
        pushed, popped = total // before.threads, total // after.threads
        before.after += [_push(pair)] * (pushed - pushes.get(pair, 0))
        after.before += [_pop(pair)] * (popped - pops.get(pair, 0))
        pushes[pair], pops[pair] = pushed, popped
    extra_pushes = [p for p, n in pushes.items() if p not in pops for _ in range(n)]
    missing = [p for p, n in pops.items() if p not in pushes for _ in range(n)]
    before.after += map(_pop, extra_pushes)
    after.before += map(_push, missing)
    return (
        {p: n * before.threads for p, n in pushes.items() if p in pops},
        {p: n * after.threads for p, n in pops.items() if p in pushes},
    )


def _push(pair: Pair) -> tir.Stmt:
    return _token(pair[0], PUSH, pair[1])


def _pop(pair: Pair) -> tir.Stmt:
    return _token(pair[1], POP, pair[0])


def _token(who: str, what: str, other: str) -> tir.Stmt:
    """Return a token instruction, such as ex.push_dep_to(ld) or ld.pop_dep_from(ex)."""
    int32 = dtype_of("int32")
    return tir.Evaluate(tir.Call(f"{who}.{what}", (tir.Call(other, (), int32),), int32))


def _no_queue(before: Section, after: Section) -> LoweringError:
    shown = [tir.text(section.stmt).splitlines() for section in (before, after)]
    return LoweringError(
        f"{shown[0][-1].strip()} and then {shown[1][0].strip()}",
        "the load unit runs one and the store unit the other, and no queue of tokens connects "
        "these two, so the second could run before the first",
        f"{_beside(before.stmt)}: this puts the compute unit between them",
    )


def _beside(s: tir.Stmt) -> str:
    """Return the advice to put the pragma coproc_sync on the loop of the last transfer in `s`."""
    names = [views[0].buffer.name for n in tir.every(s) if (views := operands(n))]
    if not names:
        return "pragma(axis, 'coproc_sync') on the loop of the first"
    pragma = f"s[{names[-1]}].pragma(axis, 'coproc_sync')"
    return f"{pragma} on the axis that has its 'dma_copy', and not further inside"
