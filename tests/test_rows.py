"""What TVM's tensor expressions and schedules offer a course: a line that uses each, or is told why
not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import TVMError, host

CONVERTS_FLOAT16 = {"f16c", "avx512fp16", "neon"}
A = te.placeholder((8, 16), name="A")
V = te.placeholder((8,), name="V")
EIGHT, ONES = np.arange(8, dtype="float32"), np.ones((8, 16), "float32")
k = te.reduce_axis((2, 10), name="k")
argmax = te.comm_reducer(
    lambda x, y: (
        te.if_then_else(x[1] >= y[1], x[0], y[0]),
        te.if_then_else(x[1] >= y[1], x[1], y[1]),
    ),
    lambda t0, t1: (te.const(-1, t0), te.min_value(t1)),
)


def values(tensor: te.Tensor | tuple[te.Tensor, ...], *arrays: np.ndarray) -> list[Any]:
    """The numbers of a tensor, or of the first of several, in the order of their memory."""
    several = tensor if isinstance(tensor, tuple) else (tensor,)
    outs = [np.zeros([int(n) for n in t.shape], t.dtype) for t in several]
    op = several[0].op
    tvm.build(te.create_schedule(op), [*op.input_tensors, *several])(*arrays, *outs)
    return outs[0].ravel().tolist()


def vector(f: Callable[[Any], Any]) -> te.Tensor:
    return te.compute((8,), f, name="C")


def triangle(i: Any) -> Any:
    j = te.reduce_axis((0, i + 1), name="j")
    return te.sum(A[i, j], axis=j)


def dependent_shape() -> list[float]:
    """C[i] = 2 X[i] for i in 0 .. n // x - 1, x an argument"""
    n, x = te.size_var("n"), te.size_var("x")
    X = te.placeholder((n,), name="X")
    C = te.compute((n // x,), lambda i: te.if_then_else(i < n, X[i], 0.0) * 2.0, name="C")
    c = np.zeros(2, "float32")
    tvm.build(te.create_schedule(C.op), [x, X, C])(3, EIGHT, c)
    return c.tolist()


FORMULAS: dict[str, tuple[Callable[[], Any], Any]] = {
    "a tensor of rank 0": (
        lambda: values(
            te.compute((), lambda: te.placeholder((), name="s")() + 1.0),
            np.full((), 2.0, "float32"),
        ),
        [3.0],
    ),
    "several outputs": (
        lambda: values(vector(lambda i: (V[i] + 1.0, V[i] * 2.0)), EIGHT)[:3],
        [1.0, 2.0, 3.0],
    ),
    "a reduce axis that begins elsewhere": (
        lambda: values(vector(lambda i: te.sum(A[i, k], axis=k)), ONES)[0],
        8.0,
    ),
    "a reduce axis as long as its row": (
        lambda: values(vector(triangle), ONES)[:3],
        [1.0, 2.0, 3.0],
    ),
    "where": (
        lambda: values(vector(lambda i: te.sum(A[i, k], axis=k, where=k < 5)), ONES)[0],
        3.0,
    ),
    "init": (
        lambda: values(vector(lambda i: te.sum(A[i, k], axis=k, init=100.0)), ONES)[0],
        108.0,
    ),
    "a reducer on pairs": (
        lambda: values(vector(lambda i: argmax((k, A[i, k] * k), axis=k)), ONES)[0],
        9,
    ),
    "indexing": (
        lambda: values(te.compute((8, 16), lambda i, j: A[i, j] + A[i][j] + A(i, j)), ONES)[0],
        3.0,
    ),
    "Select, all, any": (
        lambda: values(
            vector(lambda i: tir.Select(te.all(i > 0, te.any(i < 2, i > 6)), V[i], -1.0)), EIGHT
        ),
        [-1.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 7.0],
    ),
    "integer division": (
        lambda: values(vector(lambda i: V[i].astype("int32") // 3 * 10 + i % 3), EIGHT)[-1],
        21,
    ),
    "float16": (
        lambda: values(vector(lambda i: (V[i] / 3.0).astype("float16")), EIGHT)[1],
        float(np.float16(1 / 3)),
    ),
    "a shape that depends on an argument": (dependent_shape, [0.0, 2.0]),
}


@pytest.mark.parametrize("row", FORMULAS)
def test_a_formula_of_each_kind_has_its_value(row: str) -> None:
    if row == "float16" and not CONVERTS_FLOAT16 & host().features:
        pytest.skip("this CPU has no instruction that converts float16")
    program, want = FORMULAS[row]
    assert program() == want


def after(act: Callable[[te.Schedule, te.Tensor, te.Tensor], Any]) -> str:
    """The loops of B = A + 1; C = sum of B over rows, after some steps."""
    r = te.reduce_axis((0, 16), name="r")
    B = te.compute((8, 16), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((8, 4), lambda i, j: te.sum(B[i, r] * j, axis=r), name="C")
    s = te.create_schedule(C.op)
    act(s, B, C)
    again = te.Schedule.from_json(s.to_json(), C.op)
    text = str(tvm.lower(s, [A, C], until="nest"))
    assert str(tvm.lower(again, [A, C], until="nest")) == text
    return text


STEPS: dict[str, tuple[Callable[[te.Schedule, te.Tensor, te.Tensor], Any], str]] = {
    "split": (lambda s, B, C: s[C].split(C.op.axis[0], factor=4), "for i_outer in range(2)"),
    "split into parts": (lambda s, B, C: s[C].split(C.op.axis[0], nparts=4), "i_outer in range(4)"),
    "fuse": (lambda s, B, C: s[C].fuse(*C.op.axis), "for i_j_fused in range(32)"),
    "reorder": (lambda s, B, C: s[C].reorder(C.op.reduce_axis[0], C.op.axis[0]), "for r in range"),
    "tile": (lambda s, B, C: s[C].tile(*C.op.axis, 2, 2), "for j_outer in range(2)"),
    "vectorize": (lambda s, B, C: s[B].vectorize(B.op.axis[1]), "in vectorize(16)"),
    "unroll": (lambda s, B, C: s[C].unroll(C.op.reduce_axis[0]), "in unroll(16)"),
    "parallel": (lambda s, B, C: s[C].parallel(C.op.axis[0]), "in parallel(8)"),
    "bind": (
        lambda s, B, C: s[C].bind(C.op.axis[0], te.thread_axis("threadIdx.x")),
        "'threadIdx.x'",
    ),
    "vthread": (lambda s, B, C: s[C].bind(C.op.axis[0], te.thread_axis("vthread")), "'vthread'"),
    "compute_at": (lambda s, B, C: s[B].compute_at(s[C], C.op.axis[0]), "allocate((1, 16)"),
    "compute_inline": (lambda s, B, C: s[B].compute_inline(), "(A[i, r] + 1.0)"),
    "cache_read": (lambda s, B, C: s.cache_read(A, "shared", [B]), "A_shared = allocate"),
    "cache_write": (lambda s, B, C: s.cache_write(C, "local"), "C_local = allocate"),
    "rfactor": (
        lambda s, B, C: s.rfactor(C, s[C].split(C.op.reduce_axis[0], factor=4)[1]),
        "C_rf = allocate((4, 8, 4)",
    ),
    "set_scope": (lambda s, B, C: s[B].set_scope("shared"), '"float32", "shared"'),
    "double_buffer": (
        lambda s, B, C: (s[B].compute_at(s[C], C.op.axis[0]), s[B].double_buffer()),
        "double_buffer",
    ),
    "set_store_predicate": (
        lambda s, B, C: s[C].set_store_predicate(C.op.axis[0] < 4),
        "if likely(i_1 < 4)",
    ),
    "pragma": (
        lambda s, B, C: s[C].pragma(C.op.axis[0], "auto_unroll_max_step", 16),
        "auto_unroll_max_step",
    ),
    "prefetch": (lambda s, B, C: s[B].prefetch(A, B.op.axis[0], 1), "prefetch"),
}


@pytest.mark.parametrize("row", STEPS)
def test_a_step_of_each_kind_shows_in_the_loops_and_in_json(row: str) -> None:
    act, seen = STEPS[row]
    assert seen in after(act)


NOT_THERE = ("hybrid", "gradient", "tag_scope", "create_prim_func", "SpecializedCondition")


@pytest.mark.parametrize("name", NOT_THERE)
def test_what_is_exotic_says_why_it_is_not_there_and_what_to_use(name: str) -> None:
    with pytest.raises(TVMError, match=rf"te.{name} is not supported: .*\n  try: "):
        getattr(te, name)


@pytest.mark.parametrize("name", ["env_threads", "rolling_buffer"])
def test_a_step_that_is_exotic_says_why_it_is_not_there_and_what_to_use(name: str) -> None:
    C = vector(lambda i: V[i] * 2.0)
    with pytest.raises(TVMError, match=rf"{name} is not supported: .*\n  try: "):
        getattr(te.create_schedule(C.op)[C], name)
