"""The tutorials of VTA: what they compute, bit by bit, and what its profiler counted for them."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.runtime import AcceleratorFunction

ENV = vta.get_env()


def numbers(*shape: int, dtype: str = "int8") -> np.ndarray:
    limit = 128 if dtype == "int8" else 1 << 20
    return np.random.default_rng(0).integers(-limit, limit, shape).astype(dtype)


# --- vta_get_started ------------------------------------------------------------------------------


def get_started(m: int = 64) -> AcceleratorFunction:
    """C = A + B on the ALU."""
    shape = (1, m, ENV.BATCH, ENV.BLOCK_OUT)
    A = te.placeholder(shape, name="A", dtype=ENV.acc_dtype)
    B = te.placeholder(shape, name="B", dtype=ENV.acc_dtype)
    A_buf = te.compute(shape, A, "A_buf")
    B_buf = te.compute(shape, B, "B_buf")
    C_buf = te.compute(
        shape,
        lambda *i: A_buf(*i).astype(ENV.acc_dtype) + B_buf(*i).astype(ENV.acc_dtype),
        name="C_buf",
    )
    C = te.compute(shape, lambda *i: C_buf(*i).astype(ENV.inp_dtype), name="C")
    s = te.create_schedule(C.op)
    for t in (A_buf, B_buf, C_buf):
        s[t].set_scope(ENV.acc_scope)
    for t in (A_buf, B_buf, C):
        s[t].pragma(s[t].op.axis[0], ENV.dma_copy)
    s[C_buf].pragma(C_buf.op.axis[0], ENV.alu)
    return vta.build(s, [A, B, C], tvm.target.Target("vta"))


def test_get_started_adds_and_keeps_the_low_bits() -> None:
    f = get_started()
    a, b = (numbers(1, 64, 1, 16, dtype="int32") for _ in range(2))
    c = np.zeros(a.shape, "int8")
    f(a, b, c)
    np.testing.assert_array_equal(c, (a + b).astype("int8"))


def test_get_started_moves_and_computes_what_the_profiler_of_vta_counts() -> None:
    counters = get_started().run().counters
    assert (counters.acc_load_nbytes, counters.out_store_nbytes) == (8192, 1024)
    assert (counters.alu_counter, counters.uop_load_nbytes) == (64, 4)
    assert (counters.inp_load_nbytes, counters.wgt_load_nbytes) == (0, 0)


# --- matrix_multiply ------------------------------------------------------------------------------


def matrix_multiply(m: int = 16, n: int = 16) -> AcceleratorFunction:
    """C = A @ B.T in tiles of 16 x 16."""
    A = te.placeholder((1, n, ENV.BATCH, ENV.BLOCK_IN), name="A", dtype=ENV.inp_dtype)
    B = te.placeholder((m, n, ENV.BLOCK_OUT, ENV.BLOCK_IN), name="B", dtype=ENV.wgt_dtype)
    A_buf, B_buf = te.compute(A.shape, A, "A_buf"), te.compute(B.shape, B, "B_buf")
    ko, ki = te.reduce_axis((0, n), name="ko"), te.reduce_axis((0, ENV.BLOCK_IN), name="ki")
    C_buf = te.compute(
        (1, m, ENV.BATCH, ENV.BLOCK_OUT),
        lambda bo, co, bi, ci: te.sum(
            A_buf[bo, ko, bi, ki].astype(ENV.acc_dtype)
            * B_buf[co, ko, ci, ki].astype(ENV.acc_dtype),
            axis=[ko, ki],
        ),
        name="C_buf",
    )
    C = te.compute(C_buf.shape, lambda *i: C_buf(*i).astype(ENV.inp_dtype), name="C")
    s = te.create_schedule(C.op)
    s[A_buf].set_scope(ENV.inp_scope)
    s[B_buf].set_scope(ENV.wgt_scope)
    s[C_buf].set_scope(ENV.acc_scope)
    s[A_buf].compute_at(s[C_buf], ko)
    s[B_buf].compute_at(s[C_buf], ko)
    for t in (A_buf, B_buf, C):
        s[t].pragma(s[t].op.axis[0], ENV.dma_copy)
    s[C_buf].reorder(ko, *s[C_buf].op.axis, ki)
    s[C_buf].tensorize(s[C_buf].op.axis[2], ENV.gemm)
    return vta.build(s, [A, B, C])


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ b.T in int32."""
    return a.astype("int32") @ b.T.astype("int32")


def packed(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """[1, k] and [m, k] as the tutorials pack them."""
    rows, columns = b.shape[0] // 16, b.shape[1] // 16
    return (
        a.reshape(1, 1, columns, 16).transpose(0, 2, 1, 3).copy(),
        b.reshape(rows, 16, columns, 16).transpose(0, 2, 1, 3).copy(),
    )


def test_matrix_multiply_is_that_of_numpy() -> None:
    f, a, b = matrix_multiply(), numbers(1, 256), numbers(256, 256)
    c = np.zeros((1, 16, 1, 16), "int8")
    f(*packed(a, b), c)
    np.testing.assert_array_equal(c.reshape(1, 256), product(a, b).astype("int8"))


def test_matrix_multiply_moves_and_computes_what_the_profiler_of_vta_counts() -> None:
    counters = matrix_multiply().run().counters
    loads = counters.inp_load_nbytes, counters.wgt_load_nbytes, counters.acc_load_nbytes
    assert loads == (256, 65536, 0)
    assert (counters.uop_load_nbytes, counters.out_store_nbytes) == (8, 256)
    assert (counters.gemm_counter, counters.alu_counter) == (256, 0)


# --- matrix_multiply_opt --------------------------------------------------------------------------


def matrix_multiply_opt(channels: int = 1024, block: int = 256) -> AcceleratorFunction:
    """min(max((A @ B.T) >> 8, 0), 127), in blocks that fit into the memories."""
    n, blocks = channels // 16, block // 16
    A = te.placeholder((1, n, 1, 16), name="data", dtype="int8")
    B = te.placeholder((n, n, 16, 16), name="weight", dtype="int8")
    k, kt = te.reduce_axis((0, n), name="ic"), te.reduce_axis((0, 16), name="ic_tns")
    A_buf, B_buf = te.compute(A.shape, A, "data_buf"), te.compute(B.shape, B, "weight_buf")
    gemm = te.compute(
        A.shape,
        lambda bo, co, bi, ci: te.sum(
            A_buf[bo, k, bi, kt].astype("int32") * B_buf[co, k, ci, kt].astype("int32"),
            axis=[k, kt],
        ),
        name="res_gemm",
    )
    shr = te.compute(A.shape, lambda *i: gemm(*i) >> 8, name="res_shr")
    least = te.compute(A.shape, lambda *i: te.max(shr(*i), 0), name="res_max")
    most = te.compute(A.shape, lambda *i: te.min(least(*i), 127), name="res_min")
    C = te.compute(A.shape, lambda *i: most(*i).astype("int8"), name="res")
    s = te.create_schedule(C.op)
    b, oc, _, _ = s[C].op.axis
    oc_out, _ = s[C].split(oc, blocks)
    s[C].reorder(b, oc_out)
    for t in (most, least, shr, gemm):
        s[t].set_scope(ENV.acc_scope)
        s[t].compute_at(s[C], oc_out)
    b, oc, b_tns, oc_tns = s[gemm].op.axis
    k_out, k_inn = s[gemm].split(k, blocks)
    s[gemm].reorder(k_out, b, oc, k_inn, b_tns, oc_tns, kt)
    for t, scope in ((A_buf, ENV.inp_scope), (B_buf, ENV.wgt_scope)):
        s[t].set_scope(scope)
        s[t].compute_at(s[gemm], k_out)
        s[t].pragma(s[t].op.axis[0], ENV.dma_copy)
    for t in (shr, least, most):
        s[t].pragma(s[t].op.axis[0], ENV.alu)
    s[C].pragma(s[C].leaf_iter_vars[2], ENV.dma_copy)
    s[gemm].tensorize(b_tns, ENV.gemm)
    return vta.build(s, [A, B, C])


@pytest.fixture(scope="module")
def blocked() -> AcceleratorFunction:
    return matrix_multiply_opt()


def test_matrix_multiply_opt_is_that_of_numpy(blocked: AcceleratorFunction) -> None:
    a, b, c = numbers(1, 1024), numbers(1024, 1024), np.zeros((1, 64, 1, 16), "int8")
    blocked(*packed(a, b), c)
    np.testing.assert_array_equal(c.reshape(1, 1024), np.clip(product(a, b) >> 8, 0, 127))


def test_matrix_multiply_opt_loads_each_weight_once(blocked: AcceleratorFunction) -> None:
    counters = blocked.run().counters
    assert counters.wgt_load_nbytes == 1024 * 1024
    assert counters.gemm_counter == 64 * 64
    assert counters.alu_counter == 3 * 64


def test_arithmetic_after_the_product_needs_no_memory_of_its_own(
    blocked: AcceleratorFunction,
) -> None:
    assert str(blocked.func).count("local.acc_buffer") == 1


def test_accumulators_that_are_written_step_by_step_are_a_hazard_on_hardware(
    blocked: AcceleratorFunction,
) -> None:
    """As the tutorial orders its loops: its simulator does not mind, the verifier says so."""
    assert {hazard.distance for hazard in vta.verify(blocked).hazards} == {1}
    assert blocked.warnings()[0].startswith("hazard: instruction ")
    assert "1 after writing it" in blocked.warnings()[0]


def test_where_each_sum_is_there_in_time_there_is_no_warning() -> None:
    assert matrix_multiply().warnings() == ()
