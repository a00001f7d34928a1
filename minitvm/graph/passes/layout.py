"""Choose the layout of every image in a network: the cheapest assignment is a minimum cut.

Each node with four dimensions is in NCHW or in NHWC. Its operator takes a number of cycles in each
of them, and a tensor whose readers need the other layout is transposed, once for all of these
readers. The sum of these costs is the capacity of a cut between a source (NCHW) and a sink
(NHWC), so the maximum flow gives the best assignment of the whole network.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from minitvm.base import Target, as_tuple

from ..node import PARAM, Graph, Node, rewritten
from ..operators import OPERATORS, call
from .formula import best_formula

flows: Any = sparse.csgraph  # without types
# Dimension d of an image in NHWC is dimension NHWC[d] of it in NCHW, and the other way round. So
# transpose(x, axes=NHWC) returns NCHW images in NHWC.
NHWC, NCHW = (0, 2, 3, 1), (0, 3, 1, 2)
KERNEL = (2, 3, 1, 0)  # [O, I, KH, KW] -> [KH, KW, I, O]
BYTES_PER_CYCLE = 4  # bytes that a transpose reads or writes in a cycle
# How much slower than estimated operators in NCHW are, by benchmarks/conv.py and mobile.py: their
# convolutions copy the image first, and their windows have few pixels next to each other.
SLOWER = {"conv2d": 1.4, "depthwise": 4.0, "pool": 4.0}
SCALE = 16  # cycles of one unit of flow
NEVER = 1 << 29
IMAGES = ("avg_pool2d", "conv2d", "global_avg_pool2d", "max_pool2d")


def assign_layouts(graph: Graph, target: Target) -> Graph:
    """Compute images in the layouts that are cheapest for the whole network.

    before   y = mean(relu(conv2d(x, w, padding=1)), axis=(2, 3))
    after    t = transpose(x, axes=(0, 2, 3, 1)); v = transpose(w, axes=(2, 3, 1, 0))
             y = mean(relu(conv2d(t, v, padding=1, layout="NHWC")), axis=(1, 2))

    Inputs and outputs of the network stay as they are.
    """
    last = layout_cut(graph, target).nhwc
    image_of: dict[Node, Node] = {}  # a new node -> the same images in the other layout

    def change(node: Node, old: Node) -> Node:
        inputs = list(node.inputs)
        for k, before in enumerate(old.inputs):
            if _is_image(old, k) and (before in last) != (old in last):
                x, axes = inputs[k], NCHW if before in last else NHWC
                inputs[k] = image_of[x] if x in image_of else call("transpose", x, axes=axes)
                image_of[x] = inputs[k]
        if old in last:
            return moved(node, inputs, NHWC)
        return node if inputs == list(node.inputs) else replace(node, inputs=tuple(inputs))

    return rewritten(graph, change) if last else graph


# --- the choice ---


@dataclass(frozen=True, slots=True)
class LayoutCut:
    """The cheapest layouts of a network, with the prices that decide them, in estimated cycles.

    nhwc         the nodes that are computed in NHWC
    operators    a convolution or pooling -> its cycles in NCHW and in NHWC
    transposes   an image -> the cycles of transposing it
    crossings    (image, reader) where the reader needs the other layout
    """

    nhwc: Set[Node]
    operators: Mapping[Node, tuple[float, float]]
    transposes: Mapping[Node, float]
    crossings: Set[tuple[Node, Node]]

    @property
    def cycles(self) -> float:
        """The price of all operators and transposes."""
        moved_images = {image for image, _ in self.crossings}
        return sum(both[node in self.nhwc] for node, both in self.operators.items()) + sum(
            self.transposes[image] for image in moved_images
        )


def layout_cut(graph: Graph, target: Target) -> LayoutCut:
    """Return the layouts of all images for which operators and transposes take the fewest cycles.

    Images that an operator with a fixed layout reads or computes stay in NCHW.
    """
    nodes, operators = graph.nodes, dict[Node, tuple[float, float]]()
    transposes, pairs = dict[Node, float](), list[tuple[Node, Node]]()
    number = {node: k + 2 for k, node in enumerate(nodes)}  # 0 is the source, 1 the sink
    edges: dict[tuple[int, int], int] = {}
    free = len(nodes) + 2

    def edge(a: int, b: int, cycles: float) -> None:
        edges[a, b] = min(NEVER, edges.get((a, b), 0) + math.ceil(cycles / SCALE))

    for node, readers in graph.readers().items():
        me = number[node]
        kernel = any(r.op in IMAGES and node in r.inputs[1:] for r in readers)
        fixed = kernel or (node in graph.outputs and len(node.type.shape) == 4)
        if fixed or not _can_move(node):
            edge(0, me, NEVER * SCALE)
        elif node.op in IMAGES:
            operators[node] = first, other = _cycles(node, target)
            edge(me, 1, first)
            edge(0, me, other)
        images = [
            r for r in readers for k, x in enumerate(r.inputs) if x is node and _is_image(r, k)
        ]
        if node.op == PARAM or not images:
            continue
        transposes[node] = move_cycles = 2 * node.type.bytes / BYTES_PER_CYCLE
        pairs += ((node, reader) for reader in images)
        edge(me, free, move_cycles)  # cut if the node is first in NCHW and a reader in NHWC,
        edge(free + 1, me, move_cycles)  # or the other way round
        for reader in images:
            edge(free, number[reader], NEVER * SCALE)
            edge(number[reader], free + 1, NEVER * SCALE)
        free += 2
    nhwc_side = _sink_side(edges, free)
    last = {node for node in nodes if number[node] in nhwc_side and _can_move(node)}
    crossings = {(a, b) for a, b in pairs if (a in last) != (b in last)}
    return LayoutCut(last, operators, transposes, crossings)


def _sink_side(edges: Mapping[tuple[int, int], int], size: int) -> set[int]:
    """Return the vertices on the sink's side of a minimum cut, as few as possible."""
    rows, columns = zip(*edges, strict=True)
    values = np.array([*edges.values()], np.int32)
    capacity: Any = sparse.csr_matrix((values, (rows, columns)), (size, size))
    left = capacity - flows.maximum_flow(capacity, 0, 1).flow
    left.eliminate_zeros()
    return set(flows.breadth_first_order(left.T.tocsr(), 1, return_predecessors=False).tolist())


def _cycles(node: Node, target: Target) -> tuple[float, float]:
    """Estimate the cycles of a convolution or pooling in NCHW and in NHWC."""
    if node.op != "conv2d":
        bytes_read = node.inputs[0].type.bytes
        return SLOWER["pool"] * bytes_read / BYTES_PER_CYCLE, bytes_read / BYTES_PER_CYCLE
    if node.attrs.get("out_dtype"):  # sums of bytes have fast kernels in NHWC alone
        return NEVER * SCALE, 0
    formula = best_formula(node, target, ("direct", "winograd"))
    best = formula.cycles(target.lanes(node.type.dtype), target.l2)
    depthwise = 1 < node.attrs.get("groups", 1) == node.type.shape[1]
    return SLOWER["depthwise" if depthwise else "conv2d"] * best, best


def _is_image(node: Node, k: int) -> bool:
    """Return whether input k of a node is in the layout of the node."""
    return len(node.inputs[k].type.shape) == 4 and (k == 0 or node.op not in IMAGES)


def _can_move(node: Node) -> bool:
    """Return whether a node can be computed in NHWC."""
    return can_permute(node, NCHW)


def can_permute(node: Node, back: Sequence[int]) -> bool:
    """Return whether a node's image can have its dimension d where dimension back[d] is now."""
    if node.is_leaf or not any(_is_image(node, k) for k in range(len(node.inputs))):
        return False
    axes, attrs = OPERATORS[node.op].axes, settled(node)
    if axes == "images":
        return attrs["layout"] == "NCHW"
    if axes == "axis" and len(node.type.shape) < 4:
        reduced_axes = {d % 4 for d in _tuple(attrs["axis"])}
        axes_left = [back[d] for d in range(4) if d not in reduced_axes]
        return axes_left == sorted(axes_left)  # otherwise the result would be permuted
    return axes in ("any", "axis") and len(node.type.shape) == 4


# --- the rewriting ---


def moved(node: Node, inputs: Sequence[Node], axes: Sequence[int]) -> Node:
    """Return a node on transposed images; `inputs` has them, transposed by `axes` already."""
    attrs = dict(node.attrs)
    match OPERATORS[node.op].axes:
        case "images":
            attrs["layout"] = "NHWC"
            kernels = [call("transpose", w, axes=KERNEL) for w in inputs[1:]]
            return call(node.op, inputs[0], *kernels, name=node.name, **attrs)
        case "any":
            return call(node.op, *(_broadcast(x, axes) for x in inputs), name=node.name, **attrs)
        case _:
            full = settled(node)
            if full.get("axis", 0) is not None and "axis" in full:
                where = tuple(axes.index(d % 4) for d in _tuple(full["axis"]))
                attrs["axis"] = where if isinstance(full["axis"], tuple) else where[0]
            for key in ("begin", "end", "strides", "pad_before", "pad_after"):
                if attrs.get(key) is not None:
                    attrs[key] = tuple(attrs[key][d] for d in axes)
            return call(node.op, *inputs, name=node.name, **attrs)


def _broadcast(x: Node, axes: Sequence[int]) -> Node:
    """Return an operand with fewer dimensions so that it broadcasts with transposed images."""
    rank = len(x.type.shape)
    if rank == 4 or x.type.elements == 1:
        return x
    wide = call("reshape", x, shape=(*([1] * (4 - rank)), *x.type.shape))
    return call("transpose", wide, axes=tuple(axes))


def settled(node: Node) -> Mapping[str, Any]:
    """Return all attributes of a node, including those that have their default values."""
    parameters = inspect.signature(OPERATORS[node.op].formula).parameters.values()
    default = {p.name: p.default for p in parameters if p.default is not p.empty}
    return {**default, **node.attrs}


def _tuple(axis: Any) -> tuple[int, ...]:
    """Return an attribute `axis` as a tuple; None means all dimensions."""
    return tuple(range(4)) if axis is None else as_tuple(axis)
