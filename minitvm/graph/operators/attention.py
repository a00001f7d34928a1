"""Attention in numpy, with all scores at once: references for the operators of topi.attention."""

from __future__ import annotations

import numpy as np

from ..node import Array


def attention(
    q: Array,
    k: Array,
    v: Array,
    mask: Array | None = None,
    scale: float = 0.0,
    causal: bool = False,
    offset: int | Array = 0,
    softcap: float = 0.0,
    lengths: Array | None = None,
) -> Array:
    """Do what topi.attention does; keys from lengths[b] on are not seen."""
    shared = q.shape[1] // k.shape[1]
    k, v = k.repeat(shared, 1), v.repeat(shared, 1)
    x = q @ k.swapaxes(2, 3) * (scale or q.shape[3] ** -0.5)
    x = np.tanh(x / softcap) * softcap if softcap else x
    if mask is not None:
        x = np.where(mask, x, -np.inf) if mask.dtype == np.bool_ else x + mask
    query, key = np.ogrid[: q.shape[2], : k.shape[2]]
    if causal:
        x = np.where(key <= query + offset, x, -np.inf)
    if lengths is not None:
        x = np.where(key < lengths.reshape(-1, 1, 1, 1), x, -np.inf)
    e = np.exp(x - np.maximum(x.max(-1, keepdims=True), np.finfo(np.float32).min))
    total = e.sum(-1, keepdims=True)
    return (np.where(total > 0, e / np.where(total > 0, total, 1), 0) @ v).astype(q.dtype)


def cached_attention(
    q: Array,
    k: Array,
    v: Array,
    lengths: Array,
    mask: Array | None = None,
    scale: float = 0.0,
    causal: bool = False,
    softcap: float = 0.0,
) -> Array:
    """Do what topi.cached_attention does."""
    lengths = lengths.clip(0, k.shape[2])
    offset = lengths.reshape(-1, 1, 1, 1) - q.shape[2]
    return attention(q, k, v, mask, scale, causal, offset, softcap, lengths)


def cache_update(cache: Array, new: Array, positions: Array) -> Array:
    """Do what topi.cache_update does."""
    result = cache.copy()
    for row, values, position in zip(result, new, positions, strict=True):
        for n in range(values.shape[1]):
            if 0 <= position + n < row.shape[1]:
                row[:, position + n] = values[:, n]
    return result
