"""Tensors and schedules as bytes: what is unpickled lowers to the same program."""

import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.tensor import SUM, PlaceholderOp, evaluate, producers_first
from tests.fuzz.make import random_program
from tests.fuzz.schedules import random_schedule
from tests.seeds import seeds

A = te.placeholder((12, 8), name="A")


def again(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


def arguments(s: te.Schedule) -> list[te.Tensor]:
    """Every input and output of a schedule."""
    ops = producers_first([*s.outputs])
    inputs = [op for op in ops if isinstance(op, PlaceholderOp)]
    return [op.output(0) for op in (*inputs, *s.outputs)]


def same_program(s: te.Schedule) -> te.Schedule:
    """The unpickled schedule, which lowers to the text that `s` lowers to."""
    new = again(s)
    assert str(tvm.lower(new, arguments(new))) == str(tvm.lower(s, arguments(s)))
    return new


def outcome(s: te.Schedule, args: list[Any]) -> str:
    """The text of the lowered program, or why it cannot be lowered."""
    try:
        return str(tvm.lower(s, args))
    except LoweringError as e:
        return str(e).splitlines()[0]


def row_sums(reduce: Any = te.sum) -> te.Tensor:
    k = te.reduce_axis((0, 8), "k")
    B = te.compute((12, 8), lambda i, j: A[i, (j * 3 + i // 4) % 8] * 2, name="B")
    return te.compute((12,), lambda i: reduce(B[i, k], axis=k), name="C")


def test_a_scheduled_reduction_lowers_to_the_same_text() -> None:
    C = row_sums()
    s = te.create_schedule(C.op)
    ko, _ = s[C].split(s[C].op.reduce_axis[0], factor=3)
    CF = s.rfactor(C, ko)
    io, _ = s[C].split(s[C].op.axis[0], factor=5)
    s[CF].compute_at(s[C], io)
    new = same_program(s)
    new[new.outputs[0]].unroll(new[new.outputs[0]].leaf_iter_vars[0])  # it can be changed further
    new.undo()
    assert new.steps == s.steps


def test_a_built_in_reducer_stays_that_one() -> None:
    assert again(row_sums()).op.reduction.reducer is SUM


def test_a_reducer_of_lambdas_is_kept_as_formulas() -> None:
    largest = te.comm_reducer(
        lambda x, y: te.if_then_else(x > y, x, y), te.min_value, name="largest"
    )
    C = row_sums(largest)
    new = again(C)
    same_program(te.create_schedule(C.op))
    (a,) = (t for t in new.op.input_tensors[0].op.input_tensors)
    data = np.random.default_rng(0).random((12, 8), "float32")
    np.testing.assert_array_equal(evaluate([new], {a: data})[0], evaluate([C], {A: data})[0])


def test_a_reducer_of_tuples_is_kept_as_formulas() -> None:
    def later(x: Any, y: Any) -> Any:
        return te.if_then_else(x[1] >= y[1], x[0], y[0]), te.max(x[1], y[1])

    argmax = te.comm_reducer(later, lambda i, v: (te.const(-1, i), te.min_value(v)), name="argmax")
    k = te.reduce_axis((0, 8), "k")
    value, _ = te.compute((12,), lambda i: argmax((k, A[i, k]), axis=k), name="V")
    same_program(te.create_schedule(value.op))


def test_the_functions_of_a_reducer_run_where_it_is_written() -> None:
    calls: list[int] = []

    def add(x: Any, y: Any) -> Any:
        calls.append(1)
        return x + y

    C = row_sums(te.comm_reducer(add, lambda t: te.const(0, t), name="total"))
    for _ in range(2):
        tvm.lower(te.create_schedule(C.op), [A, C])
    assert len(calls) == 1


def test_a_symbolic_program_lowers_to_the_same_text() -> None:
    n = te.size_var("n")
    X = te.placeholder((n, n), name="X")
    Y = te.compute((n, n), lambda i, j: X[j, i] + te.min(i // 2, n), name="Y")
    s = te.create_schedule(Y.op)
    s[Y].tile(*s[Y].op.axis, 4, 3)
    same_program(s)


def test_equal_indices_are_one_object_after_unpickling() -> None:
    i = te.compute((8,), lambda i: A[i, i // 3], name="D").op.axis[0]
    one, two = again((i, i // 3 + i % 5))
    assert tvm.tir.prove_equal(two, one // 3 + one % 5)


@pytest.mark.parametrize("seed", seeds(12, 100))
def test_property_an_unpickled_schedule_lowers_to_the_same_text(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    s = random_schedule(program.ops, rng)
    new, args = again((s, program.args))
    assert outcome(new, args) == outcome(s, program.args)


IN_A_CHILD = """
import pickle, sys
import minitvm as tvm
s, args = pickle.load(sys.stdin.buffer)
print(tvm.lower(s, args))
"""


def test_a_schedule_crosses_to_another_process() -> None:
    C = row_sums()
    s = te.create_schedule(C.op)
    s[C].split(s[C].op.reduce_axis[0], factor=3)
    given = pickle.dumps((s, [A, C]))
    command = [sys.executable, "-c", IN_A_CHILD]
    done = subprocess.run(command, input=given, capture_output=True, check=True)
    assert done.stdout.decode().strip() == str(tvm.lower(s, [A, C]))
