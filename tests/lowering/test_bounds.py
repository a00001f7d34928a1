"""Bound inference: which part of a producer is computed where it is attached.

Every case is stated as text, and compared with an oracle that runs all loops and writes down what
the readers touch.
"""

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from minitvm import te
from minitvm.lowering import Domain, infer, normalize, sweep
from minitvm.schedule import State
from minitvm.tensor import ComputeOp, Tensor, parts
from minitvm.tir import (
    Load,
    Var,
    add,
    floordiv,
    floormod,
    minimum,
    mul,
    sub,
    substitute,
    text,
    walk,
)

Case = tuple[te.Schedule, str]  # a schedule, and the stage whose region is asked for
Env = dict[Any, Any]


def region(s: te.Schedule, stage: str) -> list[str]:
    """First .. last index of each dimension."""
    d = infer(normalize(s.state))[stage]
    axes = s[stage].op.axis  # type: ignore[union-attr]
    return [f"{text(d.start[a])} .. {text(sub(add(d.start[a], d.extents[a]), 1))}" for a in axes]


# --- the oracle ----------------------------------------------------------------------------------


def environments(state: State, name: str, domains: dict[str, Domain]) -> Iterator[Env]:
    """The values of all loops around the stage's stores, wherever its guards hold."""
    d = domains[name]
    variables = [*d.around, *d.loops.values()]
    for values in itertools.product(*(range(int(v.high) + 1) for v in variables)):
        env = dict(zip(variables, values, strict=True))
        if all(substitute(g, env).value for g in d.conditions):  # type: ignore[union-attr]
            yield env


def touched(state: State, name: str, domains: dict[str, Domain]) -> dict[tuple[int, ...], set[Any]]:
    """What is read of a stage, for each value of the loops it is computed inside of."""
    op = state.stage(name).op
    found: dict[tuple[int, ...], set[Any]] = {}
    for reader in state.stages:
        if not isinstance(reader.op, ComputeOp):
            continue
        loads = [
            n.indices
            for e in parts(reader.op)
            for n in walk(e)
            if isinstance(n, Load) and isinstance(n.buffer, Tensor) and n.buffer.op is op
        ]
        for env in environments(state, reader.name, domains) if loads else ():
            here = tuple(env[v] for v in domains[name].around)
            point = {a: substitute(v, env) for a, v in domains[reader.name].values.items()}
            for indices in loads:
                at = tuple(substitute(i, point) for i in indices)
                if all(0 <= i < n for i, n in zip(at, op.shape, strict=True)):  # not in padding
                    found.setdefault(here, set()).add(at)
    return found


def slack(s: te.Schedule, name: str) -> int:
    """Most elements computed at a place beyond the box of what is read; fails if one is missing."""
    state = normalize(s.state)
    domains = infer(state)
    d, op = domains[name], state.stage(name).op
    assert isinstance(op, ComputeOp)
    worst = 0
    for here, points in touched(state, name, domains).items():
        env = dict(zip(d.around, here, strict=True))
        sides = list(zip(*points, strict=True))
        boxes, computed = 1, 1
        for a, side, n in zip(op.axis, sides, op.shape, strict=True):
            first, extent = substitute(d.start[a], env), d.extents[a]
            assert first <= min(side), f"{a.name} at {here}: {min(side)} is read"
            assert max(side) < first + extent, f"{a.name} at {here}: {max(side)} is read"
            boxes *= max(side) - min(side) + 1
            computed *= min(first + extent, n) - max(first, 0)
        worst = max(worst, computed - boxes)
    return worst


# --- one producer, one reader --------------------------------------------------------------------


def reading(index: Callable[[Any], list[Any]], n: int, size: int) -> tuple[te.Schedule, Any, Any]:
    """C[i] = sum of B[index(i)] over the indices; B has `size` elements, C has n."""
    A = te.placeholder((size,), name="A")
    B = te.compute((size,), lambda i: A[i] + 1.0, name="B")

    def body(i: Any) -> Any:
        first, *rest = index(i)
        total = B[first]
        for other in rest:
            total = total + B[other]
        return total

    C = te.compute((n,), body, name="C")
    return te.create_schedule(C.op), B, C


def at_outer(index: Callable[[Any], list[Any]], n: int, size: int, factor: int) -> te.Schedule:
    """The producer inside the outer loop of C, split by `factor`."""
    s, B, C = reading(index, n, size)
    outer, _ = s[C].split(C.op.axis[0], factor)
    s[B].compute_at(s[C], outer)
    return s


def test_a_stage_at_root_is_computed_as_a_whole() -> None:
    s, _, _ = reading(lambda i: [i], 8, 8)
    assert region(s, "B") == ["0 .. 7"]


def test_a_stage_at_root_is_computed_as_far_as_it_is_read() -> None:
    s, _, _ = reading(lambda i: [i + 2], 5, 16)
    assert region(s, "B") == ["2 .. 6"]


REGIONS: dict[str, tuple[Callable[[], te.Schedule], str, int]] = {
    "point": (lambda: at_outer(lambda i: [i], 8, 8, 1), "i_outer .. i_outer", 0),
    "tile": (lambda: at_outer(lambda i: [i], 16, 16, 4), "i_outer*4 .. i_outer*4 + 3", 0),
    "window": (lambda: at_outer(lambda i: [i, i + 1, i + 2], 16, 18, 4),
               "i_outer*4 .. i_outer*4 + 5", 0),
    "stride": (lambda: at_outer(lambda i: [i * 2, i * 2 + 1], 16, 32, 4),
               "i_outer*8 .. i_outer*8 + 7", 0),
    "stride with gaps": (lambda: at_outer(lambda i: [i * 3], 8, 24, 4),
                         "i_outer*12 .. i_outer*12 + 9", 0),
    "reversed": (lambda: at_outer(lambda i: [15 - i], 16, 16, 4),
                 "12 - i_outer*4 .. 15 - i_outer*4", 0),
    "quotient": (lambda: at_outer(lambda i: [i // 2], 16, 8, 4),
                 "i_outer*2 .. i_outer*2 + 1", 0),
    "quotient across": (lambda: at_outer(lambda i: [(i + 1) // 2], 16, 9, 4),
                        "i_outer*2 .. i_outer*2 + 2", 0),
    "remainder": (lambda: at_outer(lambda i: [i % 4], 16, 4, 8), "0 .. 3", 0),
    "remainder within": (lambda: at_outer(lambda i: [i % 8], 16, 8, 4),
                         "i_outer % 2*4 .. i_outer % 2*4 + 3", 0),
    "everything": (lambda: at_outer(lambda i: [i, 15 - i], 16, 16, 4), "0 .. 15", 0),
    "ragged tile": (lambda: at_outer(lambda i: [i], 10, 10, 4), "i_outer*4 .. i_outer*4 + 3", 0),
    "ragged window": (lambda: at_outer(lambda i: [i, i + 2], 10, 12, 4),
                      "i_outer*4 .. i_outer*4 + 5", 0),
    "a constant place": (lambda: at_outer(lambda i: [3], 8, 8, 4), "3 .. 3", 0),
}  # fmt: skip


@pytest.mark.parametrize("case", REGIONS)
def test_the_region_is_what_the_inner_loops_touch(case: str) -> None:
    make, says, _ = REGIONS[case]
    assert region(make(), "B") == [says]


@pytest.mark.parametrize("case", [c for c in REGIONS if c != "everything"])
def test_the_region_holds_all_that_is_read_and_no_more(case: str) -> None:
    make, _, beyond = REGIONS[case]
    assert slack(make(), "B") == beyond


def test_a_region_of_two_ends_that_move_apart_is_the_whole() -> None:
    """i and 15 - i: the box around both has another size for each tile, memory has one."""
    make, _, _ = REGIONS["everything"]
    assert slack(make(), "B") == 8


# --- splits, fuses, nesting ----------------------------------------------------------------------


def grid(shape: tuple[int, int] = (8, 6)) -> tuple[te.Schedule, Any, Any]:
    """B[i, j] = A[i, j] + 1; C[i, j] = B[i, j] * 2"""
    A = te.placeholder(shape, name="A")
    B = te.compute(shape, lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute(shape, lambda i, j: B[i, j] * 2.0, name="C")
    return te.create_schedule(C.op), B, C


def test_an_inner_loop_that_is_reordered_outwards_stands_still() -> None:
    s, B, C = grid()
    i, j = C.op.axis
    s[C].reorder(j, i)
    s[B].compute_at(s[C], j)
    assert region(s, "B") == ["0 .. 7", "j .. j"]
    assert slack(s, "B") == 0


def test_a_split_of_a_split_is_followed() -> None:
    s, B, C = grid()
    _, inner = s[C].split(C.op.axis[0], 4)
    middle, _ = s[C].split(inner, 2)
    s[B].compute_at(s[C], middle)
    assert region(s, "B")[0] == ("i_outer*4 + i_inner_outer*2 .. i_outer*4 + i_inner_outer*2 + 1")
    assert slack(s, "B") == 0


def test_an_inner_split_that_does_not_divide_is_covered() -> None:
    s, B, C = grid()
    _, inner = s[C].split(C.op.axis[0], 8)
    middle, _ = s[C].split(inner, 3)
    s[B].compute_at(s[C], middle)
    assert slack(s, "B") == 0


def test_parts_of_a_fused_loop_that_are_rows_need_rows() -> None:
    s, B, C = grid((8, 6))
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), 12)
    s[B].compute_at(s[C], outer)
    assert region(s, "B") == [
        "i_j_fused_outer*2 .. i_j_fused_outer*2 + 1",
        "0 .. 5",
    ]
    assert slack(s, "B") == 0


def test_parts_of_a_fused_loop_within_a_row_need_a_part_of_it() -> None:
    s, B, C = grid((8, 6))
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), 3)
    s[B].compute_at(s[C], outer)
    assert slack(s, "B") == 0


def test_parts_of_a_fused_loop_across_rows_need_the_rows_they_cross() -> None:
    s, B, C = grid((8, 6))
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), 4)
    s[B].compute_at(s[C], outer)
    assert region(s, "B")[1] == "0 .. 5"
    assert slack(s, "B") > 0


def fused(shape: tuple[Any, Any], factor: int) -> te.Schedule:
    """B computed at the outer part of C's two loops, fused and split by `factor`."""
    s, B, C = grid(shape)
    outer, _ = s[C].split(s[C].fuse(*C.op.axis), factor)
    s[B].compute_at(s[C], outer)
    return s


@pytest.mark.parametrize(
    ("shape", "factor", "rows"),
    [((12, 6), 10, 3), ((12, 6), 9, 2), ((12, 6), 8, 2), ((12, 6), 5, 2), ((12, 7), 10, 3)],
)
def test_parts_across_rows_need_no_more_rows_than_one_part_crosses(
    shape: tuple[int, int], factor: int, rows: int
) -> None:
    s = fused(shape, factor)
    d = infer(normalize(s.state))["B"]
    assert list(d.extents.values())[:2] == [rows, shape[1]]
    slack(s, "B")  # nothing is missing


def test_parts_of_a_fused_loop_over_symbolic_rows_need_the_rows_they_cross() -> None:
    n, m = te.size_var("n"), te.size_var("m")
    assert region(fused((n, m), 30), "B") == [
        "i_j_fused_outer*30 // max(m, 1) .. "
        "i_j_fused_outer*30 // max(m, 1) + min(28 // max(m, 1) + 2, n) - 1",
        "0 .. m - 1",
    ]


def test_a_clamped_index_needs_as_much_as_one_that_is_not() -> None:
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] + 1.0, name="B")
    C = te.compute(
        (64,),
        lambda i: B[te.max(te.min(i - 1, 63), 0)] + B[te.max(te.min(i + 1, 63), 0)],
        name="C",
    )
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    assert next(iter(infer(normalize(s.state))["B"].extents.values())) == 6


def test_stages_attached_in_each_other_see_all_loops_around() -> None:
    A = te.placeholder((18,), name="A")
    B = te.compute((18,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((17,), lambda i: B[i] + B[i + 1], name="C")
    D = te.compute((16,), lambda i: C[i] + C[i + 1], name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 4)
    s[C].compute_at(s[D], outer)
    s[B].compute_at(s[C], C.op.axis[0])
    assert region(s, "C") == ["i_outer*4 .. i_outer*4 + 4"]
    assert region(s, "B") == ["i_outer*4 + i .. i_outer*4 + i + 1"]
    assert (slack(s, "B"), slack(s, "C")) == (0, 0)


def test_stages_attached_side_by_side_widen_each_other() -> None:
    A = te.placeholder((18,), name="A")
    B = te.compute((18,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((17,), lambda i: B[i] + B[i + 1], name="C")
    D = te.compute((16,), lambda i: C[i] + C[i + 1], name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 4)
    s[C].compute_at(s[D], outer)
    s[B].compute_at(s[D], outer)
    assert region(s, "B") == ["i_outer*4 .. i_outer*4 + 5"]
    assert (slack(s, "B"), slack(s, "C")) == (0, 0)


def test_two_readers_need_the_union() -> None:
    A = te.placeholder((20,), name="A")
    B = te.compute((20,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i + 4] * 2.0, name="C")
    D = te.compute((16,), lambda i: B[i] + C[i], name="D")
    s = te.create_schedule(D.op)
    outer, _ = s[D].split(D.op.axis[0], 4)
    s[C].compute_at(s[D], outer)
    s[B].compute_at(s[D], outer)
    assert region(s, "B") == ["i_outer*4 .. i_outer*4 + 7"]
    assert slack(s, "B") == 0


def test_an_inlined_reader_passes_its_indices_on() -> None:
    A = te.placeholder((18,), name="A")
    B = te.compute((18,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((17,), lambda i: B[i] + B[i + 1], name="C")
    D = te.compute((16,), lambda i: C[i] + C[i + 1], name="D")
    s = te.create_schedule(D.op)
    s[C].compute_inline()
    s[B].compute_at(s[D], D.op.axis[0])
    assert region(s, "B") == ["i .. i + 2"]


# --- reductions and padding ----------------------------------------------------------------------


def conv(stride: int, pad: int) -> tuple[te.Schedule, Any, Any]:
    """A 1-d convolution of 3 taps over a padded input of 16."""
    A = te.placeholder((16,), name="A")
    W = te.placeholder((3,), name="W")
    P = te.compute(
        (16 + 2 * pad,),
        lambda i: te.if_then_else(te.all(i >= pad, i < 16 + pad), A[i - pad], 0.0),
        name="P",
    )
    k = te.reduce_axis((0, 3), name="k")
    n = (16 + 2 * pad - 3) // stride + 1
    C = te.compute((n,), lambda i: te.sum(P[i * stride + k] * W[k], axis=k), name="C")
    return te.create_schedule(C.op), P, C


@pytest.mark.parametrize(
    ("stride", "pad", "says"),
    [
        (1, 0, "i_outer*4 .. i_outer*4 + 5"),
        (1, 1, "i_outer*4 .. i_outer*4 + 5"),
        (2, 1, "i_outer*8 .. i_outer*8 + 8"),
    ],
)
def test_a_reduction_sweeps_its_whole_range(stride: int, pad: int, says: str) -> None:
    s, P, C = conv(stride, pad)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[P].compute_at(s[C], outer)
    assert region(s, "P") == [says]
    assert slack(s, "P") == 0


def test_a_stage_inside_a_reduce_loop_needs_one_step_of_it() -> None:
    s, P, C = conv(1, 1)
    s[P].compute_at(s[C], C.op.reduce_axis[0])
    assert region(s, "P") == ["i + k .. i + k"]


def test_a_reduce_axis_that_starts_late_is_followed() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    k = te.reduce_axis((2, 5), name="k")
    C = te.compute((8,), lambda i: te.sum(B[i + k], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert region(s, "B") == ["i + 2 .. i + 4"]
    assert slack(s, "B") == 0


def test_a_region_is_cut_to_the_tensor() -> None:
    """Reads in the padding never happen, whatever their index."""
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute(
        (12,),
        lambda i: te.if_then_else(te.all(i >= 2, i < 10), B[i - 2], 0.0),
        name="C",
    )
    assert region(te.create_schedule(C.op), "B") == ["0 .. 7"]


def test_an_index_from_data_needs_the_whole() -> None:
    A = te.placeholder((8,), name="A")
    I = te.placeholder((6,), "int32", name="I")  # noqa: E741
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((6,), lambda i: B[I[i]], name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert region(s, "B") == ["0 .. 7"]


# --- symbolic sizes ------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [te.var, te.size_var])
def test_a_symbolic_loop_outside_stands_still(make: Callable[[str], Any]) -> None:
    n = make("n")
    A = te.placeholder((n + 2,), name="A")
    B = te.compute((n + 2,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda i: B[i] + B[i + 2], name="C")
    s = te.create_schedule(C.op)
    outer, _ = s[C].split(C.op.axis[0], 4)
    s[B].compute_at(s[C], outer)
    assert region(s, "B") == ["i_outer*4 .. i_outer*4 + 5"]


def test_a_symbolic_loop_inside_sweeps_its_range() -> None:
    n = te.size_var("n")
    A = te.placeholder((8, n), name="A")
    B = te.compute((8, n), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, n), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert region(s, "B") == ["i .. i", "0 .. n - 1"]


def test_the_size_of_a_symbolic_region_is_never_negative() -> None:
    n = te.var("n")
    A = te.placeholder((3, n), name="A")
    B = te.compute((3, n), lambda i, j: A[i, j] * 2.0, name="B")
    C = te.compute((3, n - 4), lambda i, j: B[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    assert region(s, "B") == ["i .. i", "0 .. max(0, n - 4) - 1"]


# --- sweep ---------------------------------------------------------------------------------------

x, y = Var("x", 0, 3), Var("y", 0, 7)


@pytest.mark.parametrize(
    ("e", "says"),
    [
        (add(mul(x, 4), y), "(x*4, x*4 + 7)"),
        (sub(x, y), "(x - 7, x)"),
        (floordiv(add(x, y), 2), "(x // 2, (x + 1) // 2 + 3)"),
        (floormod(y, 4), "(0, 3)"),
        (floormod(add(mul(x, 8), y), 16), "(x % 2*8, x % 2*8 + 7)"),
        (minimum(x, y), "(0, x)"),
        (5, "(5, 5)"),
    ],
)
def test_sweep_gives_the_ends_while_x_stands_still(e: Any, says: str) -> None:
    lo, hi = sweep(e, (x,))
    assert f"({text(lo)}, {text(hi)})" == says
