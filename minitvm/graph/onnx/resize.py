"""ONNX operators that resize images, or sample them at computed places.

All ways of resizing differ only in which elements of an axis each new element averages, and by
which weights. Both are constants, so one operator of graphs, "resample", does them all, axis by
axis.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .place import Array, Place, Value, dtype_of, shape_of


@dataclass(frozen=True, slots=True)
class Axis:
    """How one axis is resized: from `size` to `new` elements, by a factor of about `scale`."""

    size: int
    new: int
    scale: float
    region: tuple[float, float]


def resize(
    at: Place,
    x: Value,
    roi: Value | None = None,
    scales: Value | None = None,
    sizes: Value | None = None,
) -> Value:
    """Resize, by constant factors or to constant sizes."""
    rank = len(shape_of(x))
    axes = [at.axis(d, rank) for d in at.attrs.get("axes", range(rank))]
    crops = _coordinates(at) == "tf_crop_and_resize"
    regions = _regions(at, roi, len(axes)) if crops else [(0.0, 1.0)] * len(axes)
    for d, axis in zip(axes, _axes(at, x, axes, scales, sizes, regions), strict=True):
        if axis.new == axis.size and axis.scale == 1 and not crops:
            continue
        places = _places(at, axis)
        x = _resampled(at, x, *_taps(at, places, axis), d)
        if crops:
            is_inside = (places >= 0) & (places <= axis.size - 1)
            fill = np.asarray(at.attrs.get("extrapolation_value", 0.0), dtype_of(x).numpy)
            x = at.make("where", is_inside.reshape(-1, *([1] * (rank - d - 1))), x, fill)
    return x


def _coordinates(at: Place) -> str:
    return str(at.attrs.get("coordinate_transformation_mode", "half_pixel"))


def _resampled(at: Place, x: Value, indices: Array, weights: Array, axis: int) -> Value:
    if indices.shape[1] == 1:
        return at.make("take", x, indices[:, 0].copy(), axis=axis)
    if not dtype_of(x).is_float:
        raise at.refusal(f"means of {dtype_of(x)} are not supported", 'mode="nearest", or a Cast')
    return at.make("resample", x, indices, weights.astype(dtype_of(x).numpy), axis=axis)


def _regions(at: Place, roi: Value | None, count: int) -> list[tuple[float, float]]:
    """Return the part of each axis that is resized, from 0 to 1."""
    edges = [float(n) for n in at.constant(roi, "roi").reshape(-1)]
    return list(zip(edges[:count], edges[count:], strict=True))


def _axes(
    at: Place,
    x: Value,
    axes: Sequence[int],
    scales: Value | None,
    sizes: Value | None,
    regions: Sequence[tuple[float, float]],
) -> list[Axis]:
    """Return how each axis is resized."""
    old = [shape_of(x)[d] for d in axes]
    if sizes is not None:
        new = list(at.ints(sizes, "sizes"))
        if len(new) != len(old) or min(new, default=1) < 1:
            raise at.refusal(f"its sizes {new} do not fit {len(old)} axes")
        factors = [n / m for n, m in zip(new, old, strict=True)]
        policy = at.attrs.get("keep_aspect_ratio_policy", "stretch")
        if policy != "stretch":
            one = min(factors) if policy == "not_larger" else max(factors)
            factors = [one] * len(old)
            new = [math.floor(one * m + 0.5) for m in old]
    else:
        factors = [float(f) for f in at.constant(scales, "scales").reshape(-1)]
        if len(factors) != len(old) or min(factors, default=1.0) <= 0:
            raise at.refusal(f"its scales {factors} do not fit {len(old)} axes")
        parts = [end - start for start, end in regions]
        new = [int(m * p * f) for m, p, f in zip(old, parts, factors, strict=True)]
    at.limit((*shape_of(x), *(math.ceil(n / m) for n, m in zip(new, old, strict=True))))
    return [Axis(*each) for each in zip(old, new, factors, regions, strict=True)]


def _places(at: Place, axis: Axis) -> Array:
    """Return where the new elements lie among the old ones, by the mode of the coordinates."""
    i = np.arange(axis.new, dtype=np.float64)
    exact = axis.scale * axis.size  # the new size before it is rounded down
    half_pixel = (i + 0.5) / axis.scale - 0.5
    match _coordinates(at):
        case "half_pixel":
            return half_pixel
        case "half_pixel_symmetric":
            return half_pixel + axis.size / 2 * (1 - axis.new / exact)
        case "pytorch_half_pixel":
            return half_pixel if axis.new > 1 else i * 0 - 0.5
        case "align_corners":
            return i * 0 if exact == 1 else i * (axis.size - 1) / (exact - 1)
        case "asymmetric":
            return i / axis.scale
        case "tf_crop_and_resize":
            first, last = (edge * (axis.size - 1) for edge in axis.region)
            if axis.new == 1:
                return i * 0 + (first + last) / 2
            return first + i * (last - first) / (axis.new - 1)
        case other:
            raise at.refusal(f"its coordinates {other!r} are not supported")


def _taps(at: Place, places: Array, axis: Axis) -> tuple[Array, Array]:
    """Return the indices and the weights of the elements that each new one averages: [n, taps]."""
    mode = at.attrs.get("mode", "nearest")
    if mode == "nearest":
        indices = _nearest(at, places)[:, None]
        return np.clip(indices, 0, axis.size - 1).astype(np.int64), np.ones(indices.shape)
    if mode not in ("linear", "cubic"):
        raise at.refusal(f"its mode {mode!r} is not supported")
    reach = 1 if mode == "linear" else 2
    stretch = min(axis.scale, 1.0) if at.flag("antialias") else 1.0
    half = math.floor(reach / stretch) + 1
    indices = np.floor(places)[:, None] + np.arange(1 - half, half + 1)
    distance = (indices - places[:, None]) * stretch
    weights = np.maximum(0, 1 - abs(distance))
    if mode == "cubic":
        weights = _cubic(abs(distance), at.attrs.get("cubic_coeff_a", -0.75))
    if at.flag("exclude_outside"):
        weights = np.where((indices >= 0) & (indices < axis.size), weights, 0)
    used = weights.any(0)  # taps that no element needs are left out
    indices, weights = indices[:, used], weights[:, used]
    weights = weights / weights.sum(1, keepdims=True)
    return np.clip(indices, 0, axis.size - 1).astype(np.int64), weights


def _nearest(at: Place, places: Array) -> Array:
    match at.attrs.get("nearest_mode", "round_prefer_floor"):
        case "round_prefer_floor":
            return np.ceil(places - 0.5)
        case "round_prefer_ceil":
            return np.floor(places + 0.5)
        case "floor":
            return np.floor(places)
        case "ceil":
            return np.ceil(places)
        case other:
            raise at.refusal(f"its nearest_mode {other!r} is not supported")


def _cubic(d: Array, a: float) -> Array:
    """Return the weights at distances d (Keys, "Cubic Convolution Interpolation", 1981, eq. 15)."""
    near = ((a + 2) * d - (a + 3)) * d**2 + 1
    far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
    return np.where(d <= 1, near, np.where(d < 2, far, 0))


def grid_sample(at: Place, x: Value, grid: Value) -> Value:
    """GridSample of images of any number of dimensions."""
    mode = at.attrs.get("mode", "linear")
    attrs = {
        "mode": {"bilinear": "linear", "bicubic": "cubic"}.get(mode, mode),
        "padding_mode": at.attrs.get("padding_mode", "zeros"),
        "align_corners": at.flag("align_corners"),
    }
    return at.make("grid_sample", x, grid, **attrs)
