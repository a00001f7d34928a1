"""Tiles of 256 sums, as many as ACC has elements: none is left for the bias; B always stays."""

EXPECT = {"ex08.2": ("refused", 2), "ex08.3": ("refused", 2)}


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    env = vta.get_env()
    *steps, C = stages
    s = te.create_schedule(C.op)
    y, x, _, _ = s[C].op.axis
    yo, y = s[C].split(y, factor=32)
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
    yo, y = s[C].split(y, factor=64)
    xo, x = s[C].split(x, factor=4)
    s[C].reorder(xo, yo, y, x)
    s[C].pragma(y, vta.get_env().dma_copy)
    s[C].pragma(y, env.coproc_sync)
    s[C_buf].set_scope(env.acc_scope)
    s[C_buf].compute_at(s[C], yo)
    y, x, yi, xi = s[C_buf].op.axis
    ko, ki = s[C_buf].op.reduce_axis
    s[C_buf].reorder(ko, y, x, yi, xi, ki)
    s[C_buf].tensorize(yi, gemm)
    s[B_buf].compute_at(s[C], xo)
    s[A_buf].compute_at(s[C_buf], ko)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope)):
        s[stage].set_scope(scope)
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    return s
