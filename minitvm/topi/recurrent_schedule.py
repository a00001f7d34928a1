"""Schedule a recurrent layer: a loop over time, in which all gates of some units are one tile.

The recurrent weights are packed in panels: the weights of all gates for the units of one tile are
adjacent, and a step reads them in order. The tile of gates stays in registers, and the activations
are applied to it before the next tile.
"""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import schedule, te, tensor, tir
from minitvm.base import Target

from .options import Choose
from .recurrent import PRODUCT
from .stages import axes_of, reduce_axes_of
from .tile import tile_loops, vector_length

VECTORS = (8, 4, 2, 1)  # vectors of units in a tile
STEP_WORTH_THREADS = 1 << 16  # multiply-adds; few, as threads spin between steps


@dataclass(frozen=True, slots=True)
class Plan:
    """The tile of a recurrent layer: sequences, units, and units in a vector; and its threads."""

    rows: int
    units: int
    lanes: int
    threads: int


def schedule_recurrent(
    s: te.Schedule,
    op: te.ComputeOp,
    out: te.StageView,
    target: Target,
    choose: Choose | None = None,
) -> set[str]:
    """Schedule the states `op` of a recurrent layer; return the names of the scheduled stages.

    for t:
      for jo:                          units, a few vectors at a time; each thread has a part
        for bo:                        sequences, a few rows at a time
          tile = 0
          for k: tile[bi, q, ji] += h[bo*rows + bi, k] * panel[jo, k, q, ji]
          cell[...], states[...] = activations of tile

    Stages that a product reads whole, such as the state after a reset, have such loops, too.
    """
    del out, choose
    scans = [v.op for v in s.stages if isinstance(v.op, tensor.ScanOp)]
    parts = next(tensor.body_of(scan) for scan in scans if op.output(0) in scan.updates)
    products = [part for part in parts if part.tag == PRODUCT]
    plan = _plan(products, target)
    places: dict[te.ComputeOp, tuple[te.StageView, te.Axis]] = {}
    for part in reversed(parts):
        stage = s[part.output(0)]
        readers = [other for other in parts if part.output(0) in other.input_tensors]
        if part is op or any(reader.tag == PRODUCT for reader in readers):
            places[part] = stage, _tiled(stage, plan)
            continue
        places[part] = places[readers[-1]]
        stage.set_scope("local")
        stage.compute_at(*places[part])
        *_, j = axes_of(stage)
        if part in products:
            _, b, q, _ = axes_of(stage)
            tile_loops(stage, reduce_axes_of(stage), (b, q, *stage.split(j, factor=plan.lanes)))
        else:
            stage.vectorize(stage.split(j, factor=plan.lanes)[1])
    packed = _packed(s, products, plan)
    return {packed, *(part.name for part in parts)}


def _plan(products: list[te.ComputeOp], target: Target) -> Plan:
    """Return the largest tile of which all gates fit in registers, with few sequences at first."""
    _, batch, _, units = (n if isinstance(n, int) else 1 << 10 for n in products[0].shape)
    gates = max(p.shape[2] for p in products if isinstance(p.shape[2], int))
    lanes = vector_length(units, target.lanes(products[0].dtypes[0]))
    most = max(1, target.tile_rows(gates))
    rows = -(-batch // -(-batch // most))  # the same number of rows in each tile, or one less
    fits = (v for v in VECTORS if target.tile_rows(gates * v) >= rows)
    vectors = next((v for v in fits if units % (v * lanes) == 0), 1)
    work = batch * gates * units * units
    return Plan(rows, vectors * lanes, lanes, target.num_cores if work >= STEP_WORTH_THREADS else 1)


def _tiled(stage: te.StageView, plan: Plan) -> te.Axis:
    """Split the loops of states or a cell in tiles; return the loop over the tiles."""
    _, *states, b, j = axes_of(stage)
    jo, j = stage.split(j, factor=plan.units)
    bo, b = stage.split(b, factor=plan.rows)
    tile_loops(stage, (jo, bo), (*states, b, *stage.split(j, factor=plan.lanes)))
    if plan.threads > 1:  # one part each, so a core mostly finds its weights in its cache
        stage.parallel(stage.split(jo, nparts=plan.threads)[0])
    return bo


def _packed(s: te.Schedule, products: list[te.ComputeOp], plan: Plan) -> str:
    """Pack the recurrent weights in panels [tile, k, gate, unit]; return the name of the copy."""
    weight = products[0].input_tensors[-1]
    packed = s[s.cache_read(weight, "global", [p.output(0) for p in products])].name
    unit = f"r % {tir.text(weight.shape[1])}"
    panel = (f"{unit} // {plan.units}", "k", f"r // {tir.text(weight.shape[1])}", unit)
    panel = (*panel[:3], f"{unit} % {plan.units}")
    s.apply(schedule.TransformLayout(packed, ("r", "k"), panel))
    return packed
