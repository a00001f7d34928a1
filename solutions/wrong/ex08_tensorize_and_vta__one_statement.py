"""One statement where three are asked for; tiles one size too large; and small square tiles."""

EXPECT = {"ex08.1": ("missing", 2), "ex08.2": ("refused", 2), "ex08.3": ("too-many-bytes", 0.4)}


def gemm8x8():
    w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
    k = te.reduce_axis((0, 8), name="k")

    def term(ww, xx, i, j, k):
        return ww[i, k].astype("int32") * xx[j, k].astype("int32")

    z = te.compute((8, 8), lambda i, j: te.sum(term(w, x, i, j, k), axis=k), name="z")

    def rule(inputs, outputs):
        ib = tir.ir_builder.create()
        ww, xx, zz = (ib.buffer_ptr(buffer) for buffer in (*inputs, *outputs))
        with ib.for_range(0, 8, name="i") as i, ib.for_range(0, 8, name="j") as j:
            zz[i, j] = 0
            with ib.for_range(0, 8, name="k") as k:
                zz[i, j] = zz[i, j] + term(ww, xx, i, j, k)
        return ib.get()

    return te.decl_tensor_intrin(z.op, rule, name="gemm8x8")


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    env = vta.get_env()
    *steps, C = stages
    s = te.create_schedule(C.op)
    y, x, _, _ = s[C].op.axis
    yo, y = s[C].split(y, factor=64)
    xo, x = s[C].split(x, factor=8)
    s[C].reorder(yo, xo, y, x)
    s[C].pragma(y, env.dma_copy)
    for stage in (P, bias_buf, *steps):
        s[stage].set_scope(env.acc_scope)
        s[stage].compute_at(s[C], xo)
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
    y, x, _, _ = s[C].op.axis
    yo, y = s[C].split(y, factor=16)
    xo, x = s[C].split(x, factor=4)
    s[C].reorder(yo, xo, y, x)
    s[C].pragma(y, vta.get_env().dma_copy)
    s[C_buf].set_scope(env.acc_scope)
    s[C_buf].compute_at(s[C], xo)
    y, x, yi, xi = s[C_buf].op.axis
    ko, ki = s[C_buf].op.reduce_axis
    s[C_buf].reorder(ko, y, x, yi, xi, ki)
    s[C_buf].tensorize(yi, gemm)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope)):
        s[stage].set_scope(scope)
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
        s[stage].compute_at(s[C_buf], ko)
    return s
