"""Store the weights of dense layers in int8 or bfloat16."""

from __future__ import annotations

import numpy as np

from minitvm.base import BFLOAT16, GraphError, dtype

from ..node import Array, Graph, Node, rewritten
from ..operators import call
from .fold import add_param, are_known, pruned

LARGEST = 127  # the scales are symmetric: -128 is not used


def int8_weights(graph: Graph, group: int = 32) -> Graph:
    """Return the network with the constant weights of its dense layers stored in int8.

    before   y = dense(x, w, bias)               # w float32[N, K]
    after    y = add(dense_int8(x, q, s), bias)  # q int8[N, K], s float32[N, K / group]

    Each group of weights along a row has the scale max(abs(w)) / 127. Data stay float32, and so do
    weights whose rows are no multiple of `group` long. This changes results: a weight is rounded to
    a 254th of the range of its group.
    """
    if group < 1:
        raise GraphError(f"int8_weights: group {group}", "it must be at least 1", "group=32")
    params = dict(graph.params)

    def change(node: Node, _: Node) -> Node:
        if node.op != "dense" or not are_known(node.inputs[1:], params):
            return node
        x, w, *bias = node.inputs
        if str(w.type.dtype) != "float32" or w.type.shape[1] % group or node.attrs:
            return node
        values, scales = _quantised(params[w.name], group)
        parts = (
            add_param(params, f"{w.name}.int8", values),
            add_param(params, f"{w.name}.scales", scales),
        )
        y = call("dense_int8", x, *parts, name=node.name)
        return call("add", y, *bias, name=node.name) if bias else y

    return pruned(rewritten(graph, change).with_params(params))


def bfloat16_weights(graph: Graph) -> Graph:
    """Return the network with the constant float32 weights of its dense layers in bfloat16.

    before   y = dense(x, w, bias)  # w float32[N, K]
    after    y = dense(x, v, bias)  # v bfloat16[N, K]

    Data, products and sums stay float32, and a weight is rounded to 8 bits. Raises ExprError
    without the package ml_dtypes.
    """
    params, kind = dict(graph.params), dtype(BFLOAT16).numpy

    def change(node: Node, _: Node) -> Node:
        if node.op != "dense" or not are_known(node.inputs[1:2], params):
            return node
        x, w, *bias = node.inputs
        if w.type.dtype != "float32":
            return node
        narrow = add_param(params, f"{w.name}.{BFLOAT16}", params[w.name].astype(kind))
        return call("dense", x, narrow, *bias, name=node.name, **node.attrs)

    return pruned(rewritten(graph, change).with_params(params))


def _quantised(w: Array, group: int) -> tuple[Array, Array]:
    """Return w [N, K] as integers of int8, and the scales [N, K / group] of their groups."""
    groups = w.reshape(len(w), -1, group)
    scales = np.abs(groups).max(-1) / np.float32(LARGEST)
    values = np.rint(groups / np.where(scales > 0, scales, 1)[..., None])
    return values.astype(np.int8).reshape(w.shape), scales
