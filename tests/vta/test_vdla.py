"""The accelerator of the slides: their names, their listing, and a product that runs on it."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.vta import vdla

LISTING = """
for y_outer in range(128):
  for x_outer in range(128):
    CL = allocate((8, 8), "int32", "local.acc_buffer")
    vdla.fill_zero(CL)
    for k_outer in range(128):
      AL = allocate((8, 8), "int8", "local.inp_buffer")
      vdla.dma_copy2d(AL, A[y_outer*8:y_outer*8+8][k_outer*8:k_outer*8+8])
      BL = allocate((8, 8), "int8", "local.wgt_buffer")
      vdla.dma_copy2d(BL, B[x_outer*8:x_outer*8+8][k_outer*8:k_outer*8+8])
      vdla.fused_gemm8x8_add(CL, AL, BL)
    vdla.dma_copy2d(C[y_outer*8:y_outer*8+8][x_outer*8:x_outer*8+8], CL)
"""


def scheduled(
    tensors: list[te.Tensor], rest: tuple[te.Tensor, ...], axes: tuple[Any, Any]
) -> tuple[te.Schedule, list[te.Tensor]]:
    """The schedule of the slide, once C has loops over tiles and k, inside a tile, is split."""
    (AL, BL, CL), C, (ko, ki) = rest, tensors[2], axes
    s = te.create_schedule(C.op)
    if len(C.shape) == 2:
        _, tile, inner, _ = s[C].tile(*s[C].op.axis, 8, 8)
        ko, ki = s[CL].split(ko, 8)
    else:
        _, tile, inner, _ = s[C].op.axis
    s[CL].compute_at(s[C], tile)
    s[CL].reorder(ko, *s[CL].op.axis, ki)
    s[CL].tensorize(s[CL].op.axis[-2], vdla.gemm8x8)
    s[CL].set_scope(vdla.acc_buffer)
    for t, scope in ((AL, vdla.inp_buffer), (BL, vdla.wgt_buffer)):
        s[t].set_scope(scope)
        s[t].compute_at(s[CL], ko)
        s[t].pragma(s[t].op.axis[0], vdla.dma_copy)
    s[C].pragma(inner, vdla.dma_copy)
    return s, tensors


def plain(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """C[y, x] = sum of A[y, k] * B[x, k]"""
    A, B = (te.placeholder((n, n), name=name, dtype="int8") for name in "AB")
    AL, BL = te.compute(A.shape, A, name="AL"), te.compute(B.shape, B, name="BL")
    k = te.reduce_axis((0, n), name="k")
    CL = te.compute(
        A.shape,
        lambda y, x: te.sum(AL[y, k].astype("int32") * BL[x, k].astype("int32"), axis=k),
        name="CL",
    )
    C = te.compute(A.shape, lambda y, x: CL[y, x].astype("int8"), name="C")
    return scheduled([A, B, C], (AL, BL, CL), (k, None))


def packed(n: int) -> tuple[te.Schedule, list[te.Tensor]]:
    """The same of tiles, each in one piece: A[y / 8, k / 8, 8, 8], ..."""
    shape = (n // 8, n // 8, 8, 8)
    A, B = (te.placeholder(shape, name=name, dtype="int8") for name in "AB")
    AL, BL = te.compute(shape, A, name="AL"), te.compute(shape, B, name="BL")
    ko, ki = te.reduce_axis((0, n // 8), name="ko"), te.reduce_axis((0, 8), name="ki")
    CL = te.compute(
        shape,
        lambda yo, xo, yi, xi: te.sum(
            AL[yo, ko, yi, ki].astype("int32") * BL[xo, ko, xi, ki].astype("int32"),
            axis=[ko, ki],
        ),
        name="CL",
    )
    C = te.compute(shape, lambda *i: CL(*i).astype("int8"), name="C")
    return scheduled([A, B, C], (AL, BL, CL), (ko, ki))


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(-128, 128, shape).astype("int8")


def test_the_loops_of_the_slide_come_out_line_by_line() -> None:
    with vdla.environment:
        text = str(tvm.lower(*plain(1024), target="vta", until="inject_dma_intrin"))
    assert "\n".join(["", *(line[2:] for line in text.splitlines()[1:]), ""]) == LISTING


def test_tiles_of_a_matrix_are_no_elements_of_the_machine() -> None:
    s, args = plain(32)
    with vdla.environment, pytest.raises(tvm.BuildError) as caught:
        tvm.build(s, args, target="vta")
    assert str(caught.value).startswith(
        "ld.dma_copy2d between AL and A: the 64 numbers of an element are not contiguous in "
        "main memory: a dimension has 8 of them, 32 apart"
    )


def test_tiles_of_8_by_8_on_a_machine_of_16_by_16_are_said_to_be() -> None:
    with pytest.raises(tvm.BuildError) as caught:
        tvm.build(*packed(32), target="vta")
    assert str(caught.value) == (
        "ex.fill_zero on 8 x 8 numbers of CL: the elements of ACC on vta_pynq are 1 x 16\n"
        "  try: env.gemm, the intrinsic of this machine; or lower and build for the machine of the "
        "intrinsic, such as inside `with vdla.environment:`"
    )


def test_a_packed_product_is_that_of_numpy() -> None:
    s, args = packed(32)
    with vdla.environment:
        f = tvm.build(s, args, target="vta")
    a, b, c = numbers(4, 4, 8, 8), numbers(4, 4, 8, 8), np.zeros((4, 4, 8, 8), "int8")
    f(a, b, c)
    rows = [t.transpose(0, 2, 1, 3).reshape(32, 32) for t in (a, b, c)]
    expected = rows[0].astype("int32") @ rows[1].astype("int32").T
    np.testing.assert_array_equal(rows[2], expected.astype("int8"))


def test_its_instructions_in_numpy_do_the_same() -> None:
    a, b, z, c = numbers(8, 8), numbers(8, 8), np.ones((8, 8), "int32"), np.zeros((8, 8), "int8")
    vdla.fill_zero(z)
    vdla.fused_gemm8x8_add(z, a, b)
    vdla.dma_copy2d(c, z)
    np.testing.assert_array_equal(c, (a.astype("int32") @ b.astype("int32").T).astype("int8"))


def test_it_is_the_machine_of_8_by_8() -> None:
    assert vdla.environment.config == vta.vdla8x8
