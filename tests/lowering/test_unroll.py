"""unroll: marked loops are written out, and short ones where a pragma asks for it."""

from collections.abc import Callable
from dataclasses import replace

import pytest

import minitvm as tvm
from minitvm import te
from minitvm.lowering import unroll
from minitvm.tir import For, PrimFunc, verify, walk

Same = Callable[..., None]


def matrix(n: int, m: int, prepare: Callable[[te.Schedule, te.Tensor], None]) -> PrimFunc:
    """C[i, j] = A[i, j] + 1, flattened."""
    A = te.placeholder((n, m), name="A")
    C = te.compute((n, m), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    prepare(s, C)
    return tvm.lower(s, [A, C], until="flatten")


def lines(before: PrimFunc, same: Same) -> list[str]:
    """The body after the pass, which computes the same."""
    after = replace(before, body=unroll(before.body))
    verify(after, "flat")
    same(before, after)
    return [line[2:] for line in str(after).splitlines()[1:]]


def test_an_unrolled_loop_is_written_out(same: Same) -> None:
    f = matrix(2, 2, lambda s, C: s[C].unroll(C.op.axis[1]))
    assert lines(f, same) == [
        "for i in range(2):",
        "  C[i*2] = A[i*2] + 1.0",
        "  C[i*2 + 1] = A[i*2 + 1] + 1.0",
    ]


def test_a_loop_around_a_loop_is_written_out(same: Same) -> None:
    f = matrix(2, 3, lambda s, C: s[C].unroll(C.op.axis[0]))
    assert lines(f, same) == [
        "for j in range(3):",
        "  C[j] = A[j] + 1.0",
        "for j in range(3):",
        "  C[j + 3] = A[j + 3] + 1.0",
    ]


def test_unrolled_loops_inside_each_other_are_all_written_out(same: Same) -> None:
    def both(s: te.Schedule, C: te.Tensor) -> None:
        for a in C.op.axis:  # type: ignore[union-attr]
            s[C].unroll(a)

    assert [line.split(" =")[0] for line in lines(matrix(2, 2, both), same)] == [
        "C[0]", "C[1]", "C[2]", "C[3]"]  # fmt: skip


def test_a_guard_is_decided_where_the_iteration_is_known(same: Same) -> None:
    def ragged(s: te.Schedule, C: te.Tensor) -> None:
        outer, inner = s[C].split(C.op.axis[1], 2)  # type: ignore[union-attr]
        s[C].unroll(outer)
        s[C].unroll(inner)

    assert lines(matrix(2, 3, ragged), same) == [
        "for i in range(2):",
        "  C[i*3] = A[i*3] + 1.0",
        "  C[i*3 + 1] = A[i*3 + 1] + 1.0",
        "  C[i*3 + 2] = A[i*3 + 2] + 1.0",
    ]


def auto(steps: int) -> Callable[[te.Schedule, te.Tensor], None]:
    def prepare(s: te.Schedule, C: te.Tensor) -> None:
        s[C].pragma(C.op.axis[0], "auto_unroll_max_step", steps)  # type: ignore[union-attr]

    return prepare


@pytest.mark.parametrize(("steps", "loops"), [(3, 2), (4, 1), (7, 1), (8, 0)])
def test_auto_unroll_writes_out_what_has_few_enough_steps(
    steps: int, loops: int, same: Same
) -> None:
    """Four steps a row, two rows: 4 unrolls the rows, 8 all of it."""
    written = lines(matrix(2, 4, auto(steps)), same)
    assert sum("for " in line for line in written) == loops


@pytest.mark.parametrize(("steps", "loops"), [(16, 0), (15, 1)])
def test_sixteen_steps_are_written_out_under_a_limit_of_sixteen(
    steps: int, loops: int, same: Same
) -> None:
    written = lines(matrix(2, 8, auto(steps)), same)
    assert sum("for " in line for line in written) == loops


def test_short_loops_stay_loops_where_unrolling_is_left_to_the_compiler(same: Same) -> None:
    def prepare(s: te.Schedule, C: te.Tensor) -> None:
        s[C].pragma(C.op.axis[0], "unroll_explicit", 0)  # type: ignore[union-attr]
        auto(16)(s, C)

    assert sum("for " in line for line in lines(matrix(2, 8, prepare), same)) == 2


def test_the_pragma_is_gone_when_it_is_done(same: Same) -> None:
    assert not any("pragma" in line for line in lines(matrix(2, 4, auto(0)), same))


@pytest.mark.parametrize(("extent", "loops"), [(256, 0), (257, 1)])
def test_auto_unroll_makes_at_most_256_scalar_stores(extent: int, loops: int, same: Same) -> None:
    """More in a loop would take LLVM seconds; see test_auto_unroll_makes_any_number_of_vectors."""
    written = lines(matrix(1, extent, auto(2048)), same)
    assert sum("for " in line for line in written) == loops


@pytest.mark.parametrize(("extent", "loops"), [(256, 0), (257, 1)])
def test_stores_without_loads_have_the_same_limit(extent: int, loops: int, same: Same) -> None:
    C = te.compute((1, extent), lambda i, j: j.astype("float32"), name="C")
    s = te.create_schedule(C.op)
    auto(2048)(s, C)
    written = lines(tvm.lower(s, [C], until="flatten"), same)
    assert sum("for " in line for line in written) == loops


def test_auto_unroll_makes_at_most_512_scalar_accesses(same: Same) -> None:
    """C[i, j] = C[i, j] + A[i, k]*B[k, j] has four."""

    def loops(m: int) -> int:
        A, B = te.placeholder((1, 2), name="A"), te.placeholder((2, m), name="B")
        k = te.reduce_axis((0, 2), name="k")
        C = te.compute((1, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        s = te.create_schedule(C.op)
        s[C].reorder(k, C.op.axis[1])
        s[C].pragma(k, "auto_unroll_max_step", 256)
        return sum("for " in n for n in lines(tvm.lower(s, [A, B, C], until="flatten"), same))

    before = loops(65)  # the init of C is another loop
    assert (loops(64), before) == (1, 2)


def test_auto_unroll_makes_any_number_of_vectors(same: Same) -> None:
    A = te.placeholder((300, 4), name="A")
    C = te.compute((300, 4), lambda i, j: A[i, j] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[C].vectorize(C.op.axis[1])
    auto(2048)(s, C)
    body = tvm.lower(s, [A, C]).body
    assert not any(isinstance(n, For) for n in walk(body))


def test_loops_marked_for_it_are_unrolled_beyond_the_limits_of_auto_unroll(same: Same) -> None:
    def both(s: te.Schedule, C: te.Tensor) -> None:
        auto(2048)(s, C)
        s[C].unroll(C.op.axis[1])  # type: ignore[union-attr]

    assert not any("for j" in line for line in lines(matrix(2, 600, both), same))


def test_auto_unroll_leaves_parallel_loops_alone(same: Same) -> None:
    def prepare(s: te.Schedule, C: te.Tensor) -> None:
        auto(100)(s, C)
        s[C].parallel(C.op.axis[0])  # type: ignore[union-attr]

    assert lines(matrix(2, 2, prepare), same)[0] == "for i in parallel(2):"


@pytest.mark.parametrize(("extent", "first"), [(4096, "C[0] = A[0] + 1.0"),
                                               (4097, "for j in range(4097):")])  # fmt: skip
def test_a_loop_of_very_many_steps_stays_a_loop(extent: int, first: str, same: Same) -> None:
    f = matrix(1, extent, lambda s, C: s[C].unroll(C.op.axis[1]))
    assert lines(f, same)[0] == first


def product(n: int, m: int, depth: int) -> PrimFunc:
    """A matrix product with i and j unrolled around the loop over k, flattened."""
    A, B = te.placeholder((n, depth), name="A"), te.placeholder((depth, m), name="B")
    k = te.reduce_axis((0, depth), name="k")
    C = te.compute((n, m), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    for a in C.op.axis:
        s[C].unroll(a)
    return tvm.lower(s, [A, B, C], until="flatten")


def test_loops_that_are_written_out_count_as_more_than_their_statements(same: Same) -> None:
    """960 loops over k in a row would take LLVM a minute and a half."""
    written = lines(product(24, 40, 40), same)
    assert written[0] == "for i in range(24):"
    assert sum("for k in" in line for line in written) == 40


def test_a_function_call_counts_as_the_operations_it_becomes(same: Same) -> None:
    A = te.placeholder((1, 1024), name="A")
    C = te.compute((1, 1024), lambda i, j: te.exp(A[i, j]), name="C")
    s = te.create_schedule(C.op)
    s[C].unroll(C.op.axis[1])
    assert lines(tvm.lower(s, [A, C], until="flatten"), same)[0] == "for j in range(1024):"


def plus_one(x: te.Tensor, name: str) -> te.Tensor:
    return te.compute(x.shape, lambda i: x[i] + 1.0, name=name)


def test_many_stages_together_are_written_out_as_far_as_one_program_may_be(same: Same) -> None:
    A = x = te.placeholder((4000,), name="A")
    stages: list[te.Tensor] = []
    for n in range(4):
        x = plus_one(x, f"B{n}")
        stages.append(x)
    s = te.create_schedule(x.op)
    for b in stages:
        outer, inner = s[b].split(b.op.axis[0], 2000)
        s[b].unroll(outer)
        s[b].unroll(inner)
    written = lines(tvm.lower(s, [A, x], until="flatten"), same)
    assert sum(line.strip().startswith("for i_outer") for line in written) == 4
    assert sum(" = " in line and "allocate" not in line for line in written) == 8000
    assert not any("for i_inner" in line for line in written)


def test_memory_inside_an_unrolled_loop_is_allocated_once_an_iteration(same: Same) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((4,), lambda i: B[i] * 2.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[C].unroll(C.op.axis[0])
    written = lines(tvm.lower(s, [A, C], until="flatten"), same)
    assert sum("allocate" in line for line in written) == 4


def test_a_program_without_such_loops_is_the_same_object() -> None:
    f = matrix(2, 2, lambda s, C: None)
    assert unroll(f.body) is f.body
