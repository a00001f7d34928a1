"""Operations with a statement of their own: te.extern, alone and among others, on every target."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import BuildError, ExprError, LoweringError, ScheduleError
from minitvm.tensor import Tensor, evaluate

TARGETS = ("interpreter", "python", "llvm -num-cores=1", "llvm -num-cores=2")


@pytest.fixture(autouse=True)
def no_functions_are_left() -> Any:
    yield
    tir.clear_functions()


def says(act: Callable[[], Any], kind: type[Exception] = ExprError) -> str:
    with pytest.raises(kind) as caught:
        act()
    return str(caught.value)


def running_sum(A: Tensor) -> Tensor:
    """S[i, j] = A[i, 0] + ... + A[i, j], rows in parallel."""
    n, m = A.shape

    def rows(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, s = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, n, name="i", kind="parallel") as i:
            total = ib.allocate("float32", (1,), name="total", scope="local")
            total[0] = 0.0
            with ib.for_range(0, m, name="j") as j:
                total[0] = total[0] + a[i, j]
                s[i, j] = total[0]
        return ib.get()

    return te.extern(A.shape, [A], rows, name="S")


def chain(n: Any = 5) -> tuple[Tensor, Tensor]:
    """A -> B = 2A -> S, its running sums -> C = S - 1"""
    A = te.placeholder((n, 6), name="A")
    B = te.compute(A.shape, lambda i, j: A[i, j] * 2.0, name="B")
    S = running_sum(B)
    return A, te.compute(A.shape, lambda i, j: S[i, j] - 1.0, name="C")


def run(target: str, s: te.Schedule, args: list[Any], *arrays: Any) -> None:
    if target == "interpreter":
        tir.interpret(tvm.lower(s, args, until="nest"), *arrays)
        tir.interpret(tvm.lower(s, args), *arrays, flat=True)
    else:
        tvm.build(s, args, target)(*arrays)


# --- meaning -------------------------------------------------------------------------------------


def test_its_statement_stands_where_it_is_computed(golden: Callable[[str], None]) -> None:
    A, C = chain()
    golden(str(tvm.lower(te.create_schedule(C.op), [A, C], until="nest")))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("symbolic", [False, True])
def test_all_targets_agree_with_numpy(target: str, symbolic: bool) -> None:
    A, C = chain(te.size_var("n") if symbolic else 5)
    a = np.arange(30, dtype="float32").reshape(5, 6) / 4
    c = np.zeros_like(a)
    run(target, te.create_schedule(C.op), [A, C], a, c)
    np.testing.assert_array_equal(c, np.cumsum(a * 2, 1) - 1)


def test_the_evaluator_knows_its_value() -> None:
    A, C = chain()
    a = np.arange(30, dtype="float32").reshape(5, 6)
    np.testing.assert_array_equal(evaluate([C], {A: a})[0], np.cumsum(a * 2, 1) - 1)


@pytest.mark.parametrize("target", TARGETS)
def test_several_outputs_have_shapes_and_types_of_their_own(target: str) -> None:
    A = te.placeholder((4, 3), name="A")

    def both(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        a, total, count = map(ib.buffer_ptr, (*ins, *outs))
        with ib.for_range(0, 4, name="i") as i:
            total[i] = a[i, 0] + a[i, 1] + a[i, 2]
        count[()] = 4
        return ib.get()

    total, count = te.extern([(4,), ()], [A], both, name="E", dtype=["float32", "int32"])
    a, t, n = np.ones((4, 3), "float32"), np.zeros(4, "float32"), np.zeros((), "int32")
    run(target, te.create_schedule(total.op), [A, total, count], a, t, n)
    assert (t.tolist(), n.tolist()) == ([3, 3, 3, 3], 4)


@pytest.mark.parametrize("target", TARGETS)
def test_a_packed_function_gets_arrays(target: str) -> None:
    A = te.placeholder((4, 3), name="A")
    E = te.extern((3, 4), [A], lambda i, o: tir.call_packed("transpose", i[0], o[0], 2), name="E")

    @tir.register_func("transpose")
    def transpose(a: Any, out: Any, times: int) -> None:
        out[...] = a.T * times

    a, out = np.arange(12, dtype="float32").reshape(4, 3), np.zeros((3, 4), "float32")
    run(target, te.create_schedule(E.op), [A, E], a, out)
    np.testing.assert_array_equal(out, a.T * 2)


def test_machine_code_calls_c_functions() -> None:
    A = te.placeholder((5,), name="A")
    size = te.const(16, "int64")
    E = te.extern(
        (4,),
        [A],
        lambda i, o: tir.call_extern(
            "int64", "memcpy", o[0].access_ptr("w"), i[0].access_ptr("r", offset=1), size
        ),
        name="E",
    )
    out = np.zeros(4, "float32")
    tvm.build(te.create_schedule(E.op), [A, E])(np.arange(5, dtype="float32"), out)
    assert out.tolist() == [1, 2, 3, 4]


def test_a_formula_may_call_a_c_function_for_each_element() -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_extern("float32", "hypotf", A[i], 4.0), name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].op.axis[0])  # it stays a loop
    a, b = np.full(8, 3, "float32"), np.zeros(8, "float32")
    tvm.build(s, [A, B])(a, b)
    assert b.tolist() == [5] * 8


@pytest.mark.parametrize("target", ["interpreter", "python"])
def test_registered_functions_stand_for_c_functions(target: str) -> None:
    tir.register_func("hypotf", np.hypot)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_extern("float32", "hypotf", A[i], 4.0), name="B")
    a, b = np.full(8, 3, "float32"), np.zeros(8, "float32")
    run(target, te.create_schedule(B.op), [A, B], a, b)
    assert b.tolist() == evaluate([B], {A: a})[0].tolist() == [5] * 8


def test_machine_code_gets_no_value_from_a_python_function() -> None:
    tir.register_func("f", np.hypot)
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: tir.call_extern("float32", "f", A[i]), name="B")
    assert says(lambda: tvm.build(te.create_schedule(B.op), [A, B]), BuildError) == (
        "extern.f(...): only a C function can return a value, and not under a vector condition\n"
        "  try: a function that writes its result to an output"
    )


@pytest.mark.parametrize("target", ["python", "llvm"])
def test_what_a_packed_function_raises_reaches_the_caller(target: str) -> None:
    A = te.placeholder((5,), name="A")
    E = te.extern((5,), [A], lambda i, o: tir.call_packed("fails", i[0], o[0]), name="E")

    @tir.register_func("fails")
    def fails(a: Any, out: Any) -> None:
        raise ValueError(f"{a.sum()} is too much")

    f = tvm.build(te.create_schedule(E.op), [A, E], target)
    with pytest.raises(ValueError, match=r"5\.0 is too much"):
        f(np.ones(5, "float32"), np.zeros(5, "float32"))


# --- schedules around it -------------------------------------------------------------------------


def test_its_inputs_can_be_cached_and_its_readers_scheduled() -> None:
    A, C = chain()
    s = te.create_schedule(C.op)
    S = next(v for v in s.stages if v.name == "S")
    cached = s.cache_read(s["B"].op.output(0), "local", [S.op])
    s[C].vectorize(s[C].op.axis[1])
    assert cached.name == "B.local"
    a = np.arange(30, dtype="float32").reshape(5, 6)
    c = np.zeros_like(a)
    run("llvm", s, [A, C], a, c)
    np.testing.assert_array_equal(c, np.cumsum(a * 2, 1) - 1)


def test_it_can_be_computed_inside_a_loop_as_a_whole() -> None:
    A, C = chain()
    s = te.create_schedule(C.op)
    s["S"].compute_at(s[C], s[C].op.axis[0])
    text = str(tvm.lower(s, [A, C], until="nest"))
    assert "  for i_1 in range(5):\n    S = allocate((5, 6)" in text


SCHEDULES: dict[str, tuple[Callable[[te.Schedule], Any], str]] = {
    "inline": (
        lambda s: s["S"].compute_inline(),
        "compute_inline of S: it is an extern operation: it has no formula to put into its "
        "readers\n  try: leave it at root",
    ),
    "inline its input": (
        lambda s: s["B"].compute_inline(),
        "compute_inline of B: S is an extern operation, which reads it from memory\n"
        "  try: leave it at root",
    ),
    "cache_write": (
        lambda s: s.cache_write(s["S"].op.output(0), "local"),
        "cache_write of S: it is an extern operation: only its own statement knows where it "
        "writes\n  try: cache_read of its result",
    ),
    "transform_layout": (
        lambda s: s["B"].transform_layout(lambda i, j: (j, i)),
        "transform_layout of B: S is an extern operation, which expects it in row-major order\n"
        "  try: another layout for the copy that cache_read makes",
    ),
}


@pytest.mark.parametrize("case", SCHEDULES)
def test_what_cannot_be_scheduled_is_refused(case: str) -> None:
    _, C = chain()
    act, message = SCHEDULES[case]
    assert says(lambda: act(te.create_schedule(C.op)), ScheduleError) == message


def test_it_has_no_loops_to_split() -> None:
    _, C = chain()
    s = te.create_schedule(C.op)
    step = tvm.te.Schedule.from_json
    text = '[["split", {"stage": "S", "axis": "i", "factor": 2}]]'
    assert s["S"].leaf_iter_vars == []
    assert says(lambda: step(text, C.op), ScheduleError) == (
        "split of 'i' in S: S is an extern operation: its loops are in its statement\n"
        "  try: write them as they should run: ib.for_range(..., kind='parallel')"
    )


# --- refusals ------------------------------------------------------------------------------------

X = te.placeholder((4,), name="X")
Y = te.placeholder((4,), "int32", name="Y")


def _free_variable(ins: Any, outs: Any) -> Any:
    ib = tir.ir_builder.create()
    ib.buffer_ptr(outs[0])[0] = ib.buffer_ptr(ins[0])[te.var("k")]
    return ib.get()


REFUSALS: dict[str, tuple[Callable[[], Any], str]] = {
    "input": (
        lambda: te.extern((4,), [X[0]], lambda i, o: o[0].vstore(0, 1.0), name="E"),
        "extern E: input X[0]: not a tensor\n  try: A, not A[i]",
    ),
    "statement": (
        lambda: te.extern((4,), [X], lambda i, o: None, name="E"),
        "extern E: fcompute returns NoneType: it must return a statement or a call\n"
        "  try: return ib.get(), or tir.call_packed(...)",
    ),
    "writes its input": (
        lambda: te.extern((4,), [X], lambda i, o: i[0].vstore(0, 1.0), name="E"),
        "extern E: body: X[0] = 1.0: 'X' is an input: PrimFunc.outputs does not list it",
    ),
    "variable": (
        lambda: te.extern((4,), [X], _free_variable, name="E"),
        "extern E: body: E[0] = X[k]: 'k' is neither the counter of an enclosing loop nor a "
        "parameter or size",
    ),
    "dtype": (
        lambda: te.extern((4,), [X, Y], lambda i, o: o[0].vstore(0, 1.0), name="E"),
        'extern E: the type of its output is not known\n  try: dtype="..."',
    ),
    "dtypes": (
        lambda: te.extern([(4,), (4,)], [X], print, name="E", dtype=["int32"] * 3),
        "extern E: 2 outputs but 3 dtypes\n  try: one for each",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_a_statement_without_meaning_is_refused(case: str) -> None:
    act, message = REFUSALS[case]
    assert says(act) == message


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "python",
            "C function nothing(...): Python code cannot call it\n"
            "  try: tir.register_func('nothing', f), with f in Python",
        ),
        (
            "llvm",
            "call of 'nothing': this process has no function of that name\n"
            "  try: pass its address in `symbols`, or define it in the IR",
        ),
    ],
)
def test_a_function_that_does_not_exist_is_named(target: str, message: str) -> None:
    E = te.extern((4,), [X], lambda i, o: tir.call_extern("int32", "nothing", o[0]), name="E")
    assert says(lambda: tvm.build(te.create_schedule(E.op), [X, E], target), BuildError) == message


@pytest.mark.parametrize("target", ["python", "llvm"])
def test_an_instruction_needs_a_meaning(target: str) -> None:
    E = te.extern((4,), [X], lambda i, o: te.hardware_intrinsic("fill", o[0]), name="E")
    message = says(lambda: tvm.build(te.create_schedule(E.op), [X, E], target), BuildError)
    assert message.startswith("fill(...): ")
    assert message.endswith("\n  try: tir.register_func('fill', f), with f in Python")


# --- names that are not there --------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gradient", "hybrid", "create_prim_func", "tag_scope"])
def test_names_of_tvm_that_are_missing_say_why_and_what_instead(name: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(te, name)
    assert str(caught.value).startswith(f"te.{name} is not supported: ")
    assert "\n  try: " in str(caught.value)
    assert not hasattr(te, name)


def test_other_names_are_plainly_missing() -> None:
    with pytest.raises(AttributeError, match=r"te has no 'schedul'\n  try: te.Schedule"):
        te.schedul  # noqa: B018  # pyright: ignore[reportUnknownMemberType, reportAttributeAccessIssue]


def test_it_is_not_kept_in_a_loop_that_does_not_compute_it() -> None:
    A, C = chain()
    s = te.create_schedule(C.op)
    s["S"].store_at(s[C], s[C].op.axis[0])
    with pytest.raises(LoweringError, match="store_at of S: it is not yet computed inside that"):
        tvm.lower(s, [A, C])
