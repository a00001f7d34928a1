"""Products on tensor cores: their values in the simulator, their faults, and their machine code."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import simt, te, tir, topi
from minitvm.base import BuildError
from minitvm.runtime import GpuFunction, gpu_code
from minitvm.simt import tensor_core

from .test_programs import SIMULATED, without

TOOLS = all(map(gpu_code.tool_path, ("ptxas", "nvdisasm")))
compiles = pytest.mark.skipif(
    find_spec("numba_cuda") is None or not TOOLS, reason="pip install 'minitvm[cuda]'"
)


def product(m: int, n: int, k: int, target: Any = SIMULATED, dtype: str = "float16") -> GpuFunction:
    A, B = te.placeholder((m, k), dtype, "A"), te.placeholder((k, n), dtype, "B")
    C = topi.matmul(A, B, out_dtype="float32")
    f = tvm.build(topi.schedule(C, target), [A, B, C], target=target)
    assert isinstance(f, GpuFunction)
    return f


def arrays(m: int, n: int, k: int) -> list[np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-8, 9, s).astype(np.float16) for s in ((m, k), (k, n)))
    return [a, b, np.full((m, n), np.nan, np.float32)]


@pytest.mark.parametrize("sizes", [(64, 64, 32), (64, 128, 96), (128, 128, 64)])
def test_a_product_of_whole_tiles_is_exact(sizes: tuple[int, int, int]) -> None:
    f, (a, b, c) = product(*sizes), arrays(*sizes)
    report = f.check(a, b, c)
    assert report.ok, report
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert "mma_f16(" in f.source("cuda")
    loads = [x for x in report.kernels[0].accesses if x.access.startswith("mma.load")]
    assert [x.wavefronts_per_request for x in loads] == [4, 2]  # no bank conflicts


def test_a_product_of_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    f, (a, b, c) = product(64, 64, 64, dtype="bfloat16"), arrays(64, 64, 64)
    a, b = (x.astype(ml_dtypes.bfloat16) for x in (a * 0.37, b * 1.9))
    f(a, b, c)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    np.testing.assert_allclose(c, expected, rtol=1e-5, atol=1e-3)
    assert "mma_bf16(" in f.source("cuda")
    assert "bfloat16" not in f.source("cuda")  # numpy has no such type


def test_only_tensor_cores_compute_in_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    with pytest.raises(BuildError, match="only tensor cores compute in bfloat16"):
        product(65, 64, 64, dtype="bfloat16")


@pytest.mark.parametrize("sizes", [(65, 64, 32), (33, 40, 20)])
def test_other_products_of_float16_run_on_ordinary_cores(sizes: tuple[int, int, int]) -> None:
    f, (a, b, c) = product(*sizes), arrays(*sizes)
    f(a, b, c)
    np.testing.assert_array_equal(c, a.astype(np.float32) @ b.astype(np.float32))
    assert "mma" not in f.source("cuda")
    assert "mma" not in product(64, 64, 32, "cuda -sim -arch=sm_75").source("cuda")


@pytest.mark.parametrize("name", "abc")
def test_each_element_of_a_tile_is_in_one_register(name: str) -> None:
    f = simt.FRAGMENTS[name]
    places = {(int(i), int(j)) for i, j in zip(f.rows.flat, f.columns.flat, strict=True)}
    assert places == {(i, j) for i in range(f.shape[0]) for j in range(f.shape[1])}
    assert f.rows.size == len(places)


def test_ldmatrix_loads_what_mma_expects() -> None:
    stride = 40
    a, b = simt.FRAGMENTS["a"], simt.FRAGMENTS["b"]
    rows = tensor_core.A_ROW * stride + tensor_core.A_COLUMN
    loaded = tensor_core.ldmatrix(rows[None], transposed=False)
    np.testing.assert_array_equal(loaded[0], a.rows * stride + a.columns)
    rows = tensor_core.B_ROW[:16] * stride
    loaded = tensor_core.ldmatrix(rows[None], transposed=True)
    np.testing.assert_array_equal(loaded[0], b.rows * stride + b.columns)


@pytest.mark.parametrize(("call", "kind"), [("sync", "race"), ("async_wait", "arrives")])
def test_every_barrier_and_every_wait_is_needed(call: str, kind: str) -> None:
    f, arguments = product(64, 64, 96).func, arrays(64, 64, 96)
    for number in range(2):
        report = simt.run(without(f, number, call), arguments)
        assert report.races if kind == "race" else report.faults, number
        if kind == "arrives":
            assert report.faults[0].kind == "read before it arrives"
            assert report.faults[0].access.startswith("mma.load_")


def test_all_lanes_of_a_warp_take_part() -> None:
    f = product(64, 64, 32).func
    tx = tir.Var("tx", 0, 31)

    def guarded(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Evaluate(tir.Call(simt.SYNC)):
                return tir.For(tx, 32, tir.If(tir.compare("<", tx, 31), s), "bind", "threadIdx.x")
            case _:
                return s

    body = tir.rewrite(f.body, guarded)
    report = simt.run(tir.PrimFunc(f.name, f.params, body, f.outputs), arrays(64, 64, 32))
    assert report.faults[0].kind == "shuffle from an inactive lane"
    assert "execute it together, but some are not active" in str(report.faults[0])


@compiles
def test_machine_code_of_a_product_of_bfloat16() -> None:
    pytest.importorskip("ml_dtypes")
    sass = product(64, 64, 64, "cuda", "bfloat16").source("sass")
    assert "HMMA.16816.F32.BF16" in sass


@compiles
def test_machine_code_uses_tensor_cores_ldmatrix_and_late_copies() -> None:
    f = product(1024, 1024, 1024, "cuda")
    (kernel,) = f.resources()
    assert (kernel.threads, kernel.spilled, kernel.stack) == (256, 0, 0)
    assert kernel.registers <= 128
    assert kernel.multiply_adds >= 0.25
    sass = f.source("sass")
    for code in (
        r"HMMA\.16816\.F32 ",
        r"LDSM\.16\.M88\.4",
        r"LDSM\.16\.MT88\.2",
        r"LDGSTS\.E\.\w+\.128",
    ):
        assert re.search(code, sass), code
    assert not re.search(r"\b(STS|LDG|LDL|STL)\b", sass)
