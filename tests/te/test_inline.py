"""Inlining every stage of a kind."""

from collections.abc import Callable

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.lowering import normalize
from minitvm.tir import Load, walk

SCALE = te.placeholder((8,), name="scale")
A = te.placeholder((8, 8), name="A")


def network() -> te.Schedule:
    """elementwise, broadcast, transposed (injective), a sum, and an output"""
    k = te.reduce_axis((0, 8), name="k")
    plus = te.compute((8, 8), lambda i, j: A[i, j] + 1.0, name="plus")
    scaled = te.compute((8, 8), lambda i, j: plus[i, j] * SCALE[j], name="scaled")
    turned = te.compute((8, 8), lambda i, j: scaled[j, i], name="turned")
    total = te.compute((8,), lambda i: te.sum(turned[i, k], axis=k), name="total")
    return te.create_schedule(te.compute((8,), lambda i: te.exp(total[i]), name="out").op)


@pytest.mark.parametrize(
    ("inline", "names"),
    [
        (te.schedule.AutoInlineElemWise, ["plus"]),
        (te.schedule.AutoInlineBroadcast, ["plus", "scaled"]),
        (te.schedule.AutoInlineInjective, ["plus", "scaled", "turned"]),
    ],
    ids=["elementwise", "broadcast", "injective"],
)
def test_stages_of_the_kind_are_inlined(
    inline: Callable[[te.Schedule], None], names: list[str]
) -> None:
    s = network()
    inline(s)
    assert [v.name for v in s.stages if v.is_inlined] == names


def test_a_stage_with_steps_of_its_own_stays() -> None:
    s = network()
    s["plus"].vectorize(s["plus"].op.axis[1])
    s["turned"].compute_at(s["total"], s["total"].op.axis[0])
    te.schedule.AutoInlineInjective(s)
    assert [v.name for v in s.stages if v.is_inlined] == ["scaled"]


def test_what_an_extern_operation_reads_stays() -> None:
    B = te.compute((8,), lambda i: SCALE[i] + 1.0, name="B")
    C = te.extern((8,), [B], lambda ins, outs: outs[0].vstore(0, ins[0].vload(0)), name="C")
    s = te.create_schedule(C.op)
    te.schedule.AutoInlineInjective(s)
    assert not s[B].is_inlined


def test_the_steps_can_be_undone_and_printed() -> None:
    s = network()
    te.schedule.AutoInlineBroadcast(s)
    assert s.step_text() == "s[scaled].compute_inline()"
    s.undo()
    assert not s["scaled"].is_inlined


def mirrored(stages: int) -> tuple[te.Tensor, te.Tensor, te.Schedule]:
    """Stages of B[i] = A[i] + A[15 - i], all inlined in the last one."""
    first = x = te.placeholder((16,), name="A")
    made: list[te.Tensor] = []
    for n in range(stages):
        x = mirror(x, f"B{n}")
        made.append(x)
    s = te.create_schedule(x.op)
    for t in made[:-1]:
        s[t].compute_inline()
    return first, x, s


def mirror(x: te.Tensor, name: str) -> te.Tensor:
    return te.compute((16,), lambda i: x[i] + x[15 - i], name=name)


def test_inlined_formulas_may_be_as_large_as_a_formula_may_be() -> None:
    A, last, s = mirrored(13)  # 2**13 loads
    assert str(tvm.lower(s, [A, last])).count("A[") == 2**13


@pytest.mark.parametrize("stages", [14, 25, 200])
def test_inlining_that_doubles_a_formula_again_and_again_is_refused(stages: int) -> None:
    A, last, s = mirrored(stages)
    with pytest.raises(LoweringError) as caught:
        tvm.lower(s, [A, last])
    assert str(caught.value) == (
        "compute_inline of B12: the formula of B13, which reads it, would have 32767 operations "
        "written out, and at most 20000 can be compiled\n"
        "  try: leave B12 at root, or use compute_at: its values are then stored and read"
    )


def test_an_inlined_index_counts_wherever_it_is_copied_to() -> None:
    at = te.placeholder((16,), "int32", name="at")
    where = te.compute((16,), lambda i: at[i] % 7 + at[15 - i] % 9, name="where")
    many = te.compute((16,), lambda i: sum(A[j % 8, i % 8] * 1.5 for j in range(100)), name="many")
    out = te.compute((16,), lambda i: many[where[i]] + many[15 - i], name="out")
    s = te.create_schedule(out.op)
    s[where].compute_inline()
    s[many].compute_inline()
    body = normalize(s.state).stages[-1].op.body[0]
    loads = [n for n in walk(body) if isinstance(n, Load)]
    assert sum(n.buffer is at for n in loads) == 2 * 100
