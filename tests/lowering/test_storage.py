"""storage_rewrite: memory is used again once what it held is not needed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import minitvm as tvm
from minitvm import te, tir
from minitvm.lowering import storage_rewrite
from minitvm.tir import PrimFunc, verify

Same = Callable[..., None]


def rewritten(before: PrimFunc, same: Same) -> list[str]:
    """The body after the pass, which computes the same."""
    after = replace(before, body=storage_rewrite(before.body))
    verify(after, "flat")
    same(before, after)
    return [line[2:] for line in str(after).splitlines()[1:]]


def allocations(lines: list[str]) -> list[str]:
    return [line.split(" = ")[0].strip() for line in lines if "allocate(" in line]


def steps(n: int, *formulas: Callable[[te.Tensor, Any], Any]) -> tuple[te.Schedule, list[Any]]:
    """T1 = f1(A), T2 = f2(T1), ..."""
    t = A = te.placeholder((n,), name="A")
    for number, f in enumerate(formulas, 1):
        t = te.compute((n,), of(f, t), name=f"T{number}")
    return te.create_schedule(t.op), [A, t]


def of(f: Callable[[te.Tensor, Any], Any], t: te.Tensor) -> Callable[[Any], Any]:
    return lambda i: f(t, i)


def add_one(t: te.Tensor, i: Any) -> Any:
    return t[i] + 1.0


def mirror(t: te.Tensor, i: Any) -> Any:
    return t[7 - i]


def flat(s: te.Schedule, args: list[Any]) -> PrimFunc:
    return tvm.lower(s, args, until="flatten")


def test_a_chain_of_elementwise_steps_works_in_place(same: Same) -> None:
    f = flat(*steps(8, add_one, add_one, add_one, add_one, add_one))
    assert len(allocations(str(f).splitlines())) == 4
    assert allocations(rewritten(f, same)) == ["T1"]


def test_in_place_means_the_same_element(same: Same) -> None:
    lines = rewritten(flat(*steps(8, add_one, mirror, add_one)), same)
    assert allocations(lines) == ["T1", "T2"]


def test_what_is_dead_lends_its_memory_to_the_next_but_one(same: Same) -> None:
    lines = rewritten(flat(*steps(8, add_one, mirror, mirror, mirror)), same)
    assert allocations(lines) == ["T1", "T2"]
    assert lines[6] == "for i_2 in range(8):"
    assert lines[7] == "  T1[i_2] = T2[7 - i_2]"


def test_what_is_read_later_is_kept(same: Same) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((8,), lambda i: B[i] + C[i], name="D")
    lines = rewritten(flat(te.create_schedule(D.op), [A, D]), same)
    assert allocations(lines) == ["B", "C"]


def test_conditions_read_the_shared_memory(same: Same) -> None:
    def positive(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        x, y = ib.buffer_ptr(ins[0]), ib.buffer_ptr(outs[0])
        with ib.for_range(0, 8, name="i") as i:
            y[i] = 0.0
            with ib.if_scope(x[i] > 0.0):
                y[i] = x[i]
        return ib.get()

    _, (A, T2) = steps(8, add_one, add_one)
    C = te.extern((8,), [T2], positive, name="C", dtype="float32")
    lines = rewritten(flat(te.create_schedule(C.op), [A, C]), same)
    assert allocations(lines) == ["T1"]
    assert lines[-2:] == ["  if T1[i_2] > 0.0:", "    C[i_2] = T1[i_2]"]


def test_other_types_and_sizes_do_not_share(same: Same) -> None:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: B[i].astype("int32"), name="C")
    D = te.compute((4,), lambda i: C[i * 2], name="D")
    E = te.compute((4,), lambda i: D[i].astype("float32"), name="E")
    lines = rewritten(flat(te.create_schedule(E.op), [A, E]), same)
    assert allocations(lines) == ["B", "C", "D"]


def test_threads_do_not_share(same: Same) -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((8,), lambda i: A[0, i] + 1.0, name="B")
    C = te.compute((4, 8), lambda y, i: A[y, i] * B[i], name="C")
    D = te.compute((4, 8), lambda y, i: C[y, 7 - i], name="D")
    s = te.create_schedule(D.op)
    s[D].parallel(D.op.axis[0])
    s[C].compute_at(s[D], D.op.axis[0])
    assert allocations(rewritten(flat(s, [A, D]), same)) == ["B", "C"]


def test_what_the_next_iteration_reads_is_kept(same: Same) -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((8,), lambda i: A[0, i] + 1.0, name="B")
    C = te.compute((4, 8), lambda y, i: A[y, i] * B[i], name="C")
    D = te.compute((4, 8), lambda y, i: C[y, 7 - i], name="D")
    s = te.create_schedule(D.op)
    s[C].compute_at(s[D], D.op.axis[0])
    assert allocations(rewritten(flat(s, [A, D]), same)) == ["B", "C"]


def test_registers_are_left_to_the_compiler(same: Same) -> None:
    s, args = steps(8, add_one, add_one, add_one)
    for name in ("T1", "T2"):
        s[name].set_scope("local")
    assert allocations(rewritten(flat(s, args), same)) == ["T1", "T2"]


def test_a_reduction_does_not_start_over_what_it_reads(same: Same) -> None:
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 2), name="k")
    B = te.compute((8,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((8,), lambda i: te.sum(B[i] * (k + 1).astype("float32"), axis=k), name="C")
    D = te.compute((8,), lambda i: C[i] - 1.0, name="D")
    lines = rewritten(flat(te.create_schedule(D.op), [A, D]), same)
    assert allocations(lines) == ["B", "C"]


def test_a_program_that_needs_all_its_memory_stays_as_it_is() -> None:
    f = flat(*steps(8, add_one, mirror))
    assert storage_rewrite(f.body) is f.body
