"""Cells of notebook 08: an instruction of names, and a product that fits all at once."""

EXPECT = {"ex08.1": ("calls", 0), "ex08.2": ("refused", 2), "ex08.3": ("refused", 0)}


def gemm8x8():
    w, x = te.placeholder((8, 8), name="w"), te.placeholder((8, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    z = te.compute((8, 8), lambda i, j: te.sum(w[i, k] * x[j, k], axis=k), name="z")

    def rule(inputs, outputs):
        ww, xx = (buffer.access_ptr("r") for buffer in inputs)
        zz = outputs[0].access_ptr("w")
        zz_again = outputs[0].access_ptr("rw")
        compute = te.hardware_intrinsic("gemm8x8", ww, xx, zz)
        reset = te.hardware_intrinsic("fill_zero", zz)
        update = te.hardware_intrinsic("fused_gemm8x8_add", ww, xx, zz_again)
        return compute, reset, update

    return te.decl_tensor_intrin(z.op, rule, name="gemm8x8")


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    env = vta.get_env()
    *steps, C = stages
    s = te.create_schedule(C.op)
    s[C].pragma(s[C].op.axis[0], env.dma_copy)
    for stage in (P, bias_buf, *steps):
        s[stage].set_scope(env.acc_scope)
    y, x, yi, xi = s[P].op.axis
    ko, ki = s[P].op.reduce_axis
    s[P].reorder(ko, y, x, yi, xi, ki)
    s[P].tensorize(yi, gemm)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope)):
        s[stage].set_scope(scope)
        s[stage].compute_at(s[P], ko)
    for stage in (A_buf, B_buf, bias_buf):
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    for stage in steps:
        s[stage].pragma(s[stage].op.axis[0], env.alu)
    return s


def few_bytes(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
    env = vta.get_env()
    s = te.create_schedule(C.op)
    s[A_buf].set_scope(env.inp_scope)
    s[B_buf].set_scope(env.wgt_scope)
    s[C_buf].set_scope(env.acc_scope)
    for stage in (A_buf, B_buf, C):
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    y, x, yi, xi = s[C_buf].op.axis
    ko, ki = s[C_buf].op.reduce_axis
    s[C_buf].reorder(ko, y, x, yi, xi, ki)
    s[C_buf].tensorize(yi, gemm)
    s[A_buf].compute_at(s[C_buf], ko)
    s[B_buf].compute_at(s[C_buf], ko)
    return s
