"""Whether two accesses of a kernel need a barrier between them, decided by enumeration.

Two accesses of one buffer conflict if different threads of a block touch the same element, and one
of them writes. All elements that the threads touch are computed, with the guards around the
accesses: threads beyond the edge of a ragged tile would otherwise seem to touch their neighbours'
elements. The terms that a block adds to both offsets are left out at first; blocks are enumerated,
too, where that does not decide. Where there are too many elements, or data decide, a conflict is
assumed, unless both offsets are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from minitvm import lowering, schedule, simt, tir

from .kernels import most_iterations

Numbers: TypeAlias = npt.NDArray[np.int64]
MAX_POINTS = 1 << 20  # accesses of single elements that are compared
MAX_NUMBER = 1 << 62  # fits in an int64


@dataclass(frozen=True, slots=True, eq=False)
class Access:
    """One load or store of memory that threads share.

    loops   the loops of the kernel around it that each thread runs, outermost first
    guards  the conditions around it, and `variables` those of the offset and of these
    """

    buffer: tir.Buffer
    offset: tir.Index
    writes: bool
    text: str
    loops: tuple[tir.For, ...]
    guards: tuple[tir.Expr, ...]
    variables: frozenset[tir.Var] = frozenset()


@dataclass(frozen=True, slots=True)
class Later:
    """The second access runs in a later iteration of `loop` than the first.

    next_only   in the next iteration: a barrier lies between all others
    """

    loop: tir.For
    next_only: bool


class Threads:
    """The threads of a block of one kernel, and the values of its variables in each.

    where   variable of a loop over threads -> its value in each thread
    blocks  variable of a loop over blocks -> the loop
    alike   the variable of any such loop -> that of the first loop over the same hardware index

    Virtual threads make many accesses; what was computed for each is kept.
    """

    def __init__(self, kernel: tir.Stmt) -> None:
        launch = simt.launch_of(kernel, dict.fromkeys(tir.variables(kernel), 1))
        self.batch = simt.Batch(launch, 0, 1)
        self.where: dict[tir.Var, Numbers] = {}
        self.blocks: dict[tir.Var, tir.For] = {}
        self._parts: dict[Access, tuple[tir.Index, dict[int, int]] | None] = {}
        self._known: dict[tuple[Access, tir.Index, tuple[tir.For, ...]], _Points | None] = {}
        first: dict[str, tir.Var] = {}
        self.alike: dict[tir.Var, tir.Var] = {}
        for s in tir.every(kernel):
            if isinstance(s, tir.For) and s.thread in (*schedule.BLOCKS, *schedule.THREADS):
                self.alike[s.var] = first.setdefault(s.thread, s.var)
            if isinstance(s, tir.For) and s.thread in schedule.THREADS:
                self.where[s.var] = self.batch.index[s.thread]
            elif isinstance(s, tir.For) and s.thread in schedule.BLOCKS:
                self.blocks[s.var] = s

    def conflict(
        self, x: Access, y: Access, around: Sequence[tir.For], later: Later | None
    ) -> bool:
        """Return whether an element is touched by `x` in one thread and by `y` in another one.

        x runs before y. around: the loops around both, in the same iteration except for `later`.
        """
        if x.buffer is not y.buffer or not (x.writes or y.writes):
            return False
        used = x.variables | y.variables
        common = tuple(s for s in around if s.var in used)
        if later is not None and later.loop.var not in used:
            later = None  # the access is the same in all iterations
        x_alone, y_alone = self._without_blocks(x), self._without_blocks(y)
        assumed = not tir.prove_equal(x.offset, y.offset)
        if x_alone is not None and y_alone is not None and x_alone[1] == y_alone[1]:
            a, b = self._points(x, x_alone[0], common), self._points(y, y_alone[0], common)
            assumed = a is None or b is None or _meet(a, b, common, later)
            if not assumed:
                return False
        common = (*(s for v, s in self.blocks.items() if v in used), *common)  # in one block
        a, b = self._points(x, x.offset, common), self._points(y, y.offset, common)
        return assumed if a is None or b is None else _meet(a, b, common, later)

    def _without_blocks(self, access: Access) -> tuple[tir.Index, dict[int, int]] | None:
        """Split an offset into (rest, the terms of blocks); None if a term mixes both."""
        if access in self._parts:
            return self._parts[access]
        of_blocks, others = dict[int, int](), list[tuple[tir.Atom, int]]()
        terms, const = tir.split_terms(access.offset)
        for atom, c in terms:
            variables = set(tir.variables(atom))
            if variables.isdisjoint(self.blocks):
                others.append((atom, c))
            elif variables <= self.blocks.keys():
                of_blocks[id(atom)] = c
            else:
                self._parts[access] = None
                return None
        self._parts[access] = tir.linear(others, const), of_blocks
        return self._parts[access]

    def _points(
        self, access: Access, offset: tir.Index, common: tuple[tir.For, ...]
    ) -> _Points | None:
        """Return each element that an access touches, with the thread and the iteration.

        offset   the offset of the access, or its part without blocks
        """
        key = access, offset, common
        if key not in self._known:
            self._known[key] = self._enumerated(access, offset, common)
        return self._known[key]

    def _enumerated(
        self, access: Access, offset: tir.Index, common: tuple[tir.For, ...]
    ) -> _Points | None:
        used = {v for e in (offset, *access.guards) for v in tir.variables(e)}
        inner = [s for s in access.loops if s.var in used and s not in common]
        loops = [*common, *inner]
        sizes = [most_iterations(s) for s in loops]
        threads = len(self.batch.lane)
        if any(n is None for n in sizes):
            return None
        shape = (*(n for n in sizes if n is not None), threads)
        if np.prod(shape, dtype=float) > MAX_POINTS:
            return None
        values: dict[tir.Var, Any] = {}
        for d, s in enumerate(loops):
            values[s.var] = np.arange(shape[d]).reshape(-1, *[1] * (len(shape) - d - 1))
        values |= self.where
        if not tir.is_decided_by(values, offset):
            return None
        mask = np.ones(shape, np.bool_)
        for guard in access.guards:
            for condition in lowering.conjuncts(guard):
                if tir.is_decided_by(values, condition):
                    mask &= tir.index_value(condition, values)
        element = np.broadcast_to(tir.index_value(offset, values), shape)
        if access.buffer.scope == "warp":  # each warp has a copy of its own
            element = element * self.batch.launch.warps + self.batch.slot // schedule.WARP
        indices = np.nonzero(mask)
        thread = np.asarray(indices[-1])
        iteration = np.array(indices[: len(common)], np.int64).reshape(len(common), len(thread))
        return _Points(element[mask], thread, iteration)


@dataclass(frozen=True, slots=True)
class _Points:
    """Accesses of single elements: the element, the thread, and the iteration of each loop."""

    element: Numbers
    thread: Numbers
    iteration: Numbers  # [loops, points]


def _meet(x: _Points, y: _Points, common: Sequence[tir.For], later: Later | None) -> bool:
    """Return whether a point of `x` and a point of `y`, in different threads, share an element."""
    if not len(x.element) or not len(y.element):
        return False
    keys = [(p.element, p.iteration.copy()) for p in (x, y)]
    moments = [np.zeros(len(p.element), np.int64) for p in (x, y)]
    if later is not None:
        row = next(n for n, s in enumerate(common) if s.var is later.loop.var)
        moments = [p.iteration[row] for p in (x, y)]
        if later.next_only:
            keys[0][1][row] += 1  # the iteration that follows is the one of y
        else:
            for _, iteration in keys:
                iteration[row] = 0
    ordered = later is not None and not later.next_only
    numbers = _numbered([np.vstack([element, iteration]) for element, iteration in keys])
    return _different_threads(
        (numbers[0], moments[0], x.thread), (numbers[1], moments[1], y.thread), ordered
    )


def _numbered(keys: Sequence[Numbers]) -> list[Numbers]:
    """Give equal columns of some arrays equal numbers."""
    all_keys = np.concatenate(keys, axis=1)
    numbers, count = np.zeros(all_keys.shape[1], np.int64), 1
    for row in all_keys:
        digits = row - row.min()
        base = int(digits.max()) + 1
        if count * base > MAX_NUMBER:  # renumber both from 0, without gaps
            numbers, digits = (np.unique(a, return_inverse=True)[1] for a in (numbers, digits))
            base, count = int(digits.max()) + 1, int(numbers.max()) + 1
        numbers, count = numbers * base + digits, count * base
    return list(np.split(numbers, [keys[0].shape[1]]))


def _different_threads(
    x: tuple[Numbers, Numbers, Numbers], y: tuple[Numbers, Numbers, Numbers], ordered: bool
) -> bool:
    """Return whether some (number, moment, thread) of x and y agree in the number only.

    ordered   the moment of x must also be before that of y
    Of each number, the earliest access in `x` and the earliest by another thread suffice.
    """
    number, moment, thread = x
    order = np.lexsort((moment, number))
    number, moment, thread = number[order], moment[order], thread[order]
    known, first, group = np.unique(number, return_index=True, return_inverse=True)
    differs = thread != thread[first][group]
    positions = np.where(differs, np.arange(len(number)), len(number))
    second = np.minimum.reduceat(positions, first)
    for n, m, t in _earliest(first, second, moment, thread):
        index = np.minimum(np.searchsorted(known, y[0]), len(known) - 1)
        meets = (known[index] == y[0]) & n[index] & (t[index] != y[2])
        if ordered:
            meets &= m[index] < y[1]
        if meets.any():
            return True
    return False


def _earliest(
    first: Numbers, second: Numbers, moment: Numbers, thread: Numbers
) -> Iterator[tuple[npt.NDArray[np.bool_], Numbers, Numbers]]:
    """Yield (whether there is one, its moment, its thread) for both of the earliest accesses."""
    for position in (first, second):
        exists = position < len(moment)
        index = np.where(exists, position, 0)
        yield exists, moment[index], thread[index]
