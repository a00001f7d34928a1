"""Convolve the parts of a concatenate one by one, so that nothing has to be copied together.

    c = concatenate(a, b, axis=1)       va = strided_slice(w, ...), vb = strided_slice(w, ...)
    y = conv2d(c, w)              ->    y = add(conv2d(b, vb), conv2d(a, va))

A convolution is a sum over input channels, so this is a sum of convolutions of fewer channels. The
second one and the sum are one kernel. fold_constants computes the slices of the weights. A pooling
of a concatenate becomes a concatenate of poolings, after which a convolution may follow.
"""

from __future__ import annotations

from itertools import accumulate

from ..node import Graph, Node, rewritten
from ..operators import call

POOLINGS = ("max_pool2d", "avg_pool2d", "global_avg_pool2d")
CHANNELS = {"NCHW": (1, 1), "NHWC": (3, 2)}  # layout -> axis of input channels in data, kernel


def split_concatenate(graph: Graph) -> Graph:
    """Return the network without the concatenates that only one convolution or pooling reads.

    A convolution is split if its partial results are smaller than the concatenated tensor.
    """
    readers, outputs = graph.readers(), set(graph.outputs)
    new_concatenates = set[Node]()  # new concatenates with one reader

    def change(node: Node, old: Node) -> Node:
        new = _split(node, new_concatenates)
        if new.op == "concatenate" and len(readers[old]) == 1 and old not in outputs:
            new_concatenates.add(new)
        return new

    return rewritten(graph, change)


def _split(node: Node, joined: set[Node]) -> Node:
    """Return the replacement of a node: itself unless it reads a concatenate of channels."""
    if not node.inputs or node.inputs[0] not in joined:
        return node
    whole, layout = node.inputs[0], str(node.attrs.get("layout", "NCHW"))
    if layout not in CHANNELS or whole.attrs.get("axis", 0) % 4 != CHANNELS[layout][0]:
        return node
    if node.op in POOLINGS:
        parts = (call(node.op, part, name=node.name, **node.attrs) for part in whole.inputs)
        return call("concatenate", *parts, name=whole.name, **whole.attrs)
    if node.op == "conv2d" and node.attrs.get("groups", 1) == 1:
        return sum_of_convolutions(node, whole, layout)
    return node


def sum_of_convolutions(node: Node, whole: Node, layout: str) -> Node:
    """Return a sum of convolutions of the parts, or `node` if these would write more."""
    at, ins = CHANNELS[layout]
    kernel = node.inputs[1]
    shape = kernel.type.shape
    if (len(whole.inputs) - 1) * node.type.bytes >= whole.type.bytes:
        return node
    ends = accumulate(part.type.shape[at] for part in whole.inputs)
    total: Node | None = None
    for part, end in zip(whole.inputs, ends, strict=True):
        first = end - part.type.shape[at]
        begin = tuple(first if d == ins else 0 for d in range(len(shape)))
        stops = tuple(end if d == ins else n for d, n in enumerate(shape))
        weights = call("strided_slice", kernel, begin=begin, end=stops)
        product = call("conv2d", part, weights, name=node.name, **node.attrs)
        total = product if total is None else call("add", product, total, name=node.name)
    assert total is not None  # a concatenate has parts
    return total
