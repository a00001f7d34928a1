"""MemoryPlan: where three plans put the tensors of a network in memory while it runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from minitvm import graph
from minitvm.base import ArgumentError, check_flag, check_kind, plural

from .boxes import Box, column, indented, legend, row, text
from .controls import Frame, Layout, Select, Toggle
from .figure import WIDTH, Figure
from .marks import Bar, Rule
from .plot import EDGE, Axis, plot

GAP, HEIGHT = 22, 270  # pixels: gap between two plans, height of a plan
ALL = "all three"
MAX_TOLD = 15  # most tensors in the text


@dataclass(frozen=True, slots=True, eq=False)
class PlannedTensor:
    """An intermediate tensor of a network.

    first, last   the numbers of the call that computes it, and of the last call that reads it
    offsets       its offset in each plan, in bytes
    over          for each plan, whether it has the same offset as an input of its call
    """

    node: graph.Node
    first: int
    last: int
    offsets: tuple[int, ...]
    over: tuple[bool, ...]

    @property
    def name(self) -> str:
        """The number and the name of the call that computes it, such as "3 conv2d_add_relu"."""
        return f"{self.first} {called(self.node)}"


def called(node: graph.Node) -> str:
    """Return the name of the kernel or operator that a call runs."""
    return node.body.name if node.op == graph.KERNEL else node.op


class MemoryPlan(Figure):
    """Show when the tensors of a network exist, and where in memory three plans put them.

    Each box is an intermediate tensor. It extends over the calls during which the tensor is kept,
    and its height is the tensor's size. Inputs, parameters and outputs are stored elsewhere. The
    plans are separate memory for each tensor, TVM's pool of blocks, and an offset for each tensor.
    The red line is the most memory in use during any call; no plan can need less.

    net        a network after its passes, graph.optimized(net)
    plan       the plan to show alone: "own memory", "pool" or "offsets"; by default all three
    in_place   whether results of elementwise kernels may overwrite their inputs
    """

    def __init__(self, net: graph.Graph, plan: str = ALL, *, in_place: bool = False) -> None:
        check_kind("MemoryPlan", net, graph.Graph, fix="graph.optimized(net)")
        if len(net.calls) > self.most_calls:
            what = f"MemoryPlan({len(net.calls)} calls)"
            why = f"at most {self.most_calls} are drawn"
            raise ArgumentError(what, why)
        self.net = net
        self.plan = Select("plan", "plan", (ALL, *self.names), ALL).accept(plan)
        self.in_place = check_flag("in_place", in_place)
        self._planned()
        super().__init__()

    names = ("own memory", "pool", "offsets")
    most_calls = 400  # more would be too narrow to see

    def _planned(self) -> None:
        net, in_place = self.net, self.in_place
        self.plans: tuple[graph.Plan, ...] = (
            graph.own_plan(net), graph.pool_plan(net, in_place), graph.offset_plan(net, in_place)
        )  # fmt: skip
        self.bound = graph.live_bytes(net, in_place)
        last = {source: n for n, node in enumerate(net.calls) for source in node.inputs}
        self.tensors = tuple(
            PlannedTensor(
                node,
                n,
                last.get(node, n),
                tuple(p.offsets[node] for p in self.plans),
                tuple(
                    any(p.offsets.get(source) == p.offsets[node] for source in node.inputs)
                    for p in self.plans
                ),
            )
            for n, node in enumerate(net.calls)
            if node in self.plans[0].offsets
        )

    # --- what is shown ---

    def title(self) -> str:
        plan_sizes = ", ".join(
            f"{name} {size_text(p.bytes)}" for name, p in zip(self.names, self.plans, strict=True)
        )
        return f"{len(self.tensors)} tensors: {plan_sizes}; in use at once {size_text(self.bound)}"

    def body(self) -> Box:
        """Draw the tensors at their offsets in the chosen plans, all plans to the same scale."""
        shown = [n for n, name in enumerate(self.names) if self.plan in (ALL, name)]
        most = max(*(self.plans[n].bytes for n in shown), self.bound, 1)
        memory = Axis(0, most, label=size_text)
        free = WIDTH - memory.side(HEIGHT) - EDGE - GAP * (len(shown) - 1)
        plans = (self._panel(n, memory, free / len(shown), n == shown[0]) for n in shown)
        samples = {"pale_sky": "a tensor, from the call that computes it to its last reader"}
        if any(tensor.over[n] for tensor in self.tensors for n in shown):
            samples["bind"] = "in the memory of an input"
        samples["red line"] = "the most in use at once (x 1)"
        return column(
            text(self.title(), size=13, bold=True, width=WIDTH),
            row(*plans, gap=GAP - EDGE),
            legend(samples, WIDTH),
        )

    def _panel(self, n: int, memory: Axis, wide: float, is_first: bool) -> Box:
        """Draw the tensors at their offsets in plan `n`."""
        margin = memory.side(HEIGHT) if is_first else 0
        times = f" (x {self.plans[n].bytes / self.bound:.2f})" if self.bound else ""
        head = f"{self.names[n]}: {size_text(self.plans[n].bytes)}{times}"
        tensors = [
            Bar(
                tensor.first,
                tensor.offsets[n],
                tensor.last + 1,
                tensor.offsets[n] + tensor.node.type.bytes,
                "bind" if tensor.over[n] else "pale_sky",
                f"tensor:{number}",
                self._tip(tensor),
                str(tensor.first),
            )
            for number, tensor in enumerate(self.tensors)
        ]
        calls = Axis(0, len(self.net.calls), "calls", ticks=8, whole=True)
        memory = memory if is_first else replace(memory, hidden=True)
        marks = [*tensors, Rule(0, kind="axis"), Rule(y=self.bound, kind="red")]
        return column(
            indented(text(head, bold=True, width=wide), margin),
            plot(calls, memory, marks, wide, HEIGHT, inner=True),
            gap=4,
        )

    def _tip(self, tensor: PlannedTensor) -> str:
        """Describe a tensor: its call, type, lifetime and offsets."""
        at = ", ".join(
            f"{name} at {offset:,}" for name, offset in zip(self.names, tensor.offsets, strict=True)
        )
        life = f"calls {tensor.first} to {tensor.last}"
        return f"{tensor.name}: {tensor.node.type}, {tensor.node.type.bytes:,} bytes, {life}; {at}"

    def ascii(self) -> str:
        """Return the sizes of the plans, and the tensors with their lifetimes and offsets."""
        tensors, calls = len(self.tensors), len(self.net.calls)
        lines = [f"{tensors} tensor{plural(tensors)} in {calls} call{plural(calls)}"]
        for name, plan in zip(self.names, self.plans, strict=True):
            times = (
                f", {plan.bytes / self.bound:.2f} x what is in use at once" if self.bound else ""
            )
            lines.append(f"{name:10} {plan.bytes:12,} bytes{times}")
        lines.append(f"{'in use':10} {self.bound:12,} bytes at most: no plan needs less")
        lines.append(f"{'calls':>9} {'bytes':>11} {'own memory':>11} {'pool':>11} {'offsets':>11}")
        for t in self.tensors[:MAX_TOLD]:
            offsets = " ".join(f"{offset:11,}" for offset in t.offsets)
            lines.append(
                f"{f'{t.first}-{t.last}':>9} {t.node.type.bytes:11,} {offsets}  {called(t.node)}"
            )
        left = len(self.tensors) - MAX_TOLD
        return "\n".join([*lines, *([f"... {left} more"] if left > 0 else [])])

    def layout(self) -> Layout:
        return Layout(
            controls=(
                Select("plan", "plan", (ALL, *self.names), self.plan),
                Toggle("in_place", "results over inputs where possible", self.in_place),
            ),
            frames=tuple(self._frame(n, node) for n, node in enumerate(self.net.calls)),
            selectable="tensor:",
        )

    def _frame(self, n: int, node: graph.Node) -> Frame:
        """Return the frame of a call: what it reads, what it writes, what is kept for later."""
        marks: dict[str, str] = {}
        used = 0
        for number, tensor in enumerate(self.tensors):
            if tensor.first <= n <= tensor.last:
                used += tensor.node.type.bytes
                is_read = tensor.node in node.inputs
                kind = "now" if tensor.node is node else "read" if is_read else "done"
                marks[f"tensor:{number}"] = kind
        freed_count = sum(kind == "done" for kind in marks.values())
        text = f"call {n}: {called(node)} (blue: read, yellow: written, orange: kept)"
        return Frame(marks, f"{text}; {len(marks)} tensors, {freed_count} kept, {size_text(used)}")

    def on(self, name: str, value: Any) -> str | None:
        message = super().on(name, value)
        if name == "in_place":
            self._planned()
        return message


def size_text(size: float) -> str:
    """Return a number of bytes with its unit, such as "1.5 MB"."""
    for unit, scale in (("MB", 1e6), ("kB", 1e3)):
        if size >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.0f} B"
