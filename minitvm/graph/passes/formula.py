"""Choose how each convolution is computed: directly, or by Winograd's formula."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from minitvm import te, topi
from minitvm.base import Target

from ..node import KERNEL, Graph, Node, kernel, rewritten
from ..operators import call


def choose_formulas(graph: Graph, target: Target, winograd: bool = True) -> Graph:
    """Give each convolution without a method the one that should be fastest on `target`.

    before   y = conv2d(x, w, padding=1, layout="NHWC")
    after    y = conv2d(x, w, padding=1, layout="NHWC", method="winograd")

    winograd   whether Winograd's formulas may be chosen: their rounding errors are larger
    """

    def change(node: Node, _: Node) -> Node:
        if node.op != "conv2d" or node.attrs.get("method") or node.attrs.get("out_dtype"):
            return node
        plain = ("direct", "rows", "blocks")
        best = best_formula(node, target, () if winograd or target.kind == "cuda" else plain)
        return node if best.name in plain else _with_method(node, best.name)

    return rewritten(graph, change)


def other_formulas(graph: Graph) -> list[Graph]:
    """Return copies of a kernel's body that compute its convolution by other formulas.

    before   y = conv2d(x, w, padding=1, layout="NHWC")
    after    y = conv2d(x, w, padding=1, layout="NHWC", method="winograd")
    """
    convolutions = [node for node in graph.calls if node.op == "conv2d"]
    if len(convolutions) != 1:
        return []
    (conv,) = convolutions
    usable = [f for f in topi.formulas(_tensor(conv)) if f.applies and f.name != "gemm"]
    names = list(dict.fromkeys(f.name for f in usable))
    default = names[0]
    if "rows" in names:  # of those with the same multiplications, only the default
        default = topi.best_formula(_tensor(conv), methods=("rows", "blocks")).name
        names = [default, *(n for n in names if n not in ("direct", "rows", "blocks"))]
    current = conv.attrs.get("method") or default
    others = ("" if name == default else name for name in names if name != current)
    return [_with_formula(graph, conv, method) for method in others]


def _with_formula(graph: Graph, conv: Node, method: str) -> Graph:
    """Return a copy of a graph in which one convolution is computed by another formula."""
    return rewritten(graph, lambda node, old: _with_method(node, method) if old is conv else node)


def use_formulas(graph: Graph, formulas: Mapping[Graph, Graph]) -> Graph:
    """Replace the bodies of kernels; `formulas` maps a body to a body with the same results.

    before   y = conv2d_relu(x, w)    # conv2d(..., method="winograd")
    after    y = conv2d_relu(x, w)    # conv2d(...)
    """

    def change(node: Node, _: Node) -> Node:
        if node.op != KERNEL or node.body not in formulas:
            return node
        return kernel(formulas[node.body], node.inputs, node.name)

    return rewritten(graph, change)


def _with_method(node: Node, method: str) -> Node:
    """Return a conv2d that is computed by another formula; "" is the default one."""
    attrs = {k: v for k, v in node.attrs.items() if k != "method"}
    attrs |= {"method": method} if method else {}
    return call(node.op, *node.inputs, name=node.name, **attrs)


def best_formula(node: Node, target: Target, methods: Collection[str] = ()) -> topi.Formula:
    """Return the formula, one of `methods` if given, that should be fastest for a conv2d."""
    return topi.best_formula(_tensor(node), target, methods)


def _tensor(node: Node) -> te.Tensor:
    """Return a conv2d as a tensor expression."""
    images, weights = (te.placeholder(n.type.shape, n.type.dtype) for n in node.inputs)
    return topi.conv2d(images, weights, **node.attrs)
