"""What random cases have found, as small as it gets."""

import numpy as np

import minitvm as tvm
from minitvm import te
from minitvm.lowering import inject_double_buffer, unroll
from minitvm.tensor import size_var
from minitvm.tir import (
    Allocate,
    Buffer,
    For,
    Load,
    Pragma,
    PrimFunc,
    Store,
    Var,
    add,
    const,
    floormod,
    maximum,
    seq,
    sub,
    substitute,
    text,
    upper_bound,
    verify,
)


def test_the_next_iteration_is_put_in_once_where_the_index_folds_to_the_loop() -> None:
    A = te.placeholder((6,), name="A")
    B = te.compute((2,), lambda i: A[(i + 5) % 6], name="B")
    C = te.compute((2,), lambda i: B[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    s[B].compute_at(s[C], C.op.axis[0])
    s[B].double_buffer()
    a, c = np.arange(6, dtype="float32"), np.zeros(2, "float32")
    tvm.build(s, [A, C])(a, c)
    assert c.tolist() == [6.0, 1.0]


def test_a_loop_computed_ahead_ends_where_it_does_in_that_iteration() -> None:
    n, i = size_var("n"), Var("i", 0, 3)
    A, B = Buffer("A", (4,), "float32"), Buffer("B", (n,), "float32")
    extent = maximum(0, sub(n, i))
    last = sub(extent, 1)
    j = Var("j", 0, upper_bound(last), last)
    fill = Pragma("double_buffer", 1, For(j, extent, Store(B, (j,), const(1.0, "float32"))))
    use = Store(A, (i,), Load(B, (0,), B.dtype))
    f = PrimFunc("main", (A, n), For(i, 4, Allocate(B, seq(fill, use))), (A,), ())
    verify(f, "flat")
    verify(PrimFunc("main", (A, n), inject_double_buffer(f.body), (A,), ()), "flat")


def test_what_folding_leaves_of_a_replacement_is_not_replaced_again() -> None:
    i = Var("i", 0, 1)
    assert text(substitute(floormod(add(i, 5), 6), {i: add(i, 1)})) == "i"


def test_an_unrolled_loop_leaves_inner_loops_that_end_where_they_say() -> None:
    n, i = size_var("n"), Var("i", 0, 3)
    A = Buffer("A", (n,), "float32")
    extent = maximum(0, sub(n, i))
    last = sub(extent, 1)
    j = Var("j", 0, upper_bound(last), last)
    triangle = For(i, 4, For(j, extent, Store(A, (j,), const(1.0, "float32"))), "unroll")
    verify(PrimFunc("main", (A, n), triangle, (A,), ()), "flat")
    verify(PrimFunc("main", (A, n), unroll(triangle), (A,), ()), "flat")
