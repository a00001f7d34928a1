"""The bias and the steps live in ACC, but no instruction computes them."""

EXPECT = {"ex08.2": ("refused", 0)}


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    env = vta.get_env()
    *steps, C = stages
    s = te.create_schedule(C.op)
    y, x, _, _ = s[C].op.axis
    yo, y = s[C].split(y, factor=16)
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
    return s
