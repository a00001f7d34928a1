"""Count the arithmetic operations of kernels, so that profiles can show GFLOP/s."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from minitvm import te, tensor, tir

from .node import Graph, Node
from .operators import OPERATORS


@lru_cache(maxsize=1000)  # a profile is made of each call, and many calls have the same kernel
def operations_of(body: Graph) -> int:
    """Return how many arithmetic operations a kernel takes; a multiply-add counts as two.

    A convolution counts as in its textbook formula. So Winograd's algorithm, which multiplies less,
    shows a higher rate instead of less work. Other stages count one operation for each element that
    they compute or reduce, and none for an element that they only move.
    """
    return sum(map(_of_node, body.calls))


def _of_node(node: Node) -> int:
    attrs: dict[str, Any] = dict(node.attrs)
    if node.op == "conv2d":
        attrs["method"] = "direct"
    inputs = [te.placeholder(n.type.shape, n.type.dtype) for n in node.inputs]
    result = OPERATORS[node.op].formula(*inputs, **attrs)
    return sum(
        math.prod(a.extent for a in (*op.axis, *op.reduce_axis)) * _of_element(op)
        for op in tensor.producers_first((result.op,))
        if isinstance(op, tensor.ComputeOp)
    )


def _of_element(op: tensor.ComputeOp) -> int:
    """Return how many operations one iteration of a stage takes."""
    body = op.body[0]
    if isinstance(body, tensor.Reduce):
        source = body.sources[body.value_index]
        return 2 if isinstance(source, tir.Binary) and source.op == "mul" else 1
    return int(any(map(_is_arithmetic, _parts(body))))


def _is_arithmetic(e: tir.Expr) -> bool:
    if isinstance(e, tir.Binary) and e.op in ("and", "or"):
        return False
    return isinstance(e, tir.Binary | tir.Call) and not tir.is_index(e)


def _parts(e: tir.Expr) -> Iterator[tir.Expr]:
    """Yield `e` and all its subexpressions, except for indices."""
    yield e
    for c in tir.children(e):
        if isinstance(c, tir.Expr) and not isinstance(e, tir.Load):
            yield from _parts(c)
