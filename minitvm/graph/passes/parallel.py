"""Join operators that read the same tensor into one (horizontal fusion)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ..node import Array, Graph, Node, rewritten
from ..operators import OPERATORS, Fusion, call
from .fold import add_param, are_known, pruned

MIN_BRANCHES = 3  # branches, as in TVM: joining fewer saves less, and each slice is a copy
CHANNEL = {"conv2d": 3, "dense": 1}  # dimension of the output channels, counted from the last
Chain = Sequence[Node]  # a convolution or dense layer, and the elementwise operators after it


def merge_parallel(graph: Graph) -> Graph:
    """Join convolutions, or dense layers, of one input that differ in their weights alone.

    before   a = relu(add(conv2d(x, u), p)); b = relu(add(conv2d(x, v), q)); ...
    after    all = relu(add(conv2d(x, u and v and ...), p and q and ...)); a, b, ... = its slices

    One kernel reads the input once. Elementwise operators that all branches have are joined, too.
    """
    params, readers = dict(graph.params), graph.readers()
    branch: dict[Node, tuple[Sequence[Chain], int]] = {}  # last node of a chain -> its branches
    for first in _groups(graph, params):
        chains = _extended([[node] for node in first], graph, readers, params)
        branch |= {chain[-1]: (chains, k) for k, chain in enumerate(chains)}
    replacement: dict[Node, Node] = {}

    def change(node: Node, old: Node) -> Node:
        if old not in branch:
            return node
        chains, k = branch[old]
        first = chains[0][0]
        if first not in replacement:
            x = node
            for _ in chains[0]:
                x = x.inputs[0]
            replacement[first] = _joined(chains, x, params)
        return _slice(replacement[first], chains, k)

    return pruned(rewritten(graph, change).with_params(params))


def _groups(graph: Graph, params: Mapping[str, Array]) -> Iterator[list[Node]]:
    """Yield the operators of one input that can be computed as one; sums of bytes are left out."""
    groups: dict[object, list[Node]] = {}
    for node in graph.calls:
        known = are_known(node.inputs[1:], params)
        joins = node.attrs.get("groups", 1) == 1 and not node.attrs.get("out_dtype")
        if node.op in CHANNEL and known and joins:
            shapes = tuple(n.type.shape[1:] for n in node.inputs[1:])
            key = node.op, node.inputs[0], shapes, tuple(sorted(node.attrs.items()))
            groups.setdefault(key, []).append(node)
    return (group for group in groups.values() if len(group) >= MIN_BRANCHES)


def _extended(
    chains: list[list[Node]],
    graph: Graph,
    readers: Mapping[Node, list[Node]],
    params: Mapping[str, Array],
) -> Sequence[Chain]:
    """Return the chains with the elementwise operators that follow in each of them."""
    while True:
        last = [chain[-1] for chain in chains]
        after = [readers[node] for node in last if node not in graph.outputs]
        if [len(reading) for reading in after] != [1] * len(chains):
            return chains
        new = [reading[0] for reading in after]
        if not all(
            _follows(n, new[0], chain, params) for n, chain in zip(new, chains, strict=True)
        ):
            return chains
        chains = [[*chain, n] for chain, n in zip(chains, new, strict=True)]


def _follows(node: Node, first: Node, chain: Chain, params: Mapping[str, Array]) -> bool:
    """Return whether `node` does to its branch what `first` does, with a parameter of its own."""
    kind = OPERATORS[node.op].fusion if node.op in OPERATORS else Fusion.OPAQUE
    others = node.inputs[1:]
    channels, from_end = node.type.shape[-CHANNEL[chain[0].op]], CHANNEL[chain[0].op]
    return (
        kind <= Fusion.BROADCAST
        and (node.op, node.attrs, len(others)) == (first.op, first.attrs, len(first.inputs) - 1)
        and node.inputs[0] is chain[-1]
        and node.type == chain[-1].type
        and are_known(others, params)
        and all(n.type.shape == (channels, *([1] * (from_end - 1))) for n in others)
    )


def _joined(chains: Sequence[Chain], x: Node, params: dict[str, Array]) -> Node:
    """Return the node that computes all chains of the input `x`."""
    for nodes in zip(*chains, strict=True):
        others = [
            add_param(
                params,
                operands[0].name,
                np.concatenate([params[n.name] for n in operands]),
            )
            for operands in zip(*(node.inputs[1:] for node in nodes), strict=True)
        ]
        x = call(nodes[0].op, x, *others, name=nodes[0].name, **nodes[0].attrs)
    return x


def _slice(whole: Node, chains: Sequence[Chain], k: int) -> Node:
    """Return the channels of chain k."""
    d = len(whole.type.shape) - CHANNEL[chains[0][0].op]
    sizes = [chain[-1].type.shape[d] for chain in chains]
    begin, end = [0] * len(whole.type.shape), list(whole.type.shape)
    begin[d], end[d] = sum(sizes[:k]), sum(sizes[: k + 1])
    return call("strided_slice", whole, name=chains[k][-1].name, begin=begin, end=end)
