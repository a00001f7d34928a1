"""Move transposes of images past the operators that read them, so that pairs cancel.

Models with channels last transpose each image before a convolution of ONNX, and back after it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..node import PARAM, Node
from ..operators import OPERATORS, Fusion, call
from .layout import NCHW, NHWC, can_permute, moved


def sunk(node: Node, shared: Sequence[Node]) -> Node:
    """Return a transpose of `node` computed on images before they are transposed, or `node`.

    before   y = relu(transpose(x, axes=(0, 2, 3, 1)))
    after    y = transpose(relu(x), axes=(0, 2, 3, 1))

    All images that `node` reads must be transposed alike, or parameters. A mean over the pixels
    needs no transpose. An image in `shared` has other readers, which would transpose it, too.
    """
    axes = _common_axes(node, shared)
    if axes is None or node.op not in OPERATORS:
        return node
    is_image = len(node.type.shape) == 4
    if not can_permute(node, axes) or (is_image and OPERATORS[node.op].fusion > Fusion.INJECTIVE):
        return node  # a softmax is fastest along the last dimension
    before = tuple(int(d) for d in np.argsort(axes))
    inputs = [_before(x, before) for x in node.inputs]
    result = moved(node, inputs, before)
    return call("transpose", result, name=node.name, axes=axes) if is_image else result


def _common_axes(node: Node, shared: Sequence[Node]) -> tuple[int, ...] | None:
    """Return the axes by which all images that `node` reads are transposed; None if they differ."""
    images = [x for x in node.inputs if len(x.type.shape) == 4 and x.op != PARAM]
    axes = {x.attrs.get("axes") if x.op == "transpose" else None for x in images}
    others = [x for x in node.inputs if x not in images]
    if len(axes) != 1 or any(x.op != PARAM for x in others) or any(x in shared for x in images):
        return None
    (common,) = axes
    return common if common in (NHWC, NCHW) else None


def _before(x: Node, axes: tuple[int, ...]) -> Node:
    """Return an input of a node for images that are not transposed yet."""
    if x.op == "transpose":
        return x.inputs[0]
    return call("transpose", x, axes=axes) if len(x.type.shape) == 4 else x
