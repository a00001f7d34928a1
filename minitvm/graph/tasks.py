"""List the distinct kernels of a network, for tuning, with the number of calls of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from minitvm import autotvm, te
from minitvm.base import Target, brief, plural

from .counts import operations_of
from .kernels import tensors
from .node import Graph
from .pipeline import optimized

COLUMNS = f"{'kernel':32} {'output':28} {'calls':>5} {'MFLOP':>9} {'share':>6}  template"


@dataclass(frozen=True, slots=True)
class GraphTask:
    """A kernel of a network.

    body        the graph that it computes, with layouts and constants
    count       how often the network calls it: the weight of its time
    operations  the arithmetic operations of one call, as profiles count them
    target      the target for which it is compiled
    """

    body: Graph
    count: int
    operations: int
    target: Target

    @property
    def name(self) -> str:
        """The names of its operators, such as "conv2d_add_relu"."""
        return self.body.name

    @property
    def args(self) -> tuple[te.Tensor, ...]:
        """The inputs (constant for parameters) and the output, as tensor expressions."""
        inputs, output = tensors(self.body)
        return *inputs, output

    @property
    def workload(self) -> autotvm.Workload | None:
        """The template of AutoTVM for this kernel, and its arguments; None if no template fits."""
        return autotvm.recognised([self.args[-1]])

    @property
    def task(self) -> autotvm.Task | None:
        """The task of tuning this kernel by its template; None if no template fits."""
        name, *args = self.workload or ("",)
        return autotvm.task.create(name, args, self.target) if name else None


@dataclass(frozen=True, slots=True)
class Tasks:
    """The kernels of a network, in the order of their first calls; print shows a table."""

    name: str
    all: tuple[GraphTask, ...]

    __repr__ = brief

    def tasks(self) -> tuple[GraphTask, ...]:
        """Return the task of each kernel; autotvm.task.extract_from_program calls this."""
        return self.all

    def __iter__(self) -> Iterator[GraphTask]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __str__(self) -> str:
        total = sum(t.count * t.operations for t in self.all) or 1
        rows = [
            f"{t.name[:32]:32} {t.body.outputs[0].type!s:28} {t.count:5} "
            f"{t.operations / 1e6:9.1f} {t.count * t.operations / total:6.1%}  "
            f"{(t.workload or ('-',))[0]}"
            for t in self.all
        ]
        calls = sum(t.count for t in self.all)
        counts = f"{len(rows)} kernel{plural(len(rows))}, {calls} call{plural(calls)}"
        return "\n".join([COLUMNS, *rows, f"{self.name}: {counts}, {total / 1e6:.0f} MFLOP"])


def extract_tasks(
    graph: Graph, target: str | Target | None = None, *, winograd: bool = True
) -> Tasks:
    """Return the distinct kernels that graph.compile makes of a network.

    Kernels are equal if they print the same: the same operators, shapes, layouts and constants.
    """
    to = Target(target)
    counts = Counter(node.body for node in optimized(graph, to, winograd=winograd).calls)
    kernels = (GraphTask(body, n, operations_of(body), to) for body, n in counts.items())
    return Tasks(graph.name, tuple(kernels))
