"""The step prefetch in machine code: which lines are requested, where, and that results stay."""

from __future__ import annotations

import re

import numpy as np

import minitvm as tvm
from minitvm import te, tir
from minitvm.codegen.llvm.prefetch import with_requests


def requests(s: te.Schedule, args: list[te.Tensor]) -> list[str]:
    """The loop of the prefetch and those inside it, with requests, without other statements."""
    func = tvm.lower(s, args)
    found = next(n for n in tir.walk(func.body) if isinstance(n, tir.Pragma))
    lines = tir.text(with_requests(found)).splitlines()
    return [line for line in lines if re.match(r"\s*(for|prefetch)", line)]


def product(rows: int, columns: int) -> tuple[te.Schedule, list[te.Tensor], te.Tensor, te.Tensor]:
    a, b = te.placeholder((rows, 64), name="A"), te.placeholder((columns // 16, 64, 16), name="B")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute(
        (rows, columns), lambda i, j: te.sum(a[i, k] * b[j // 16, k, j % 16], axis=k), name="C"
    )
    s = te.create_schedule(c.op)
    acc = s.cache_write(c, "local")
    i, j = s[c].op.axis
    jo, ji = s[c].split(j, factor=16)
    s[c].reorder(jo, i, ji)
    s[c].vectorize(ji)
    s[acc].compute_at(s[c], i)
    (k,) = s[acc].op.reduce_axis
    s[acc].reorder(s[acc].op.axis[0], k, s[acc].op.axis[1])
    s[acc].vectorize(s[acc].op.axis[1])
    return s, [a, b, c], b, acc


def test_requests_for_the_next_panel_are_spread_over_the_loops_inside() -> None:
    s, args, b, _ = product(4, 64)
    s[args[2]].prefetch(b, s[args[2]].leaf_iter_vars[0])
    assert requests(s, args) == [
        "for j_outer in range(4):",
        "  for i in range(4):",
        "    for k in range(64):",
        "      prefetch(B[i*256 + k*4 + j_outer*1024 + 1024], 2)",
    ]


def test_a_few_lines_are_requested_for_the_first_level_cache() -> None:
    s, args, b, acc = product(4, 64)
    s[acc].prefetch(b, s[acc].op.reduce_axis[0], 8)
    assert requests(s, args) == [
        "for k in range(64):",
        "  prefetch(B[j_outer*1024 + k*16 + 128], 3)",
    ]


def test_an_iteration_with_few_loops_inside_requests_several_lines() -> None:
    a = te.placeholder((8, 64), name="A")
    c = te.compute((8, 64), lambda i, j: a[i, j] + 1, name="C")
    s = te.create_schedule(c.op)
    s[c].vectorize(c.op.axis[1])
    s[c].prefetch(a, c.op.axis[0], 2)
    assert requests(s, [a, c]) == [
        "for i in range(8):",
        *(f"  prefetch(A[i*64 + {128 + n * 16}], 3)" for n in range(4)),
    ]


def test_what_is_not_contiguous_is_not_requested() -> None:
    a = te.placeholder((64, 8), name="A")
    c = te.compute((8, 64), lambda i, j: a[j, i], name="C")
    s = te.create_schedule(c.op)
    s[c].prefetch(a, c.op.axis[0])
    assert requests(s, [a, c]) == ["for i in range(8):", "  for j in range(64):"]


def test_results_are_the_same() -> None:
    s, args, b, acc = product(4, 64)
    s[args[2]].prefetch(b, s[args[2]].leaf_iter_vars[0])
    s[acc].prefetch(b, s[acc].op.reduce_axis[0], 8)
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(t.shape).astype("float32") for t in args[:2])
    wanted = x @ y.transpose(1, 0, 2).reshape(64, 64)
    for target in ("llvm -num-cores=1", "python"):
        got = np.zeros((4, 64), "float32")
        f = tvm.build(s, args, target)
        f(x, y, got)
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-4)
    assert "prefetcht" in tvm.build(s, args, "llvm -num-cores=1 -mcpu=skylake-avx512").source("asm")


def test_buffers_of_one_iteration_are_not_requested_for_the_next() -> None:
    a = te.placeholder((8, 64), name="A")
    b = te.compute((8, 64), lambda i, k: a[i, k] * 2, name="B")
    h = te.compute((8, 64, 64), lambda i, k, m: a[i, k] + m, name="H")
    k = te.reduce_axis((0, 64), "k")
    c = te.compute((8,), lambda i: te.sum(b[i, k] * h[i, k, k], k), name="C")
    s = te.create_schedule(c.op)
    s[h].compute_at(s[c], c.op.axis[0])
    s[b].compute_at(s[c], k)  # allocated in the loop over k, and H has more iterations
    s[c].prefetch(b, c.op.axis[0], 1)
    assert not [line for line in requests(s, [a, c]) if "prefetch" in line]
    x, y = np.ones((8, 64), "float32"), np.zeros(8, "float32")
    tvm.build(s, [a, c], "llvm")(x, y)
    np.testing.assert_allclose(y, 2 * (64 + 63 * 32))
