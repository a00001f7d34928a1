"""Splits whose size is a size of the program: the loops, the results and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import ArgumentError, ScheduleError
from minitvm.schedule import Split
from tests.covering import covering

Array = np.ndarray[Any, Any]
Steps = Callable[[te.Schedule, Any, Any, Any], None]

n, m = te.var("n"), te.var("m")
SHAPES = [(6, 3), (7, 3), (3, 3), (2, 5), (1, 1), (0, 2)]  # divisible, not, larger, empty


def program(n: tir.Var = n, m: tir.Var = m) -> tuple[Any, Any, te.Schedule]:
    """C[i, j] = (A[i, j] + 1) * 2, n x m; B is the sum in the middle."""
    A = te.placeholder((n, m), name="A")
    B = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((n, m), lambda i, j: B[i, j] * 2.0, name="C")
    return A, C, te.create_schedule(C.op)


def rowsum() -> tuple[Any, Any, te.Schedule]:
    """R[i] = sum over k of A[i, k], n x m."""
    A = te.placeholder((n, m), name="A")
    k = te.reduce_axis((0, m), name="k")
    R = te.compute((n,), lambda i: te.sum(A[i, k], axis=k), name="R")
    return A, R, te.create_schedule(R.op)


def flat(step: Callable[[te.Schedule, Any], None]) -> str:
    """The loops of C after `step`, B inlined."""
    A, C, s = program()
    s["B"].compute_inline()
    step(s, C)
    return str(tvm.lower(s, [A, C], until="nest"))


def by_factor(s: te.Schedule, C: Any, size: Any) -> None:
    s[C].split(C.op.axis[0], factor=size)


def by_parts(s: te.Schedule, C: Any, size: Any) -> None:
    s[C].split(C.op.axis[0], nparts=size)


def attached(s: te.Schedule, C: Any, size: Any) -> None:
    outer, _ = s[C].split(C.op.axis[0], factor=size)
    s["B"].compute_at(s[C], outer)


def in_parts(s: te.Schedule, C: Any, size: Any) -> None:
    outer, _ = s[C].split(C.op.axis[0], nparts=size)
    s["B"].compute_at(s[C], outer)


def attached_inside(s: te.Schedule, C: Any, size: Any) -> None:
    _, inner = s[C].split(C.op.axis[0], factor=size)
    s["B"].compute_at(s[C], inner)


def split_where_it_is_attached(s: te.Schedule, C: Any, size: Any) -> None:
    outer, _ = s[C].split(C.op.axis[0], factor=4)
    s["B"].compute_at(s[C], outer)
    s["B"].split(s["B"].op.axis[0], factor=size)  # type: ignore[union-attr]


def twice(s: te.Schedule, C: Any, size: Any) -> None:
    _, inner = s[C].split(C.op.axis[0], factor=size)
    _, inner = s[C].split(inner, factor=4)
    s[C].vectorize(inner)


def tiled(s: te.Schedule, C: Any, size: Any) -> None:
    i, j = C.op.axis
    s[C].tile(i, j, size, 4)


def fused(s: te.Schedule, C: Any, size: Any) -> None:
    i = s[C].fuse(*C.op.axis)
    outer, inner = s[C].split(i, factor=size)
    s[C].reorder(inner, outer)


SCHEDULES = [
    by_factor, by_parts, attached, in_parts, attached_inside, split_where_it_is_attached, twice,
    tiled, fused,
]  # fmt: skip
SIZES = {"m": m, "n": n, "m + 2": m + 2, "n * m + 1": n * m + 1, "(n + 4) // 4": (n + 4) // 4}


@pytest.mark.parametrize(
    ("steps", "size", "target"),
    covering(SCHEDULES, SIZES, ["python", "llvm", "numba", "interpreter"]),
)
def test_the_results_are_those_of_numpy(steps: Any, size: str, target: str) -> None:
    A, C, s = program()
    steps(s, C, SIZES[size])
    run = _runner(s, [A, C], target)
    for shape in SHAPES:
        if size == "n" and not shape[0]:
            continue
        a = np.random.default_rng(0).random(shape, "float32")
        c = np.full(shape, -1, "float32")
        run(a, c)
        np.testing.assert_allclose(c, (a + 1) * 2, rtol=1e-6)


@pytest.mark.parametrize("target", ["python", "llvm", "numba", "interpreter"])
@pytest.mark.parametrize("rfactor", [False, True])
def test_a_sum_may_be_split_by_a_size(rfactor: bool, target: str) -> None:
    A, R, s = rowsum()
    (k,) = s[R].op.reduce_axis  # type: ignore[union-attr]
    _, inner = s[R].split(k, factor=n)
    if rfactor:
        s.rfactor(R, inner)
    run = _runner(s, [A, R], target)
    for shape in [(3, 6), (3, 7), (5, 2), (1, 1), (2, 0)]:
        a = np.random.default_rng(0).random(shape, "float32")
        r = np.full(shape[0], -1, "float32")
        run(a, r)
        np.testing.assert_allclose(r, a.sum(axis=1), rtol=1e-5)
    with pytest.raises(ArgumentError, match="the program needs n >= 1"):
        run(np.zeros((0, 3), "float32"), np.zeros(0, "float32"))


def _runner(s: te.Schedule, args: list[Any], target: str) -> Callable[..., Any]:
    if target == "interpreter":
        func = tvm.lower(s, args)
        return lambda *arrays: tir.interpret(func, *arrays, flat=True)
    return tvm.build(s, args, target)


# --- loops ---------------------------------------------------------------------------------------


def test_a_split_by_a_size_guards_the_last_part() -> None:
    assert flat(lambda s, C: by_factor(s, C, m)) == (
        "def main(A: float32[n, m], C: float32[n, m]):\n"
        "  assert m >= 1\n"
        "  for i_outer in range((n - 1) // max(m, 1) + 1):\n"
        "    for i_inner in range(m):\n"
        "      if likely(i_outer*m + i_inner < n):\n"
        "        for j in range(m):\n"
        "          C[i_outer*m + i_inner, j] = (A[i_outer*m + i_inner, j] + 1.0) * 2.0"
    )


def test_a_loop_split_by_its_own_size_is_one_part() -> None:
    assert flat(lambda s, C: by_factor(s, C, n)) == (
        "def main(A: float32[n, m], C: float32[n, m]):\n"
        "  assert n >= 1\n"
        "  for i_inner in range(n):\n"
        "    for j in range(m):\n"
        "      C[i_inner, j] = (A[i_inner, j] + 1.0) * 2.0"
    )


def test_a_fused_loop_split_by_one_of_its_sizes_needs_no_guard() -> None:
    assert flat(lambda s, C: fused(s, C, m)) == (
        "def main(A: float32[n, m], C: float32[n, m]):\n"
        "  assert m >= 1\n"
        "  for i_j_fused_inner in range(m):\n"
        "    for i_j_fused_outer in range(n):\n"
        "      C[i_j_fused_outer, i_j_fused_inner] = "
        "(A[i_j_fused_outer, i_j_fused_inner] + 1.0) * 2.0"
    )


def test_a_stage_at_the_outer_loop_computes_one_part() -> None:
    rows, columns = te.size_var("n"), te.size_var("m")
    A, C, s = program(rows, columns)
    attached(s, C, columns)
    assert str(tvm.lower(s, [A, C], until="nest")) == (
        "def main(A: float32[n, m], C: float32[n, m]):\n"
        "  assert m >= 1\n"
        "  for i_outer in range((n - 1) // max(m, 1) + 1):\n"
        '    B = allocate((m, m), "float32", "global")\n'
        "    for i in range(m):\n"
        "      if likely(i_outer*m + i < n):\n"
        "        for j in range(m):\n"
        "          B[i, j] = A[i_outer*m + i, j] + 1.0\n"
        "    for i_inner in range(m):\n"
        "      if likely(i_outer*m + i_inner < n):\n"
        "        for j_1 in range(m):\n"
        "          C[i_outer*m + i_inner, j_1] = B[i_inner, j_1] * 2.0"
    )


def test_a_size_that_is_not_negative_needs_an_assertion_too() -> None:
    k = te.size_var("k")
    A = te.placeholder((k,), name="A")
    C = te.compute((k,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=k + 1)
    assert "assert" not in str(tvm.lower(s, [A, C]))
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=k)
    assert "  assert k >= 1\n" in str(tvm.lower(s, [A, C]))


# --- calls ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("target", ["python", "llvm", "numba"])
@pytest.mark.parametrize(
    ("size", "least", "wrong"), [(m, "m", "m = 0"), (m // 4, "m // 4", "m = 3")]
)
def test_a_part_without_elements_is_refused_at_the_call(
    target: str, size: Any, least: str, wrong: str
) -> None:
    A, C, s = program()
    attached(s, C, size)
    a = np.zeros((5, int(wrong[-1])), "float32")
    with pytest.raises(ArgumentError) as error:
        tvm.build(s, [A, C], target)(a, a.copy())
    assert str(error.value) == (
        f"main: {wrong}: the program needs {least} >= 1, which a read or a split assumes\n"
        "  try: larger arrays"
    )


def test_an_exported_program_checks_its_splits(tmp_path: Any) -> None:
    A, C, s = program()
    attached(s, C, m // 4)
    tvm.build(s, [A, C], "llvm").export(tmp_path / "f.mtvm")
    run = tvm.load(tmp_path / "f.mtvm")
    a, c = np.ones((5, 9), "float32"), np.zeros((5, 9), "float32")
    run(a, c)
    assert (c == 4).all()
    with pytest.raises(ArgumentError, match="the program needs m // 4 >= 1"):
        run(a[:, :3].copy(), c[:, :3].copy())


# --- written down --------------------------------------------------------------------------------


def test_the_step_has_the_size_as_text() -> None:
    _, C, s = program()
    by_factor(s, C, (n + 4) // 4)
    assert s.steps == (Split("C", "i", factor="n // 4 + 1"),)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("steps", [by_factor, in_parts])
def test_the_schedule_comes_back_from_json_and_from_python(steps: Any, size: str) -> None:
    A, C, s = program()
    steps(s, C, SIZES[size])
    wanted = str(tvm.lower(s, [A, C]))
    assert str(tvm.lower(te.Schedule.from_json(s.to_json(), C.op), [A, C])) == wanted
    known: dict[str, Any] = {"te": te, "C": C, "B": s["B"].op.output(0), "n": n, "m": m}  # type: ignore[union-attr]
    exec(s.python(), known)
    assert str(tvm.lower(known["s"], [A, C])) == wanted


def test_python_code_names_the_size() -> None:
    _, C, s = program()
    by_factor(s, C, m)
    assert s.python().splitlines()[-1] == "i_outer, i_inner = s[C].split(i, factor=m)"


def test_no_axis_takes_the_name_of_the_size() -> None:
    A = te.placeholder((n, m), name="A")
    C = te.compute((n, m), lambda m, n: A[m, n], name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=m)
    known: dict[str, Any] = {"te": te, "C": C, "n": n, "m": m}
    exec(s.python(), known)
    assert known["s"].steps == s.steps


def test_why_the_guard_is_there_names_the_size() -> None:
    _, C, s = program()
    s["B"].compute_inline()
    outer, inner = s[C].split(C.op.axis[0], factor=m)
    assert "n % m may not be 0, from split(i, factor=m)" in str(s.explain_guard(inner))
    assert "the part that split(i, factor=m), step 2 gives a size" in str(s.explain_bound(C, inner))
    assert "n / m rounded up" in str(s.explain_bound(C, outer))
    assert s.explain()["C"]


# --- sizes that are arguments --------------------------------------------------------------------


@pytest.mark.parametrize("q", [te.var("q"), te.size_var("q")])
@pytest.mark.parametrize("target", ["python", "llvm", "numba", "interpreter"])
@pytest.mark.parametrize("steps", [by_factor, in_parts, attached, tiled, twice])
def test_a_size_may_be_an_argument(steps: Any, target: str, q: tir.Var) -> None:
    A, C, s = program()
    steps(s, C, q)
    run = _runner(s, [q, A, C], target)
    for size in (1, 2, 3, 7, 9):
        a = np.random.default_rng(0).random((7, 3), "float32")
        c = np.full(a.shape, -1, "float32")
        run(size, a, c)
        np.testing.assert_allclose(c, (a + 1) * 2, rtol=1e-6)


def test_an_argument_that_is_no_size_is_refused_at_the_call() -> None:
    q = te.size_var("q")
    A, C, s = program()
    by_factor(s, C, q)
    a = np.zeros((7, 3), "float32")
    with pytest.raises(ArgumentError, match="q = 0: the program needs q >= 1"):
        tvm.build(s, [q, A, C])(0, a, a.copy())


def test_a_constant_number_of_rows_split_by_an_argument_is_guarded() -> None:
    q = te.size_var("q")
    C = te.compute((16,), lambda i: te.exp(i.astype("float32")), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[0], factor=q)
    assert "if likely(i_outer*q + i_inner < 16):" in str(tvm.lower(s, [q, C]))


def test_a_size_that_is_no_argument_has_no_value() -> None:
    A, C, s = program()
    by_factor(s, C, te.var("q"))
    with pytest.raises(ArgumentError, match="variable 'q': it has no value") as error:
        tvm.lower(s, [A, C])
    assert str(error.value).endswith("\n  try: add it to args")


def test_steps_with_an_argument_come_back_from_json_and_from_python() -> None:
    q = te.var("q")
    A, C, s = program()
    in_parts(s, C, q + n)
    wanted = str(tvm.lower(s, [q, A, C]))
    again = te.Schedule.from_json(s.to_json(), C.op, sizes=[q])
    assert str(tvm.lower(again, [q, A, C])) == wanted
    known: dict[str, Any] = {"te": te, "C": C, "B": s["B"].op.output(0), "n": n, "q": q}  # type: ignore[union-attr]
    exec(s.python(), known)
    assert str(tvm.lower(known["s"], [q, A, C])) == wanted


def test_a_refused_split_leaves_no_size_behind() -> None:
    q = te.var("q")
    _, C, s = program()
    before = s.state
    with pytest.raises(ScheduleError, match="exactly one of factor and nparts"):
        s[C].split(C.op.axis[0], factor=q, nparts=q)
    assert s.state is before


# --- refused -------------------------------------------------------------------------------------

WHY = (
    "the size of a part is an integer >= 1, or an expression of sizes (te.var, te.size_var) "
    "with names of their own"
)


@pytest.mark.parametrize(
    ("size", "why"),
    [
        (te.var("n"), f"split of 'i' by n: {WHY}"),  # another one of that name
        (te.var("q") + te.var("q"), f"split of 'i' by q + q_1: {WHY}"),
        ("n", "split of 'i' by 'n': the size of a part is an integer >= 1"),
        (-1, "split of 'i' in C: the size of a part is an integer >= 1, not -1"),
        (n - n, "split of 'i' in C: the size of a part is an integer >= 1, not 0"),
    ],
)  # fmt: skip
def test_what_is_no_size_is_refused(size: Any, why: str) -> None:
    _, C, s = program()
    with pytest.raises(ScheduleError) as error:
        by_factor(s, C, size)
    assert str(error.value) == why


def test_an_axis_and_a_read_are_no_sizes() -> None:
    N = te.placeholder((m,), "int32", name="N")
    C = te.compute((n,), lambda i: N[0] + i, name="C")
    s = te.create_schedule(C.op)
    (i,) = C.op.axis
    for size, shown in ((i, "i"), (N[0], "N[0]"), (n + N[0], "n + N[0]"), (i + n, "i + n")):
        with pytest.raises(ScheduleError) as error:
            s[C].split(i, factor=size)
        assert str(error.value).startswith(f"split of 'i' by {shown}: the size of a part")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("q", "formula 'q': it is not made of n, m, integers, + - * // and %"),
        ("n // m", "formula 'n // m': a divisor is an integer >= 1"),
        ("n +", "formula 'n +' in a step: invalid syntax"),
        ("n.name", "formula 'n.name': it is not made of"),
        ("8", "split of 'i' in C: the size of a part is an integer >= 1, not '8'"),
        ("n - n", "split of 'i' in C: the size of a part is an integer >= 1, not 'n - n'"),
    ],
)
def test_a_step_with_another_text_is_refused(text: str, why: str) -> None:
    _, _, s = program()
    with pytest.raises(ScheduleError) as error:
        s.apply(Split("C", "i", factor=text))
    assert str(error.value).startswith(why)
    assert s.steps == ()


def test_sizes_of_one_name_are_not_told_apart() -> None:
    A = te.placeholder((te.var("n"), te.var("n")), name="A")
    C = te.compute(A.shape, lambda i, j: A[i, j], name="C")
    s = te.create_schedule(C.op)
    with pytest.raises(ScheduleError, match="split of 'i' by n: the size of a part"):
        s[C].split(C.op.axis[0], factor=A.shape[1])


@pytest.mark.parametrize("kind", ["vectorize", "unroll"])
def test_a_part_of_symbolic_size_is_no_vector(kind: str) -> None:
    _, C, s = program()
    _, inner = s[C].split(C.op.axis[0], factor=m)
    with pytest.raises(ScheduleError, match=f"^{kind} of 'i.inner' in C: its extent m"):
        getattr(s[C], kind)(inner)


def test_a_split_that_surely_divides_may_leave_the_guard_out() -> None:
    _, C, s = program()
    i = s[C].fuse(*C.op.axis)
    s[C].split(i, factor=m, disable_predication=True)
    _, C, s = program()
    with pytest.raises(ScheduleError, match="iterations are not n"):
        s[C].split(C.op.axis[0], factor=m, disable_predication=True)
