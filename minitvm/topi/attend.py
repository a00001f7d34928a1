"""Scaled dot-product attention (Vaswani et al. 2017), a block of queries at a time.

    scores[n, i] = scale * sum(q[i, d] * k[n, d])        for all keys n and the queries i of a block
    e[n, i] = exp(scores[n, i] - max(scores[:, i]))
    out[i, d] = sum(e[n, i] * v[n, d]) / sum(e[:, i])

The scores of one block are all that is kept: keys * BLOCK numbers, not keys * queries. They are
stored with queries as the last dimension, so that the maximum and the sum over keys need no sums
across a vector, and both products read their vectors in order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from minitvm import te, tensor, tir
from minitvm.base import BOOL, ExprError, Reason, check_kind, raise_first

from .operands import check_rank, check_vector, checks_arguments
from .shape import INJECTIVE

__all__ = ["attention", "cache_update", "cached_attention"]

ATTENTION = "attention"  # the tag of the result; other stages have it and their name
TWO_SUMS = te.comm_reducer(
    lambda x, y: (x[0] + y[0], x[1] + y[1]),
    lambda *types: tuple(te.const(0, kind) for kind in types),
    "two_sums",
)
BLOCK = 32  # the most queries in a block
SHORT = 16  # the queries in a block if their number is unknown: the last block is rarely full
KEYS = 8  # keys whose products with a block of queries are computed, or left out, together
LANES = 16  # keys whose maxima are computed separately
Body: TypeAlias = (
    Callable[[Any, Any], Any]
    | Callable[[Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any], Any]
    | Callable[[Any, Any, Any, Any, Any, Any], Any]
)
LOWEST = -3.0e38  # the maximum of no scores


@checks_arguments
def attention(
    q: te.Tensor,
    k: te.Tensor,
    v: te.Tensor,
    mask: te.Tensor | None = None,
    scale: float = 0.0,
    causal: bool = False,
    offset: int = 0,
    softcap: float = 0.0,
) -> te.Tensor:
    """Average the values of all keys, weighted by softmax(scale * q @ k.T + mask).

    q        [B, H, M, D]: queries of H heads
    k, v     [B, G, N, D] and [B, G, N, E]: keys and values; each of the G heads serves H / G heads
             of queries
    mask     of at most 4 dimensions, which broadcasts to [B, H, M, N]: numbers to add to the
             scores, or whether a query sees a key
    scale    of the scores; 0 for D ** -0.5
    causal   whether query i sees only the keys 0 .. i + offset
    softcap  limits scores to softcap * tanh(score / softcap); 0 for no limit

    Returns [B, H, M, E]; zeros for queries that see no key.
    """
    offset = check_kind("topi.attention: offset", offset, int, fix="offset=0")
    visible = _Visible(causal, offset, None, q.shape[-2], k.shape[-2])
    return _attention("attention", (q, k, v, mask), visible, scale, softcap)


@checks_arguments
def cached_attention(
    q: te.Tensor,
    k: te.Tensor,
    v: te.Tensor,
    lengths: te.Tensor,
    mask: te.Tensor | None = None,
    scale: float = 0.0,
    causal: bool = False,
    softcap: float = 0.0,
) -> te.Tensor:
    """Do what `attention` does for the first lengths[b] keys and values of a cache.

    lengths  int[B]: the number of keys that are read, at most N; the work is proportional to it
    causal   whether query i sees only the keys 0 .. i + lengths[b] - M: the last query sees all

    The other arguments, and the result, are those of `attention`.
    """
    check_vector("topi.cached_attention", lengths, q.shape[0])
    visible = _Visible(causal, 0, lengths, q.shape[-2], k.shape[-2])
    return _attention("cached_attention", (q, k, v, mask), visible, scale, softcap)


@checks_arguments
def cache_update(cache: te.Tensor, new: te.Tensor, positions: te.Tensor) -> te.Tensor:
    """Write keys or values into a cache: return it with `new` at positions[b] and after.

    cache      [B, G, N, D]
    new        [B, G, M, D]; rows that do not fit in the cache are left out
    positions  int[B]: the index of the first new row of each sequence
    """
    what = "topi.cache_update"
    check_rank(what, cache, 4)
    check_rank(what, new, 4)
    check_vector(what, positions, cache.shape[0])
    outer = zip((*cache.shape[:2], cache.shape[3]), (*new.shape[:2], new.shape[3]), strict=True)
    if cache.dtype is not new.dtype or not all(tir.prove_equal(a, b) for a, b in outer):
        raise ExprError(f"{what} of {cache.name}", f"{new.name} differs in type or other sizes")
    rows = new.shape[2]

    def body(b: Any, g: Any, n: Any, d: Any) -> Any:
        at = n - tir.index(positions[b])
        row = tir.minimum(tir.maximum(at, 0), tir.sub(rows, 1))
        is_new = te.all(at >= 0, at < rows)
        return te.if_then_else(is_new, new[b, g, row, d], cache[b, g, n, d])

    return te.compute(cache.shape, body, name="T_cache", tag=INJECTIVE)


@dataclass(frozen=True, slots=True)
class _Visible:
    """Which of the `keys` keys a query sees."""

    causal: bool
    offset: int
    lengths: te.Tensor | None
    queries: tir.Index
    keys: tir.Index

    def length(self, b: Any) -> Any:
        """Return the number of keys in a sequence of the batch."""
        if self.lengths is None:
            return self.keys
        return tir.minimum(tir.maximum(tir.index(self.lengths[b]), 0), self.keys)

    def last(self, b: Any, i: Any) -> Any:
        """Return the last key that query i sees, if causal."""
        return i + (self.offset if self.lengths is None else self.length(b) - self.queries)

    def end(self, b: Any, last_query: Any) -> Any:
        """Return the end of the keys that queries up to `last_query` see."""
        if not self.causal:
            return self.length(b)
        end = tir.add(self.last(b, last_query), 1)
        return tir.minimum(end, self.length(b)) if tir.upper_bound(end) > 0 else 0


def _attention(
    name: str,
    operands: tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor | None],
    visible: _Visible,
    scale: float,
    softcap: float,
) -> te.Tensor:
    """Return the result of either operator."""
    q, k, v, mask = operands
    what = f"topi.{name}"
    raise_first(ExprError, what, _about_operands(q, k, v, mask))
    check_kind(f"{what}: scale", scale, Real, fix="scale=0.125")
    check_kind(f"{what}: softcap", softcap, Real, fix="softcap=30.0")
    scores = _Scores(mask, visible, float(scale) or q.shape[3] ** -0.5, float(softcap))
    one = isinstance(q.shape[2], int) and q.shape[2] == 1 and isinstance(k.shape[2], int)
    return (_one_query if one else _blocks)(q, k, v, scores)


@dataclass(frozen=True, slots=True)
class _Scores:
    """How the product of a query and a key becomes a score, and which keys count."""

    mask: te.Tensor | None
    visible: _Visible
    scale: float
    softcap: float

    def score(self, x: Any, b: Any, h: Any, i: Any, n: Any) -> Any:
        """Return the score of query i and key n, whose scaled product is x."""
        x = te.tanh(x / self.softcap) * self.softcap if self.softcap else x
        if self.mask is None:
            return x
        at = self.mask(*tensor.broadcast_index(self.mask.shape, (b, h, i, n)))
        if self.mask.dtype is BOOL:
            return te.if_then_else(at, x, te.min_value(x.dtype))
        return x + at

    def over_keys(self, b: Any, last_query: Any) -> te.Axis:
        """Return the reduce axis over the keys that queries up to `last_query` see."""
        return te.reduce_axis((0, self.visible.end(b, last_query)), "n")


def _stage(shape: tuple[tir.Index, ...], name: str, body: Body) -> Any:
    return te.compute(shape, body, name=f"T_{name}", tag=f"{ATTENTION}_{name}")


def _blocks(q: te.Tensor, k: te.Tensor, v: te.Tensor, scores: _Scores) -> te.Tensor:
    """Compute attention of blocks of queries."""
    queries, shared = q.shape[2], q.shape[1] // k.shape[1]
    rows = min(BLOCK, 1 << (queries - 1).bit_length()) if isinstance(queries, int) else SHORT
    whole = (*q.shape[:2], tir.ceildiv(queries, rows))

    def over_keys(fold: Callable[..., Any], b: Any, o: Any, term: Callable[[Any], Any]) -> Any:
        n = scores.over_keys(b, o * rows + rows - 1)
        return fold(term(n), axis=n)

    scored = _scores_of_blocks(q, k, scores, (*whole, k.shape[2], rows))
    most = _stage(
        (*whole, rows),
        "max",
        lambda b, h, o, i: over_keys(te.max, b, o, lambda n: scored[b, h, o, n, i]),
    )
    e = _stage(
        scored.shape,
        "exp",
        lambda b, h, o, n, i: te.exp(scored[b, h, o, n, i] - te.max(most[b, h, o, i], LOWEST)),
    )
    total = _stage(
        (*whole, rows),
        "total",
        lambda b, h, o, i: over_keys(te.sum, b, o, lambda n: e[b, h, o, n, i]),
    )
    sums = _stage(
        (*whole, rows, v.shape[3]),
        "sums",
        lambda b, h, o, i, d: over_keys(
            te.sum, b, o, lambda n: e[b, h, o, n, i] * v[b, h // shared, n, d]
        ),
    )

    def result(b: Any, h: Any, i: Any, d: Any) -> Any:
        o, at = i // rows, i % rows
        return _quotient(sums[b, h, o, at, d], total[b, h, o, at])

    shape = (*q.shape[:3], v.shape[3])
    return te.compute(shape, result, name="T_attention", tag=ATTENTION)


def _scores_of_blocks(
    q: te.Tensor, k: te.Tensor, scores: _Scores, shape: tuple[tir.Index, ...]
) -> te.Tensor:
    """Return the scores [B, H, block, key, query of the block]; `shape` is their shape.

    Products of KEYS keys that no query of a block sees are sums of no terms: this saves the work.
    """
    queries, rows, visible = q.shape[2], shape[-1], scores.visible
    shared = q.shape[1] // k.shape[1]

    def query(o: Any, i: Any) -> Any:
        return tir.minimum(o * rows + i, tir.sub(queries, 1))

    packed = _stage(
        (*shape[:3], q.shape[3], rows),
        "queries",
        lambda b, h, o, d, i: q[b, h, query(o, i), d] * scores.scale,
    )

    def product(b: Any, h: Any, o: Any, m: Any, n: Any, i: Any) -> Any:
        end = visible.end(b, o * rows + rows - 1)
        is_seen = 1 if end is k.shape[2] else tir.minimum(tir.maximum(end - m * KEYS, 0), 1)
        d = te.reduce_axis((0, tir.mul(is_seen, q.shape[3])), "d")
        key = tir.minimum(m * KEYS + n, tir.sub(k.shape[2], 1))
        return te.sum(packed[b, h, o, d, i] * k[b, h // shared, key, d], axis=d)

    keys = tir.ceildiv(k.shape[2], KEYS), KEYS
    products = _stage((*shape[:3], *keys, rows), "products", product)

    def score(b: Any, h: Any, o: Any, n: Any, i: Any) -> Any:
        x = products[b, h, o, n // KEYS, n % KEYS, i]
        x = scores.score(x, b, h, query(o, i), n)
        if not visible.causal:
            return x
        return te.if_then_else(n <= visible.last(b, o * rows + i), x, te.min_value(x.dtype))

    return _stage(shape, "scores", score)


def _quotient(x: Any, total: Any) -> Any:
    return te.if_then_else(total > 0, x / total, 0.0)


def _one_query(q: te.Tensor, k: te.Tensor, v: te.Tensor, scores: _Scores) -> te.Tensor:
    """Attention of one query, such as a step of decoding.

    Loops over keys end with the last one that the query sees. A loop can end early only if it
    reduces, so no scores are kept: they are computed twice, for the maximum and for the sums.
    """
    batch, heads, _, depth = q.shape
    shared = heads // k.shape[1]

    def products(name: str) -> te.Tensor:
        d_axis = te.reduce_axis((0, depth), "d")
        return _stage(
            (batch, heads, k.shape[2]),
            name,
            lambda b, h, n: te.sum(q[b, h, 0, d_axis] * k[b, h // shared, n, d_axis], axis=d_axis),
        )

    first, second = products("first_products"), products("second_products")

    def greatest(b: Any, h: Any, lane: Any) -> Any:
        end = scores.visible.end(b, 0)
        o = te.reduce_axis((0, (end + LANES - 1) // LANES), "o")
        n = o * LANES + lane
        at = n if k.shape[2] % LANES == 0 else te.min(n, k.shape[2] - 1)
        x = scores.score(first[b, h, at] * scores.scale, b, h, 0, at)
        return te.max(x, axis=o, where=n < end)

    lanes = _stage((batch, heads, LANES), "lanes", greatest)
    lane = te.reduce_axis((0, LANES), "lane")
    most = _stage((batch, heads), "max", lambda b, h: te.max(lanes[b, h, lane], axis=lane))

    def exponential(b: Any, h: Any, n: Any) -> Any:
        x = scores.score(second[b, h, n] * scores.scale, b, h, 0, n)
        return te.exp(x - te.max(most[b, h], LOWEST))

    e = _stage(second.shape, "exp", exponential)

    def both(b: Any, h: Any, d: Any) -> Any:
        n = scores.over_keys(b, 0)
        return TWO_SUMS((e[b, h, n], e[b, h, n] * v[b, h // shared, n, d]), axis=n)

    total, sums = _stage((batch, heads, v.shape[3]), "sums", both)
    shape = (*q.shape[:3], v.shape[3])

    def result(b: Any, h: Any, i: Any, d: Any) -> Any:
        del i
        return _quotient(sums[b, h, d], total[b, h, d])

    return te.compute(shape, result, name="T_attention", tag=ATTENTION)


def _about_operands(
    q: te.Tensor, k: te.Tensor, v: te.Tensor, mask: te.Tensor | None
) -> list[Reason]:
    """Return the reason why shapes or types of operands do not fit; [] if they do."""
    if any(x.ndim != 4 or x.dtype is not q.dtype or not x.dtype.is_float for x in (q, k, v)):
        return [("its operands are not floats of one type and 4 dimensions",)]
    sizes = [n for x in (q, k, v) for n in (x.shape[1], x.shape[3])]
    if not all(isinstance(n, int) and n > 0 for n in sizes):
        return [("its heads and the elements of a key are not integers of at least 1",)]
    if any(isinstance(n, int) and n < 1 for x in (q, k, v) for n in x.shape):
        return [("it has a size of 0",)]
    heads, groups = q.shape[1], k.shape[1]
    if heads % groups:
        return [(f"{heads} heads of queries cannot share {groups} of keys",)]
    pairs = (
        (k.shape[0], q.shape[0], "sequences of keys"),
        (k.shape[3], q.shape[3], "elements in a key"),
        *((v.shape[n], k.shape[n], what) for n, what in enumerate(("batches", "heads", "values"))),
    )
    reasons: list[Reason] = [
        (f"there are {tir.text(size)} {role}, not {tir.text(expected)}",)
        for size, expected, role in pairs
        if not tir.prove_equal(size, expected)
    ]
    full = (*q.shape[:3], k.shape[2])
    if mask is not None and not _broadcasts(mask.shape, full):
        reasons.append((f"the mask {list(mask.shape)} does not broadcast to {list(full)}",))
    if mask is not None and mask.dtype not in (BOOL, q.dtype):
        reasons.append((f"the mask is {mask.dtype}", f"bool or {q.dtype}"))
    return reasons


def _broadcasts(shape: tuple[tir.Index, ...], full: tuple[tir.Index, ...]) -> bool:
    pairs = zip(reversed(shape), reversed(full), strict=False)
    return len(shape) <= len(full) and all(
        tir.prove_equal(n, 1) or tir.prove_equal(n, size) for n, size in pairs
    )
