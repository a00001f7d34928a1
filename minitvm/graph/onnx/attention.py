"""ONNX operators of transformers: Attention and RotaryEmbedding."""

from __future__ import annotations

import numpy as np

from .elements import pair
from .place import Place, Value, dtype_of, shape_of
from .shapes import concat_along, cut, gather

WINDOW = ("left_window_size", "right_window_size")  # keys that a query sees on its two sides


def attention(
    at: Place,
    q: Value,
    k: Value,
    v: Value,
    mask: Value | None = None,
    past_key: Value | None = None,
    past_value: Value | None = None,
    lengths: Value | None = None,
) -> tuple[Value, ...]:
    """Return the result of Attention, and the keys and values with those of the past before them.

    lengths   the number of keys of each sequence, if the keys are a cache
    """
    heads = at.attrs.get("q_num_heads", 0), at.attrs.get("kv_num_heads", 0)
    is_flat = len(shape_of(q)) == 3
    if is_flat:
        q, k, v = (_split_heads(at, x, n) for x, n in ((q, heads[0]), (k, heads[1]), (v, heads[1])))
    past = 0 if past_key is None else shape_of(past_key)[2]
    if past_key is not None and past_value is not None:
        k, v = (concat_along(at, 2, pair_) for pair_ in ([past_key, k], [past_value, v]))
    mask = _window(at, mask, (shape_of(q)[2], shape_of(k)[2]), past, lengths)
    y = _attended(at, [q, k, v], mask, past, lengths)
    return _join_heads(at, y) if is_flat else y, k, v


def _split_heads(at: Place, x: Value, heads: int) -> Value:
    """Return x [B, M, heads * D] as [B, heads, M, D]."""
    batch, rows, columns = shape_of(x)
    if heads < 1 or columns % heads:
        raise at.refusal(f"{columns} columns are not those of {heads} heads")
    split = at.reshape(x, (batch, rows, heads, columns // heads))
    return at.make("transpose", split, axes=(0, 2, 1, 3))


def _join_heads(at: Place, x: Value) -> Value:
    """Return x [B, H, M, D] as [B, M, H * D]."""
    batch, heads, rows, columns = shape_of(x)
    return at.reshape(at.make("transpose", x, axes=(0, 2, 1, 3)), (batch, rows, heads * columns))


def _window(
    at: Place, mask: Value | None, sizes: tuple[int, int], past: int, lengths: Value | None
) -> Value | None:
    """Return a mask that also hides the keys outside of a window around the query."""
    left, right = (at.attrs.get(name, -1) for name in WINDOW)
    if left < 0 and right < 0:
        return mask
    if lengths is not None:
        raise at.refusal("a window whose place depends on the lengths of a cache is not supported")
    distance = np.arange(sizes[1]) - np.arange(sizes[0])[:, None] - past
    visible = (distance >= -left if left >= 0 else True) & (
        distance <= right if right >= 0 else True
    )
    visible = np.broadcast_to(visible, distance.shape).copy()
    if mask is None:
        return visible
    hidden = np.asarray(False if str(dtype_of(mask)) == "bool" else -np.inf, dtype_of(mask).numpy)
    return at.make("where", visible, mask, hidden)


def _attended(
    at: Place, operands: list[Value], mask: Value | None, past: int, lengths: Value | None
) -> Value:
    """Apply the operator of graphs; half precision is computed in float32."""
    kind = dtype_of(operands[0])
    wide = "float32" if str(kind) == "float16" else str(kind)
    inputs = [_cast(at, x, wide) for x in operands]
    attrs = {key: at.attrs[key] for key in ("scale", "softcap") if at.attrs.get(key)}
    if at.flag("is_causal"):
        attrs |= {"causal": True}
        attrs |= {"offset": past} if past else {}
    if mask is not None and str(dtype_of(mask)) != "bool":
        mask = _cast(at, mask, wide)
    if lengths is None:
        y = at.make("attention", *inputs, *([] if mask is None else [mask]), **attrs)
    else:
        masks = [] if mask is None else [_padded(at, mask, shape_of(operands[1])[2])]
        y = at.make("cached_attention", *inputs, lengths, *masks, **attrs)
    return _cast(at, y, str(kind))


def _cast(at: Place, x: Value, kind: str) -> Value:
    return x if str(dtype_of(x)) == kind else at.make("cast", x, dtype=kind)


def _padded(at: Place, mask: Value, keys: int) -> Value:
    """Return a mask for all keys of a cache; those that it lacks are not read."""
    *outer, columns = shape_of(mask)
    if columns in (1, keys):
        return mask
    rest = np.zeros((*outer, keys - columns), dtype_of(mask).numpy)
    return concat_along(at, len(outer), [mask, rest])


def rotary_embedding(
    at: Place, x: Value, cosine: Value, sine: Value, positions: Value | None = None
) -> Value:
    """Rotate pairs of elements of each head by angles that depend on the position (Su et al. 2021).

    The pairs are adjacent elements if `interleaved`, and else elements half a head apart.
    """
    is_flat = len(shape_of(x)) == 3
    if is_flat:
        x = _split_heads(at, x, at.attrs.get("num_heads", 0))
    batch, _, rows, columns = shape_of(x)
    size = at.attrs.get("rotary_embedding_dim", 0) or columns
    if positions is not None:
        cosine, sine = gather(at, cosine, positions), gather(at, sine, positions)
    cosine, sine = (at.reshape(v, (batch, 1, rows, size // 2)) for v in (cosine, sine))
    interleaved = at.flag("interleaved")
    cuts = (
        ((0, size, 2), (1, size, 2)) if interleaved else ((0, size // 2, 1), (size // 2, size, 1))
    )
    a, b = (cut(at, x, {3: part}) for part in cuts)
    real = pair(at, "subtract", pair(at, "multiply", cosine, a), pair(at, "multiply", sine, b))
    imaginary = pair(at, "add", pair(at, "multiply", sine, a), pair(at, "multiply", cosine, b))
    if interleaved:
        ends = [at.reshape(v, (*shape_of(v), 1)) for v in (real, imaginary)]
        parts = [at.reshape(concat_along(at, 4, ends), (*shape_of(x)[:3], size))]
    else:
        parts = [real, imaginary]
    parts += [cut(at, x, {3: (size, columns, 1)})] if size < columns else []
    y = concat_along(at, 3, parts)
    return _join_heads(at, y) if is_flat else y
