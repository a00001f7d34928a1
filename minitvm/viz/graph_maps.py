"""LayoutCut and Dominators: why a network has its layouts, and why its operators share kernels."""

from __future__ import annotations

from collections.abc import Set

from minitvm import graph
from minitvm.base import ArgumentError, Target, check_kind

from .boxes import Box, column, legend, row, text
from .controls import Layout, both_ways
from .figure import WIDTH, Figure
from .graph_rows import Drawn, arranged, drawn, label
from .graph_scene import network

MOST_CALLS, GAP = 40, 10  # calls that can be drawn; pixels between two networks
KINDS = ("pale_orange", "pale_blue", "pale_yellow", "pale_pink", "serial", "bind")


class GraphMap(Figure):
    """A network whose boxes are coloured by what a pass finds out about them."""

    def __init__(self, net: graph.Graph) -> None:
        what = type(self).__name__
        self.net = check_kind(what, net, graph.Graph, fix="net = b.graph(y), of a Builder b")
        if not 0 < len(net.calls) <= MOST_CALLS:
            why = f"it has {len(net.calls)} calls; 1 to {MOST_CALLS} can be drawn"
            raise ArgumentError(f"{what}({net.name})", why, "a part of the network")
        super().__init__()

    def picture_of(
        self, side: str, net: Drawn, kinds: dict[graph.Node, str], width: float,
        cut: Set[tuple[graph.Node, graph.Node]] = frozenset(),
    ) -> Box:  # fmt: skip
        """Draw all rows of a network; the keys of its boxes begin with `side`."""
        outputs = frozenset(self.net.outputs)
        return network(net, range(len(net.rows)), width, kinds, side, outputs, cut)


class LayoutCut(GraphMap):
    """Show the cheapest layouts of a network's images: the sides of a minimum cut.

    A convolution or pooling shows its estimated cycles in its layout and, in brackets, in the other
    one. Dashed red lines are cut: there an image is transposed, which also has a price.

    net      a network before the pass assign_layouts
    target   by default the current one
    """

    def __init__(self, net: graph.Graph, target: str | Target | None = None) -> None:
        check_kind("LayoutCut", net, graph.Graph, fix="net = b.graph(y), of a Builder b")
        self.cut = graph.passes.layout_cut(net, Target(target))
        super().__init__(net)

    def title(self) -> str:
        images = {image for image, _ in self.cut.crossings}
        first = sum(cycles for cycles, _ in self.cut.operators.values())
        return (
            f"{self.cut.cycles / 1e3:,.1f} thousand cycles with {len(images)} transposed "
            f"image{'s' * (len(images) != 1)}; {first / 1e3:,.1f} if all are in NCHW"
        )

    def notes(self) -> dict[graph.Node, str]:
        """Return the layout of each image, and the prices."""
        notes = dict[graph.Node, str]()
        for node in self.net.nodes:
            is_last = node in self.cut.nhwc
            if len(node.type.shape) == 4 or is_last:
                notes[node] = "NHWC" if is_last else "NCHW"
            if node in self.cut.operators:
                first, last = (cycles / 1e3 for cycles in self.cut.operators[node])
                mine, other = (last, first) if is_last else (first, last)
                notes[node] += f" {mine:,.1f} ({other:,.1f})"
        for image in {image for image, _ in self.cut.crossings}:
            notes[image] += f"; transpose {self.cut.transposes[image] / 1e3:,.1f}"
        return notes

    def body(self) -> Box:
        notes = self.notes()
        kinds = {n: KINDS[n in self.cut.nhwc] for n in notes}
        samples = {
            KINDS[0]: "in NCHW", KINDS[1]: "in NHWC; numbers: thousand cycles (other layout)",
            "removed line": "the cut: the image is transposed",
        }  # fmt: skip
        head = text(self.title(), size=13, bold=True, width=WIDTH)
        picture = self.picture_of(
            "network", drawn(self.net, notes), kinds, WIDTH, self.cut.crossings
        )
        return column(head, legend(samples, WIDTH), picture)

    def ascii(self) -> str:
        notes = self.notes()
        shown = (node for node in self.net.nodes if node.op != "param")
        return "\n".join([self.title(), *(f"{notes.get(n, ''):34} {label(n)}" for n in shown)])

    def layout(self) -> Layout:
        return Layout(selectable="network:")


class Dominators(GraphMap):
    """Show a network, coloured by kernels, beside the tree of post-dominators that decides them.

    In the tree a line leads from each operator to its post-dominator, the first operator through
    which all its paths to an output go.

    net   a network before the pass fuse
    """

    def __init__(self, net: graph.Graph) -> None:
        check_kind("Dominators", net, graph.Graph, fix="net = b.graph(y), of a Builder b")
        self.dominators = graph.passes.post_dominators(net)
        groups = graph.passes.fusion_groups(net).values()
        self.kernels = {node: k for k, members in enumerate(groups) for node in members}
        super().__init__(net)

    def title(self) -> str:
        kernels = len(set(self.kernels.values()))
        return f"{len(self.kernels)} operators in {kernels} kernel{'s' * (kernels != 1)}"

    def _sides(self) -> tuple[Drawn, Drawn]:
        """Return the network and the tree, in which each node is below those that it dominates."""
        notes = {node: f"kernel {k}" for node, k in self.kernels.items()}
        below: dict[graph.Node, list[graph.Node]] = {node: [] for node in self.net.calls}
        for node, dominator in self.dominators.items():
            if dominator.node is not None:
                below[dominator.node].append(node)
        return drawn(self.net, notes), arranged(below, notes)

    def body(self) -> Box:
        kinds = {node: KINDS[k % len(KINDS)] for node, k in self.kernels.items()}
        wide = (WIDTH - GAP) / 2
        sides = (
            column(text(head, bold=True), self.picture_of(head, side, kinds, wide), gap=3)
            for head, side in zip(("network", "post-dominators"), self._sides(), strict=True)
        )
        return column(text(self.title(), size=13, bold=True, width=WIDTH), row(*sides, gap=GAP))

    def ascii(self) -> str:
        number = {node: n for n, node in enumerate(self.net.calls)}
        lines = [self.title()]
        for node, n in number.items():
            dominator = self.dominators[node].node
            to = "an output" if dominator is None else f"-> {number[dominator]}"
            lines.append(f"{n:3} kernel {self.kernels[node]} {to:9} {label(node)}")
        return "\n".join(lines)

    def layout(self) -> Layout:
        left, right = ({node: n for n, node in enumerate(side.nodes)} for side in self._sides())
        pairs = ((f"network:{left[n]}", f"post-dominators:{right[n]}") for n in right)
        return Layout(links=both_ways(pairs), selectable="network:")
