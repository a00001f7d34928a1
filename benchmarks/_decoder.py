"""A decoder of the shape of Llama, in torch: the model of benchmarks/decoder.py.

RMSNorm, rotary positions (Su et al. 2021), grouped-query attention (Ainslie et al. 2023), SwiGLU
(Shazeer 2020), and a cache of keys and values; at the layer shapes of TinyLlama 1.1B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes of a decoder; the defaults are TinyLlama's, with fewer layers.

    capacity   the most words of a sequence, which the caches can hold
    batch      the sequences that one step continues
    """

    layers: int = 4
    hidden: int = 2048
    heads: int = 32
    key_heads: int = 4
    inner: int = 5632
    vocabulary: int = 32000
    capacity: int = 256
    batch: int = 1

    @property
    def head(self) -> int:
        """The elements of one head."""
        return self.hidden // self.heads

    @property
    def cache(self) -> tuple[int, ...]:
        """The shape of the cache of keys, or of values, of a layer."""
        return (self.batch, self.key_heads, self.capacity, self.head)


class Layer(nn.Module):
    """Attention and a feed-forward network, each after a norm and added to its input."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape, keys = shape, shape.key_heads * shape.head
        self.attention_norm, self.inner_norm = nn.RMSNorm(shape.hidden), nn.RMSNorm(shape.hidden)
        self.q = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.k = nn.Linear(shape.hidden, keys, bias=False)
        self.v = nn.Linear(shape.hidden, keys, bias=False)
        self.o = nn.Linear(shape.hidden, shape.hidden, bias=False)
        self.gate = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.up = nn.Linear(shape.hidden, shape.inner, bias=False)
        self.down = nn.Linear(shape.inner, shape.hidden, bias=False)

    def heads(self, x: Any) -> Any:
        """Return x [batch, length, heads * head] as [batch, heads, length, head]."""
        return x.view(*x.shape[:2], -1, self.shape.head).transpose(1, 2)

    def forward(self, x: Any, angles: Any, step: Any = None) -> tuple[Any, Any, Any]:
        """Return the output, and the keys and the values.

        step   (caches, rows, mask): where the words are in the caches, and which rows they see;
               None for a sequence from its start
        """
        y = self.attention_norm(x)
        q, k = rotated(self.heads(self.q(y)), *angles), rotated(self.heads(self.k(y)), *angles)
        v, mask = self.heads(self.v(y)), None
        if step is not None:
            (keys, values), rows, mask = step
            k, v = keys.index_copy(2, rows, k), values.index_copy(2, rows, v)
        y = functional.scaled_dot_product_attention(
            q, k, v, mask, is_causal=step is None, enable_gqa=True
        )
        x = x + self.o(y.transpose(1, 2).flatten(2))
        y = self.inner_norm(x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), k, v


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """Rotate the pairs (i, i + head / 2) of each head by the angles of its position."""
    half = x.shape[-1] // 2
    return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin


class Decoder(nn.Module):
    """The layers, and the words before and after them."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        self.embed = nn.Embedding(shape.vocabulary, shape.hidden)
        self.layers = nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.norm = nn.RMSNorm(shape.hidden)
        self.head = nn.Linear(shape.hidden, shape.vocabulary, bias=False)
        frequencies = 10000 ** -(torch.arange(0, shape.head, 2) / shape.head)
        angles = torch.arange(shape.capacity)[:, None] * frequencies.repeat(2)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())


class Prefill(nn.Module):
    """Read the first words of a sequence."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder

    def forward(self, words: Any) -> tuple[Any, ...]:
        """Return the scores of the next word, then the keys and values of each layer."""
        d, x = self.decoder, self.decoder.embed(words)
        angles = d.cos[: words.shape[1]], d.sin[: words.shape[1]]
        caches = list[Any]()
        for layer in d.layers:
            x, *pair = layer(x, angles)
            caches += pair
        return d.head(d.norm(x[:, -1:])), *caches


class Step(nn.Module):
    """Read the next words, such as one more word, or the first ones."""

    def __init__(self, decoder: Decoder) -> None:
        super().__init__()
        self.decoder = decoder
        self.register_buffer("positions", torch.arange(decoder.shape.capacity))

    def forward(self, words: Any, position: Any, *caches: Any) -> tuple[Any, ...]:
        """Return the scores of the word after them, then the caches with their keys and values.

        words      int64[batch, length]
        position   int64[1]: the number of words before them, in all sequences
        """
        d, x = self.decoder, self.decoder.embed(words)
        rows = position + torch.arange(words.shape[1])
        angles, mask = (d.cos[rows], d.sin[rows]), self.positions <= rows[:, None]
        pairs, new = zip(caches[::2], caches[1::2], strict=True), list[Any]()
        for layer, pair in zip(d.layers, pairs, strict=True):
            x, *both = layer(x, angles, (pair, rows, mask))
            new += both
        return d.head(d.norm(x[:, -1:])), *new


def padded(caches: Sequence[Any], shape: Shape) -> list[Any]:
    """Return arrays of keys and values of a prefill as caches of the full capacity."""
    import numpy as np

    full = [np.zeros(shape.cache, np.float32) for _ in caches]
    for cache, part in zip(full, caches, strict=True):
        cache[:, :, : part.shape[2]] = part
    return full
