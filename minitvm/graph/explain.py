"""Say which operators of a quantised network run in integers, and why the others do not."""

from __future__ import annotations

from dataclasses import dataclass

from . import passes
from .node import INPUT, Graph, Node, check_graph


@dataclass(frozen=True, slots=True)
class Decision:
    """Where an operator runs.

    name, op   the name of the node, and its operator
    why        why it runs in float32; "" if it runs in integers
    """

    name: str
    op: str
    why: str

    def __str__(self) -> str:
        return f"{self.name:24} {self.op:20} {f'float32: {self.why}' if self.why else 'int8'}"


@dataclass(frozen=True, slots=True)
class Decisions:
    """Where each operator of a network runs; print shows one line for each."""

    operators: tuple[Decision, ...]

    def __str__(self) -> str:
        return "\n".join(str(each).rstrip() for each in self.operators)

    __repr__ = __str__


def explain(graph: Graph) -> Decisions:
    """Say of each operator whether it runs in integers, and if not, why not.

    Lists what depends on an input and computes real numbers, but not quantise and dequantise.
    Raises GraphError if `graph` is not a graph.
    """
    check_graph(graph, "explain")
    simple = passes.simplify(graph)
    run = passes.Integers(dict(simple.params))
    needed = set(run.rewritten(simple).nodes)  # reals that nothing reads are not computed
    varying: set[Node] = set()
    for node in simple.nodes:
        if node.op == INPUT or any(source in varying for source in node.inputs):
            varying.add(node)
    return Decisions(
        tuple(
            Decision(old.name, old.op, _why(run, new) if new in needed else "")
            for old, new in run.reals.items()
            if old in varying and old.op != "dequantise" and old.type.dtype.is_float
        )
    )


def _why(run: passes.Integers, real: Node) -> str:
    """Return why real numbers are computed; "" if they are dequantised integers."""
    if real.op == "dequantise":
        return ""
    return run.why.get(real, "its result is read as real numbers")
