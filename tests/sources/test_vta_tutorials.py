"""The four tutorials of VTA as programs of its users: the calls are VTA's, in VTA's order of steps.

What differs: imports, no remote session, arrays on the CPU. The counts of the profiler are those
that the tutorials publish (vta_get_started publishes none: they follow from its sizes).
"""

# ruff: noqa: PLW0108  (VTA writes copies as lambda *i: A(*i))

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.vta import simulator

env = vta.get_env()
SIMULATED = env.TARGET in ["sim", "tsim"]


def counted(f, *arrays) -> dict[str, int]:
    """The profiler's counts of one call."""
    if SIMULATED:
        simulator.clear_stats()
    f(*arrays)
    return simulator.stats()


def test_vta_get_started() -> None:
    m = 64
    o = 1
    A = te.placeholder((o, m, env.BATCH, env.BLOCK_OUT), name="A", dtype=env.acc_dtype)
    B = te.placeholder((o, m, env.BATCH, env.BLOCK_OUT), name="B", dtype=env.acc_dtype)
    A_buf = te.compute((o, m, env.BATCH, env.BLOCK_OUT), lambda *i: A(*i), "A_buf")
    B_buf = te.compute((o, m, env.BATCH, env.BLOCK_OUT), lambda *i: B(*i), "B_buf")
    C_buf = te.compute(
        (o, m, env.BATCH, env.BLOCK_OUT),
        lambda *i: A_buf(*i).astype(env.acc_dtype) + B_buf(*i).astype(env.acc_dtype),
        name="C_buf",
    )
    C = te.compute(
        (o, m, env.BATCH, env.BLOCK_OUT), lambda *i: C_buf(*i).astype(env.inp_dtype), name="C"
    )
    s = te.create_schedule(C.op)
    s[A_buf].set_scope(env.acc_scope)
    s[B_buf].set_scope(env.acc_scope)
    s[C_buf].set_scope(env.acc_scope)
    s[A_buf].pragma(s[A_buf].op.axis[0], env.dma_copy)
    s[B_buf].pragma(s[B_buf].op.axis[0], env.dma_copy)
    s[C].pragma(s[C].op.axis[0], env.dma_copy)
    s[C_buf].pragma(C_buf.op.axis[0], env.alu)
    assert "alu" in str(tvm.lower(s, [A, B, C], simple_mode=True))
    with vta.build_config():
        my_vadd = vta.build(
            s, [A, B, C], tvm.target.Target("ext_dev", host=env.target_host), name="my_vadd"
        )

    ctx = tvm.cpu(0)
    rng = np.random.default_rng(0)
    A_orig = rng.integers(-128, 128, size=(o * env.BATCH, m * env.BLOCK_OUT)).astype(A.dtype)
    B_orig = rng.integers(-128, 128, size=(o * env.BATCH, m * env.BLOCK_OUT)).astype(B.dtype)
    A_packed = A_orig.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
    B_packed = B_orig.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
    A_nd, B_nd = tvm.nd.array(A_packed, ctx), tvm.nd.array(B_packed, ctx)
    C_nd = tvm.nd.array(np.zeros((o, m, env.BATCH, env.BLOCK_OUT)).astype(C.dtype), ctx)
    stats = counted(my_vadd, A_nd, B_nd, C_nd)

    C_ref = (A_orig.astype(env.acc_dtype) + B_orig.astype(env.acc_dtype)).astype(C.dtype)
    C_ref = C_ref.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
    np.testing.assert_equal(C_ref, C_nd.numpy())
    assert stats == {
        "inp_load_nbytes": 0,
        "wgt_load_nbytes": 0,
        "acc_load_nbytes": 8192,
        "uop_load_nbytes": 4,
        "out_store_nbytes": 1024,
        "gemm_counter": 0,
        "alu_counter": 64,
    }


def test_matrix_multiply() -> None:
    m = 16
    n = 16
    o = 1
    A = te.placeholder((o, n, env.BATCH, env.BLOCK_IN), name="A", dtype=env.inp_dtype)
    B = te.placeholder((m, n, env.BLOCK_OUT, env.BLOCK_IN), name="B", dtype=env.wgt_dtype)
    A_buf = te.compute((o, n, env.BATCH, env.BLOCK_IN), lambda *i: A(*i), "A_buf")
    B_buf = te.compute((m, n, env.BLOCK_OUT, env.BLOCK_IN), lambda *i: B(*i), "B_buf")
    ko = te.reduce_axis((0, n), name="ko")
    ki = te.reduce_axis((0, env.BLOCK_IN), name="ki")
    C_buf = te.compute(
        (o, m, env.BATCH, env.BLOCK_OUT),
        lambda bo, co, bi, ci: te.sum(
            A_buf[bo, ko, bi, ki].astype(env.acc_dtype)
            * B_buf[co, ko, ci, ki].astype(env.acc_dtype),
            axis=[ko, ki],
        ),
        name="C_buf",
    )
    C = te.compute(
        (o, m, env.BATCH, env.BLOCK_OUT), lambda *i: C_buf(*i).astype(env.inp_dtype), name="C"
    )
    s = te.create_schedule(C.op)
    s[A_buf].set_scope(env.inp_scope)
    s[B_buf].set_scope(env.wgt_scope)
    s[C_buf].set_scope(env.acc_scope)
    s[A_buf].compute_at(s[C_buf], ko)
    s[B_buf].compute_at(s[C_buf], ko)
    s[A_buf].pragma(s[A_buf].op.axis[0], env.dma_copy)
    s[B_buf].pragma(s[B_buf].op.axis[0], env.dma_copy)
    s[C].pragma(s[C].op.axis[0], env.dma_copy)
    s[C_buf].reorder(
        ko, s[C_buf].op.axis[0], s[C_buf].op.axis[1], s[C_buf].op.axis[2], s[C_buf].op.axis[3], ki
    )
    s[C_buf].tensorize(s[C_buf].op.axis[2], env.gemm)
    assert "gemm" in str(vta.lower(s, [A, B, C]))
    my_gemm = vta.build(
        s, [A, B, C], tvm.target.Target("ext_dev", host=env.target_host), name="my_gemm"
    )

    rng = np.random.default_rng(0)
    A_orig = rng.integers(-128, 128, size=(o * env.BATCH, n * env.BLOCK_IN)).astype(A.dtype)
    B_orig = rng.integers(-128, 128, size=(m * env.BLOCK_OUT, n * env.BLOCK_IN)).astype(B.dtype)
    A_packed = A_orig.reshape(o, env.BATCH, n, env.BLOCK_IN).transpose((0, 2, 1, 3))
    B_packed = B_orig.reshape(m, env.BLOCK_OUT, n, env.BLOCK_IN).transpose((0, 2, 1, 3))
    C_nd = tvm.nd.array(np.zeros((o, m, env.BATCH, env.BLOCK_OUT)).astype(C.dtype))
    stats = counted(my_gemm, tvm.nd.array(A_packed), tvm.nd.array(B_packed), C_nd)

    C_ref = np.dot(A_orig.astype(env.acc_dtype), B_orig.T.astype(env.acc_dtype)).astype(C.dtype)
    C_ref = C_ref.reshape(o, env.BATCH, m, env.BLOCK_OUT).transpose((0, 2, 1, 3))
    np.testing.assert_equal(C_ref, C_nd.numpy())
    assert stats == {
        "inp_load_nbytes": 256,
        "wgt_load_nbytes": 65536,
        "acc_load_nbytes": 0,
        "uop_load_nbytes": 8,
        "out_store_nbytes": 256,
        "gemm_counter": 256,
        "alu_counter": 0,
    }


def clipped(conv: te.Tensor, shape: tuple[int, ...]) -> list[te.Tensor]:
    """The stages after a sum: shift, clip to 0 .. the largest input, narrow."""
    shr = te.compute(shape, lambda *i: conv(*i) >> 8, name="res_shr")
    inp_max = (1 << (env.INP_WIDTH - 1)) - 1
    least = te.compute(shape, lambda *i: te.max(shr(*i), 0), "res_max")
    most = te.compute(shape, lambda *i: te.min(least(*i), inp_max), "res_min")
    return [shr, least, most, te.compute(shape, lambda *i: most(*i).astype(env.inp_dtype), "res")]


def test_matrix_multiply_opt() -> None:
    batch_size, in_channels, out_channels = 1, 1024, 1024
    data_shape = (batch_size // env.BATCH, in_channels // env.BLOCK_IN, env.BATCH, env.BLOCK_IN)
    weight_shape = (
        out_channels // env.BLOCK_OUT,
        in_channels // env.BLOCK_IN,
        env.BLOCK_OUT,
        env.BLOCK_IN,
    )
    output_shape = (
        batch_size // env.BATCH,
        out_channels // env.BLOCK_OUT,
        env.BATCH,
        env.BLOCK_OUT,
    )
    ic = te.reduce_axis((0, in_channels // env.BLOCK_IN), name="ic")
    ic_tns = te.reduce_axis((0, env.BLOCK_IN), name="ic_tns")
    data = te.placeholder(data_shape, name="data", dtype=env.inp_dtype)
    weight = te.placeholder(weight_shape, name="weight", dtype=env.wgt_dtype)
    data_buf = te.compute(data_shape, lambda *i: data(*i), "data_buf")
    weight_buf = te.compute(weight_shape, lambda *i: weight(*i), "weight_buf")
    res_gemm = te.compute(
        output_shape,
        lambda bo, co, bi, ci: te.sum(
            data_buf[bo, ic, bi, ic_tns].astype(env.acc_dtype)
            * weight_buf[co, ic, ci, ic_tns].astype(env.acc_dtype),
            axis=[ic, ic_tns],
        ),
        name="res_gem",
    )
    res_shr, res_max, res_min, res = clipped(res_gemm, output_shape)

    s = te.create_schedule(res.op)
    b_block, i_block, o_block = 1 // env.BATCH, 256 // env.BLOCK_IN, 256 // env.BLOCK_OUT
    b, oc, b_tns, oc_tns = s[res].op.axis
    b_out, b_inn = s[res].split(b, b_block)
    oc_out, oc_inn = s[res].split(oc, o_block)
    s[res].reorder(b_out, oc_out, b_inn, oc_inn)
    for stage in (res_gemm, res_shr, res_min, res_max):
        s[stage].compute_at(s[res], oc_out)
    b_inn, oc_inn, b_tns, oc_tns = s[res_gemm].op.axis
    ic_out, ic_inn = s[res_gemm].split(ic, i_block)
    s[res_gemm].reorder(ic_out, b_inn, oc_inn, ic_inn, b_tns, oc_tns, ic_tns)
    s[data_buf].set_scope(env.inp_scope)
    s[weight_buf].set_scope(env.wgt_scope)
    for stage in (res_gemm, res_shr, res_min, res_max):
        s[stage].set_scope(env.acc_scope)
    s[data_buf].compute_at(s[res_gemm], ic_out)
    s[weight_buf].compute_at(s[res_gemm], ic_out)
    s[data_buf].pragma(s[data_buf].op.axis[0], env.dma_copy)
    s[weight_buf].pragma(s[weight_buf].op.axis[0], env.dma_copy)
    s[res].pragma(s[res].op.axis[2], env.dma_copy)
    s[res_gemm].tensorize(b_tns, env.gemm)
    s[res_shr].pragma(s[res_shr].op.axis[0], env.alu)
    s[res_min].pragma(s[res_min].op.axis[0], env.alu)
    s[res_max].pragma(s[res_max].op.axis[0], env.alu)
    my_gemm = vta.build(s, [data, weight, res], env.target, name="my_gemm")

    rng = np.random.default_rng(0)
    data_np = rng.integers(-128, 128, size=(batch_size, in_channels)).astype(data.dtype)
    weight_np = rng.integers(-128, 128, size=(out_channels, in_channels)).astype(weight.dtype)
    data_packed = data_np.reshape(1, env.BATCH, -1, env.BLOCK_IN).transpose((0, 2, 1, 3))
    weight_packed = weight_np.reshape(
        out_channels // env.BLOCK_OUT, env.BLOCK_OUT, in_channels // env.BLOCK_IN, env.BLOCK_IN
    ).transpose((0, 2, 1, 3))
    res_nd = tvm.nd.array(np.zeros(output_shape).astype(res.dtype))
    stats = counted(my_gemm, tvm.nd.array(data_packed), tvm.nd.array(weight_packed), res_nd)

    res_ref = np.dot(data_np.astype(env.acc_dtype), weight_np.T.astype(env.acc_dtype)) >> 8
    res_ref = np.clip(res_ref, 0, (1 << (env.INP_WIDTH - 1)) - 1).astype(res.dtype)
    np.testing.assert_equal(res_ref, res_nd.numpy().transpose((0, 2, 1, 3)).reshape(1, -1))
    assert stats == {
        "inp_load_nbytes": 4096,
        "wgt_load_nbytes": 1048576,
        "acc_load_nbytes": 0,
        "uop_load_nbytes": 20,
        "out_store_nbytes": 1024,
        "gemm_counter": 4096,
        "alu_counter": 192,
    }


def convolution(data_np: np.ndarray, kernel_np: np.ndarray) -> np.ndarray:
    """A 3 x 3 convolution with padding 1, in 32 bits."""
    _, _, h, w = data_np.shape
    padded = np.pad(data_np.astype("int32"), ((0, 0), (0, 0), (1, 1), (1, 1)))
    return sum(
        np.einsum(
            "oi,nihw->nohw",
            kernel_np[:, :, y, x].astype("int32"),
            padded[:, :, y : y + h, x : x + w],
        )
        for y in range(3)
        for x in range(3)
    )


def test_convolution_opt() -> None:
    height = width = 14
    in_channels = out_channels = 256
    blocks = in_channels // env.BLOCK_IN
    data_shape = (1 // env.BATCH, blocks, height, width, env.BATCH, env.BLOCK_IN)
    kernel_shape = (out_channels // env.BLOCK_OUT, blocks, 3, 3, env.BLOCK_OUT, env.BLOCK_IN)
    output_shape = (1, out_channels // env.BLOCK_OUT, height, width, env.BATCH, env.BLOCK_OUT)
    dy, dx = te.reduce_axis((0, 3), name="dy"), te.reduce_axis((0, 3), name="dx")
    ic = te.reduce_axis((0, blocks), name="ic")
    ic_tns = te.reduce_axis((0, env.BLOCK_IN), name="ic_tns")
    data = te.placeholder(data_shape, name="data", dtype=env.inp_dtype)
    kernel = te.placeholder(kernel_shape, name="kernel", dtype=env.wgt_dtype)
    data_buf = tvm.topi.nn.pad(data, [0, 0, 1, 1, 0, 0], name="data_buf")
    kernel_buf = te.compute(kernel_shape, lambda *i: kernel(*i), "kernel_buf")
    res_conv = te.compute(
        output_shape,
        lambda bo, co, i, j, bi, ci: te.sum(
            data_buf[bo, ic, i + dy, j + dx, bi, ic_tns].astype(env.acc_dtype)
            * kernel_buf[co, ic, dy, dx, ci, ic_tns].astype(env.acc_dtype),
            axis=[ic, dy, dx, ic_tns],
        ),
        name="res_conv",
    )
    res_shr, res_max, res_min, res = clipped(res_conv, output_shape)

    s = te.create_schedule(res.op)
    b, oc, y, x, b_tns, oc_tns = s[res].op.axis
    b_out, b_inn = s[res].split(b, factor=1 // env.BATCH)
    oc_out, oc_inn = s[res].split(oc, factor=128 // env.BLOCK_OUT)
    y_out, y_inn = s[res].split(y, factor=7)
    x_out, x_inn = s[res].split(x, factor=14)
    s[res].reorder(b_out, oc_out, y_out, x_out, b_inn, oc_inn, y_inn, x_inn, b_tns, oc_tns)
    for stage in (res_conv, res_shr, res_min, res_max):
        s[stage].compute_at(s[res], x_out)
    b_inn, oc_inn, y_inn, x_inn, b_tns, oc_tns = s[res_conv].op.axis
    ic_out, ic_inn = s[res_conv].split(ic, factor=16 // env.BLOCK_IN)
    s[res_conv].reorder(ic_out, b_inn, oc_inn, y_inn, ic_inn, dy, dx, x_inn, b_tns, oc_tns, ic_tns)
    _, tx = s[res].split(oc_out, factor=2)
    s[res].reorder(tx, b_out)
    s[res].bind(tx, te.thread_axis("cthread"))
    s[data_buf].set_scope(env.inp_scope)
    s[kernel_buf].set_scope(env.wgt_scope)
    for stage in (res_conv, res_shr, res_min, res_max):
        s[stage].set_scope(env.acc_scope)
    s[data_buf].compute_at(s[res_conv], ic_out)
    s[kernel_buf].compute_at(s[res_conv], ic_out)
    s[data_buf].pragma(s[data_buf].op.axis[0], env.dma_copy)
    s[kernel_buf].pragma(s[kernel_buf].op.axis[0], env.dma_copy)
    s[res].pragma(s[res].op.axis[4], env.dma_copy)
    s[res_conv].tensorize(b_tns, env.gemm)
    s[res_shr].pragma(s[res_shr].op.axis[0], env.alu)
    s[res_min].pragma(s[res_min].op.axis[0], env.alu)
    s[res_max].pragma(s[res_max].op.axis[0], env.alu)
    my_conv = vta.build(
        s, [data, kernel, res], tvm.target.Target("ext_dev", host=env.target_host), name="my_conv"
    )

    rng = np.random.default_rng(0)
    data_np = rng.integers(-128, 128, (1, in_channels, height, width)).astype(data.dtype)
    kernel_np = rng.integers(-128, 128, (out_channels, in_channels, 3, 3)).astype(kernel.dtype)
    data_packed = data_np.reshape(1, env.BATCH, blocks, env.BLOCK_IN, height, width)
    kernel_packed = kernel_np.reshape(-1, env.BLOCK_OUT, blocks, env.BLOCK_IN, 3, 3)
    res_nd = tvm.nd.array(np.zeros(output_shape).astype(res.dtype))
    stats = counted(
        my_conv,
        tvm.nd.array(data_packed.transpose((0, 2, 4, 5, 1, 3))),
        tvm.nd.array(kernel_packed.transpose((0, 2, 4, 5, 1, 3))),
        res_nd,
    )

    res_ref = np.clip(convolution(data_np, kernel_np) >> 8, 0, 127).astype(res.dtype)
    got = res_nd.numpy().transpose((0, 4, 1, 5, 2, 3)).reshape(1, out_channels, height, width)
    np.testing.assert_equal(res_ref, got)
    assert stats == {
        "inp_load_nbytes": 114688,
        "wgt_load_nbytes": 1179648,
        "acc_load_nbytes": 0,
        "uop_load_nbytes": 1144,
        "out_store_nbytes": 50176,
        "gemm_counter": 451584,
        "alu_counter": 9408,
    }


def test_the_profiler_adds_up_calls_until_it_is_cleared() -> None:
    layer = vta.Dense(channels=(16, 16))
    f = vta.build(*layer.scheduled(vta.top.Tiling()))
    arrays = [np.zeros(p.shape, str(p.dtype)) for p in f.func.params]
    simulator.clear_stats()
    f(*arrays)
    once = simulator.stats()
    f(*arrays)
    assert simulator.stats() == {name: 2 * n for name, n in once.items()}
    assert once["gemm_counter"] == f.run().counters.gemm_counter
    simulator.clear_stats()
    assert set(simulator.stats().values()) == {0}


def test_sizes_have_the_names_of_vta() -> None:
    assert (env.INP_WIDTH, env.WGT_WIDTH, env.ACC_WIDTH, env.OUT_WIDTH) == (8, 8, 32, 8)
    assert (env.INP_ELEM_BITS, env.WGT_ELEM_BYTES, env.ACC_ELEM_BYTES) == (128, 256, 64)
    sizes = env.INP_BUFF_SIZE, env.WGT_BUFF_SIZE, env.ACC_BUFF_SIZE, env.OUT_BUFF_SIZE
    assert sizes == (32 << 10, 256 << 10, 128 << 10, 32 << 10)
    assert (env.UOP_BUFF_SIZE, env.TARGET) == (32 << 10, "sim")
    assert (str(env.target), env.target_host.kind) == ("vta", "llvm")


@pytest.mark.parametrize("options", [{"debug_flag": 6}, {"disabled_pass": {"AlterOpLayout"}}])
def test_options_of_passes_that_are_not_there_are_refused(options: dict) -> None:
    with pytest.raises(tvm.ArgumentError, match="no pass of minitvm has such an option"):
        vta.build_config(**options)


@pytest.mark.parametrize(("kind", "host"), [("ext_dev", "vta"), ("llvm", "python")])
def test_a_host_that_cannot_call_the_target_is_refused(kind: str, host: str) -> None:
    with pytest.raises(tvm.ArgumentError, match="host="):
        tvm.target.Target(kind, host=host)
