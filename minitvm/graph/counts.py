"""Count operators, bytes, multiplications and operations, to compare and to profile networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from minitvm import te, topi
from minitvm.base import Target, plural

from .node import KERNEL, Graph, Node
from .operators import OPERATORS
from .passes import best_formula


@dataclass(frozen=True, slots=True)
class Counts:
    """The costs of a network; print shows them in one line.

    operators         the number of operators, also inside kernels
    kernels           the number of calls: of kernels, and of operators that are not in a kernel
    transposes        the number of transposes among the operators
    bytes             the bytes that all calls read and write, if each reads each input once
    multiplications   the multiplications of convolutions and matrix products
    """

    operators: int
    kernels: int
    transposes: int
    bytes: int
    multiplications: int

    def __str__(self) -> str:
        names = ("operator", "kernel", "transpose")
        numbers = (self.operators, self.kernels, self.transposes)
        calls = [f"{n} {name}{plural(n)}" for n, name in zip(numbers, names, strict=True)]
        moved, work = f"{self.bytes / 1e6:.2f} MB moved", f"{self.multiplications / 1e6:.2f} M"
        return ", ".join((*calls, moved, f"{work} multiplications"))


def counts(graph: Graph, target: str | Target | None = None) -> Counts:
    """Return the costs of a network; the target decides the tile sizes of Winograd's formulas."""
    to = Target(target)
    inner = [operator for node in graph.calls for operator in operators_of(node)]
    return Counts(
        len(inner),
        len(graph.calls),
        sum(node.op == "transpose" for node in inner),
        sum(map(bytes_moved, graph.calls)),
        sum(multiplications(node, to) for node in inner),
    )


def operators_of(node: Node) -> tuple[Node, ...]:
    """Return the operators in a kernel; for any other node, return the node itself."""
    return node.body.calls if node.op == KERNEL else (node,)


def bytes_moved(node: Node) -> int:
    """Return the bytes of a call's result and of its inputs, each counted once."""
    return node.type.bytes + sum(source.type.bytes for source in dict.fromkeys(node.inputs))


@lru_cache(maxsize=1000)  # a profile is made of each call, and many calls have the same kernel
def operations_of(body: Graph) -> int:
    """Return how many arithmetic operations a kernel takes, as topi.flops counts them."""
    total = 0
    for node in body.calls:
        inputs = [te.placeholder(n.type.shape, n.type.dtype) for n in node.inputs]
        total += int(topi.flops([OPERATORS[node.op].formula(*inputs, **node.attrs)]))
    return total


def multiplications(node: Node, target: Target) -> int:
    """Return the multiplications of a convolution or a matrix product; 0 for other operators."""
    x = node.inputs[0].type if node.inputs else node.type
    match node.op:
        case "conv2d":
            method = node.attrs.get("method") or "direct"
            return best_formula(node, target, (method,)).multiplications
        case "conv3d":
            return node.type.elements * (node.inputs[1].type.elements // node.type.shape[1])
        case "conv2d_transpose":
            return x.elements * (node.inputs[1].type.elements // x.shape[1])
        case "dense":
            return node.type.elements * x.shape[-1]
        case "matmul" | "batch_matmul":
            return node.type.elements * x.shape[-2 if node.attrs.get("transpose_a") else -1]
        case _:
            return 0
