"""Program the accelerator from tensor expressions.

    env = vta.get_env()
    A_buf = te.compute(A.shape, lambda *i: A(*i), "A_buf")
    ...
    s[A_buf].set_scope(env.inp_scope)
    s[A_buf].pragma(s[A_buf].op.axis[0], env.dma_copy)
    s[C_buf].tensorize(s[C_buf].op.axis[2], env.gemm)
    f = tvm.build(s, [A, B, C], target="vta")
    f(a, b, c)                          # packed numpy arrays; the simulator computes exact results
    f.run().cycles, f.source("vta")     # its time, its instructions

    layer = vta.Convolution(size=(14, 14), channels=(256, 256))
    found = vta.best_tiling(layer, vta.vta_pynq, threads=2)
    f = vta.build(*layer.scheduled(found.tiling))
    layer = vta.Dense(channels=(512, 1024))         # or a dense layer

A residual is int8 or int32, so that a network can pass only int8 data between its layers.
Everything in a schedule runs on the accelerator. Packing and other CPU work is done outside the
schedule, in numpy or by functions built for another target.
"""

# pyright: reportUnusedImport=false

from minitvm.accel import Config, Memory, Program, Run, Verdict, vdla8x8, vdla_osdi18, vta_pynq

from . import simulator, top, vdla
from .designs import LayerPoint, Point, area, evaluate
from .environment import Environment, get_env
from .exploring import SPACE, Exploration, Refused, explore
from .layers import RESNET18, TIMES, Roofs, roofs, utilisation
from .packing import pack, pack_bias, pack_data, pack_weight, packed, unpack, unpacked
from .run import build, build_config, lower, simulate, verify
from .tilings import MAX_SIMULATIONS, Best, Cost, best_tiling, cost, fits, legal_tilings, program
from .top import Tiling
from .workloads import Convolution, Dense, Layer
