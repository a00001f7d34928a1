"""Schedule attention: all stages of a block of queries, or of one query, in one loop."""

from __future__ import annotations

from collections.abc import Mapping

from minitvm import te, tensor, tir
from minitvm.base import Target

from .attend import ATTENTION, KEYS, LANES
from .blocks import block_side, transpose_in_registers
from .gemm import WORTH_THREADS
from .options import Choose
from .stages import axes_of, reads, reduce_axes_of, worth_threads
from .tile import tile_loops, vector_length

Stages = Mapping[str, te.StageView]
VECTORS = (1, 2, 4)  # the columns of a tile, in vectors
NARROW = 4  # sums to which a vector is reduced before the last one


def schedule_attention(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule the attention `op` and the stages before it; return their names."""
    del out, choose
    stages = {
        part.tag.removeprefix(f"{ATTENTION}_"): s[part.output(0)]
        for part in tensor.producers_first((op,))
        if isinstance(part, te.ComputeOp) and part.tag.startswith(ATTENTION)
    }
    lanes = vector_length(_size(op.axis[3]), target.lanes(op.dtypes[0]))
    if "queries" in stages:
        loops = _schedule_blocks(s, stages, lanes, target)
    else:
        loops = _schedule_one_query(s, stages, lanes)
    result = stages[ATTENTION]
    products = stages["products" if "queries" in stages else "first_products"].op
    assert isinstance(products, te.ComputeOp)
    if worth_threads(products, target, WORTH_THREADS):
        result.parallel(result.fuse(*loops))
    return {v.name for v in s.stages if v.is_attached} | {result.name}


def _schedule_blocks(s: te.Schedule, stages: Stages, lanes: int, target: Target) -> list[te.Axis]:
    """Schedule blocks of queries; return the outer loops of the result.

    for b, h, o:                        blocks of queries
      queries[d, i]                     the block, transposed and scaled
      for no, io: scores[n, i] = a tile of keys * queries
      max[i], exp[n, i], total[i]       in vectors of queries
      for io, do: out[i, d] = a tile of exp * values, / total[i]
    """
    result, sums, scores = stages[ATTENTION], stages["sums"], stages["scores"]
    block = _size(axes_of(scores)[-1])
    width = vector_length(block, lanes)
    b, h, i, d = axes_of(result)
    o, i = result.split(i, factor=block)
    rows, columns = _tile(block, _size(d), lanes, target)
    io, i = result.split(i, factor=rows)
    do, d = result.split(d, factor=columns)
    tile_loops(result, (b, h, o, io, do), (i, *result.split(d, factor=lanes)))
    sums.compute_at(result, do)
    *_, i, d = axes_of(sums)
    _, i = sums.split(i, factor=rows)
    _, d = sums.split(d, factor=columns)
    tile_loops(sums, reduce_axes_of(sums), (i, *sums.split(d, factor=lanes)))
    for name in ("queries", "scores", "max", "exp", "total"):
        stages[name].compute_at(result, o)
    for name in ("max", "total"):
        stage = stages[name]
        tile_loops(stage, reduce_axes_of(stage), stage.split(axes_of(stage)[-1], factor=width))
    e = stages["exp"]
    e.vectorize(e.split(axes_of(e)[-1], factor=width)[1])
    _transpose(s, stages["queries"], target)
    _skip_unseen(stages["exp"], stages["total"])
    rows, columns = _tile(KEYS, block, width, target)
    products = stages["products"]
    *_, n, i = axes_of(scores)
    mo, n = scores.split(n, factor=KEYS)
    no, n = scores.split(n, factor=rows)
    io, i = scores.split(i, factor=columns)
    tile_loops(scores, (mo, no, io), (n, *scores.split(i, factor=width)))
    products.compute_at(scores, io)
    *_, n, i = axes_of(products)
    _, n = products.split(n, factor=rows)
    _, i = products.split(i, factor=columns)
    tile_loops(products, reduce_axes_of(products), (n, *products.split(i, factor=width)))
    for name in ("max", "total", "sums", "products"):
        stages[name].set_scope("local")
    return [b, h, o]


def _transpose(s: te.Schedule, queries: te.StageView, target: Target) -> None:
    """Compute the block of queries in squares that are transposed in registers."""
    q = s[s.cache_read(reads(queries.op)[0], "local", [queries.op.output(0)])]
    *_, d, i = axes_of(queries)
    side = block_side(target, q.op.output(0).dtype, d.extent, i.extent)
    do, d = queries.split(d, factor=side)
    io, i = queries.split(i, factor=side)
    tile_loops(queries, (do, io), (d, i))
    *_, row, column = axes_of(q)
    transpose_in_registers(q, queries, io, row, column)


def _skip_unseen(e: te.StageView, total: te.StageView) -> None:
    """Compute exponentials of the keys that `total` sums only; their number must be known."""
    (n,), keys = reduce_axes_of(total), axes_of(e)[3]
    outer = dict(zip(axes_of(total)[:3], axes_of(e)[:3], strict=True))
    end = tir.substitute(n.extent, outer)
    if not isinstance(end, int) and not tensor.is_from_data(end):
        ends = (end.a, end.b) if isinstance(end, tir.Extremum) else (end,)  # a minimum
        if unseen := [end for end in ends if not tir.nonneg(tir.sub(end, keys.extent))]:
            e.set_store_predicate(te.all(*(keys < end for end in unseen)))


def _size(a: te.Axis) -> int:
    """Return the extent of an axis, which is a constant in attention."""
    assert isinstance(a.extent, int)
    return a.extent


def _tile(rows: int, columns: int, lanes: int, target: Target) -> tuple[int, int]:
    """Return the rows and columns of the tile with the most multiply-adds per load.

    Its accumulators fit in registers, its rows are a power of two, and its columns divide
    `columns`, if possible.
    """

    def per_load(tile: tuple[int, int]) -> float:
        high, vectors = tile
        return high * vectors / (high + vectors)

    fits = [
        (1 << min(target.tile_rows(v), rows).bit_length() - 1, v)
        for v in VECTORS
        if target.tile_rows(v) and columns % (v * lanes) == 0
    ]
    high, vectors = max(fits, key=per_load, default=(1, 1))
    return high, vectors * lanes


def _schedule_one_query(s: te.Schedule, stages: Stages, lanes: int) -> list[te.Axis]:
    """Schedule one query; return the outer loops of the result.

    for b, h:
      for o: lanes[0 : 16] = max(lanes, products of 16 keys and the query)
      for o:
        exp[0 : 16] = exp(products of 16 keys and the query - max(lanes))
        for n: out[:] += exp[n] * value[n]
    """
    result, sums, e, most = (stages[name] for name in (ATTENTION, "sums", "exp", "lanes"))
    b, h, _, d = axes_of(result)
    result.vectorize(result.split(d, factor=lanes)[1])
    for name in ("sums", "lanes", "max"):
        stages[name].compute_at(result, h)
    no, n = sums.split(reduce_axes_of(sums)[0], factor=LANES)
    tile_loops(sums, (no, n), sums.split(axes_of(sums)[-1], factor=lanes))
    e.compute_at(sums, no)
    e.vectorize(axes_of(e)[-1])
    tile_loops(most, reduce_axes_of(most), axes_of(most)[-1:])
    _dot_products(s, stages["second_products"], lanes).compute_at(sums, no)
    _dot_products(s, stages["first_products"], lanes).compute_at(most, reduce_axes_of(most)[0])
    for name in ("sums", "lanes", "exp"):
        stages[name].set_scope("local")
    return [b, h]


def _dot_products(s: te.Schedule, stage: te.StageView, lanes: int) -> te.StageView:
    """Compute products of rows and a vector: lanes first, then sums of lanes, then one sum."""
    stage.set_scope("local")
    partials: list[te.StageView] = []
    for part in (lanes, NARROW) if lanes > NARROW else (lanes,):
        (k,) = reduce_axes_of(stage)
        _, inner = stage.split(k, factor=part)
        partials.append(s[s.rfactor(stage.op.output(0), inner, factor_axis=3)])
    for partial in reversed(partials):
        partial.set_scope("local")
        partial.compute_at(stage, axes_of(stage)[-1])
        tile_loops(partial, (), (*reduce_axes_of(partial), axes_of(partial)[-1]))
    stage.unroll(reduce_axes_of(stage)[0])
    return stage
