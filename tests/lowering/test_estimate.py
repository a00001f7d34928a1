"""estimate: the size of a program after unrolling, known before the passes."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import LoweringError
from minitvm.lowering import CodeSize, code_size, estimate
from minitvm.testing import random_schedule
from minitvm.tir import For, If, Pragma, PrimFunc, walk
from tests.seeds import seeds


def sizes(s: te.Schedule, args: list[te.Tensor]) -> tuple[CodeSize, CodeSize]:
    """The estimate, and the size of the lowered program."""
    early = tvm.lower(s, args, until="nest")
    return estimate(early), code_size(tvm.lower(s, args).body)


def product(rng: np.random.Generator) -> tuple[te.Schedule, list[te.Tensor]]:
    """A tiled matrix product with random factors that divide, as a search draws them."""
    n = 64
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    t = s.cache_write(C, "local") if rng.random() < 0.5 else C
    i, j, r, m, steps = (int(2 ** rng.integers(0, 6)) for _ in range(5))
    io, ii = s[t].split(s[t].op.axis[0], i)
    jo, ji = s[t].split(s[t].op.axis[1], j)
    ko, ki = s[t].split(s[t].op.reduce_axis[0], r)
    jm, jv = s[t].split(ji, min(m, j))
    s[t].reorder(io, jo, ko, jm, ki, ii, jv)
    s[t].vectorize(jv)
    if rng.random() < 0.3:
        s[t].unroll(ii)
    s[t].pragma(s[t].leaf_iter_vars[int(rng.integers(3))], "auto_unroll_max_step", steps**2)
    if rng.random() < 0.2:
        s[t].pragma(ko, "unroll_explicit", 0)
    if t is not C:
        (a, b), (c, d) = (s[C].split(x, f) for x, f in zip(C.op.axis, (i, j), strict=True))
        s[C].reorder(a, c, b, d)
        s[t].compute_at(s[C], c)
        s[C].vectorize(d)
    return s, [A, B, C]


@pytest.mark.parametrize("seed", seeds(12, 100))
def test_the_size_of_a_tiled_product_is_known_before_the_passes(seed: int) -> None:
    known, found = sizes(*product(np.random.default_rng(seed)))
    assert known == found


def plain(f: PrimFunc) -> bool:
    """Whether the program has none of what makes an estimate inexact."""
    nodes = list(walk(f.body))
    guarded = any(isinstance(n, If) for n in nodes)
    threads = any(isinstance(n, For) and n.kind == "bind" for n in nodes)
    pragmas = {n.key for n in nodes if isinstance(n, Pragma)}
    return not (guarded or threads or pragmas - {"auto_unroll_max_step", "unroll_explicit"})


def row_sums() -> tuple[te.Tensor, te.Tensor]:
    A = te.placeholder((12, 20), name="A")
    B = te.compute((12, 20), lambda i, j: A[i, j] * 2.0 + 1.0, name="B")
    k = te.reduce_axis((0, 20), name="k")
    return A, te.compute((12,), lambda i: te.sum(B[i, k], axis=k), name="C")


def test_the_size_of_programs_of_random_schedules_is_known_before_the_passes() -> None:
    rng, compared = np.random.default_rng(5), 0
    for _ in range(120):
        A, C = row_sums()
        s = random_schedule(C, rng)
        try:
            early = tvm.lower(s, [A, C], until="nest")
        except LoweringError:
            continue  # an intrinsic that does not fit
        if plain(early):
            known, found = sizes(s, [A, C])
            assert known == found, s.state
            compared += 1
    assert compared > 20


def test_code_that_partition_copies_is_counted_once() -> None:
    A = te.placeholder((11,), name="A")
    C = te.compute((11,), lambda i: A[i] + 1.0, name="C")
    s = te.create_schedule(C.op)
    _, inner = s[C].split(C.op.axis[0], 4)
    s[C].unroll(inner)
    known, found = sizes(s, [A, C])
    assert (known.statements, found.statements) == (4, 7)
