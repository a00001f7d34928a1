"""s.warnings(): what keeps the loop that does most of the work from the peak, largest first."""

import pytest

from minitvm import te, topi

TWO = "llvm -mattr=+avx512f -num-cores=2"


def matmul(n: int = 512) -> tuple[te.Tensor, te.Schedule]:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    return C, te.create_schedule(C.op)


def factors(s: te.Schedule) -> list[tuple[float, str]]:
    """(factor, the first words of the reason) of each estimate."""
    return [(w.factor, w.why.split(",")[0].split(":")[0]) for w in s.warnings(TWO)]


SCALAR = "no loop is vectorized"
LINES = "it is innermost"
CHAIN = "each operation waits for the one before it"
UNTILED = "it moves more than it computes"
CORES = "it runs on one of 2 cores; about 2 times slower"


def test_the_naive_product_is_scalar_strided_and_a_chain() -> None:
    _, s = matmul()
    assert factors(s) == [(16, SCALAR), (16, LINES), (8, CHAIN)]
    assert str(s.warnings(TWO)[1]) == (
        "loop k of C: it is innermost, and moves 512 elements of B at a time: each iteration loads "
        "another cache line; about 16 times slower\n"
        "  try: reorder: the loop along the last dimension of B innermost"
    )


def test_a_loop_along_the_rows_is_neither_strided_nor_a_chain() -> None:
    C, s = matmul()
    i, j = C.op.axis
    s[C].reorder(i, *C.op.reduce_axis, j)
    assert factors(s) == [(16, SCALAR), (2, UNTILED), (2, CORES)]


def test_one_vector_alone_waits_for_itself() -> None:
    C, s = matmul()
    i, j = C.op.axis
    jo, ji = s[C].split(j, 16)
    s[C].reorder(i, jo, *C.op.reduce_axis, ji)
    s[C].vectorize(ji)
    assert factors(s) == [(8, CHAIN), (2, UNTILED), (2, CORES)]


def tiled() -> tuple[te.Tensor, te.Schedule]:
    """A tile of 4x64 in registers."""
    C, s = matmul()
    CL = s.cache_write(C, "local")
    _, jo, _, ji = s[C].tile(*s[C].op.axis, 4, 64)
    s[CL].compute_at(s[C], jo)
    i, j = s[CL].op.axis
    jv, lane = s[CL].split(j, 16)
    s[CL].reorder(*s[CL].op.reduce_axis, i, jv, lane)
    s[CL].unroll(i)
    s[CL].unroll(jv)
    s[CL].vectorize(lane)
    s[C].vectorize(ji)
    return C, s


def test_a_tile_in_registers_lacks_only_the_other_core() -> None:
    C, s = tiled()
    assert factors(s) == [(2, CORES)]
    s[C].parallel(s[C].leaf_iter_vars[0])
    assert factors(s) == []


def test_a_small_program_is_not_judged() -> None:
    _, s = matmul(64)
    assert s.warnings(TWO) == ()


@pytest.mark.parametrize("n", [8, 64, 512])
def test_the_default_schedules_of_topi_give_no_reason_to_warn(n: int) -> None:
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    outs = [topi.matmul(A, B, a, b) for a in (False, True) for b in (False, True)]
    outs += [f(A) for f in (topi.nn.relu, topi.exp, topi.tanh, topi.sigmoid, topi.nn.softmax)]
    outs += [topi.add(A, B)]
    outs += [f(A, axis=axis) for f in (topi.sum, topi.max) for axis in (None, 0, 1)]
    data, kernel = te.placeholder((1, 64, n, n)), te.placeholder((64, 64, 3, 3))
    convolution = topi.schedule(topi.nn.conv2d(data, kernel, 1, 1), TWO)
    assert [w for w in convolution.warnings(TWO) if w.factor] == []
    for out in outs:
        assert topi.schedule(out, TWO).warnings(TWO) == ()
