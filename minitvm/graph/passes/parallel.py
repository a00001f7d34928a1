"""Join operators that read the same tensor into one (horizontal fusion)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ..node import Graph, Node, substituted
from ..operators import OPERATORS, Fusion, call
from .fold import are_known, fold_constants

MIN_BRANCHES = 3  # branches, as in TVM: joining fewer saves less, and each slice is a copy
CHANNEL = {"conv2d": 3, "dense": 1}  # dimension of the output channels, counted from the last
Constants = set[Node] | frozenset[Node]  # nodes that are weights
Chain = Sequence[Node]  # a convolution or dense layer, and the elementwise operators after it


def merge_parallel(graph: Graph) -> Graph:
    """Join convolutions, or dense layers, of one input that differ in their weights alone.

    before   a = relu(add(conv2d(x, u), p)); b = relu(add(conv2d(x, v), q)); ...
    after    all = relu(add(conv2d(x, u and v and ...), p and q and ...)); a, b, ... = its slices

    One kernel reads the input once. Elementwise operators that all branches have are joined, too.
    """
    known = {node for node in graph.nodes if are_known((node,), graph.params)}
    while chains := next(parallel_chains(graph, known, MIN_BRANCHES), None):
        graph = replace(graph, outputs=substituted(graph.outputs, joined(chains)))
    return fold_constants(graph)


def parallel_chains(
    graph: Graph, constants: Constants, least: int = 2
) -> Iterator[Sequence[Chain]]:
    """Yield groups of at least `least` chains that can be computed as one; `constants` are weights.

    Sums of bytes are left out.
    """
    groups: dict[object, list[Node]] = {}
    for node in graph.calls:
        joins = node.attrs.get("groups", 1) == 1 and not node.attrs.get("out_dtype")
        if node.op in CHANNEL and joins and constants.issuperset(node.inputs[1:]):
            shapes = tuple(n.type.shape[1:] for n in node.inputs[1:])
            key = node.op, node.inputs[0], shapes, tuple(sorted(node.attrs.items()))
            groups.setdefault(key, []).append(node)
    readers = graph.readers()
    for group in groups.values():
        if len(group) >= least:
            yield _extended([[node] for node in group], graph, readers, constants)


def _extended(
    chains: list[list[Node]], graph: Graph, readers: Mapping[Node, list[Node]], constants: Constants
) -> Sequence[Chain]:
    """Return the chains with the elementwise operators that follow in each of them."""
    while True:
        last = [chain[-1] for chain in chains]
        after = [readers[node] for node in last if node not in graph.outputs]
        if [len(reading) for reading in after] != [1] * len(chains):
            return chains
        new = [reading[0] for reading in after]
        if not all(
            _follows(n, new[0], chain, constants) for n, chain in zip(new, chains, strict=True)
        ):
            return chains
        chains = [[*chain, n] for chain, n in zip(chains, new, strict=True)]


def _follows(node: Node, first: Node, chain: Chain, constants: Constants) -> bool:
    """Return whether `node` applies the operator of `first`, with its own parameter."""
    kind = OPERATORS[node.op].fusion if node.op in OPERATORS else Fusion.OPAQUE
    others = node.inputs[1:]
    channels, from_end = node.type.shape[-CHANNEL[chain[0].op]], CHANNEL[chain[0].op]
    return (
        kind <= Fusion.BROADCAST
        and (node.op, node.attrs, len(others)) == (first.op, first.attrs, len(first.inputs) - 1)
        and node.inputs[0] is chain[-1]
        and node.type == chain[-1].type
        and constants.issuperset(others)
        and all(n.type.shape == (channels, *([1] * (from_end - 1))) for n in others)
    )


def joined(chains: Sequence[Chain]) -> dict[Node, Node]:
    """Return for the last node of each chain the slice of one node that computes all of them."""
    whole = chains[0][0].inputs[0]
    for nodes in zip(*chains, strict=True):
        operands = zip(*(node.inputs[1:] for node in nodes), strict=True)
        others = [call("concatenate", *each, axis=0) for each in operands]
        whole = call(nodes[0].op, whole, *others, name=nodes[0].name, **nodes[0].attrs)
    return {chain[-1]: _slice(whole, chains, k) for k, chain in enumerate(chains)}


def _slice(whole: Node, chains: Sequence[Chain], k: int) -> Node:
    """Return the channels of chain k."""
    d = len(whole.type.shape) - CHANNEL[chains[0][0].op]
    sizes = [chain[-1].type.shape[d] for chain in chains]
    begin, end = [0] * len(whole.type.shape), list(whole.type.shape)
    begin[d], end[d] = sum(sizes[:k]), sum(sizes[: k + 1])
    return call("strided_slice", whole, name=chains[k][-1].name, begin=begin, end=end)
