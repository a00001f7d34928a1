"""Images at other places: resized along an axis, or sampled where another tensor says."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add
from typing import Any

from minitvm import te, tir
from minitvm.base import ExprError

from .operands import checks_arguments, dimension
from .shape import INJECTIVE

__all__ = ["grid_sample", "resample"]

TAPS = {"nearest": (0,), "linear": (0, 1), "cubic": (-1, 0, 1, 2)}  # beside the pixel on the left
PADDINGS = ("zeros", "border", "reflection")
SHARPNESS = -0.75  # of the cubic kernel: its slope at distance 1


@checks_arguments
def resample(x: te.Tensor, indices: te.Tensor, weights: te.Tensor, axis: int) -> te.Tensor:
    """Return weighted sums of the elements of x along `axis`.

    indices and weights have the shape [n, taps]; n is the size of `axis` in the result. Linear,
    cubic and antialiased interpolation differ only in these. Several axes are resized one by one.

    out[i, k] = sum(weights[i, t] * x[indices[i, t], k] for all t), for axis 0
    """
    d = dimension("resample", x, axis)
    taps = indices.shape[-1] if indices.ndim else 0
    fits = indices.ndim == 2 == weights.ndim and all(
        map(tir.prove_equal, indices.shape, weights.shape)
    )
    if not fits or not isinstance(taps, int):
        raise ExprError(f"topi.resample of {x.name}", "indices and weights must be [n, taps]")
    if not x.dtype.is_float or weights.dtype != x.dtype:
        why = f"its weights are {weights.dtype}; both must have the same float type"
        raise ExprError(f"topi.resample of {x.name}, a tensor of {x.dtype}", why)

    def body(*i: Any) -> Any:
        terms = (weights(i[d], t) * x(*i[:d], indices(i[d], t), *i[d + 1 :]) for t in range(taps))
        return reduce(add, terms)

    shape = [*x.shape[:d], indices.shape[0], *x.shape[d + 1 :]]
    return te.compute(shape, body, name="T_resample", tag=INJECTIVE)


@checks_arguments
def grid_sample(
    x: te.Tensor,
    grid: te.Tensor,
    mode: str = "linear",
    padding_mode: str = "zeros",
    align_corners: bool = False,
) -> te.Tensor:
    """Return the pixels of images x [N, C, *sizes] at the places grid [N, *outputs, rank].

    The sampler of Jaderberg et al., "Spatial Transformer Networks", 2015, equation 3. The last
    dimension of the grid holds coordinates from -1 to 1, that of the last size first. -1
    and 1 are the outer edges of an image, or, with align_corners, the centers of its outer pixels.

    mode          "nearest", "linear" or "cubic" (Keys, "Cubic Convolution Interpolation for Digital
                  Image Processing", 1981)
    padding_mode  what lies outside: "zeros", the nearest pixel ("border") or the image's reflection
    """
    rank = x.ndim - 2
    what = f"topi.grid_sample of {x.name} at {grid.name}"
    if mode not in TAPS or padding_mode not in PADDINGS:
        why = f"the modes are {', '.join(TAPS)}, with padding {', '.join(PADDINGS)}"
        raise ExprError(f"{what}: mode={mode!r}, padding_mode={padding_mode!r}", why)
    if rank < 1 or grid.ndim != x.ndim or grid.shape[-1] != rank or x.dtype != grid.dtype:
        raise ExprError(what, "they must be [N, C, *sizes] and [N, *outputs, rank] of one type")
    places = _places(grid, x.shape[2:], padding_mode, align_corners)

    def body(n: Any, c: Any, *i: Any) -> Any:
        def mean(*at: Any) -> Any:  # over all dimensions for which `at` has no index yet
            d = len(at)
            if d == rank:
                return x(n, c, *at)
            taps = _taps(places(n, *i, d), x.shape[2 + d], mode, padding_mode, align_corners)
            return reduce(add, [weight * mean(*at, index) for weight, index in taps])

        return mean()

    shape = (*x.shape[:2], *grid.shape[1:-1])
    return te.compute(shape, body, name="T_grid_sample", tag=INJECTIVE)


def _places(grid: te.Tensor, sizes: Sequence[Any], padding: str, corners: bool) -> te.Tensor:
    """Return the coordinates of a grid in pixels, in the order of `sizes`."""
    rank = len(sizes)

    def body(*i: Any) -> Any:
        d = i[-1]
        size = reduce(lambda a, k: tir.select(d == k, sizes[k], a), range(1, rank), sizes[0])
        low, high = _edges(tir.cast_to(size, grid.dtype), corners)
        at = (grid(*i[:-1], rank - 1 - d) + 1) * 0.5 * (high - low) + low
        if padding == "border":
            nearest = te.min(te.max(at, 0.0), tir.cast_to(size, grid.dtype) - 1)
            return tir.select(te.any(at < low, at > high), nearest, at)
        return _reflected(at, low, high) if padding == "reflection" else at

    return te.compute(grid.shape, body, name="T_places")


def _edges(size: Any, corners: bool) -> tuple[Any, Any]:
    """Return the coordinates of the first and the last place of an axis of `size` pixels."""
    return (size * 0, size - 1) if corners else (size * 0 - 0.5, size - 0.5)


def _taps(at: Any, size: Any, mode: str, padding: str, corners: bool) -> list[tuple[Any, Any]]:
    """Return the weights and the indices of the pixels around the coordinate `at`."""
    left = te.round(at) if mode == "nearest" else te.floor(at)
    width = tir.cast_to(size, at.dtype)
    taps: list[tuple[Any, Any]] = []
    for step, weight in zip(TAPS[mode], _weights(mode, at - left), strict=True):
        tap = left + float(step)
        is_inside = te.all(tap >= 0, tap < width)
        if padding == "reflection":
            tap = _reflected(tap, *_edges(width, corners))
        index = te.min(te.max(tap, 0.0), width - 1)  # also if `at` is too large for an integer
        factor = tir.select(is_inside, weight, 0.0) if padding == "zeros" else weight
        taps.append((factor, tir.cast_to(index, "int32")))
    return taps


def _reflected(at: Any, low: Any, high: Any) -> Any:
    """Return a coordinate reflected at `low` and `high` until it is between them."""
    span = high - low
    ahead = te.fmod(te.abs(at - low), te.max(span * 2, 1e-6))
    return low + tir.select(ahead > span, span * 2 - ahead, ahead)


def _weights(mode: str, part: Any) -> Sequence[Any]:
    """Return the weights of the taps for a place that is `part` of a pixel after the left one."""
    if mode == "nearest":
        return (te.const(1, part.dtype),)
    if mode == "linear":
        return 1 - part, part
    a = SHARPNESS

    def near(d: Any) -> Any:
        return ((a + 2) * d - (a + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

    return far(part + 1), near(part), near(1 - part), far(2 - part)
