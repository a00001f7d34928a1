"""Figure 1 of the paper "Learning to Optimize Tensor Programs" (AutoTVM), printed and corrected."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te

EXPRESSION = """
A = t.placeholder((1024, 1024))
B = t.placeholder((1024, 1024))
k = t.reduce_axis((0, 1024)
C = t.compute((1024, 1024),
    lambda y, x:
    t.sum(A[k, y] * B[k, x], axis=k))
"""
S1 = """
yo, xo, yi, xi = s[C].title(y, x, ty, tx)
s[C].reorder(yo, xo, k, yi, xi)
"""
S2 = """
yo,xo,ko,yi,xi,ki = s[C].title(y,x,k,8,8,8)
s[C].tensorize(yi, intrin.gemm8x8)
"""
CLOSED = EXPRESSION.replace("(0, 1024)", "(0, 1024))")
BETWEEN = "s = t.create_schedule(C.op)\ny, x = C.op.axis\n"


def tile(listing: str) -> str:
    return listing.replace("title", "tile")


def gemm8x8() -> te.TensorIntrin:
    """z[i, j] = sum of w[k, i] * x[k, j], as instructions that take pointers and row strides."""
    w, x = te.placeholder((8, 8), name="w"), te.placeholder((8, 8), name="x")
    k = te.reduce_axis((0, 8), name="k")
    z = te.compute((8, 8), lambda i, j: te.sum(w[k, i] * x[k, j], axis=k), name="z")
    binds = {
        b: tvm.tir.decl_buffer((8, 8), name=b.name, strides=[te.var(f"s{b.name}"), 1])
        for b in (w, x, z)
    }

    def instructions(ins: Any, outs: Any) -> Any:
        (out,) = outs
        read = [part for b in ins for part in (b.access_ptr("r"), b.strides[0])]
        into, row = out.access_ptr("w"), out.strides[0]
        return (
            te.hardware_intrinsic("gemm8x8", *read, into, row),
            te.hardware_intrinsic("fill_zero", into, row),
            te.hardware_intrinsic("gemm8x8_add", *read, out.access_ptr("rw"), row),
        )

    return te.decl_tensor_intrin(z.op, instructions, binds, name="gemm8x8")


def tile_at(row: np.ndarray, stride: int) -> np.ndarray:
    """The 8 x 8 elements that begin at a row of memory, `stride` from one line to the next."""
    bytes_ = row.strides[0]
    return np.lib.stride_tricks.as_strided(row, (8, 8), (stride * bytes_, bytes_))


@pytest.fixture
def intrin() -> SimpleNamespace:
    """The name that the figure uses, its instructions working."""

    def fill_zero(z: np.ndarray, sz: int) -> None:
        tile_at(z, sz)[:] = 0

    def gemm8x8_add(w: np.ndarray, sw: int, x: np.ndarray, sx: int, z: np.ndarray, sz: int) -> None:
        tile_at(z, sz)[:] += tile_at(w, sw).T @ tile_at(x, sx)

    tvm.register_func("fill_zero", fill_zero)
    tvm.register_func("gemm8x8_add", gemm8x8_add)
    return SimpleNamespace(gemm8x8=gemm8x8())


def args(names: dict[str, Any]) -> list[te.Tensor]:
    return [names["A"], names["B"], names["C"]]


def check(names: dict[str, Any], numbers: Callable[..., np.ndarray]) -> None:
    a, b, c = numbers(32, 32), numbers(32, 32), np.full((32, 32), np.nan, "float32")
    tvm.build(names["s"], args(names))(a, b, c)
    np.testing.assert_array_equal(c, a.T @ b)


def test_the_expression_lacks_a_bracket(refusal: Callable[..., str]) -> None:
    assert refusal(EXPRESSION).startswith("SyntaxError: ")


def test_the_default_code(
    run: Callable[..., Any], golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    names = run(CLOSED + BETWEEN)
    golden(str(tvm.lower(names["s"], args(names))))
    check(run((CLOSED + BETWEEN).replace("1024", "32")), numbers)


@pytest.mark.parametrize("steps", [S1, S2], ids=["loop tiling", "micro kernel"])
def test_a_stage_is_tiled_and_has_no_title(steps: str, refusal: Callable[..., str]) -> None:
    assert refusal(CLOSED + BETWEEN + steps, ty=8, tx=16) == (
        "NameMissingError: s[compute] has no 'title'\n  try: s[compute].tile"
    )


def test_loop_tiling_for_given_tile_sizes(
    run: Callable[..., Any], golden: Callable[[str], None], numbers: Callable[..., np.ndarray]
) -> None:
    names = run(CLOSED + BETWEEN + tile(S1), ty=8, tx=16)
    golden(str(tvm.lower(names["s"], args(names))))
    check(run((CLOSED + BETWEEN + tile(S1)).replace("1024", "32"), ty=8, tx=16), numbers)


def test_a_number_of_tiles_is_a_whole_number(refusal: Callable[..., str]) -> None:
    assert refusal("for yo in range(1024 / ty): pass", ty=8) == (
        "TypeError: 'float' object cannot be interpreted as an integer"
    )


def test_the_micro_kernel_takes_tiles_where_they_lie(
    run: Callable[..., Any],
    intrin: SimpleNamespace,
    golden: Callable[[str], None],
    numbers: Callable[..., np.ndarray],
) -> None:
    names = run(CLOSED + BETWEEN + tile(S2), intrin=intrin)
    golden(str(tvm.lower(names["s"], args(names))))
    check(run((CLOSED + BETWEEN + tile(S2)).replace("1024", "32"), intrin=intrin), numbers)
