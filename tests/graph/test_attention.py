"""Attention in networks: the pattern that becomes one operator, and decoding with a cache."""

import numpy as np
import pytest

from minitvm import graph
from minitvm.base import Target
from minitvm.graph import passes

CPU = Target("llvm -num-cores=1")
B, H, M, D = 2, 3, 5, 16  # sequences, heads, rows, elements
LATER = np.triu(np.full((M, M), -np.inf, np.float32), 1)


def pattern(b: graph.Builder, x: graph.Node, mask: np.ndarray | None) -> graph.Node:
    """Return causal attention of x, which is queries, keys and values, as exporters write it."""
    half = D**-0.25
    rows = b.reshape(b.multiply(x, half), (B * H, M, D))
    columns = b.reshape(b.multiply(b.transpose(x, (0, 1, 3, 2)), half), (B * H, D, M))
    scores = b.reshape(b.batch_matmul(rows, columns), (B, H, M, M))
    if mask is not None:
        scores = b.add(scores, b.param("mask", mask))
    shares = b.reshape(b.softmax(scores), (B * H, M, M))
    return b.reshape(b.batch_matmul(shares, b.reshape(x, (B * H, M, D))), (B, H, M, D))


@pytest.mark.parametrize(
    ("mask", "operands"),
    [
        (None, "scale=0.25"),
        (LATER, "scale=0.25, causal=True"),
        (np.where(LATER == 0, 0, np.finfo(np.float32).min), "scale=0.25, causal=True"),
        (np.arange(M, dtype=np.float32), "mask, scale=0.25"),
        (LATER[:, ::-1].copy(), "mask, scale=0.25"),
    ],
)
def test_two_products_and_a_softmax_become_attention(mask, operands: str) -> None:
    b = graph.Builder("net")
    net = b.graph(pattern(b, b.input("x", (B, H, M, D)), mask))
    merged = passes.merge_attention(net, CPU)
    (line,) = [line for line in str(merged).splitlines() if "= attention(" in line]
    assert line.partition("#")[0].strip().endswith(f", {operands})")
    assert not [node for node in merged.calls if node.op in ("batch_matmul", "softmax")]
    x = np.random.default_rng(0).standard_normal((B, H, M, D), np.float32)
    wanted = graph.evaluate(net, x)[0]
    np.testing.assert_allclose(graph.evaluate(merged, x)[0], wanted, 1e-5, 1e-6)
    np.testing.assert_allclose(graph.compile(net, CPU)(x), wanted, 1e-5, 1e-6)


def test_scores_that_are_read_elsewhere_are_kept() -> None:
    b = graph.Builder("net")
    y = pattern(b, b.input("x", (B, H, M, D)), None)
    (softmax,) = [node for node in graph.Graph("g", (), (y,)).nodes if node.op == "softmax"]
    net = b.graph(y, softmax)
    assert passes.merge_attention(net, CPU) is net


def test_other_targets_keep_the_products() -> None:
    b = graph.Builder("net")
    net = b.graph(pattern(b, b.input("x", (B, H, M, D)), None))
    assert passes.merge_attention(net, Target("cuda -sim")) is net


# --- decoding ------------------------------------------------------------------------------------

WORDS, SIZE, LONGEST = 11, 16, 24  # of the vocabulary, a vector, the cache
HEADS, SHARED = 4, 2


class Decoder:
    """A decoder of one layer with random weights; heads of queries share keys and values."""

    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        kv = SIZE // SHARED
        shapes = {"q": (SIZE, SIZE), "k": (kv, SIZE), "v": (kv, SIZE), "out": (WORDS, SIZE)}
        self.weights = {n: rng.standard_normal(s, np.float32) / 4 for n, s in shapes.items()}
        self.table = rng.standard_normal((WORDS, SIZE), np.float32)

    def step(self) -> graph.Graph:
        """Return a network: word, position and caches -> scores of the next word, new caches."""
        b = graph.Builder("step")
        word, position = b.input("word", (1,), "int32"), b.input("position", (1,), "int32")
        shape = (1, HEADS // SHARED, LONGEST, SIZE // HEADS)
        caches = b.input("keys", shape), b.input("values", shape)
        x = b.take(b.param("table", self.table), word, axis=0)
        heads = {
            n: b.reshape(b.dense(x, b.param(n, self.weights[n])), (1, count, 1, SIZE // HEADS))
            for n, count in (("q", HEADS), ("k", HEADS // SHARED), ("v", HEADS // SHARED))
        }
        keys, values = (
            b.cache_update(cache, heads[n], position) for cache, n in zip(caches, "kv", strict=True)
        )
        y = b.cached_attention(heads["q"], keys, values, b.add(position, b=1))
        y = b.dense(b.reshape(y, (1, SIZE)), b.param("out", self.weights["out"]))
        return b.graph(y, keys, values)

    def scores(self, words: list[int]) -> np.ndarray:
        """Return the scores of the next word, computed by numpy without a cache."""
        x = self.table[words]
        q, k, v = (
            (x @ self.weights[n].T).reshape(len(words), -1, SIZE // HEADS).transpose(1, 0, 2)
            for n in "qkv"
        )
        k, v = k.repeat(SHARED, 0), v.repeat(SHARED, 0)
        scores = q[:, -1:] @ k.transpose(0, 2, 1) * (SIZE // HEADS) ** -0.5
        e = np.exp(scores - scores.max(-1, keepdims=True))
        y = (e / e.sum(-1, keepdims=True)) @ v
        return y.reshape(SIZE) @ self.weights["out"].T


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_greedy_decoding_with_a_cache_is_that_without(target: str) -> None:
    decoder = Decoder()
    step = graph.compile(decoder.step(), target)
    caches = [np.full((1, HEADS // SHARED, LONGEST, SIZE // HEADS), np.nan, np.float32)] * 2
    words = [1]
    for position in range(LONGEST):
        index = np.array([position], "int32")
        found, *caches = step(np.array([words[-1]], "int32"), index, *caches)
        wanted = decoder.scores(words)
        np.testing.assert_allclose(found[0], wanted, 1e-5, 1e-5)
        words.append(int(wanted.argmax()))
    assert len(set(words)) > 3
