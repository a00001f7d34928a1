"""Programming the accelerator from tensor expressions.

    env = vta.get_env()
    A_buf = te.compute(A.shape, lambda *i: A(*i), "A_buf")
    ...
    s[A_buf].set_scope(env.inp_scope)
    s[A_buf].pragma(s[A_buf].op.axis[0], env.dma_copy)
    s[C_buf].tensorize(s[C_buf].op.axis[2], env.gemm)
    f = tvm.build(s, [A, B, C], target="vta")
    f(a, b, c)                          # packed numpy arrays, on the simulator, bit by bit
    f.run().cycles, f.source("vta")     # its time, its instructions

Everything in a schedule runs on the accelerator: packing, and what else is for the CPU, is done
outside of it, in numpy or by functions built for another target.
"""

from minitvm.accel import Config, Memory, Program, Run, Verdict, vdla8x8, vdla_osdi18, vta_pynq

from . import vdla
from .environment import Environment, get_env
from .run import build, lower, simulate, verify

__all__ = [
    "Config",
    "Environment",
    "Memory",
    "Program",
    "Run",
    "Verdict",
    "build",
    "get_env",
    "lower",
    "simulate",
    "vdla",
    "vdla8x8",
    "vdla_osdi18",
    "verify",
    "vta_pynq",
]
