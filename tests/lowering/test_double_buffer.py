"""inject_double_buffer: one half of a buffer is filled while the other is read."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.lowering import inject_double_buffer
from minitvm.tir import PrimFunc, verify

Same = Callable[..., None]


def chain(n: Any = 8) -> tuple[te.Schedule, te.Tensor, te.Tensor, te.Tensor]:
    """B = A + 1, C = B * 2, B double-buffered in tiles of 4."""
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((n,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    o, _ = s[C].split(C.op.axis[0], factor=4)
    s[B].compute_at(s[C], o)
    s[B].double_buffer()
    return s, A, B, C


def doubled(before: PrimFunc, same: Same, **sizes: int) -> list[str]:
    """The body after the pass, which computes the same."""
    after = replace(before, body=inject_double_buffer(before.body))
    verify(after, "flat")
    same(before, after, **sizes)
    return [line[2:] for line in str(after).splitlines()[1:]]


def flat(s: te.Schedule, args: list[Any]) -> PrimFunc:
    return tvm.lower(s, args, until="flatten")


def test_the_next_tile_is_filled_while_this_one_is_read(same: Same) -> None:
    s, A, _, C = chain(16)
    assert doubled(flat(s, [A, C]), same) == [
        'B = allocate((2, 4), "float32", "global")',
        "for i in range(4):",
        "  B[i] = A[i] + 1.0",
        "for i_outer in range(4):",
        "  if i_outer + 1 < 4:",
        "    for i in range(4):",
        "      B[i + (i_outer + 1) % 2*4] = A[i_outer*4 + i + 4] + 1.0",
        "  for i_inner in range(4):",
        "    C[i_outer*4 + i_inner] = B[i_inner + i_outer % 2*4] * 2.0",
    ]


@pytest.mark.parametrize("n", [0, 3, 9])
def test_a_loop_that_may_be_empty_fills_nothing_first(n: int, same: Same) -> None:
    size = te.size_var("n")
    s, A, _, C = chain(size)
    assert "if 0 < (n + 3) // 4:" in doubled(flat(s, [A, C]), same, n=n)


def test_a_single_iteration_has_no_next_one(same: Same) -> None:
    s, A, _, C = chain(4)
    f = flat(s, [A, C])
    assert "double_buffer" in str(f)
    assert doubled(f, same)[0] == 'B = allocate((4,), "float32", "global")'


def test_several_buffers_of_a_loop_are_doubled(same: Same) -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: A[i] * 3.0, name="C")
    D = te.compute((16,), lambda i: B[i] - C[i], name="D")
    s = te.create_schedule(D.op)
    o, _ = s[D].split(D.op.axis[0], factor=4)
    for t in (B, C):
        s[t].compute_at(s[D], o)
        s[t].double_buffer()
    text = doubled(flat(s, [A, D]), same)
    assert [line for line in text if "allocate" in line] == [
        'B = allocate((2, 4), "float32", "global")',
        'C = allocate((2, 4), "float32", "global")',
    ]


def test_a_reduction_is_done_ahead_as_a_whole(same: Same) -> None:
    A, k = te.placeholder((8, 3), name="A"), te.reduce_axis((0, 3), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, k], axis=k), name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], 2)[0])
    s[B].double_buffer()
    assert 'B = allocate((2, 2), "float32", "global")' in doubled(flat(s, [A, C]), same)


def test_padded_rows_stay_padded(same: Same) -> None:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 4), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], s[C].split(C.op.axis[0], 2)[0])
    s[B].storage_align(B.op.axis[0], 8, 1)
    s[B].double_buffer()
    doubled(flat(s, [A, C]), same)


def test_what_the_same_loop_computes_cannot_be_read_ahead() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((8,), lambda i: C[i] - 1.0, name="D")
    s = te.create_schedule(D.op)
    o, _ = s[D].split(D.op.axis[0], factor=4)
    s[C].compute_at(s[D], o)
    s[B].compute_at(s[D], o)
    s[C].double_buffer()
    with pytest.raises(LoweringError) as caught:
        tvm.lower(s, [A, D])
    assert str(caught.value) == (
        "double_buffer of C: it is filled from B, which the same loop 'i.outer' computes\n"
        "  try: compute B outside that loop"
    )


def test_a_stage_at_root_is_computed_once() -> None:
    s, A, B, C = chain()
    s[B].compute_root()
    s[B].double_buffer()
    with pytest.raises(LoweringError) as caught:
        tvm.lower(s, [A, C])
    assert str(caught.value) == (
        "double_buffer of B: it is computed once, outside all loops\n  try: s[B].compute_at(...)"
    )


def test_a_parallel_loop_has_no_next_iteration() -> None:
    s, A, _, C = chain()
    s[C].parallel(s[C].leaf_iter_vars[0])
    with pytest.raises(LoweringError) as caught:
        tvm.lower(s, [A, C])
    assert str(caught.value) == (
        "double_buffer of B: the loop 'i.outer' around it is marked parallel, so its iterations "
        "do not run in order\n  try: split that loop, and compute the stage at its inner part"
    )
