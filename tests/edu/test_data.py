"""What crosses the fence comes back the same: plain values, formulas, loops, schedules."""

import json
from dataclasses import replace

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir, topi
from minitvm.base import ExprError, ScheduleError
from minitvm.edu.data import Reader, Writer, operations
from minitvm.te import Schedule
from minitvm.tensor import MAX, MIN, PROD, SUM, ComputeOp, evaluate
from tests.fuzz.make import random_program
from tests.fuzz.schedules import random_schedule


def there_and_back(value, given=()):
    """`value` through JSON, as another process would see it."""
    writer = Writer(operations(given))
    body = json.loads(json.dumps([writer.write(value), writer.rows]))
    return Reader(body[1], writer.blobs, operations(given)).read(body[0])


def matmul(n=4):
    A = te.placeholder((n, n), name="A")
    B = te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return A, B, C


def constant_sizes(seed: int) -> bool:
    """Has the program of that seed no symbolic sizes? Those come back as other variables."""
    return not random_program(np.random.default_rng(seed)).sizes


def own_reducers(ops) -> bool:
    """Is there a reduction other than sum, prod, max and min?"""
    everything = operations(op.output(0) for op in ops)
    reductions = [op.reduction for op in everything if isinstance(op, ComputeOp)]
    return any(r is not None and r.reducer not in (SUM, PROD, MAX, MIN) for r in reductions)


@pytest.mark.parametrize(
    "value",
    [None, True, 3, -2.5, float("inf"), "text", [1, (2, 3)], {"a": [1], (0, 1): None}, (), [], {}],
    ids=str,
)
def test_plain_values_come_back_equal(value) -> None:
    found = there_and_back(value)
    assert found == value
    assert type(found) is type(value)


def test_numbers_of_numpy_become_numbers_of_python() -> None:
    assert there_and_back([np.int64(3), np.float32(0.5), np.bool_(True)]) == [3, 0.5, True]


def test_arrays_keep_shape_and_type() -> None:
    a = np.arange(6, dtype="int16").reshape(2, 3).T
    found = there_and_back(a)
    assert found.dtype == a.dtype
    assert (found == a).all()


@pytest.mark.parametrize(
    ("kind", "shape"),
    [("O", [1]), ("float32", [3]), ("?!", [8]), ("S8", [1])],
    ids=str,
)
def test_arrays_that_do_not_fit_their_bytes_are_refused(kind, shape) -> None:
    with pytest.raises((ExprError, ValueError, TypeError)):
        Reader([], [b"12345678"]).read(["array", 0, kind, shape])


@pytest.mark.parametrize("seed", [*filter(constant_sizes, range(43))])
def test_random_formulas_keep_their_meaning(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    inputs = program.arrays(rng)
    given = [*program.inputs]
    if own_reducers(program.ops):
        with pytest.raises(ExprError, match="a Reducer cannot be handed in"):
            there_and_back(list(program.outputs), given)
        return
    outputs = there_and_back(list(program.outputs), given)
    for got, want in zip(evaluate(outputs, inputs), evaluate(program.outputs, inputs), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("seed", range(20))
def test_random_schedules_come_back_step_by_step(seed: int) -> None:
    rng = np.random.default_rng(seed)
    program = random_program(rng)
    s = random_schedule(program.ops, rng)
    if any(
        step.primitive == "tensorize" for step in s.steps
    ):  # intrinsics come with the problem, or not at all
        with pytest.raises(ScheduleError, match="is known here"):
            there_and_back(s, program.outputs)
        return
    assert there_and_back(s, program.outputs).steps == s.steps


def test_a_schedule_is_replayed_on_the_readers_own_tensors() -> None:
    theirs, ours = matmul(), matmul()
    s = te.create_schedule(theirs[2].op)
    s[theirs[2]].split(s[theirs[2]].op.axis[0], factor=2)
    writer = Writer(operations(theirs))
    found = Reader([], [], operations(ours)).read(writer.write(s))
    assert found.outputs == [ours[2].op]
    assert found.steps == s.steps


def test_a_copied_output_is_still_the_one_of_the_problem() -> None:
    A, B, C = matmul()
    s = te.create_schedule(C.op)
    s.cache_write(C, "local")
    found = there_and_back(s, [A, B, C])
    assert str(tvm.lower(found, [A, B, C])) == str(tvm.lower(s, [A, B, C]))


def test_loop_programs_print_the_same() -> None:
    A, B, C = matmul(5)
    s = te.create_schedule(C.op)
    s[C].split(s[C].op.axis[0], factor=2)
    func = tvm.lower(s, [A, B, C], until="nest")
    assert str(there_and_back(func)) == str(func)


def doubling():
    """An intrinsic that doubles eight numbers, with a stride that it learns where it is used."""
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] * 2.0, name="y")

    def rule(ins, outs):
        ib = tir.ir_builder.create()
        xx, yy = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8) as i:
            yy[i] = xx[i] * 2.0
        return ib.get()

    binds = {t: tir.decl_buffer((8,), name=t.name, strides=[te.var("step")]) for t in (x, y)}
    return te.decl_tensor_intrin(y.op, rule, binds=binds, name="doubling")


def test_a_tensor_intrinsic_comes_back_and_does_the_same_loops() -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda r, c: A[r, c] * 2.0, name="B")
    printed: list[str] = []
    for intrin in (doubling(), there_and_back(doubling())):
        s = te.create_schedule(B.op)
        s[B].tensorize(s[B].op.axis[1], intrin)
        printed.append(str(tvm.lower(s, [A, B], until="nest")))
    assert printed[0] == printed[1]
    assert "B[r, i] = A[r, i] * 2.0" in printed[0]


def test_a_tensor_intrinsic_is_declared_again_with_all_checks() -> None:
    intrin = doubling()
    (x,), (y,) = intrin.inputs, intrin.outputs
    other = {**intrin.buffers, x: tir.decl_buffer((7,), name="x")}
    with pytest.raises(ExprError, match="is float32"):
        there_and_back(replace(intrin, buffers=other))
    elsewhere = tir.Store(tir.Buffer("other", (8,), y.dtype), (0,), tir.const(0.0, "float32"))
    with pytest.raises(ExprError, match="other"):
        there_and_back(replace(intrin, body=elsewhere))


def test_a_schedule_may_not_bring_an_intrinsic_of_its_own() -> None:
    x = te.placeholder((8,), name="x")
    y = te.compute((8,), lambda i: x[i] * 2.0, name="y")
    s = te.create_schedule(y.op)
    s[y].tensorize(s[y].op.axis[0], doubling())
    with pytest.raises(ScheduleError, match="no intrinsic 'doubling' is known"):
        there_and_back(s, [x, y])


def test_shared_variables_stay_shared() -> None:
    i = tir.Var("i", 0, 7)
    first, second = there_and_back([i, i + 1])
    assert tir.prove_equal(first + 1, second)


def test_an_illegal_step_is_refused_on_reading() -> None:
    A, B, C = matmul()
    good = te.create_schedule(C.op)
    good[C].split(good[C].op.axis[0], factor=2)
    steps = good.to_json().replace('"i"', '"nowhere"')
    with pytest.raises(ScheduleError):
        Schedule.from_json(steps, [C.op])
    with pytest.raises(ScheduleError):
        Reader([], [], operations([A, B, C])).read(["schedule", steps, [["given", 2]]])


@pytest.mark.parametrize("value", [object(), lambda: 0, {1, 2}, np.array(["a"]), b"bytes", 1j])
def test_what_is_no_data_is_refused(value) -> None:
    with pytest.raises(ExprError, match="cannot be handed in"):
        Writer().write(value)


def test_a_reduction_of_ones_own_is_refused() -> None:
    A = te.placeholder((4,), name="A")
    k = te.reduce_axis((0, 4), name="k")
    biggest = te.comm_reducer(te.max, te.min_value, name="biggest")
    C = te.compute((1,), lambda i: biggest(A[k], axis=k), name="C")
    with pytest.raises(ExprError, match="a Reducer cannot be handed in"):
        Writer().write(C)


def test_only_known_constructors_are_called() -> None:
    with pytest.raises(KeyError):
        Reader([["Popen", "true"]], [])


def test_lists_in_lists_end_somewhere() -> None:
    deep: list = ["list", []]
    for _ in range(300):
        deep = ["list", [deep]]
    with pytest.raises(ExprError, match="too deep"):
        Reader([], []).read(deep)


def test_attributes_for_schedulers_are_left_out() -> None:
    image, kernel = te.placeholder((1, 3, 8, 8)), te.placeholder((4, 3, 3, 3))
    made = topi.conv2d(image, kernel, method="direct")
    assert made.op.attrs
    read = there_and_back(made)
    assert read.op.attrs == {}
