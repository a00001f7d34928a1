"""Features of five small programs, against numbers worked out in the comments.

A statement of `times` iterations, with elements of 4 bytes and cache lines of 64:

    bytes        4 * times; unique bytes: of the elements that the whole nest touches
    lines        times, less the loops inside the innermost one that moves the access, times the
                 share of a line that a step of that one crosses
    reuse        the innermost loop that does not move the access: its extent is the count, the
                 product of the loops inside it the distance in iterations, and what all accesses
                 touch in one of its iterations the distance in bytes
    intensity    operations per byte that the whole nest touches; a multiply-add is one operation
"""

from typing import Any

import numpy as np
import pytest

from minitvm import te, topi, tune

MB = 1 << 20
TIMES = 512**3
NAMES = ("bytes", "unique_bytes", "lines", "reuse_iterations", "reuse_bytes", "reuse_count")


def statements_of(s: Any, *args: te.Tensor) -> list[dict[str, float]]:
    """Return the features of each statement of a schedule, the heaviest first, as plain numbers."""
    initial = te.create_schedule([args[-1].op]).state
    sketch = tune.Sketch("by hand", args, initial, tuple(s.steps), (), tune.Space(()))
    (logs,) = tune.features(sketch, np.zeros((1, 0), np.int32))
    found = dict(zip(tune.NAMES, (np.exp2(logs.astype(np.float64)) - 1).tolist(), strict=True))
    slots = [{n: found[f"{slot}.{n}"] for n in tune.STATEMENT} for slot in range(3)]
    return [slot for slot in slots if slot["iterations"]]


def expect(found: dict[str, float], accesses: list[tuple[float, ...]], **others: float) -> None:
    """Compare the accesses of a statement, in order, and further features."""
    for n, numbers in enumerate(accesses):
        mine = {name: found[f"access{n}.{name}"] for name in NAMES}
        assert mine == pytest.approx(dict(zip(NAMES, numbers, strict=True)), rel=1e-4), n
    assert found[f"access{len(accesses)}.bytes"] == 0
    mine = {name: found[name.replace("__", ".")] for name in others}
    assert mine == pytest.approx(others, rel=1e-4)


def test_the_talks_statements_b_and_c() -> None:
    """for i, j in 10 x 10: B[i, j] = A[i] * 2; for i in 10: C[i] = B[i, i] - 3"""
    a = te.placeholder((10,), name="A")
    b = te.compute((10, 10), lambda i, j: a[i] * 2.0, name="B")
    c = te.compute((10,), lambda i: b[i, i] - 3.0, name="C")
    first, second = statements_of(te.create_schedule([c.op]), a, c)
    written = (400, 400, 100 * 4 / 64, 100, 440, 1)  # C reads it after all 100 iterations
    read = (400, 40, 1, 1, 8, 10)  # j does not move A[i]; 10 steps of 4 bytes are one line
    expect(first, [written, read], iterations=100, op__mul=100, intensity10=100 / 440)
    # A step of i is 11 elements of B, 44 of 64 bytes; a box of 10 x 10 counts as touched, although
    # only its diagonal is.
    diagonal = (40, 400, 10 * 44 / 64, 10, 440, 1)
    result = (40, 40, 1, 0, 0, 0)  # no other access
    expect(second, [diagonal, result], iterations=10, op__add=10, intensity10=10 / 440)


def matmul() -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    a, b = te.placeholder((512, 512), name="A"), te.placeholder((512, 512), name="B")
    return a, b, topi.matmul(a, b, name="C")


def test_the_talks_sampled_program_1() -> None:
    """parallel 256, k.0 32, i.2 16, unroll k.1 16, unroll i.3 4, vectorize j.3 16: C += A * B."""
    a, b, c = matmul()
    d = te.compute((512, 512), lambda i, j: te.max(c[i, j], 0.0), name="D")
    s = te.create_schedule([d.op])
    i0, i4 = s[d].split(s[d].op.axis[0], factor=64)
    j0, j4 = s[d].split(s[d].op.axis[1], factor=16)
    s[d].reorder(i0, j0, i4, j4)
    outer = s[d].fuse(i0, j0)
    s[d].parallel(outer)
    s[d].vectorize(j4)
    s[c].compute_at(s[d], outer)
    k0, k1 = s[c].split(s[c].op.reduce_axis[0], factor=16)
    i2, i3 = s[c].split(s[c].op.axis[0], factor=4)
    j3 = s[c].op.axis[1]
    s[c].reorder(k0, i2, k1, i3, j3)
    s[c].unroll(k1)
    s[c].unroll(i3)
    s[c].vectorize(j3)
    product, relu = statements_of(s, a, b, d)
    # C's tile has 64 x 16 elements. k.1 does not move it: inside are 4 x 16 iterations, which touch
    # 64 elements of C, 4 of A and 16 of B. Lines: j.3 steps by 4 bytes.
    tile = (4 * TIMES, 4096, TIMES / 16, 64, 4 * (64 + 4 + 16), 16)
    # j.3 does not move A: count 16, one iteration, three elements. The next loop, i.3, steps by a
    # row of 2048 bytes: a line each time.
    row = (4 * TIMES, MB, TIMES / 16, 1, 12, 16)
    # i.3 does not move B: count 4; inside are 16 iterations, which touch 16 of B and C and 1 of A.
    panel = (4 * TIMES, MB, TIMES / 16, 16, 4 * (16 + 16 + 1), 4)
    marks = {"parallel__product": 256, "unroll__product": 64, "vectorize__extent": 16}
    whole = {"iterations": TIMES, "op__mad": TIMES, "intensity10": TIMES / (2 * MB + 4096)}
    expect(product, [tile, row, panel], **marks, **whole, loops=6, alloc__bytes=4096)
    # for i.4 in 64: vectorize j.4 in 16: D = max(C, 0). The parallel loop does not move C's tile:
    # 1024 iterations, which touch 4096 bytes of C and of D.
    cells = 512 * 512
    result = (4 * cells, MB, cells / 16, 0, 0, 0)
    again = (4 * cells, 4096, cells / 16, 1024, 8192, 256)
    expect(relu, [result, again], op__compare=cells, intensity10=cells / (MB + 4096))


def test_a_product_row_by_row() -> None:
    """for i, k, j in 512 x 512 x 512: C[i, j] += A[i, k] * B[k, j]"""
    a, b, c = matmul()
    s = te.create_schedule([c.op])
    i, j = s[c].op.axis
    s[c].reorder(i, s[c].op.reduce_axis[0], j)
    (found,) = statements_of(s, a, b, c)
    # k does not move C: 512 iterations touch a row of C, a row of B, one element of A.
    result = (4 * TIMES, MB, TIMES / 16, 512, 2048 + 2048 + 4, 512)
    # i does not move B: inside are all of B, a row of C and a row of A.
    matrix = (4 * TIMES, MB, TIMES / 16, 512 * 512, MB + 2048 + 2048, 512)
    # j does not move A, and k steps by 4 bytes: 512 iterations of j, 16 of k to a line.
    element = (4 * TIMES, MB, TIMES / 512 / 16, 1, 12, 512)
    expect(found, [result, matrix, element], intensity10=TIMES / (3 * MB))


def test_a_convolution_with_stride_2() -> None:
    """for i in 16: for r in 3: Y[i] += X[2 * i + r] * W[r]"""
    x, w = te.placeholder((33,), name="X"), te.placeholder((3,), name="W")
    r = te.reduce_axis((0, 3), "r")
    y = te.compute((16,), lambda i: te.sum(x[2 * i + r] * w[r], r), name="Y")
    (found,) = statements_of(te.create_schedule([y.op]), x, w, y)
    # Both loops move X: it has no reuse, although windows overlap in one element. It touches
    # 2 * 15 + 2 + 1 = 33 elements.
    window = (192, 4 * 33, 48 / 16, 0, 0, 0)
    # i does not move W: its three iterations touch 3 of W, 3 of X and 1 of Y.
    weights = (192, 12, 48 / 16, 3, 28, 16)
    result = (192, 64, 48 / 3 / 16, 1, 12, 3)  # r does not move Y
    expect(found, [window, weights, result], op__mad=48, intensity10=48 / (132 + 12 + 64))


def test_a_transposition() -> None:
    """for i in 32: for j in 64: U[i, j] = T[j, i]"""
    t = te.placeholder((64, 32), name="T")
    u = te.compute((32, 64), lambda i, j: t[j, i], name="U")
    (found,) = statements_of(te.create_schedule([u.op]), t, u)
    # A step of j is a row of T, 128 bytes: each of the 2048 iterations needs a line.
    read = (8192, 8192, 2048, 0, 0, 0)
    written = (8192, 8192, 2048 / 16, 0, 0, 0)
    expect(found, [read, written], intensity10=0, access0__stride=32, access1__stride=1)
