"""Products as the tutorials of VTA schedule them: their memory, and their hazards on hardware.

What the tutorials compute and move is in tests/sources/test_vta_tutorials.py.
"""

import pytest

from minitvm import te, vta
from minitvm.runtime import AcceleratorFunction

ENV = vta.get_env()


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
