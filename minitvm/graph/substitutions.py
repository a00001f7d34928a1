"""RULES: graph substitutions, from a pattern in a network to another that computes the same.

A rule need not make a network cheaper. Some increase its cost, such as a larger kernel, so that
another rule applies afterwards; graph.search looks for sequences that pay. Most of the rules are
from "Optimizing DNN Computation with Relaxed Graph Substitutions" (Jia et al. 2019).

Weights are rewritten by operators, which fold_constants computes: conv2d(x, pad(w)). So a search
copies no weights.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise, permutations

import numpy as np

from minitvm.base import as_tuple

from . import passes
from .node import PARAM, Array, Graph, Node, substituted
from .operators import call


@dataclass(frozen=True, slots=True)
class Match:
    """A place in a network where a rule applies.

    nodes    the nodes of the pattern
    new      {node of the network: what takes its place}
    params   values of new parameters that `new` reads
    """

    nodes: tuple[Node, ...]
    new: Mapping[Node, Node]
    params: Mapping[str, Array] = field(default_factory=dict[str, Array])

    @property
    def where(self) -> str:
        """The name of the first node that has one, or the operator of the last."""
        return next((node.name for node in self.nodes if node.name), self.nodes[-1].op)

    def applied(self, graph: Graph) -> Graph:
        """Return the network after this substitution."""
        outputs = substituted(graph.outputs, self.new)
        return replace(graph, outputs=outputs, params={**graph.params, **self.params})


class View:
    """A network as rules see it: who reads what, and which nodes depend on parameters alone."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.readers = graph, graph.readers()
        constants = set[Node]()
        for node in graph.nodes:
            if node.op == PARAM or (node.inputs and constants.issuperset(node.inputs)):
                constants.add(node)
        self.constants = frozenset(constants)

    @cached_property
    def convolutions(self) -> tuple[Node, ...]:
        """All convolutions of images in NCHW by constant weights, without groups."""
        return tuple(node for node in self.graph.calls if self._is_convolution(node))

    def _is_convolution(self, node: Node) -> bool:
        other = {"groups": 1, "layout": "NCHW", "method": "", "out_dtype": "", "pad_value": 0}
        return (
            node.op == "conv2d"
            and node.inputs[1] in self.constants
            and node.inputs[0] not in self.constants
            and all(node.attrs.get(key, value) == value for key, value in other.items())
        )

    def is_private(self, node: Node) -> bool:
        """Return whether one node reads this one, once, and the network does not return it."""
        return len(self.readers[node]) == 1 and node not in self.graph.outputs

    def biased(self, node: Node) -> Biased | None:
        """Return a node as a convolution plus constants; None if it is something else."""
        biases = list[Node]()
        while node.op == "add" and len(node.inputs) == 2:
            x, bias = sorted(node.inputs, key=self.constants.__contains__)
            if bias not in self.constants or x.type != node.type or not self.is_private(x):
                return None
            node, biases = x, [bias, *biases]
        return Biased(node, tuple(biases)) if node in self.convolutions else None


@dataclass(frozen=True, slots=True)
class Biased:
    """The sum of a convolution and constants, added in this order."""

    conv: Node
    biases: tuple[Node, ...] = ()

    def sum_of(self, conv: Node) -> Node:
        """Return another convolution plus the same constants."""
        for bias in self.biases:
            conv = call("add", conv, bias)
        return conv


@dataclass(frozen=True, slots=True)
class Rule:
    """A substitution.

    before, after   an example, as in the docstring of a pass
    matches         yields the places where it applies, always in the same order
    """

    name: str
    before: str
    after: str
    matches: Callable[[View], Iterator[Match]]

    def __str__(self) -> str:
        return f"{self.name}\n  before  {self.before}\n  after   {self.after}"


# --- kernels -------------------------------------------------------------------------------------


def _enlarge(view: View) -> Iterator[Match]:
    """Yield convolutions whose input another convolution reads with a larger kernel."""
    for small, large in permutations(view.convolutions, 2):
        (weights, others), images = (n.inputs[1] for n in (small, large)), small.inputs[0]
        extra = [b - a for a, b in zip(weights.type.shape[2:], others.type.shape[2:], strict=True)]
        if images is not large.inputs[0] or not any(extra) or any(n < 0 or n % 2 for n in extra):
            continue
        around = (0, 0, *(n // 2 for n in extra))
        windows = _window(small), _window(large)
        if None in windows or windows[1] != _widened(windows[0], around[2:]):
            continue
        zeros = call("pad", weights, pad_before=around, pad_after=around)
        new = call("conv2d", images, zeros, name=small.name, **large.attrs)
        yield Match((small, large), {small: new})


Window = tuple[tuple[int, ...], tuple[int, ...]]  # strides and padding, for rows and columns


def _window(conv: Node) -> Window | None:
    """Return strides and padding; None if the kernel is dilated or the padding is not symmetric."""
    strides, padding, dilation = (
        as_tuple(conv.attrs.get(key, default))
        for key, default in (("strides", 1), ("padding", 0), ("dilation", 1))
    )
    if set(dilation) != {1} or len(padding) > 2:
        return None
    return strides * (2 // len(strides)), padding * (2 // len(padding))


def _widened(window: Window | None, by: tuple[int, ...]) -> Window | None:
    """Return a window with more padding."""
    if window is None:
        return None
    return window[0], tuple(a + b for a, b in zip(window[1], by, strict=True))


def _compose(view: View) -> Iterator[Match]:
    """Yield 1x1 convolutions of what only they read from a convolution, perhaps with a bias."""
    for conv in view.convolutions:
        images, v = conv.inputs
        first = view.biased(images) if view.is_private(images) else None
        is_point = v.type.shape[2:] == (1, 1) and _window(conv) == ((1, 1), (0, 0))
        if first is None or not is_point:
            continue
        outs, ins = v.type.shape[:2]
        if any(b.type.shape != (ins, 1, 1) for b in first.biases):
            continue
        x, u = first.conv.inputs
        weights = _product(v, u, (outs, *u.type.shape[1:]))
        biases = tuple(_product(v, bias, (outs, 1, 1)) for bias in first.biases)
        new = call("conv2d", x, weights, name=conv.name, **first.conv.attrs)
        yield Match((first.conv, images, conv), {conv: Biased(new, biases).sum_of(new)})


def _product(v: Node, w: Node, shape: tuple[int, ...]) -> Node:
    """Return 1x1 weights v [O, C, 1, 1] times w [C, ...], as a tensor of this shape."""
    outs, ins = v.type.shape[:2]
    matrix = call("reshape", v, shape=(outs, ins))
    rows = call("reshape", w, shape=(ins, w.type.elements // ins))
    return call("reshape", call("matmul", matrix, rows), shape=shape)


# --- sums ----------------------------------------------------------------------------------------


def _sums(view: View) -> Iterator[tuple[Node, Biased, Biased]]:
    """Yield sums of two convolutions that nothing else reads, with equal attributes."""
    for node in view.graph.calls:
        if node.op == "add" and len(set(node.inputs)) == 2 and view.biased(node) is None:
            terms = [view.biased(term) for term in node.inputs if view.is_private(term)]
            match terms:
                case [Biased() as a, Biased() as b] if a.conv.attrs == b.conv.attrs:
                    yield node, a, b
                case _:
                    pass


def _add_kernels(view: View) -> Iterator[Match]:
    """Yield sums of two convolutions of one input."""
    for node, a, b in _sums(view):
        (x, u), (y, v) = a.conv.inputs, b.conv.inputs
        if x is y and u.type == v.type:
            new = call("conv2d", x, call("add", u, v), name=a.conv.name, **a.conv.attrs)
            yield Match((a.conv, b.conv, node), {node: b.sum_of(a.sum_of(new))})


def _concatenate_sum(view: View) -> Iterator[Match]:
    """Yield sums of convolutions of two inputs of the same size."""
    for node, a, b in _sums(view):
        (x, u), (y, v) = a.conv.inputs, b.conv.inputs
        sizes = [(n.type.shape[0], n.type.shape[2:], w.type.shape[2:]) for n, w in ((x, u), (y, v))]
        if x is not y and sizes[0] == sizes[1]:
            whole, weights = (call("concatenate", *pair, axis=1) for pair in ((x, y), (u, v)))
            new = call("conv2d", whole, weights, name=a.conv.name, **a.conv.attrs)
            yield Match((a.conv, b.conv, node), {node: b.sum_of(a.sum_of(new))})


def _split_concatenate(view: View) -> Iterator[Match]:
    """Yield convolutions that alone read a concatenate of channels."""
    for conv in view.convolutions:
        whole = conv.inputs[0]
        if whole.op == "concatenate" and view.is_private(whole) and _axis(whole) == 1:
            new = passes.sum_of_convolutions(conv, whole, "NCHW")
            if new is not conv:
                yield Match((whole, conv), {conv: new})


# --- slices --------------------------------------------------------------------------------------


def _merge(view: View) -> Iterator[Match]:
    """Yield convolutions, or dense layers, of one input, with what follows in all of them."""
    for chains in passes.parallel_chains(view.graph, view.constants):
        if chains[0][0].inputs[0] not in view.constants:
            yield Match(tuple(n for chain in chains for n in chain), passes.joined(chains))


def _channels(node: Node) -> tuple[int, int] | None:
    """Return the range of channels that a slice takes; None if it is no slice of channels."""
    if node.op != "strided_slice" or node.attrs.get("strides"):
        return None
    whole, begin, end = node.inputs[0].type.shape, node.attrs["begin"], node.attrs["end"]
    full = [(0, n) for n in whole]
    if len(begin) != len(whole) or len(whole) < 2 or not 0 <= begin[1] < end[1] <= whole[1]:
        return None
    rest = [pair for d, pair in enumerate(zip(begin, end, strict=True)) if d != 1]
    return (begin[1], end[1]) if rest == [full[0], *full[2:]] else None


def _axis(node: Node) -> int:
    """Return the dimension along which a concatenate joins its inputs."""
    return node.attrs.get("axis", 0) % len(node.type.shape)


def _lift_relu(view: View) -> Iterator[Match]:
    """Yield tensors read by slices of channels alone, some of which only a relu reads."""
    for whole in view.graph.calls:
        slices = view.readers[whole]
        ranges = sorted(r for r in map(_channels, slices) if r is not None)
        if len(ranges) < len(slices) or not ranges or whole in view.graph.outputs:
            continue
        ends = {n: view.readers[n][0] for n in slices if view.is_private(n)}
        relus = {n: end for n, end in ends.items() if end.op == "relu"}
        overlap = any(a[1] > b[0] for a, b in pairwise(ranges))
        if not relus or overlap or not whole.type.dtype.is_float:
            continue
        params = dict(view.graph.params)
        lifted = call("relu", whole, name=whole.name)
        if len(relus) < len(slices):
            shape = (whole.type.shape[1], *([1] * (len(whole.type.shape) - 2)))
            dtype = str(whole.type.dtype)
            floor = np.full(shape, np.finfo(dtype).min, dtype)
            for part in relus:
                floor[slice(*_channels(part) or ())] = 0
            lifted = call("maximum", whole, passes.add_param(params, "floor", floor))
        new = {relus.get(n, n): call(n.op, lifted, name=n.name, **n.attrs) for n in slices}
        added = {name: params[name] for name in params.keys() - view.graph.params.keys()}
        yield Match((whole, *slices, *relus.values()), new, added)


def _join_slices(view: View) -> Iterator[Match]:
    """Yield concatenates of slices of channels of one tensor that follow each other."""
    for node in view.graph.calls:
        ranges = [_channels(n) for n in node.inputs]
        if node.op != "concatenate" or _axis(node) != 1 or None in ranges:
            continue
        places = [r for r in ranges if r is not None]
        whole = node.inputs[0].inputs[0]
        follow = all(a[1] == b[0] for a, b in pairwise(places))
        if follow and all(n.inputs[0] is whole for n in node.inputs):
            begin, end = [0] * len(whole.type.shape), list(whole.type.shape)
            begin[1], end[1] = places[0][0], places[-1][1]
            part = call("strided_slice", whole, name=node.name, begin=begin, end=end)
            yield Match((*node.inputs, node), {node: whole if part.type == whole.type else part})


RULES: tuple[Rule, ...] = (
    Rule(
        "enlarge kernel",
        "conv2d(x, u), conv2d(x, v, padding=1)  with u 1x1 and v 3x3",
        "conv2d(x, pad(u), padding=1), conv2d(x, v, padding=1)",
        _enlarge,
    ),
    Rule(
        "merge convolutions",
        "relu(conv2d(x, u)), relu(conv2d(x, v))",
        "slices of relu(conv2d(x, concatenate(u, v)))",
        _merge,
    ),
    Rule(
        "lift relu",
        "relu(slice(x, 0, 8)), slice(x, 8, 16)",
        "slices of maximum(x, floor)  with floor 0 or the least number",
        _lift_relu,
    ),
    Rule("join slices", "concatenate(slice(x, 0, 8), slice(x, 8, 16))", "x", _join_slices),
    Rule("add kernels", "conv2d(x, u) + conv2d(x, v)", "conv2d(x, u + v)", _add_kernels),
    Rule(
        "concatenate sum",
        "conv2d(x, u) + conv2d(y, v)",
        "conv2d(concatenate(x, y), concatenate(u, v))",
        _concatenate_sum,
    ),
    Rule(
        "split concatenate",
        "conv2d(concatenate(x, y), w)",
        "conv2d(x, slice(w)) + conv2d(y, slice(w))",
        _split_concatenate,
    ),
    Rule(
        "compose convolutions",
        "conv2d(conv2d(x, u) + p, v)  with v 1x1",
        "conv2d(x, v u) + v p",
        _compose,
    ),
)
