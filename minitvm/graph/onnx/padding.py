"""ONNX's Pad: around a tensor, or into it if a pad is negative."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from .place import Place, Value, dtype_of, shape_of
from .shapes import cut

MODES: dict[str, Literal["reflect", "edge", "wrap"]] = {
    "reflect": "reflect",
    "edge": "edge",
    "wrap": "wrap",
}


def pad(
    at: Place, x: Value, pads: Value, value: Value | None = None, axes: Value | None = None
) -> Value:
    """Pad with a constant number, or with the elements of the tensor itself."""
    rank = len(shape_of(x))
    sizes = at.ints(pads, "pads")
    dims = range(rank) if axes is None else [at.axis(d, rank) for d in at.ints(axes, "axes")]
    if len(sizes) != 2 * len(dims):
        raise at.refusal(f"its pads {list(sizes)} are not two sizes for each dimension")
    before, after = [0] * rank, [0] * rank
    for k, d in enumerate(dims):
        before[d], after[d] = sizes[k], sizes[k + len(dims)]
    cuts = {
        d: (max(0, -b), n - max(0, -a), 1)
        for d, (n, b, a) in enumerate(zip(shape_of(x), before, after, strict=True))
        if min(b, a) < 0
    }
    x = cut(at, x, cuts) if cuts else x
    before, after = ([max(0, n) for n in side] for side in (before, after))
    mode = at.attrs.get("mode", "constant")
    at.limit([n + b + a for n, b, a in zip(shape_of(x), before, after, strict=True)])
    if mode != "constant":
        return _repeated(at, x, before, after, mode)
    fill: Any = 0 if value is None else at.constant(value, "value").item()
    fits = float(fill) if dtype_of(x).is_float else fill
    return at.make("pad", x, pad_before=before, pad_after=after, pad_value=fits)


def _repeated(at: Place, x: Value, before: list[int], after: list[int], mode: str) -> Value:
    """Return x with its own elements around it: each axis takes them from known places."""
    if mode not in MODES:
        raise at.refusal(f"its attribute mode={mode!r} is not one of ONNX's")
    for axis, edges in enumerate(zip(before, after, strict=True)):
        if any(edges):
            places = np.arange(shape_of(x)[axis], dtype=np.int64)
            x = at.make("take", x, np.pad(places, edges, mode=MODES[mode]), axis=axis)
    return x
