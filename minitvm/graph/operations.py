"""Count the arithmetic operations of kernels, so that profiles can show GFLOP/s."""

from __future__ import annotations

from functools import lru_cache

from minitvm import te, topi

from .node import Graph
from .operators import OPERATORS


@lru_cache(maxsize=1000)  # a profile is made of each call, and many calls have the same kernel
def operations_of(body: Graph) -> int:
    """Return how many arithmetic operations a kernel takes, as topi.flops counts them."""
    total = 0
    for node in body.calls:
        inputs = [te.placeholder(n.type.shape, n.type.dtype) for n in node.inputs]
        total += int(topi.flops([OPERATORS[node.op].formula(*inputs, **node.attrs)]))
    return total
