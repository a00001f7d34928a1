"""The tools that test the compiler, tested: they see what is wrong, and say where."""

import pickle
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minitvm import te, workers
from minitvm.lowering import PASSES
from minitvm.testing import assert_allclose, difference
from minitvm.tir import For, If, Stmt, Store, rewrite, text
from tests.fuzz.case import run_case
from tests.fuzz.driver import Summary, fuzz, run_apart
from tests.fuzz.intrinsics import tile_intrinsic
from tests.fuzz.make import random_program
from tests.fuzz.schedules import PRIMITIVES, Tally, random_schedule

# --- assert_allclose ------------------------------------------------------------------------------


def test_close_arrays_pass() -> None:
    assert_allclose(np.float32([1, 2]), [1.000001, 2])
    assert_allclose([np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf])
    assert_allclose(np.zeros((0, 3)), np.zeros((0, 3)))


def test_the_first_difference_is_named() -> None:
    with pytest.raises(AssertionError) as e:
        assert_allclose(np.float32([[1, 2], [3, 5]]), np.float32([[1, 2], [4, 4]]), rtol=1e-5)
    assert str(e.value) == (
        "arrays differ at [1, 0]: got np.float32(3.0), want np.float32(4.0) "
        "(2 of 4 elements differ, rtol=1e-05, atol=1e-07)"
    )


@pytest.mark.parametrize(
    ("got", "want"), [(np.nan, 1), (1, np.nan), (np.inf, 1), (1, np.inf), (np.inf, -np.inf)]
)
def test_what_is_not_finite_differs_from_all_else(got: float, want: float) -> None:
    with pytest.raises(AssertionError):
        assert_allclose(np.array([got]), np.array([want]), rtol=1.0, atol=1.0)


def test_shapes_are_not_broadcast() -> None:
    with pytest.raises(AssertionError, match=r"shape \(2, 1\), not \(2,\)"):
        assert_allclose(np.zeros((2, 1)), np.zeros(2))


def test_large_integers_are_compared_exactly() -> None:
    a = np.array([2**62], "int64")
    assert difference(a + 1, a).startswith("[0]: got")


# --- random programs and schedules ----------------------------------------------------------------


def test_a_seed_stands_for_one_program_and_one_schedule() -> None:
    def made() -> tuple[str, Any]:
        rng = np.random.default_rng(11)
        program = random_program(rng)
        return str(program), random_schedule(program.ops, rng).steps

    assert made() == made()


def test_random_schedules_take_steps_of_every_kind() -> None:
    tally = Tally()
    for seed in range(200):
        rng = np.random.default_rng(seed)
        random_schedule(random_program(rng).ops, rng, tally, threads=seed % 4 == 0)
    assert set(tally.taken) == set(PRIMITIVES)
    assert sum(tally.taken.values()) > 200 * 5
    assert sum(tally.reasons.values()) > 0


def test_only_who_asks_for_hardware_threads_gets_them() -> None:
    tally = Tally()
    for seed in range(40):
        rng = np.random.default_rng(seed)
        random_schedule(random_program(rng).ops, rng, tally)
    assert tally.taken["bind to virtual threads"] > 0 == tally.taken["bind to hardware threads"]


def test_a_random_schedule_of_a_single_operation_needs_no_list() -> None:
    A = te.placeholder((16, 8), name="A")
    B = te.compute((16, 8), lambda i, j: A[i, j] + 1.0, name="B")
    steps = [random_schedule(B.op, np.random.default_rng(n)).steps for n in range(5)]
    assert any(steps)


# --- tensor intrinsics made to fit ----------------------------------------------------------------


def test_an_intrinsic_is_made_of_a_tile_of_a_formula() -> None:
    A, B = te.placeholder((10, 9), name="A"), te.placeholder((3, 8), "int8", name="B")
    k = te.reduce_axis((1, 4), name="k")
    C = te.compute(
        (4, 8),
        lambda i, j: te.sum(A[i * 2 + k, 1] * B[k - 1, j].astype("float32"), axis=k),
        name="C",
    )
    tile = {C.op.axis[1]: 4, C.op.reduce_axis[0]: 3}
    intrin = tile_intrinsic(C.op, tile, "tile0", np.random.default_rng(0))
    assert intrin is not None
    assert text(intrin.op.body[0].sources[0]) == "x0[k, 0] * float32(x1[k, at0])"
    assert [t.shape for t in (*intrin.inputs, *intrin.outputs)] == [(3, 1), (3, 4), (4,)]


def test_a_formula_that_computes_with_its_axes_has_no_intrinsic() -> None:
    A = te.placeholder((8,), name="A")
    for formula in (lambda i: A[i] + i, lambda i: A[i // 2]):
        C = te.compute((8,), formula, name="C")
        rng = np.random.default_rng(0)
        assert tile_intrinsic(C.op, {C.op.axis[0]: 4}, "tile0", rng) is None


# --- hardware threads -----------------------------------------------------------------------------


def test_hardware_threads_are_interpreted_and_refused_by_processors() -> None:
    found = next(o for o in map(run_case, range(100, 300)) if o.refusing)
    assert found.ran == ("interpreter",)
    assert found.refusing == ("python", "llvm")
    assert found.tally.ran["bind to hardware threads"] > 0


# --- wrong compilers ------------------------------------------------------------------------------


def forget_guards(s: Stmt) -> Stmt:
    """Wrong: if likely(c): body -> body"""
    return rewrite(s, lambda n: n.body if isinstance(n, If) and n.likely else n)


def lose_the_last_iteration(s: Stmt) -> Stmt:
    """Wrong: for i in unroll(n) -> n - 1 iterations"""

    def rule(n: Stmt) -> Stmt:
        if isinstance(n, For) and n.kind == "unroll" and isinstance(n.extent, int):
            return For(n.var, n.extent - 1, n.body)
        return n

    return rewrite(s, rule)


def store_what_was_there(s: Stmt) -> Stmt:
    """Wrong: the value of a float store is negated"""

    def rule(n: Stmt) -> Stmt:
        if isinstance(n, Store) and n.buffer.dtype.is_float:
            return Store(n.buffer, n.indices, -n.value)
        return n

    return rewrite(s, rule)


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("partition", forget_guards),
        ("unroll", lose_the_last_iteration),
        ("tidy", store_what_was_there),
    ],
)
def test_a_wrong_pass_is_caught(name: str, wrong: Any) -> None:
    passes = tuple(wrong if p.__name__ == name else p for p in PASSES["llvm"])
    outcomes = (run_case(seed, ("interpreter",), passes) for seed in range(60))
    assert any(outcome.verdict in ("mismatch", "error") for outcome in outcomes)


def test_a_failure_is_reported_with_all_it_takes_to_repeat_it() -> None:
    passes = tuple(store_what_was_there if p.__name__ == "tidy" else p for p in PASSES["llvm"])
    outcomes = (run_case(seed, ("interpreter",), passes) for seed in range(60))
    failed = next(o for o in outcomes if o.verdict == "mismatch")
    for part in ("input", "s = te.create_schedule(", "def main(", "elements differ", "--only"):
        assert part in failed.report
    assert pickle.loads(pickle.dumps(failed)) == failed


# --- the fuzz driver ------------------------------------------------------------------------------


def test_the_driver_sums_up() -> None:
    summary = fuzz(range(3), {"interpreter": 1})
    assert str(summary).startswith("3 cases: 0 mismatches, 0 crashes, 0 other exceptions")


def test_a_target_may_run_a_share_of_the_cases() -> None:
    summary = fuzz(range(19, 22), {"llvm": 1, "exported": 20})
    assert summary.ran == {"llvm": 3, "exported": 1}


def test_the_summary_has_a_line_for_every_primitive() -> None:
    summary = Summary()
    summary.tally.taken["split"] += 1
    summary.tally.reasons["fuse", "not neighbours"] += 1
    lines = str(summary).splitlines()
    for name in PRIMITIVES:
        assert any(line.startswith(f"  {name} ") for line in lines)
    assert "  fuse                               1        0      0  1x not neighbours" in lines


def test_a_process_that_dies_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    with closing(workers.Worker("dying")) as worker:
        outcome = run_apart(worker, 5)
    assert outcome.headline == "the process was ended by signal 6 (SIGABRT)"
    assert "the last words of LLVM" in outcome.report
    assert "again: python -m tests.fuzz --only 5" in outcome.report
    summary = Summary()
    summary.add(outcome)
    assert "crash of seed 5" in str(summary)
