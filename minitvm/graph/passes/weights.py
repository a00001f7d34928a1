"""Store the weights of dense layers in int8 or bfloat16."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minitvm.base import BFLOAT16, GraphError, dtype

from ..node import Array, Graph, Node, rewritten, stored
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

    def narrow(w: Array) -> dict[str, Array] | None:
        if w.shape[1] % group:
            return None
        values, scales = _quantised(w, group)
        return {"int8": values, "scales": scales}

    def layer(node: Node, x: Node, q: Node, scales: Node, *bias: Node) -> Node:
        y = call("dense_int8", x, q, scales, name=node.name)
        return call("add", y, *bias, name=node.name) if bias else y

    return _with_weights(graph, narrow, layer)


def bfloat16_weights(graph: Graph) -> Graph:
    """Return the network with the constant float32 weights of its dense layers in bfloat16.

    before   y = dense(x, w, bias)  # w float32[N, K]
    after    y = dense(x, v, bias)  # v bfloat16[N, K]

    Data, products and sums stay float32; a weight keeps 8 significant bits. Raises ExprError
    without the package ml_dtypes.
    """
    kind = dtype(BFLOAT16).numpy
    return _with_weights(graph, lambda w: {BFLOAT16: w.astype(kind)}, _dense)


def _dense(node: Node, x: Node, w: Node, *bias: Node) -> Node:
    return call("dense", x, w, *bias, name=node.name)


def _with_weights(
    graph: Graph, narrow: Callable[[Array], dict[str, Array] | None], layer: Callable[..., Node]
) -> Graph:
    """Return the network with other weights of its dense layers on float32 data.

    narrow   returns the arrays that replace a weight in float32, by the ends of their names; None
             if it stays as it is. Layers with the same weight share them
    layer    returns a layer that reads them: layer(node, x, *parameters, *bias)
    """
    params, parts = dict(graph.params), dict[str, tuple[Node, ...]]()

    def change(node: Node, _: Node) -> Node:
        if node.op != "dense" or node.attrs or node.inputs[0].type.dtype != "float32":
            return node
        x, w, *bias = node.inputs
        w = stored(w)
        if w.type.dtype not in ("float32", BFLOAT16) or not are_known((w, *bias), params):
            return node
        if w.name not in parts:
            arrays = narrow(params[w.name].astype("float32")) or {}
            parts[w.name] = tuple(add_param(params, f"{w.name}.{k}", a) for k, a in arrays.items())
        return layer(node, x, *parts[w.name], *bias) if parts[w.name] else node

    return pruned(rewritten(graph, change).with_params(params))


def _quantised(w: Array, group: int) -> tuple[Array, Array]:
    """Return w [N, K] as integers of int8, and the scales [N, K / group] of their groups."""
    groups = w.reshape(len(w), -1, group)
    scales = np.abs(groups).max(-1) / np.float32(LARGEST)
    values = np.rint(groups / np.where(scales > 0, scales, 1)[..., None])
    return values.astype(np.int8).reshape(w.shape), scales
