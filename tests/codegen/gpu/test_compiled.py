"""Printed kernels become PTX and SASS as good as nvcc's, without a GPU or a driver."""

from __future__ import annotations

import re
from functools import cache
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numba
import pytest

import minitvm as tvm
from minitvm.base import BuildError
from minitvm.runtime import GpuFunction, gpu_code

from .programs import PROGRAMS, Program, large, ragged

INSTALL = "pip install 'minitvm[cuda]'"
TOOLS = all(map(gpu_code.tool_path, ("ptxas", "nvdisasm")))
compiles = pytest.mark.skipif(find_spec("numba_cuda") is None or not TOOLS, reason=INSTALL)


def built(program: Program, target: str = "cuda -sim") -> GpuFunction:
    f = tvm.build(program.schedule, program.args, target=target)
    assert isinstance(f, GpuFunction)
    return f


@cache
def product(size: int, double: bool) -> GpuFunction:
    """A matrix product in tiles of 128 x 128, in steps of 8."""
    return built(large(size, double=double, turned="layout"), "cuda")


@compiles
@pytest.mark.parametrize(
    ("size", "double", "share"),
    [
        (1024, False, 0.87),
        pytest.param(1024, True, 0.87, marks=pytest.mark.exhaustive),
        pytest.param(1000, False, 0.85, marks=pytest.mark.exhaustive),
    ],
)
def test_most_instructions_of_a_product_multiply(size: int, double: bool, share: float) -> None:
    (kernel,) = product(size, double).resources()
    assert (kernel.threads, kernel.spilled, kernel.stack) == (256, 0, 0)
    assert kernel.registers <= 128
    assert kernel.multiply_adds >= share
    assert kernel.instructions > 512  # 8 steps of 64 products are the body of one loop
    assert kernel.blocks == 2
    assert ".f64" not in product(size, double).source("ptx")


@compiles
@pytest.mark.exhaustive
def test_a_product_moves_16_bytes_at_a_time_and_loads_early() -> None:
    sass = product(1024, True).source("sass")
    codes = re.findall(r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)", sass, re.M)
    assert {"LDS.128", "LDG.E.128", "STS.128", "STG.E.128"} <= set(codes)
    loop = codes[codes.index("FFMA") :]
    last_load = max(n for n, c in enumerate(loop) if c.startswith("LDG"))
    first_store = min(n for n, c in enumerate(loop) if c.startswith("STS"))
    assert loop[last_load:first_store].count("FFMA") >= 200  # they hide the latency


@compiles
@pytest.mark.exhaustive
def test_late_copies_of_a_large_product_pass_by_the_registers() -> None:
    codes = built(large(1024, late=True, double=True)).source("sass")
    assert (
        len(re.findall(r"LDGSTS\.E\.\w+\.128 ", codes)) == 4
    )  # both tiles, before the loop and in it
    assert "LDG." not in codes
    assert not re.search(r"\bSTS\b", codes)


@compiles
def test_late_copies_pass_by_the_registers() -> None:
    ragged_edges = built(PROGRAMS["late copies, ragged"]()).source("sass")
    assert "LDGSTS.E " in ragged_edges
    assert "LDG." not in ragged_edges


@compiles
@pytest.mark.parametrize(
    "name",
    ["tiled, ragged", "everything, padded", "two kernels", "warp memory", "softmax", "fused"],
)
def test_float32_kernels_compute_nothing_in_float64(name: str) -> None:
    f = built(PROGRAMS[name]())
    ptx = f.source("ptx")
    assert ".f64" not in ptx
    assert ptx.count(".visible .entry") == ptx.count("// main_kernel") == len(f.resources())
    for number, kernel in enumerate(f.resources()):
        assert kernel.name == "main_kernel" + (f"_{number}" if number else "")
        assert kernel.spilled == 0
        assert 0 < kernel.blocks <= 32
    assert f.source("sass").count("EXIT") >= len(f.resources())


@compiles
def test_code_is_made_for_the_architecture_of_the_target() -> None:
    f = built(ragged(), "cuda -arch=sm_80")
    assert ".target sm_80" in f.source("ptx")
    assert "sm_80" in f.source("sass")
    assert ".target sm_90" in built(ragged(), "cuda").source("ptx")


@compiles
def test_an_architecture_that_the_compiler_does_not_know() -> None:
    with pytest.raises(BuildError, match="PTX of main"):
        built(ragged(), "cuda -arch=sm_10").source("ptx")


@compiles
@pytest.mark.parametrize("tool", ["ptxas", "nvdisasm"])
def test_without_a_tool_the_message_says_how_to_install_it(
    tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = gpu_code.tool_path
    monkeypatch.setattr(gpu_code, "tool_path", lambda name: None if name == tool else known(name))
    with pytest.raises(BuildError, match=f"{tool} of NVIDIA's CUDA toolkit is not inst") as error:
        built(ragged()).resources()
    assert INSTALL in str(error.value)


@compiles
def test_what_ptxas_says_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    f = built(ragged())
    monkeypatch.setattr(f, "_ptx", ["nonsense"])
    with pytest.raises(BuildError, match=r"(?s)ptxas fails: .*[Ff]atal"):
        f.source("sass")


def test_without_numba_cuda_the_message_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    built_in = SimpleNamespace(implementation="Built-in")
    monkeypatch.setattr(numba, "cuda", built_in, raising=False)
    f = built(ragged())
    for compiled in (lambda: f.source("ptx"), lambda: f.source("sass"), f.resources):
        with pytest.raises(BuildError) as error:
            compiled()
        assert str(error.value) == (
            f"PTX of main: the package numba-cuda is not installed\n  try: {INSTALL}"
        )


def test_launch_bounds_leave_registers_for_local_arrays() -> None:
    def bounds(**options: Any) -> tuple[int, int]:
        f = built(large(256, **options))
        (kernel,) = gpu_code.printed_kernels(f.func, f.source("cuda"))
        return kernel.bounds

    assert bounds(turned="layout") == (256, 2)
    assert bounds(turned="layout", double=True) == (256, 2)


def test_each_kernel_takes_the_memory_allocated_before_it() -> None:
    f = built(PROGRAMS["two kernels"]())
    kernels = gpu_code.printed_kernels(f.func, f.source("cuda"))
    assert [k.name for k in kernels] == ["main_kernel", "main_kernel_1"]
    assert [[p.name for p in k.params] for k in kernels] == [["A", "C", "B"]] * 2
