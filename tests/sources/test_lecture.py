"""The listings of the lecture "AI-Systems: Deep Learning Compilers", as printed and corrected."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te

# --- the matrix product ---------------------------------------------------------------------------

GEMM = """
A = t.placeholder((1024, 1024))
B = t.placeholder((1024, 1024))
k = t.reduce_axis((0, 1024))
C = t.compute((1024, 1024), lambda y, x:
              t.sum(A[k, y] * B[k, x], axis=k))
s = t.create_schedule(C.op)
"""
AXES = "y, x = C.op.axis\n"
TILE = "yo, xo, ko, yi, xi, ki = s[C].tile(y, x, k, 8, 8, 8)\n"
CACHE = """
CL = s.cache_write(C, vdla.acc_buffer)
AL = s.cache_read(A, vdla.inp_buffer)
"""
CACHE_CORRECTED = """
CL = s.cache_write(C, vdla.acc_buffer)
AL = s.cache_read(A, vdla.inp_buffer)
BL = s.cache_read(B, vdla.inp_buffer)
yo, xo, _, _ = s[C].tile(*s[C].op.axis, 8, 8)
s[CL].compute_at(s[C], xo)
(yi, xi), (k,) = s[CL].op.axis, s[CL].op.reduce_axis
ko, ki = s[CL].split(k, 8)
s[CL].reorder(ko, yi, xi, ki)
s[AL].compute_at(s[CL], ko)
s[BL].compute_at(s[CL], ko)
"""
TENSORIZE = "s[CL].tensorize(yi, vdla.gemm8x8)\n"
MEMORY = SimpleNamespace(acc_buffer="local", inp_buffer="local")


def small(listing: str) -> str:
    """The listing with 32 in place of 1024."""
    return listing.replace("1024", "32")


def lowered(names: dict[str, Any]) -> str:
    return str(tvm.lower(names["s"], [names["A"], names["B"], names["C"]]))


def check(names: dict[str, Any], numbers: Callable[..., np.ndarray]) -> None:
    """The schedule computes C[y, x] = sum over k of A[k, y] * B[k, x]."""
    a, b, c = numbers(32, 32), numbers(32, 32), np.full((32, 32), np.nan, "float32")
    tvm.build(names["s"], [names["A"], names["B"], names["C"]])(a, b, c)
    np.testing.assert_array_equal(c, a.T @ b)


@pytest.mark.parametrize(
    "steps",
    ["", AXES + TILE, CACHE_CORRECTED],
    ids=["default", "tiled", "cached"],
)
def test_the_product_becomes_the_loops_of_the_slide(
    steps: str,
    run: Callable[..., Any],
    golden: Callable[[str], None],
    numbers: Callable[..., np.ndarray],
) -> None:
    golden(lowered(run(GEMM + steps, vdla=MEMORY)))
    check(run(small(GEMM) + steps, vdla=MEMORY), numbers)


def test_the_axes_that_the_slide_tiles_have_no_names_yet(refusal: Callable[..., str]) -> None:
    assert refusal(GEMM + TILE) == "NameError: name 'y' is not defined"


def test_a_cache_of_the_result_is_asked_for_before_tiling(refusal: Callable[..., str]) -> None:
    assert refusal(GEMM + AXES + TILE + CACHE, vdla=MEMORY) == (
        "ScheduleError: cache_write of compute: its loops have been changed already, and they "
        "would be lost\n"
        "  try: call cache_write before split, fuse, reorder, vectorize, ..."
    )


def test_a_cache_of_an_input_is_read_by_all_its_readers(run: Callable[..., Any]) -> None:
    steps = run(GEMM + CACHE, vdla=MEMORY)["s"].python().splitlines()
    assert steps[-1].endswith("s.cache_read(placeholder, 'local', [compute_local])")


def test_after_a_cache_of_the_result_its_copy_has_no_k(refusal: Callable[..., str]) -> None:
    first = "CL = s.cache_write(C, vdla.acc_buffer)\n"
    assert "axis belongs to compute.local" in refusal(GEMM + first + AXES + TILE, vdla=MEMORY)


# --- its tensor instructions ----------------------------------------------------------------------

INTRINSIC = """
w, x = t.placeholder((8, 8)), t.placeholder((8, 8))
k = t.reduce_axis((0, 8))
y = t.compute((8, 8), lambda i, j:
              t.sum(w[i, k] * x[j, k], axis=k))

def gemm_intrinsic_lower(inputs, outputs):
    ww_ptr = inputs[0].access_ptr("r")
    xx_ptr = inputs[1].access_ptr("r")
    zz_ptr = outputs[0].access_ptr("w")
    compute = t.hardware_intrinsic("gemm8x8", ww_ptr, xx_ptr, zz_ptr)
    reset = t.hardware_intrinsic("fill_zero", zz_ptr)
    update = t.hardware_intrinsic("fuse_gemm8x8_add", ww_ptr, xx_ptr, zz_ptr)
    return compute, reset, update

gemm8x8 = t.decl_tensor_intrinsic(y.op, gemm_intrinsic_lower)
"""
TRANSPOSED = INTRINSIC.replace("w[i, k] * x[j, k]", "w[k, i] * x[k, j]").replace(
    '"fuse_gemm8x8_add", ww_ptr, xx_ptr, zz_ptr',
    '"fuse_gemm8x8_add", ww_ptr, xx_ptr, outputs[0].access_ptr("rw")',
)


@pytest.fixture
def accelerator(run: Callable[..., Any]) -> Callable[[str], Any]:
    """The names of the accelerator, with gemm8x8 declared by a listing; its instructions work."""

    def product(w: np.ndarray, x: np.ndarray) -> np.ndarray:
        return (w[:64].reshape(8, 8).T @ x[:64].reshape(8, 8)).ravel()

    def gemm8x8(w: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
        z[:64] = product(w, x)

    def fuse_gemm8x8_add(w: np.ndarray, x: np.ndarray, z: np.ndarray) -> None:
        z[:64] += product(w, x)

    def fill_zero(z: np.ndarray) -> None:
        z[:64] = 0

    for f in (gemm8x8, fuse_gemm8x8_add, fill_zero):
        tvm.register_func(f.__name__, f)
    return lambda listing: SimpleNamespace(**vars(MEMORY), gemm8x8=run(listing)["gemm8x8"])


def test_the_intrinsic_of_the_slide_multiplies_by_a_transposed_matrix(
    run: Callable[..., Any], accelerator: Any
) -> None:
    names = run(
        "A = t.placeholder((8, 8))\n"
        "B = t.placeholder((8, 8))\n"
        "k = t.reduce_axis((0, 8))\n"
        "C = t.compute((8, 8), lambda i, j: t.sum(A[i, k] * B[j, k], axis=k))\n"
        "s = t.create_schedule(C.op)\n"
        "s[C].tensorize(C.op.axis[0], vdla.gemm8x8)\n",
        vdla=accelerator(INTRINSIC),
    )
    assert lowered(names).splitlines()[1:] == [
        "  gemm8x8(access_ptr.r(placeholder[0]), access_ptr.r(placeholder_1[0]), "
        "access_ptr.w(compute[0]))"
    ]


def test_it_does_not_fit_the_product_of_the_slide(
    run: Callable[..., Any], accelerator: Any
) -> None:
    vdla = accelerator(INTRINSIC)
    with pytest.raises(tvm.LoweringError) as caught:
        lowered(run(GEMM + CACHE_CORRECTED + TENSORIZE, vdla=vdla))
    lines = str(caught.value).splitlines()
    assert lines[0].endswith("with tensor_intrin: the formulas differ")
    assert lines[3] == (
        "  they differ at placeholder_local[rv_outer*8 + rv, y_outer*8 + i] and placeholder[i, rv]"
    )


def test_a_tile_of_the_whole_matrix_is_not_as_the_intrinsic_declares(
    run: Callable[..., Any], accelerator: Any
) -> None:
    tensorize = TENSORIZE.replace("CL", "C")
    with pytest.raises(tvm.LoweringError) as caught:
        lowered(run(GEMM + AXES + TILE + tensorize, vdla=accelerator(TRANSPOSED)))
    assert "for has strides (1024, 1)" in str(caught.value)


def test_with_the_first_matrix_transposed_the_product_becomes_instructions(
    run: Callable[..., Any],
    accelerator: Any,
    golden: Callable[[str], None],
    numbers: Callable[..., np.ndarray],
) -> None:
    vdla = accelerator(TRANSPOSED)
    steps = CACHE_CORRECTED + TENSORIZE
    golden(lowered(run(GEMM + steps, vdla=vdla)))
    check(run(small(GEMM) + steps, vdla=vdla), numbers)


# --- the loops of the accelerator -----------------------------------------------------------------

# below the declarations of AL, BL and CL; [a:b][c:d] is written [a:b, c:d] as numpy wants it
LOOPS = """
for yo in range(128):
    for xo in range(128):
        vdla.fill_zero(CL)
        for ko in range(128):
            vdla.dma_copy2d(AL, A[ko*8:ko*8+8, yo*8:yo*8+8])
            vdla.dma_copy2d(BL, B[ko*8:ko*8+8, xo*8:xo*8+8])
            vdla.fused_gemm8x8_add(CL, AL, BL)
            vdla.dma_copy2d(C[yo*8:yo*8+8, xo*8:xo*8+8], CL)
"""
INSIDE = "            vdla.dma_copy2d(C"
OUTSIDE = "        vdla.dma_copy2d(C"


def copies_out(loops: str, run: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> int:
    """How often the loops copy a tile to C, for matrices of 4 x 4 tiles; the product is right."""
    c, tile, out = np.zeros_like(a), np.zeros((3, 8, 8), "float32"), []

    def dma_copy2d(to: np.ndarray, source: np.ndarray) -> None:
        to[:] = source
        out.extend([to] if to.base is c else [])

    def fused_gemm8x8_add(z: np.ndarray, w: np.ndarray, x: np.ndarray) -> None:
        z += w.T @ x

    vdla = SimpleNamespace(
        dma_copy2d=dma_copy2d,
        fused_gemm8x8_add=fused_gemm8x8_add,
        fill_zero=lambda z: z.fill(0),
    )
    al, bl, cl = tile
    run(loops.replace("128", "4"), vdla=vdla, A=a, B=b, C=c, AL=al, BL=bl, CL=cl)
    np.testing.assert_array_equal(c, a.T @ b)
    return len(out)


def test_the_loops_of_the_slide_copy_unfinished_sums_out(
    run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    assert copies_out(LOOPS, run, numbers(32, 32), numbers(32, 32)) == 4 * 4 * 4


def test_one_level_further_out_they_copy_each_tile_once(
    run: Callable[..., Any], numbers: Callable[..., np.ndarray]
) -> None:
    loops = LOOPS.replace(INSIDE, OUTSIDE)
    assert copies_out(loops, run, numbers(32, 32), numbers(32, 32)) == 4 * 4


# --- symbolic sizes and the convolution -----------------------------------------------------------

SYMBOLIC = """
m, n, h = tvm.var('m'), tvm.var('n'), tvm.var('h')
A = tvm.placeholder((m, h), name='A')
B = tvm.placeholder((n, h), name='B')

k = tvm.reduce_axis(0, h), name='k')
C = tvm.compute((m, n), lambda i, j: tvm.sum(A[i, k] * B[j, k], axis=k))
"""
CONVOLUTION = """
out = tvm.compute((c, h, w),
    lambda i, x, y: tvm.sum(data[kc, x+kx, y+ky] * w[i, kx, ky], [kx, ky, kc]))
"""
SIZES = """
c, h, w, channels = 4, 6, 5, 3
data = tvm.placeholder((channels, h + 2, w + 2), name='data')
weight = tvm.placeholder((c, channels, 3, 3), name='weight')
kc = tvm.reduce_axis((0, channels), name='kc')
kx, ky = tvm.reduce_axis((0, 3), name='kx'), tvm.reduce_axis((0, 3), name='ky')
"""


def test_the_symbolic_product_lacks_a_bracket(refusal: Callable[..., str]) -> None:
    assert refusal(SYMBOLIC, tvm=tvm).startswith("SyntaxError: unmatched ')'")


def test_with_it_sizes_are_arguments_of_the_loops(
    run: Callable[..., Any], golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    names = run(SYMBOLIC.replace("(0, h)", "((0, h)"), tvm=tvm)
    A, B, C = (names[name] for name in "ABC")
    s = te.create_schedule(C.op)
    golden(str(tvm.lower(s, [A, B, C])))
    f = tvm.build(s, [A, B, C])
    for m, n, h in ((3, 5, 7), (8, 1, 4)):
        a, b, c = numbers(m, h), numbers(n, h), np.full((m, n), np.nan, "float32")
        f(a, b, c)
        np.testing.assert_array_equal(c, a @ b.T)


def test_the_convolution_names_what_is_not_declared(refusal: Callable[..., str]) -> None:
    assert refusal(CONVOLUTION, tvm=tvm) == "NameError: name 'c' is not defined"


def test_its_w_is_a_width_and_cannot_be_the_weights(refusal: Callable[..., str]) -> None:
    assert refusal(SIZES + CONVOLUTION, tvm=tvm) == "TypeError: 'int' object is not subscriptable"


def test_its_weights_have_an_input_channel_too(refusal: Callable[..., str]) -> None:
    listing = CONVOLUTION.replace("w[i, kx, ky]", "weight[i, kx, ky]")
    assert refusal(SIZES + listing, tvm=tvm).startswith(
        "ExprError: weight[i, kx, ky]: weight has 4 dimension(s), 3 index(es) given"
    )


def test_with_both_corrected_it_is_a_convolution(
    run: Callable[..., Any], golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    names = run(SIZES + CONVOLUTION.replace("w[i, kx, ky]", "weight[i, kc, kx, ky]"), tvm=tvm)
    args = [names[name] for name in ("data", "weight", "out")]
    s = te.create_schedule(args[2].op)
    golden(str(tvm.lower(s, args)))
    data, weight, out = numbers(3, 8, 7), numbers(4, 3, 3, 3), np.empty((4, 6, 5), "float32")
    tvm.build(s, args)(data, weight, out)
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), axis=(1, 2))
    np.testing.assert_array_equal(out, np.einsum("cxyuv,icuv->ixy", windows, weight))
