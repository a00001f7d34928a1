"""Print copies between memories: 16 bytes at once, and asynchronously, where possible."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from minitvm import lowering, tir
from minitvm.base import DType

from ..common import flat
from ..numba import NumbaPrinter
from ..python import TAB
from .kernels import UNIT, copied

WARP = "warp"  # a scope of memory, and the name of the variable that numbers the warps of a block
WORD = 4  # bytes, the least that an asynchronous copy moves
# What runtime.gpu_access has for printed source.
ACCESSES = (
    *("cp16", "cp_async16", "cp_async4", "cp_async_wait", "ld", "ldmatrix_a", "ldmatrix_b"),
    *("mma_bf16", "mma_f16", "st"),
)


def type_name(dtype: DType) -> str:
    """Return the name of a type in printed source: "np.float32".

    numpy has no bfloat16. Since only tensor cores compute with it, its bits may have another type.
    """
    names = {"bool": "bool_", "bfloat16": "float16"}
    return f"np.{names.get(dtype, dtype)}"


class CopyPrinter(NumbaPrinter):
    """A printer of statements that copy between memories.

    asynchronous   whether the copies are part of a stage with the pragma async_copy
    """

    def __init__(self) -> None:
        super().__init__(())
        self.asynchronous = False
        self.vectors = 0

    def offset(self, b: tir.Buffer, indices: tuple[tir.Index, ...]) -> str:
        """Print the offset of an element; each warp has a part of the memory of scope "warp"."""
        i = self.expr(flat(b, indices))
        return f"{WARP} * {self.expr(tir.elements(b), 7)} + {i}" if b.scope == WARP else i

    def late_copy(self, s: tir.Store) -> str | None:
        """Print an asynchronous copy of one element.

        Returns None if `s` is not a copy or its elements are not WORD bytes.
        """
        copy = copied(s.value)
        if copy is None or s.buffer.dtype.bytes != WORD:
            return None
        return self._late(s, copy[0], copy[1], WORD)

    def _late(self, s: tir.Store, source: tir.Load, condition: tir.Expr, size: int) -> str:
        ends = (f"{self.name(x.buffer)}, {self.offset(x.buffer, x.indices)}" for x in (s, source))
        return f"cp_async{size}({', '.join(ends)}, {self.expr(condition)})"

    def vector(self, s: tir.For, depth: int) -> Iterator[str]:
        """Yield the lines of a vectorized loop; copies of 16 bytes use cp16 or cp_async16."""
        if isinstance(s.body, tir.Seq) and _are_separate(s.body.body):
            for part in s.body.body:
                yield from self.vector(tir.For(s.var, s.extent, part, s.kind), depth)
            return
        lines = self._wide_copy(s, s.body, depth) if isinstance(s.body, tir.Store) else None
        yield from lines or self._statement(tir.For(s.var, s.extent, s.body), depth)

    def _wide_copy(self, s: tir.For, store: tir.Store, depth: int) -> list[str] | None:
        """Return the lines of a copy of 16 bytes, or of 16 bytes of zeros if a condition fails.

        A synchronous copy goes through registers, an array `wide0`, if it has a condition or if the
        stored elements are not adjacent or not aligned. Returns None if the loop is no such copy.
        """
        copy, n = copied(store.value), UNIT // store.buffer.dtype.bytes
        if copy is None or s.extent != n:
            return None
        source, condition = copy[0], _condition_of_all(copy[1], s.var, n)
        to, start = _start(s, store), _start(s, source)
        if condition is None or start is None or WARP in (store.buffer.scope, source.buffer.scope):
            return None
        if to is None and source.buffer.scope != "global":
            return None
        tab, v = TAB * depth, self.name(s.var)
        names = self.name(store.buffer), self.name(source.buffer)
        ends = (
            "" if to is None else f"{names[0]}, {self.expr(to)}",
            f"{names[1]}, {self.expr(start)}",
        )
        if self.asynchronous:
            late = f"{tab}cp_async16({ends[0]}, {ends[1]}, {self.expr(condition)})"
            return None if to is None else [late]
        if to is not None and condition is tir.TRUE:
            return [f"{tab}cp16({ends[0]}, {ends[1]})"]
        wide = f"wide{self.vectors}"
        self.vectors += 1
        lines = [f"{tab}{wide} = cuda.local.array({n}, {type_name(source.dtype)})"]
        if condition is not tir.TRUE:
            zero = self._literal(tir.const(0, source.dtype))
            lines += [f"{tab}for {v} in range({n}):", f"{tab}{TAB}{wide}[{v}] = {zero}"]
            lines.append(f"{tab}if {self.expr(condition)}:")
        lines.append(f"{tab}{TAB * (condition is not tir.TRUE)}cp16({wide}, 0, {ends[1]})")
        if to is not None:
            return [*lines, f"{tab}cp16({ends[0]}, {wide}, 0)"]
        offset = self.offset(store.buffer, store.indices)
        lines.append(f"{tab}for {v} in range({n}):")
        return [*lines, f"{tab}{TAB}st({names[0]}, {offset}, {wide}[{v}])"]


def _start(s: tir.For, access: tir.Store | tir.Load) -> tir.Index | None:
    """Return where the elements of a vectorized access begin; None if they are not adjacent.

    It is also None if they do not begin at a multiple of 16 bytes.
    """
    b = access.buffer
    linear, n = tir.coefficient(flat(b, access.indices), s.var), UNIT // b.dtype.bytes
    if linear is None or not tir.prove_equal(linear[0], 1):
        return None
    terms, const = tir.split_terms(linear[1])
    return None if const % n or any(c % n for _, c in terms) else linear[1]


def _condition_of_all(cond: tir.Expr, v: tir.Var, n: int) -> tir.Expr | None:
    """Return a condition equal to `cond` for v = 0 .. n - 1, if there is one; otherwise None.

    All elements, or none, are inside an array whose edge is a multiple of n.
    """
    parts: list[tir.Expr] = []
    for part in lowering.conjuncts(cond):
        if not tir.free_of(part, (v,)):
            match part:
                case tir.Compare("<", a, b):
                    terms, const = tir.split_terms(tir.add(tir.sub(b, a), v))
                case _:
                    return None
            if const % n or any(c % n or atom is v for atom, c in terms):
                return None
        parts.append(tir.substitute(part, {v: 0}))
    return tir.all_of(*parts)


def _are_separate(parts: Sequence[tir.Stmt]) -> bool:
    """Return whether each statement may run for all iterations before the next one does."""
    nodes = [n for part in parts for n in tir.walk(part)]
    stored = {n.buffer for n in nodes if isinstance(n, tir.Store)}
    loaded = {n.buffer for n in nodes if isinstance(n, tir.Load)}
    return not any(isinstance(n, tir.Evaluate) for n in nodes) and stored.isdisjoint(loaded)
