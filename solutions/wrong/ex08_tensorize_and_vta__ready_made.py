"""The library's instruction and its schedule; and the answer to the question before."""

from minitvm import topi
from minitvm.vta import vdla

EXPECT = {"ex08.1": ("calls", 0), "ex08.2": ("refused", 0), "ex08.3": ("too-many-bytes", 1.6)}


def gemm8x8():
    return vdla.gemm8x8


def product(gemm, A, B, bias, A_buf, B_buf, bias_buf, P, *stages):
    return topi.schedule(stages[-1])


def few_bytes(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
    env = vta.get_env()
    s = te.create_schedule(C.op)
    y, x, _, _ = s[C].op.axis
    yo, y = s[C].split(y, factor=64)
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
