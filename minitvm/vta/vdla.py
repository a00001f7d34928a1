"""The accelerator of the TVM slides, with the names of the slides, such as vdla.gemm8x8.

    CL = s.cache_write(C, vdla.acc_buffer)
    AL, BL = s.cache_read(A, vdla.inp_buffer, [CL]), s.cache_read(B, vdla.wgt_buffer, [CL])
    ...
    s[CL].tensorize(yi, vdla.gemm8x8)
    with vdla.environment: f = tvm.build(s, [A, B, C], target="vta")

fill_zero, dma_copy2d and fused_gemm8x8_add are numpy functions that do what the instructions do.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from minitvm import accel

from .environment import Environment
from .intrin import gemm

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]

environment = Environment(accel.vdla8x8)
inp_buffer, wgt_buffer, acc_buffer = "vdla.inp_buffer", "vdla.wgt_buffer", "vdla.acc_buffer"
dma_copy, alu = environment.dma_copy, environment.alu
# z[i, j] = sum of w[i, k] * x[j, k] over k, for tiles of 8 x 8
gemm8x8 = gemm(
    accel.vdla8x8, name="gemm8x8", update="vdla.fused_gemm8x8_add", reset="vdla.fill_zero"
)


def fill_zero(z: Array) -> None:
    """Set all numbers of the array z to 0."""
    z.fill(0)


def dma_copy2d(to: Array, source: Array) -> None:
    """Copy `source` to the array `to`; numbers too large for its dtype keep their low bits."""
    to[...] = source.astype(to.dtype)


def fused_gemm8x8_add(z: Array, w: Array, x: Array) -> None:
    """Compute z += w @ x.T in the dtype of z, with arithmetic that wraps around."""
    z += w.astype(z.dtype) @ x.astype(z.dtype).T
