"""Long chains of stages, deeper than Python's stack: what works, and what says it does not."""

from dataclasses import replace

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import LoweringError
from minitvm.schedule import Inline, effective_readers
from minitvm.tensor import evaluate

DEEP = 3000


def chain(length: int = DEEP) -> tuple[te.Tensor, te.Tensor]:
    """B3000 = A + 1 + 1 + ..., a stage for each sum."""
    A = x = te.placeholder((2,), name="A")
    for n in range(1, length + 1):
        x = plus_one(x, f"B{n}")
    return A, x


def plus_one(x: te.Tensor, name: str) -> te.Tensor:
    return te.compute((2,), lambda i: x[i] + 1.0, name=name)


def test_a_deep_chain_has_a_schedule() -> None:
    A, last = chain()
    s = te.create_schedule(last.op)
    s[last].split(last.op.axis[0], 2)
    assert [v.name for v in s.stages] == [A.name, *(f"B{n}" for n in range(1, DEEP + 1))]


def test_a_deep_chain_has_values() -> None:
    A, last = chain()
    (value,) = evaluate([last], {A: np.zeros(2, "float32")})
    assert value.tolist() == [DEEP, DEEP]


def test_who_reads_through_a_deep_chain_of_inlined_stages_is_known() -> None:
    _, last = chain()
    state = te.create_schedule(last.op).state
    inlined = (s if s.is_output else s.change(attach=Inline()) for s in state.stages[1:])
    state = replace(state, stages=(state.stages[0], *inlined))
    assert effective_readers(state)["A"] == [last.name]


@pytest.mark.parametrize("target", ["llvm", "python"])
def test_a_chain_of_five_hundred_stages_runs(target: str) -> None:
    A, last = chain(500)
    f = tvm.build(te.create_schedule(last.op), [A, last], target)
    b = np.zeros(2, "float32")
    f(np.zeros(2, "float32"), b)
    assert b.tolist() == [500, 500]


def test_a_chain_of_five_hundred_stages_is_printed_interpreted_and_explained() -> None:
    A, last = chain(500)
    s = te.create_schedule(last.op)
    loops = tvm.lower(s, [A, last], until="nest")
    b = np.zeros(2, "float32")
    tir.interpret(loops, np.zeros(2, "float32"), b)
    assert b.tolist() == [500, 500]
    assert str(loops).count("allocate") == 499
    assert str(s.explain_bound("B1", 0)).startswith("B1.i = [0, 2]")


def nested() -> tuple[te.Tensor, te.Schedule]:
    """Four hundred loops inside each other."""
    C = te.compute((2,) * 400, lambda *i: 1.0, name="C")
    return C, te.create_schedule(C.op)


def test_loops_that_nest_too_deeply_are_refused_with_the_reason() -> None:
    C, s = nested()
    with pytest.raises(LoweringError) as caught:
        tvm.lower(s, [C])
    assert str(caught.value).startswith("a schedule of 1 stages: its loops nest deeper than ")


def test_what_nests_too_deeply_is_not_explained_either() -> None:
    with pytest.raises(LoweringError, match="nest deeper than"):
        nested()[1].explain()
