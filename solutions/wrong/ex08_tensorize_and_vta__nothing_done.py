"""The instruction of the example, an untouched schedule, and one with scopes only."""

EXPECT = {"ex08.1": ("wrong-shape", 0), "ex08.2": ("refused", 0), "ex08.3": ("refused", 0)}


def gemm8x8():
    return scale8()


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    return te.create_schedule(stages[-1].op)


def few_bytes(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
    env = vta.get_env()
    s = te.create_schedule(C.op)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope), (C_buf, env.acc_scope)):
        s[stage].set_scope(scope)
    return s
