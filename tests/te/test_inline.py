"""Inlining every stage of a kind."""

from collections.abc import Callable

import pytest

from minitvm import te

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
