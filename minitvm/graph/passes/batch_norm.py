"""Fold batch normalisation into the weights of the operator before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..node import Array, Graph, Node, rewritten
from ..operators import call
from .fold import add_param, are_known, pruned

CHANNEL = {"conv2d": 0, "conv3d": 0, "dense": 0, "conv2d_transpose": 1}  # output channel of weights


def fold_batch_norm(graph: Graph) -> Graph:
    """Replace batch normalisation by a shift, and by a scale that goes into the weights.

    With scale = gamma / sqrt(variance + epsilon) and shift = beta - mean * scale:

    before   y = batch_norm(conv2d(x, w), gamma, beta, mean, variance)
    after    y = add(conv2d(x, w * scale), shift)

    Where other nodes read the convolution, too, the scale stays a multiplication. A batch
    normalisation whose parameters have no values stays.
    """
    params, readers = dict(graph.params), graph.readers()

    def change(node: Node, old: Node) -> Node:
        if node.op != "batch_norm" or not are_known(node.inputs[1:], params):
            return node
        x, *vectors = node.inputs
        axis = node.attrs.get("axis", 1) % len(node.type.shape)
        scale, shift = _line(node, [params[n.name] for n in vectors])
        broadcast = (scale.size, *([1] * (len(node.type.shape) - axis - 1)))
        name = vectors[0].name
        has_one_reader = len(readers[old.inputs[0]]) == 1 and old.inputs[0] not in graph.outputs
        if has_one_reader and axis == 1 and x.op in CHANNEL and are_known(x.inputs[1:], params):
            weights = params[x.inputs[1].name]
            shape = [1] * weights.ndim
            shape[CHANNEL[x.op]] = -1
            scaled_weights = add_param(params, x.inputs[1].name, weights * scale.reshape(shape))
            x = replace(x, inputs=(x.inputs[0], scaled_weights, *x.inputs[2:]))
            if x.inputs[2:]:  # the bias of a dense layer
                bias = add_param(params, x.inputs[2].name, params[x.inputs[2].name] * scale)
                x = replace(x, inputs=(*x.inputs[:2], bias))
        else:
            x = call("multiply", x, add_param(params, f"{name}.scale", scale.reshape(broadcast)))
        return call("add", x, add_param(params, f"{name}.shift", shift.reshape(broadcast)))

    return pruned(rewritten(graph, change).with_params(params))


def _line(node: Node, vectors: Sequence[Array]) -> tuple[Array, Array]:
    """Return the scale and the shift of a batch normalisation, computed in float64."""
    gamma, beta, mean, variance = (vector.astype(np.float64) for vector in vectors)
    scale = gamma / np.sqrt(variance + node.attrs.get("epsilon", 1e-5))
    kind = node.type.dtype.numpy
    return scale.astype(kind), (beta - mean * scale).astype(kind)
