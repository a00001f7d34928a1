"""Compute quantised networks in integers.

    x = dequantise(q, scale=.1, zero=128)        sums = conv2d(q, w, out_dtype="int32", ...)
    v = dequantise(w, scales, axis=0)        ->  y = requantise(sums, bias, factors, zero=9, ...)
    y = quantise(relu(add(conv2d(x, v), bias)), scale=.2, zero=9)

The pass goes from inputs to outputs and keeps, for each real tensor, what integers are known to
stand for it (meanings.py). A dequantise makes Codes known. Operators that move elements keep them.
A convolution, a product or a mean of Codes gives Sums, and the sum of two Codes is a Pair. Biases
and limits change Sums. A quantise of what is known needs no real numbers; what else reads it gets a
dequantise. Jacob et al. 2018, sections 2.2 to 2.4.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ..evaluate import value_of
from ..node import Array, Graph, Node, rewritten
from ..operators import call
from .fold import add_param, are_known, pruned
from .meanings import Codes, Meaning, Pair, Params, Scaling, Sums
from .offload import offloaded

MOST_PRODUCTS = 66_000  # of bytes, whose sum is less than 2^31 in any case
Known: TypeAlias = Meaning | None
Rule: TypeAlias = Callable[["Integers", Node, Sequence[Known]], Meaning | str]
MOVES = ("concatenate", "identity", "max_pool2d", "reshape", "strided_slice", "transpose")
PRODUCTS = ("conv2d", "dense", "matmul")
MEANS = ("global_avg_pool2d", "mean")
SAME = ("clip", "dequantise", "relu")  # operators whose real result is not computed in another way
BIGGEST = 1 << 30  # the greatest bias
NOT_QUANTISED = "its input is not quantised, with one scale, to bytes"


def integers(graph: Graph, accelerated: bool = False) -> Graph:
    """Compute what lies between a dequantise and a quantise in integers.

    before   quantise(relu(conv2d(dequantise(q, scale=.1, zero=128), dequantise(w, v))), scale=.2)
    after    requantise(conv2d(q, w, out_dtype="int32"), bias, factors)

    accelerated   whether the current accelerator computes the convolutions that it can compute
    """
    return Integers(dict(graph.params), accelerated).rewritten(graph)


@dataclass(slots=True)
class Integers:
    """The pass while it runs.

    accelerated   whether the current accelerator computes the convolutions that it can compute
    known         what is known of a new node with real numbers
    why           why a new node with real numbers has to be computed
    on_cpu        why the CPU computes a convolution or another product of bytes
    blocks        images -> the same images in the blocks of the accelerator
    reals         the old nodes -> the new nodes with the same real numbers
    """

    params: Params
    accelerated: bool = False
    known: dict[Node, Meaning] = field(default_factory=dict[Node, Meaning])
    why: dict[Node, str] = field(default_factory=dict[Node, str])
    on_cpu: dict[Node, str] = field(default_factory=dict[Node, str])
    blocks: dict[Node, Node] = field(default_factory=dict[Node, Node])
    reals: dict[Node, Node] = field(default_factory=dict[Node, Node])

    def rewritten(self, graph: Graph) -> Graph:
        """Return the network after the pass."""
        return pruned(rewritten(graph, self._changed).with_params(self.params))

    def _changed(self, node: Node, old: Node) -> Node:
        if node.is_leaf:
            return node
        if node.op == "quantise":
            return self._quantised(node) or node
        meanings = [self.known.get(n) for n in node.inputs]
        rule = RULES.get(node.op)
        meaning = rule(self, node, meanings) if rule else f"{node.op} has no integer form"
        new = node
        if isinstance(meaning, str):
            self.why[new] = meaning
        else:
            if (
                node.op not in SAME
                and not isinstance(meaning, Pair)
                and not (isinstance(meaning, Sums) and meaning.residual)
            ):
                new = meaning.real(self.params, node.name)
            self.known[new] = meaning
        self.reals[old] = new
        return new

    def _quantised(self, node: Node) -> Node | None:
        """Return a quantise of what is known, in integers; None if that is not possible."""
        meaning, to = self.known.get(node.inputs[0]), scaling(node)
        if meaning is None or to is None:
            return None
        name = node.inputs[0].name or node.name
        if self.accelerated and isinstance(meaning, Sums):
            new = offloaded(meaning, to, self.params, name, self.blocks)
            if isinstance(new, Node):
                return new
            self.on_cpu[meaning.node] = new
        return meaning.quantised(to, self.params, name)

    def constant(self, node: Node) -> Array | None:
        """Return the value of a parameter; None for other nodes, and without a value."""
        return self.params[node.name] if are_known((node,), self.params) else None

    def moved(self, node: Node, x: Codes | Sums, axis: int | None) -> Codes | Sums:
        """Return the integers that the operator of `node` makes of `x`."""
        new = call(node.op, x.node, name=node.name, **node.attrs)
        value = self.constant(x.node)
        if value is not None:
            new = add_param(self.params, f"{x.node.name}.{node.op}", value_of(new, [value]))
        return replace(x, node=new, axis=axis)


def scaling(node: Node) -> Scaling | None:
    """Return the scaling of a quantise; None unless scale and zero point are constant numbers."""
    scale = np.float32(node.attrs.get("scale", 0))
    if len(node.inputs) > 1 or not _are_scales(scale):
        return None
    return Scaling(scale, int(node.attrs.get("zero", 0)), str(node.type.dtype))


def _are_scales(scale: Any) -> bool:
    """Return whether all scales are positive and finite: larger codes are larger numbers."""
    return bool(np.all((scale > 0) & (scale < np.inf)))


# --- rules: what is known of the result of an operator, or why nothing is ------------------------


def _dequantise(run: Integers, node: Node, _: Sequence[Known]) -> Meaning | str:
    q, *vectors = node.inputs
    if not are_known(vectors, run.params):
        return "its scale or zero point is not constant"
    parts = dict(zip(("scale", "zero"), [run.params[v.name] for v in vectors], strict=False))
    parts = {"zero": 0, **node.attrs, **parts}
    axis: int | None = node.attrs.get("axis", -1) % len(q.type.shape) if vectors else None
    scale, zero = np.asarray(parts["scale"], np.float32), np.asarray(parts["zero"], np.int32)
    if axis is not None:
        size = q.type.shape[axis : axis + 1]
        scale, zero = np.broadcast_to(scale, size), np.broadcast_to(zero, size)
    return Codes(q, scale, zero, axis) if _are_scales(scale) else "its scale is not positive"


def _move(run: Integers, node: Node, inputs: Sequence[Known]) -> Meaning | str:
    (x,) = inputs
    if not isinstance(x, Codes | Sums):
        return NOT_QUANTISED
    if isinstance(x, Sums) and (x.is_limited or x.residual is not None):
        return NOT_QUANTISED
    if x.axis is None:
        return run.moved(node, x, None)
    shape = node.type.shape
    if node.op == "transpose":
        axes: Sequence[int] = node.attrs.get("axes") or range(len(shape))[::-1]
        return run.moved(node, x, [d % len(shape) for d in axes].index(x.axis))
    if node.op == "reshape":
        before, channels = math.prod(x.node.type.shape[: x.axis]), x.scale.size
        for d, size in enumerate(shape):
            if (math.prod(shape[:d]), size) == (before, channels):
                return run.moved(node, x, d)
    return "its input has a scale for each channel, which it mixes"


def _concatenate(run: Integers, node: Node, inputs: Sequence[Known]) -> Meaning | str:
    codes = [x for x in inputs if isinstance(x, Codes) and x.is_bytes]
    if len(codes) < len(inputs):
        return NOT_QUANTISED
    if not all(x.same_scaling(codes[0]) for x in codes):
        return "its inputs have different scales or zero points"
    new = call("concatenate", *(x.node for x in codes), name=node.name, **node.attrs)
    return replace(codes[0], node=new)


def _limit(run: Integers, node: Node, inputs: Sequence[Known]) -> Meaning | str:
    (x,) = inputs
    low, high = node.attrs.get("a_min", 0.0), node.attrs.get("a_max", math.inf)
    match x:
        case Sums() | Pair():
            return replace(x, low=min(max(x.low, low), high), high=min(max(x.high, low), high))
        case Codes() if x.is_bytes and node.op == "relu":
            high = x.node.type.dtype.high
            return replace(x, node=call("clip", x.node, a_min=int(x.zero), a_max=high))
        case _:
            return NOT_QUANTISED


def _add(run: Integers, node: Node, inputs: Sequence[Known]) -> Meaning | str:
    match inputs:
        case [Codes() as a, Codes() as b] if a.is_bytes and b.is_bytes:
            return Pair(a, b)
        case [Sums() as sums, Codes() as r] | [Codes() as r, Sums() as sums] if (
            run.accelerated
            and r.is_bytes
            and r.node.type.shape == sums.node.type.shape
            and not sums.is_limited
            and sums.residual is None
        ):
            return replace(sums, residual=r)
        case [Sums() as sums, *_]:
            bias = node.inputs[1] if len(inputs) > 1 else node.attrs["b"]
        case [_, Sums() as sums]:
            bias = node.inputs[0]
        case _:
            return "its inputs are not both quantised, with one scale each, to bytes"
    if sums.is_limited or sums.residual is not None:
        return "it adds to a result that is not quantised"
    steps = _bias(run, bias, sums, len(node.type.shape))
    return "it adds more than a constant for each channel" if steps is None else sums.plus(steps)


def _bias(run: Integers, bias: Node | float, sums: Sums, rank: int) -> Array | None:
    """Return a bias in the steps of `sums`; None unless it is a constant for each channel."""
    known = run.known.get(bias) if isinstance(bias, Node) else None
    codes = known if isinstance(known, Codes) and not known.zero.any() else None
    source = bias if codes is None else codes.node
    value = run.constant(source) if isinstance(source, Node) else np.asarray(source)
    if value is None:
        return None
    shape = (1,) * (rank - value.ndim) + value.shape
    if len(shape) > rank or any(n > 1 and d != sums.axis for d, n in enumerate(shape)):
        return None
    value = np.broadcast_to(value.reshape(-1), sums.scale.shape)
    if codes is not None and np.allclose(codes.scale, sums.scale, rtol=1e-5, atol=0):
        return value.astype(np.int32)  # these are the steps of `sums`, as ONNX demands
    real = value * np.float64(1 if codes is None else codes.scale)
    return np.rint(np.clip(real * sums.count / sums.scale, -BIGGEST, BIGGEST)).astype(np.int32)


def _mean(run: Integers, node: Node, inputs: Sequence[Known]) -> Meaning | str:
    (x,) = inputs
    if not isinstance(x, Codes) or not x.is_bytes:
        return NOT_QUANTISED
    attrs = {"axis": node.attrs.get("axis"), "keepdims": node.attrs.get("keepdims", False)}
    if node.op == "global_avg_pool2d":
        attrs = {"axis": (2, 3) if _is_first(node) else (1, 2), "keepdims": True}
    total = call("sum", call("cast", x.node, dtype="int32"), name=node.name, **attrs)
    shape = total.type.shape
    if not shape:
        return "its result is one number"
    count = x.node.type.elements // total.type.elements
    if count > MOST_PRODUCTS:
        return f"it adds {count:,} bytes; int32 holds sums of {MOST_PRODUCTS:,}"
    axis = len(shape) - 1  # any one, as all channels have one scale
    bias = np.full(shape[axis], -count * int(x.zero), np.int32)
    return Sums(total, bias, np.full(shape[axis], x.scale, np.float32), axis, count)


def _is_first(node: Node) -> bool:
    """Return whether the channels of images come first."""
    return node.attrs.get("layout", "NCHW") == "NCHW"


def _product(run: Integers, node: Node, inputs: Sequence[Known]) -> Meaning | str:
    x, w, *_ = inputs
    if not isinstance(x, Codes) or not x.is_bytes:
        return NOT_QUANTISED
    if not isinstance(w, Codes) or run.constant(w.node) is None:
        return "its weights are not quantised constants"
    if node.attrs.get("transpose_a"):
        return "its data is transposed"
    axis = output_axis(node)
    value = run.params[w.node.name]
    weights = _centred(w, value, axis)
    if isinstance(weights, str):
        return weights
    kernel = w.node if weights is value else add_param(run.params, w.node.name, weights)
    sums = _summed(node, x, kernel)
    others = tuple(d for d in range(weights.ndim) if d != axis)
    bias = -int(x.zero) * weights.sum(others, dtype=np.int32)
    scale = np.broadcast_to(x.scale * w.scale, bias.shape)
    known = Sums(sums, bias, scale, 1 if node.op != "conv2d" or _is_first(node) else 3)
    if len(node.inputs) < 3:
        return known
    steps = _bias(run, node.inputs[2], known, 2)
    return "its bias is not constant" if steps is None else known.plus(steps)


def _summed(node: Node, x: Codes, kernel: Node) -> Node:
    """Return the int32 sums of products of a node."""
    attrs = {**node.attrs, "out_dtype": "int32"}
    if node.op == "conv2d" and node.attrs.get("padding", 0):
        attrs["pad_value"] = int(x.zero)
    return call(node.op, x.node, kernel, name=node.name, **attrs)


def _centred(w: Codes, value: Array, axis: int) -> Array | str:
    """Return weights without their zero point, as int8; otherwise why that is not possible.

    axis   the dimension of the output channels
    """
    if w.axis not in (None, axis):
        return "its weights do not have a scale for each output channel"
    count = value.size // value.shape[axis]
    if count > MOST_PRODUCTS:
        return f"it adds {count:,} products; int32 holds sums of {MOST_PRODUCTS:,}"
    if value.dtype == np.int8 and not w.zero.any():
        return value
    shape = [-1 if d == axis else 1 for d in range(value.ndim)] if w.zero.ndim else ()
    centred = value.astype(np.int64) - w.zero.reshape(shape)
    if centred.min() < -128 or centred.max() > 127:
        return "its weights without their zero point do not fit in int8"
    return centred.astype(np.int8)


def output_axis(node: Node) -> int:
    """Return the dimension of the output channels in the weights of a product."""
    if node.op == "conv2d":
        return 0 if _is_first(node) else 3
    return 1 if node.op == "matmul" and not node.attrs.get("transpose_b") else 0


RULES: dict[str, Rule] = {
    **dict.fromkeys(MOVES, _move),
    **dict.fromkeys(PRODUCTS, _product),
    **dict.fromkeys(MEANS, _mean),
    **dict.fromkeys(("clip", "relu"), _limit),
    "add": _add,
    "concatenate": _concatenate,
    "dequantise": _dequantise,
}
