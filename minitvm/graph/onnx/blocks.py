"""ONNX operators that move blocks of pixels between space and channels."""

from __future__ import annotations

from .place import Place, Value, shape_of


def depth_to_space(at: Place, x: Value) -> Value:
    """DepthToSpace: channels become blocks of pixels; its modes differ in their order."""
    n, channels, height, width = shape_of(x)
    size = at.attrs["blocksize"]
    if size < 1 or channels % size**2:
        raise at.refusal(f"{channels} channels are not blocks of {size} x {size}")
    rest = channels // size**2
    if at.attrs.get("mode", "DCR") == "DCR":
        y = at.reshape(x, (n, size, size, rest, height, width))
        axes = (0, 3, 4, 1, 5, 2)
    else:
        y = at.reshape(x, (n, rest, size, size, height, width))
        axes = (0, 1, 4, 2, 5, 3)
    y = at.make("transpose", y, axes=axes)
    return at.reshape(y, (n, rest, height * size, width * size))


def space_to_depth(at: Place, x: Value) -> Value:
    """SpaceToDepth: blocks of pixels become channels."""
    n, channels, height, width = shape_of(x)
    size = at.attrs["blocksize"]
    if size < 1 or height % size or width % size:
        raise at.refusal(f"{height} x {width} pixels are not blocks of {size} x {size}")
    high, wide = height // size, width // size
    y = at.reshape(x, (n, channels, high, size, wide, size))
    axes = (0, 3, 5, 1, 2, 4)
    if at.attrs.get("mode", "DCR") == "CRD":
        axes = (0, 1, 3, 5, 2, 4)
    y = at.make("transpose", y, axes=axes)
    return at.reshape(y, (n, channels * size**2, high, wide))
