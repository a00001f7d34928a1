"""Choose how each convolution is computed: directly, or by Winograd's formula."""

from __future__ import annotations

from minitvm import te, topi
from minitvm.base import Target

from ..node import Graph, Node, rewritten
from ..operators import call


def choose_formulas(graph: Graph, target: Target, winograd: bool = True) -> Graph:
    """Give each convolution without a method the one that should be fastest on `target`.

    before   y = conv2d(x, w, padding=1, layout="NHWC")
    after    y = conv2d(x, w, padding=1, layout="NHWC", method="winograd")

    winograd   whether Winograd's formulas may be chosen: their rounding errors are larger
    """

    def change(node: Node, _: Node) -> Node:
        if node.op != "conv2d" or node.attrs.get("method"):
            return node
        images, kernel = (te.placeholder(n.type.shape, n.type.dtype) for n in node.inputs)
        lanes = target.lanes(node.type.dtype)
        found = [
            formula
            for formula in topi.formulas(topi.conv2d(images, kernel, **node.attrs))
            if formula.applies and (winograd or formula.name != "winograd")
        ]
        names = [formula.name for formula in found]
        if "rows" in names:  # does the multiplications of "direct" in an order that suits vectors
            found = [formula for formula in found if formula.name != "direct"]
        best = min(found, key=lambda formula: formula.cycles(lanes, target.l2))
        if best.name != "winograd":
            return node
        attrs = {**node.attrs, "method": best.name}
        return call(node.op, *node.inputs, name=node.name, **attrs)

    return rewritten(graph, change)
