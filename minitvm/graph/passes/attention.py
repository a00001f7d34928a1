"""Recognise attention that is written as two products and a softmax."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from minitvm.base import Target

from ..node import Array, Graph, Node, rewritten
from ..operators import call

HIDDEN = -1e30  # a score this low, or lower, makes the weight of a key zero


def merge_attention(graph: Graph, target: Target) -> Graph:
    """Replace two products and a softmax by the operator attention, which keeps fewer scores.

    before   scores = add(multiply(batch_matmul(q, transpose(k)), b=0.125), mask)
             y = batch_matmul(softmax(scores), v)
    after    y = attention(q, k, v, mask, scale=0.125)

    The scores may be reshaped and scaled, and may have no mask; a mask that hides all later keys
    becomes causal=True. Not for GPUs and accelerators, as the schedule of attention is for caches.
    """
    if target.kind in ("cuda", "vta"):
        return graph
    readers, outputs = graph.readers(), set(graph.outputs)
    inner = {n for n, reading in readers.items() if len(reading) == 1 and n not in outputs}
    new: dict[Node, Node] = {}

    def change(node: Node, old: Node) -> Node:
        pattern = _pattern(old, inner)
        new[old] = node if pattern is None else _merged(old, pattern, new, graph.params)
        return new[old]

    return rewritten(graph, change)


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The operands of attention. `scores` is what the softmax reads; k is [..., depth, keys]."""

    q: Node
    k: Node
    v: Node
    mask: Node | None
    scores: Node
    scale: float


def _pattern(node: Node, inner: set[Node]) -> _Pattern | None:
    """Return the pattern of which `node` is the last product; None if it is not one.

    inner: the nodes that only one other node reads.
    """
    if node.op != "batch_matmul" or node.attrs:
        return None
    shares, _ = _peeled(node.inputs[0], inner, ("reshape",))
    if shares.op != "softmax" or shares not in inner or not _is_last(shares):
        return None
    scores = shares.inputs[0]
    sides = ((*scores.inputs, None) if scores.op == "add" else (scores, None))[:2]
    for side, mask in (sides, sides[::-1]):
        product, scale = _peeled(side, inner) if side is not None else (scores, 1.0)
        if product.op == "batch_matmul" and not product.attrs and {scores, product} <= inner:
            (q, q_scale), (k, k_scale) = (_peeled(x, inner) for x in product.inputs)
            pattern = _Pattern(q, k, node.inputs[1], mask, scores, scale * q_scale * k_scale)
            return pattern if k.op == "transpose" and _fits(product, pattern) else None
    return None


def _is_last(softmax: Node) -> bool:
    axis = softmax.attrs.get("axis", -1)
    return axis in (-1, len(softmax.type.shape) - 1)


def _peeled(
    node: Node, inner: set[Node], operators: tuple[str, ...] = ("reshape", "multiply", "divide")
) -> tuple[Node, float]:
    """Return the node before reshapes and products with numbers, and the product of the numbers."""
    scale = 1.0
    while node in inner and node.op in operators and len(node.inputs) == 1:
        number = node.attrs.get("b", 1.0)
        scale = scale / number if node.op == "divide" else scale * number
        (node,) = node.inputs
    return node, scale


def _fits(product: Node, p: _Pattern) -> bool:
    """Return whether reshapes leave the matrices as they are, and all batches are equal."""
    batch, queries, keys = product.type.shape
    depth = product.inputs[0].type.shape[2]
    sizes = (p.q, (queries, depth)), (p.k, (depth, keys)), (p.scores, (queries, keys))
    return (
        all(node.type.shape[-2:] == size for node, size in sizes)
        and all(node.type.shape[0] == batch for node in (*product.inputs, p.v))
        and len(p.scores.type.shape) in (3, 4)
        and p.scores.type.elements == product.type.elements
        and (p.mask is None or p.mask.type.dtype == product.type.dtype)
        and p.scale > 0
    )


def _merged(node: Node, p: _Pattern, new: Mapping[Node, Node], params: Mapping[str, Array]) -> Node:
    """Return the attention that computes `node`; `new` maps old nodes to those in place of them."""
    outer = p.scores.type.shape[:-2]
    outer = outer if len(outer) == 2 else (1, *outer)
    last = len(p.k.type.shape) - 1
    k = call("transpose", new[p.k], axes=(*range(last - 1), last, last - 1))
    operands = [
        call("reshape", x, shape=(*outer, *x.type.shape[-2:])) for x in (new[p.q], k, new[p.v])
    ]
    attrs = {"scale": p.scale}
    if p.mask is not None and not _is_causal(params.get(p.mask.name), p.scores.type.shape[-2:]):
        operands.append(new[p.mask])
    elif p.mask is not None:
        attrs["causal"] = True
    y = call("attention", *operands, name=node.name, **attrs)
    return call("reshape", y, name=node.name, shape=node.type.shape)


def _is_causal(mask: Array | None, sizes: tuple[int, ...]) -> bool:
    """Return whether a constant mask hides exactly the keys after each query."""
    if mask is None or mask.shape[-2:] != sizes or mask.size != sizes[0] * sizes[1]:
        return False
    later = np.triu(np.ones(sizes, np.bool_), 1)
    matrix = mask.reshape(sizes)
    return bool((matrix[~later] == 0).all() and (matrix[later] <= HIDDEN).all())
