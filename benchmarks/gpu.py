"""Read the quality of GPU kernels from their machine code for sm_90; no GPU is needed.

    python benchmarks/gpu.py [--quick] [--json FILE] [case ...]

Cases with a tile are matrix products of 1024 x 1024, or of 1000 x 1000, under one schedule; those
that begin with "topi" are operators under topi's default schedules. The columns:
multiply-adds %, the share of fused multiply-adds, or of products on tensor cores, in the
instructions of the main loop, which bounds the share of peak that the kernel can reach; the same
for this kernel in CUDA C (gpu_sgemm.cu) through nvcc, where nvcc and a C compiler are installed;
registers of a thread and bytes that it spills; bytes of shared memory of a block; blocks that a
multiprocessor holds at a time, and the share of its warps that they are; float64 operations in the
PTX, of which there should be none; seconds to lower the schedule, to compile it to PTX, and to
machine code. The first case to compile also loads numba. `threads` are those of a block.

--quick    the first three cases
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

from _common import Row, arguments, report

flags = arguments(__doc__)

sys.path.insert(0, str(Path(__file__).parent.parent))
import minitvm as tvm
from minitvm import te, topi
from minitvm.base import BuildError
from minitvm.runtime import GpuFunction, gpu_code, gpu_resources
from tests.codegen.gpu import programs

TARGET = tvm.Target("cuda -arch=sm_90")
SOURCE = Path(__file__).parent / "gpu_sgemm.cu"
NVCC = "nvcc"


def operator(
    make: Callable[..., te.Tensor], *shapes: Sequence[int], dtype: str = "float32"
) -> Callable[[], programs.Program]:
    """Return what makes a program of an operator, under topi's default schedule."""

    def program() -> programs.Program:
        args = [te.placeholder(n, dtype, name=x) for n, x in zip(shapes, "ABC", strict=False)]
        with TARGET:
            out = make(*args)
        return programs.Program(topi.schedule(out, TARGET), [*args, out], make)

    return program


def conv2d(x: te.Tensor, w: te.Tensor) -> te.Tensor:
    """A layer of ResNet-18."""
    return topi.conv2d(x, w, padding=1)


def half(a: te.Tensor, b: te.Tensor) -> te.Tensor:
    """A product of float16 with sums in float32."""
    return topi.matmul(a, b, out_dtype="float32")


def large(n: int, **options: int) -> Callable[[], programs.Program]:
    """Return what makes a product in tiles of 128x128x8, with the tile of A transposed."""
    return lambda: programs.large(n, turned="layout", **options)


SQUARE = (1024, 1024)
CASES: dict[str, Callable[[], programs.Program]] = {
    "one result a thread": lambda: programs.tiled(1024),
    "32x32x8": lambda: programs.in_registers(1024, wide=4, turned="layout"),
    "128x128x8": large(1024),
    "128x128x8, double buffer": large(1024, double=True),
    "128x256x8": large(1024, ratio=2),
    "128x128x8, late copies": lambda: programs.large(1024, double=True, late=True),
    "1000, 128x128x8": large(1000),
    "1000, 128x128x8, double buffer": large(1000, double=True),
    "topi matmul": operator(topi.matmul, SQUARE, SQUARE),
    "topi matmul, 1000": operator(topi.matmul, (1000, 1000), (1000, 1000)),
    "topi matmul, float16": operator(half, SQUARE, SQUARE, dtype="float16"),
    "topi conv2d": operator(conv2d, (1, 64, 56, 56), (64, 64, 3, 3)),
    "topi softmax": operator(topi.nn.softmax, SQUARE),
    "topi sum of rows": operator(lambda a: topi.sum(a, axis=1), SQUARE),
}
IN_CUDA_C = {"128x128x8": 1024}  # case -> SIZE


def compiled(case: str) -> Row:
    """Compile the kernel of a case and return its row."""
    times = [time.perf_counter()]
    program = CASES[case]()
    f = tvm.build(program.schedule, program.args, target=TARGET)
    assert isinstance(f, GpuFunction)
    times.append(time.perf_counter())
    ptx = f.source("ptx")
    times.append(time.perf_counter())
    (kernel,) = f.resources()
    times.append(time.perf_counter())
    columns = {
        **({NVCC: share} if (share := with_nvcc(IN_CUDA_C.get(case, 0))) else {}),
        "registers": kernel.registers,
        "spilled": kernel.spilled,
        "shared": kernel.shared,
        "blocks": kernel.blocks,
        "warps %": 100 * kernel.occupancy,
        "f64": ptx.count(".f64"),
        "lower s": times[1] - times[0],
        "PTX s": times[2] - times[1],
        "SASS s": times[3] - times[2],
    }
    return Row(case, kernel.threads, "multiply-adds %", 100 * kernel.multiply_adds, columns)


@cache
def with_nvcc(size: int) -> float:
    """Return the share of multiply-adds that nvcc makes of the kernel in CUDA C; 0 without nvcc."""
    nvcc, nvdisasm = gpu_code.tool_path(NVCC), gpu_code.tool_path("nvdisasm")
    if not size or nvcc is None or nvdisasm is None or shutil.which("g++") is None:
        return 0
    with tempfile.TemporaryDirectory() as folder:
        code = Path(folder) / "sgemm.cubin"
        options = "-cubin", "-arch=sm_90", f"-DSIZE={size}", "-o", str(code), str(SOURCE)
        made = subprocess.run([nvcc, *options], capture_output=True, text=True, check=False)
        if made.returncode:
            print(f"nvcc is left out: {made.stderr.strip()}")
            return 0
        sass = subprocess.run([nvdisasm, "-c", str(code)], capture_output=True, check=True)
    return 100 * gpu_resources.main_loop(sass.stdout.decode())[0]


def main() -> None:
    """Print a row for each case, or how to install what is missing."""
    cases = flags.cases or list(CASES)[: 3 if flags.quick else None]
    try:
        rows = [compiled(case) for case in cases]
    except BuildError as e:
        print(e)
        return
    report(rows, flags.json, (), ours="ours")


main()
