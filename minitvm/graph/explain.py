"""Say which operators of a quantised network run in integers or on the accelerator, and why."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm.base import Target

from . import passes
from .node import INPUT, Graph, Node, check_graph


@dataclass(frozen=True, slots=True)
class Decision:
    """Where an operator runs.

    name, op   the name of the node, and its operator
    where      "int8" or "float32"; for target "vta", "vta" or "cpu"
    why        why it runs in float32, or why the CPU multiplies bytes; "" for other operators
    """

    name: str
    op: str
    where: str
    why: str = ""

    def __str__(self) -> str:
        reason = f": {self.why}" if self.why else ""
        return f"{self.name:24} {self.op:20} {self.where}{reason}"


@dataclass(frozen=True, slots=True)
class Decisions:
    """Where each operator of a network runs; print shows one line for each."""

    operators: tuple[Decision, ...]

    def __str__(self) -> str:
        return "\n".join(str(each).rstrip() for each in self.operators)

    __repr__ = __str__


def explain(graph: Graph, target: str | Target | None = None) -> Decisions:
    """Say of each operator whether it runs in integers, and if not, why not.

    Lists what depends on an input and computes real numbers, but not quantise and dequantise. For
    target "vta", lists the operators that replace them, and says which the accelerator computes.
    Raises GraphError if `graph` is not a graph.
    """
    check_graph(graph, "explain")
    simple = passes.simplify(graph)
    run = passes.Integers(dict(simple.params), Target(target).kind == "vta")
    integers = run.rewritten(simple)
    if run.accelerated:
        return Decisions(tuple(_placed(node, run) for node in integers.calls))
    needed = set(integers.nodes)  # reals that nothing reads are not computed
    varying: set[Node] = set()
    for node in simple.nodes:
        if node.op == INPUT or any(source in varying for source in node.inputs):
            varying.add(node)
    return Decisions(
        tuple(
            _decision(old, _why(run, new) if new in needed else "")
            for old, new in run.reals.items()
            if old in varying and old.op != "dequantise" and old.type.dtype.is_float
        )
    )


def _placed(node: Node, run: passes.Integers) -> Decision:
    """Say of an operator in a network of integers whether the accelerator computes it."""
    if node.op == "vta_conv2d":
        return Decision(node.name, node.op, "vta")
    why = "its result is read as real numbers" if node.op in passes.PRODUCTS else ""
    return Decision(node.name, node.op, "cpu", run.on_cpu.get(node) or run.why.get(node, why))


def _decision(node: Node, why: str) -> Decision:
    return Decision(node.name, node.op, "float32" if why else "int8", why)


def _why(run: passes.Integers, real: Node) -> str:
    """Return why real numbers are computed; "" if they are dequantised integers."""
    if real.op == "dequantise":
        return ""
    return run.why.get(real, "its result is read as real numbers")
