"""Choose how each convolution is computed: directly, or by Winograd's formula."""

from __future__ import annotations

from collections.abc import Collection

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
        best = best_formula(node, target, () if winograd else ("direct", "rows"))
        if best.name != "winograd":
            return node
        attrs = {**node.attrs, "method": best.name}
        return call(node.op, *node.inputs, name=node.name, **attrs)

    return rewritten(graph, change)


def best_formula(node: Node, target: Target, methods: Collection[str] = ()) -> topi.Formula:
    """Return the formula, one of `methods` if given, that should be fastest for a conv2d."""
    images, kernel = (te.placeholder(n.type.shape, n.type.dtype) for n in node.inputs)
    return topi.best_formula(topi.conv2d(images, kernel, **node.attrs), target, methods)
