"""Compute the size that formulas will have after inlining, without inlining them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from minitvm import tensor, tir

from .budget import cost


@dataclass(frozen=True, slots=True)
class Size:
    """The number of operations of an expression tree, and how often each variable occurs in it.

    Index arithmetic is not counted because it usually folds.
    """

    operations: int
    occurs: Counter[tir.Var]

    def times(self, n: int) -> Size:
        """Return the size of `n` copies of the expression."""
        return Size(self.operations * n, Counter({v: m * n for v, m in self.occurs.items()}))


@dataclass(frozen=True, slots=True, eq=False)
class InlinedFormula:
    """The formula of an inlined tensor, which loads no inlined tensors, over the tensor's axes."""

    axes: tuple[tensor.Axis, ...]
    body: tir.Expr
    size: Size


def size_after(e: tir.Expr, inlined: Mapping[tensor.Tensor, InlinedFormula]) -> Size:
    """Return the size of `e` after every load of an inlined tensor is replaced by its formula.

    B[i] = A[i] + 1 has 2 operations; C[i] = B[i] * B[i + 1] then has 5. Parts that occur several
    times in `e` are visited once but counted each time. An index that loads data is counted once
    for each occurrence of the axis that it replaces.
    """
    known: dict[int, Size] = {}
    for n in _inner_first(e):
        if isinstance(n, tir.Load) and isinstance(n.buffer, tensor.Tensor) and n.buffer in inlined:
            formula = inlined[n.buffer]
            at = [
                (a, i)
                for a, i in zip(formula.axes, n.indices, strict=True)
                if not isinstance(i, int)
            ]
            copies = [known[id(i)].times(formula.size.occurs[a]) for a, i in at]
            known[id(n)] = _sum(formula.size.operations, copies)
        elif isinstance(n, tir.Var):
            known[id(n)] = Size(0, Counter((n,)))
        else:
            known[id(n)] = _sum(cost(n), [known[id(c)] for c in tir.children(n)])
    return known[id(e)]


def _sum(operations: int, parts: list[Size]) -> Size:
    occurs: Counter[tir.Var] = Counter()
    for p in parts:
        occurs.update(p.occurs)
    return Size(operations + sum(p.operations for p in parts), occurs)


def _inner_first(e: tir.Expr) -> Iterator[tir.Expr]:
    """Yield every node of `e` once, children before parents, without recursion."""
    done_ids: set[int] = set()
    stack: list[tir.Expr] = [e]
    while stack:
        n = stack[-1]
        todo = [c for c in tir.children(n) if isinstance(c, tir.Expr) and id(c) not in done_ids]
        if todo:
            stack += todo
            continue
        stack.pop()
        if id(n) not in done_ids:
            done_ids.add(id(n))
            yield n
