"""A trained decoder that adds two numbers of three digits, symbol by symbol: "123+989=" -> "2111".

It has the shape of Llama (Touvron et al. 2023): root mean square norms (Zhang and Sennrich 2019),
rotary positions (Su et al. 2021), causal attention, and gated dense layers (Shazeer 2020, SwiGLU).
The digits of the answer come in reversed order, the ones first, so that each carry is known when it
is needed. benchmarks/train_adder.py trains the weights.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitvm.base import GraphError

from ..builder import Builder
from ..node import Array, Graph, Node

FILE = Path(__file__).with_name("adder.npz")
SYMBOLS = "0123456789+="
DIGITS, LIMIT = 3, 1000  # numbers are below LIMIT
QUESTION, ANSWER = 2 * DIGITS + 2, DIGITS + 1  # symbols in "123+989=" and in "2111"
LENGTH = QUESTION + ANSWER - 1  # symbols that the decoder reads before the last digit
LAYERS, WIDTH, HEADS, INNER = 2, 96, 4, 288
EPSILON = 1e-6
MASKED = -1e9  # the score of a later symbol
BASE = 10_000.0  # of the rotations


def adder(*, batch: int = 1) -> Graph:
    """Return the trained decoder: words int32[batch, LENGTH] -> scores [batch, LENGTH, symbols].

    scores[:, t] belong to the symbol after word t, and depend on words[:, : t + 1] alone.
    """
    with np.load(FILE) as stored:
        return network(dict(stored), batch=batch)


def network(weights: Mapping[str, Array], *, batch: int = 1) -> Graph:
    """Return the decoder with these weights, by the names that torch gives them."""
    b = Builder("adder")
    words = b.input("words", (batch, LENGTH), "int32")
    x = b.take(b.param("embedding.weight", weights["embedding.weight"]), words, axis=0)
    x = b.reshape(x, (batch * LENGTH, WIDTH))
    decoder = _Decoder(b, weights, batch)
    for k in range(LAYERS):
        x = decoder.layer(x, f"layers.{k}")
    scores = decoder.dense(decoder.norm(x, "norm"), "head")
    return b.graph(b.reshape(scores, (batch, LENGTH, len(SYMBOLS))))


def rotations(length: int) -> tuple[Array, Array]:
    """Return cosines and sines [length, features of a head] of the rotary angles."""
    size = WIDTH // HEADS
    speeds = BASE ** (-np.arange(0, size, 2) / size)
    angles = np.tile(np.arange(length)[:, None] * speeds, 2)
    return np.cos(angles).astype("float32"), np.sin(angles).astype("float32")


class _Decoder:
    """Adds parts of the decoder to a Builder; x is [batch * LENGTH, WIDTH]."""

    def __init__(self, b: Builder, weights: Mapping[str, Array], batch: int) -> None:
        self.b, self.weights, self.batch = b, weights, batch
        cos, sin = rotations(LENGTH)
        self.cos, self.sin = b.param("cos", cos), b.param("sin", sin)
        later = np.triu(np.full((LENGTH, LENGTH), MASKED, "float32"), 1)
        self.mask = b.param("mask", later)

    def layer(self, x: Node, name: str) -> Node:
        """Add causal attention and the gated dense layers, each to the values before it."""
        b, size = self.b, WIDTH // HEADS
        normed = self.norm(x, f"{name}.norm1")
        query, key, value = (
            self.heads(self.dense(normed, f"{name}.{part}")) for part in ("query", "key", "value")
        )
        key = b.transpose(self.rotated(key), (0, 2, 1))
        scores = b.multiply(b.batch_matmul(self.rotated(query), key), size**-0.5)
        attended = b.batch_matmul(b.softmax(b.add(scores, self.mask)), value)
        parts = b.reshape(attended, (self.batch, HEADS, LENGTH, size))
        joined = b.reshape(b.transpose(parts, (0, 2, 1, 3)), (self.batch * LENGTH, WIDTH))
        x = b.add(x, self.dense(joined, f"{name}.output"))
        normed = self.norm(x, f"{name}.norm2")
        gate = b.silu(self.dense(normed, f"{name}.gate"))
        gated = b.multiply(gate, self.dense(normed, f"{name}.up"))
        return b.add(x, self.dense(gated, f"{name}.down"))

    def dense(self, x: Node, name: str) -> Node:
        """Multiply by a matrix [outputs, inputs]."""
        key = f"{name}.weight"
        return self.b.dense(x, self.b.param(key, self.weights[key]), name=name)

    def norm(self, x: Node, name: str) -> Node:
        """Divide each row by its root mean square, and multiply by the weights."""
        b, key = self.b, f"{name}.weight"
        squares = b.mean(b.multiply(x, x), axis=1, keepdims=True)
        normed = b.multiply(x, b.rsqrt(b.add(squares, EPSILON)))
        return b.multiply(normed, b.param(key, self.weights[key]))

    def heads(self, x: Node) -> Node:
        """Split the features among heads: [batch * HEADS, LENGTH, size]."""
        size = WIDTH // HEADS
        parts = self.b.reshape(x, (self.batch, LENGTH, HEADS, size))
        parts = self.b.transpose(parts, (0, 2, 1, 3))
        return self.b.reshape(parts, (self.batch * HEADS, LENGTH, size))

    def rotated(self, x: Node) -> Node:
        """Rotate the pairs (feature, feature + size / 2) by angles that grow with the position."""
        b, (count, length, size) = self.b, x.type.shape
        first = b.strided_slice(x, (0, 0, 0), (count, length, size // 2))
        second = b.strided_slice(x, (0, 0, size // 2), (count, length, size))
        swapped = b.concatenate(b.negative(second), first, axis=2)
        return b.add(b.multiply(x, self.cos), b.multiply(swapped, self.sin))


# --- sums ----------------------------------------------------------------------------------------


def problems(count: int, seed: int = 0) -> tuple[Array, Array]:
    """Draw pairs of numbers below LIMIT: a and b, int64[count]."""
    a, b = np.random.default_rng(seed).integers(0, LIMIT, (2, count))
    return a, b


def written(a: Any, b: Any) -> Array:
    """Return sums with their answers as symbols, int32[count, QUESTION + ANSWER].

    12 + 995  ->  "012+995=7001"
    """
    a, b = np.asarray(a), np.asarray(b)
    if a.shape != b.shape or a.ndim != 1:
        raise GraphError(
            "adding.written", f"numbers of shapes {a.shape} and {b.shape}", "two lists"
        )
    if min(a.min(), b.min()) < 0 or max(a.max(), b.max()) >= LIMIT:
        raise GraphError("adding.written", f"a number is not from 0 to {LIMIT - 1}")
    plus, equals = (np.full(len(a), SYMBOLS.index(sign)) for sign in "+=")
    columns = [*_digits(a, DIGITS)[::-1], plus, *_digits(b, DIGITS)[::-1], equals]
    return np.stack([*columns, *_digits(a + b, ANSWER)], axis=1).astype("int32")


def _digits(numbers: Array, count: int) -> list[Array]:
    """Return the digits of numbers, the ones first."""
    return [numbers // 10**k % 10 for k in range(count)]


def answers(run: Callable[[Array], Array], a: Any, b: Any, *, batch: int = 1) -> Array:
    """Return what the decoder writes after each question, int32[count, ANSWER].

    run   the decoder as a function: words int32[batch, LENGTH] -> scores

    Each digit is the one with the highest score; it is read before the next one is chosen.
    """
    words = written(a, b)[:, :LENGTH]
    words[:, QUESTION:] = 0
    result = np.zeros((len(words), ANSWER), "int32")
    for start in range(0, len(words), batch):
        part = np.zeros((batch, LENGTH), "int32")
        rows = words[start : start + batch]
        part[: len(rows)] = rows
        for k in range(ANSWER):
            digits = run(part)[:, QUESTION - 1 + k].argmax(axis=1)
            result[start : start + batch, k] = digits[: len(rows)]
            if k < ANSWER - 1:
                part[:, QUESTION + k] = digits
    return result


def right(run: Callable[[Array], Array], a: Any, b: Any, *, batch: int = 1) -> int:
    """Return how many sums the decoder adds correctly: all digits of an answer are right."""
    wanted = written(a, b)[:, QUESTION:]
    return int((answers(run, a, b, batch=batch) == wanted).all(axis=1).sum())
