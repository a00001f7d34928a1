"""A pass that lets the threads of a block combine their parts of a reduction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from minitvm import lowering, schedule, simt, tir
from minitvm.base import INT32, LoweringError

from .kernels import is_power, map_kernels

Values = tuple[tir.Expr, ...]


def lower_allreduce(body: tir.Stmt) -> tir.Stmt:
    """Lower reductions over threads: each thread reduces its part, then they combine the parts.

        # pragma cross_thread = sum over            P = allocate((1,), "float32", "local")
        #                       threadIdx.x         P[0] = 0
        C[i] = 0                                    for ko in range(4):
        for ko in range(4):                   ->      for tx in bind(32, "threadIdx.x"):
          for tx in bind(32, "threadIdx.x"):            P[0] = P[0] + A[i*128 + ko*32 + tx]
            C[i] = C[i] + A[i*128 + ko*32           P[0] = P[0] + shfl_xor(P[0], 16)
                            + tx]                   ... 8, 4, 2, 1
                                                    if tx == 0: C[i] = P[0]

    A power of two of threads along threadIdx.x, up to a warp, combine by shuffles. Others combine
    in shared memory: half of the threads take the parts of the other half, and so on.

    A condition around such a reduction moves to its statements, since all threads must take part in
    a shuffle or a barrier.
    """
    return map_kernels(body, lambda kernel: _Lowering(kernel).visit(kernel, ()))


@dataclass(frozen=True, slots=True)
class _Group:
    """The threads that combine one result.

    tags    their hardware indices, and `sizes` the number of threads along each
    rank    the position of a thread in its group, 0 .. size - 1
    base    where its group's first thread is in an array with one element a thread, and step the
            distance from there to the next one; neighbours along threadIdx.x are adjacent
    """

    tags: tuple[str, ...]
    size: int
    rank: tir.Index
    base: tir.Index
    step: int
    threads: int


class _Lowering:
    """Lowers the reductions of one kernel; `indices` has a variable for each hardware index."""

    def __init__(self, kernel: tir.Stmt) -> None:
        self.launch = simt.launch_of(kernel, dict.fromkeys(tir.variables(kernel), 1))
        self.indices = {
            tag: tir.Var(tag.replace("threadIdx.", "t"), 0, self.launch.extent(tag) - 1)
            for tag in schedule.THREADS
            if self.launch.extent(tag) > 1
        }

    def visit(self, s: tir.Stmt, guards: tuple[tir.Expr, ...]) -> tir.Stmt:
        if not any(map(_is_marked, tir.every(s))):
            return _guarded(guards, s)
        match s:
            case tir.Pragma(lowering.CROSS_THREAD, lowering.CrossThread() as mark, pair):
                return self.combined(mark, pair, guards)
            case tir.If(cond, body, None):
                return self.visit(body, (*guards, cond))
            case tir.For(var, extent, body, kind, thread):
                return tir.For(var, extent, self.visit(body, guards), kind, thread)
            case tir.Seq(parts):
                return tir.seq(*(self.visit(part, guards) for part in parts))
            case tir.Allocate(buffer, body):
                return tir.Allocate(buffer, self.visit(body, guards))
            case tir.Pragma(key, value, body):
                return tir.Pragma(key, value, self.visit(body, guards))
            case _:
                why = "threads for which it is false would not take part"
                fix = "compute_at a loop outside the condition"
                raise LoweringError(f"reduction over threads inside `{tir.text(s)}`", why, fix)

    def combined(
        self, mark: lowering.CrossThread, pair: tir.Stmt, guards: tuple[tir.Expr, ...]
    ) -> tir.Stmt:
        """Return the statements that compute one reduction; `pair` is its init and its update."""
        results, update, edge = _split(pair, mark.results)
        dtypes = tuple(s.buffer.dtype for s in results)
        parts = [
            tir.Buffer(f"{s.buffer.name}.part", (1,), s.buffer.dtype, "local") for s in results
        ]
        part_of = {s.buffer: (part, (0,)) for s, part in zip(results, parts, strict=True)}
        accumulate = lowering.redirect(update, lambda b, _: part_of.get(b))
        mine: Values = tuple(tir.Load(p, (0,), p.dtype) for p in parts)
        group = self.group(mark.threads)
        stmts: list[tir.Stmt] = [
            *(
                tir.Store(p, (0,), e)
                for p, e in zip(parts, mark.reducer.identity(dtypes), strict=True)
            ),
            _guarded(guards, accumulate),
        ]
        if group.tags == ("threadIdx.x",) and group.size <= schedule.WARP and is_power(group.size):
            stmts += _by_shuffles(mark, parts, mine, group.size)
            whole, copies = mine, list[tir.Buffer]()
        else:
            copies, more, whole = _in_shared_memory(mark, parts, mine, group)
            stmts += more
        if mark.starts:
            whole = mark.reducer.combine(tuple(s.value for s in results), whole)
        private = all(schedule.scope_kind(s.buffer.scope) == "local" for s in results)
        first = () if private else (tir.compare("==", group.rank, 0),)
        stores = [tir.Store(s.buffer, s.indices, e) for s, e in zip(results, whole, strict=True)]
        stmts.append(_guarded((*first, *guards, *edge), tir.seq(*stores)))
        body = tir.seq(*stmts)
        for buffer in (*parts, *copies):
            body = tir.Allocate(buffer, body)
        for tag, var in self.indices.items():
            body = tir.For(var, self.launch.extent(tag), body, "bind", tag)
        return body

    def group(self, tags: tuple[str, ...]) -> _Group:
        """Return the group of threads that differ in the hardware indices `tags` only."""
        ordered = [tag for tag in schedule.THREADS if tag in tags]
        size, rank = self._count_and_number(ordered)
        others = [tag for tag in schedule.THREADS if tag not in tags]
        count, group = self._count_and_number(others)
        along_x = schedule.THREADS[0] in tags
        base, step = (tir.mul(group, size), 1) if along_x else (group, count)
        return _Group(tuple(ordered), size, rank, base, step, size * count)

    def _count_and_number(self, tags: Sequence[str]) -> tuple[int, tir.Index]:
        """Return how many threads there are along `tags`, and the number of a thread among them."""
        size, number = 1, tir.index(0)
        for tag in (tag for tag in tags if tag in self.indices):
            number = tir.add(number, tir.mul(self.indices[tag], size))
            size *= self.launch.extent(tag)
        return size, number


def _split(pair: tir.Stmt, count: int) -> tuple[list[tir.Store], tir.Stmt, tuple[tir.Expr, ...]]:
    """Split a reduction with `count` results into (stores of the init, update, guards of the init).

    The guards keep the init, and so the result, inside a tensor whose size the threads do not
    divide. The update has guards of its own.
    """
    assert isinstance(pair, tir.Seq)
    stores, guards = list[tir.Store](), dict[tir.Expr, None]()
    for n, part in enumerate(pair.body):
        if len(stores) == count:
            return stores, tir.seq(*pair.body[n:]), tuple(guards)
        statements = list(tir.every(part))
        guards |= dict.fromkeys(s.cond for s in statements if isinstance(s, tir.If))
        stores += [s for s in statements if isinstance(s, tir.Store)]
        if any(isinstance(s, tir.For) for s in statements):
            what = f"reduction of {stores[0].buffer.name} over threads"
            why = "a data loop is inside its reduce loops"
            raise LoweringError(what, why, "reorder the data loops to the outside")
    raise AssertionError("a reduction has an update")


def _by_shuffles(
    mark: lowering.CrossThread, parts: Sequence[tir.Buffer], mine: Values, size: int
) -> Iterator[tir.Stmt]:
    """Combine the parts of neighbouring lanes; in the end, each lane has the whole.

    All lanes take part in a shuffle, so it must not be in an arm of a choice such as argmax makes.
    """
    for distance in _halves(size):
        theirs = tuple(tir.Call("shfl_xor", (e, tir.Const(distance, INT32)), e.dtype) for e in mine)
        combined = mark.reducer.combine(mine, theirs)
        if len(combined) == 1 and isinstance(combined[0], tir.Binary):
            yield _assign(parts, combined)
            continue
        yield _with_values(
            parts,
            "other",
            theirs,
            lambda values: _assign(parts, mark.reducer.combine(mine, values)),
        )


def _in_shared_memory(
    mark: lowering.CrossThread, parts: Sequence[tir.Buffer], mine: Values, group: _Group
) -> tuple[list[tir.Buffer], list[tir.Stmt], Values]:
    """Return (arrays with a part for each thread, statements, the combined values).

    The pass thread_sync adds the barriers.
    """
    copies = [tir.Buffer(f"{p.name}s", (group.threads,), p.dtype, "shared", ()) for p in parts]
    index = tir.add(group.base, tir.mul(group.rank, group.step))
    stmts: list[tir.Stmt] = [tir.Store(c, (index,), e) for c, e in zip(copies, mine, strict=True)]
    size = group.size
    while size > 1:
        half = -(-size // 2)
        theirs = tuple(tir.Load(c, (tir.add(index, half * group.step),), c.dtype) for c in copies)
        take = tir.seq(
            _assign(parts, mark.reducer.combine(mine, theirs)),
            *(tir.Store(c, (index,), e) for c, e in zip(copies, mine, strict=True)),
        )
        has_partner = tir.compare("<", group.rank, size - half)
        stmts.append(tir.If(has_partner, take))
        size = half
    return copies, stmts, tuple(tir.Load(c, (group.base,), c.dtype) for c in copies)


def _assign(parts: Sequence[tir.Buffer], values: Values) -> tir.Stmt:
    """Return the statement that stores all values at once: none may be lost before it is read."""

    def stored(values: Values) -> tir.Stmt:
        return tir.seq(*(tir.Store(p, (0,), e) for p, e in zip(parts, values, strict=True)))

    return stored(values) if len(parts) == 1 else _with_values(parts, "new", values, stored)


def _with_values(
    parts: Sequence[tir.Buffer], name: str, values: Values, use: Callable[[Values], tir.Stmt]
) -> tir.Stmt:
    """Store `values` in registers, then run what `use` returns for loads of them.

    The registers are named after `parts`, with the suffix `name`.
    """
    registers = [tir.Buffer(f"{p.name}.{name}", (1,), p.dtype, "local") for p in parts]
    stores = (tir.Store(k, (0,), e) for k, e in zip(registers, values, strict=True))
    body = tir.seq(*stores, use(tuple(tir.Load(k, (0,), k.dtype) for k in registers)))
    for k in registers:
        body = tir.Allocate(k, body)
    return body


def _is_marked(s: tir.Stmt) -> bool:
    return isinstance(s, tir.Pragma) and s.key == lowering.CROSS_THREAD


def _guarded(guards: tuple[tir.Expr, ...], s: tir.Stmt) -> tir.Stmt:
    return tir.If(tir.all_of(*guards), s) if guards else s


def _halves(n: int) -> Iterator[int]:
    while n > 1:
        n //= 2
        yield n
