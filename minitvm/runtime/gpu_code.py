"""Compile printed kernels to PTX and to machine code. Neither a GPU nor a driver is needed.

numba-cuda compiles the source to PTX, and ptxas, which comes with NVIDIA's nvcc, compiles PTX to
machine code; nvdisasm prints this as SASS. numba ships no types, hence the type `Any` in this file.
"""

from __future__ import annotations

import contextlib
import linecache
import math
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from minitvm import schedule, simt, tir
from minitvm.base import BuildError, importing

INSTALL = "pip install 'minitvm[cuda]'"
DEFAULT_ARCH = "sm_90"  # Hopper, such as H100 and H200
KERNEL = re.compile(r"^@cuda\.jit\ndef (\w+)\(", re.M)  # a kernel in printed source
FIXED_REGISTERS = 40  # of a thread, for addresses and counters: an estimate
SM_REGISTERS = 1 << 16
MIN_LIMIT = 64  # registers that launch bounds leave to a thread at least
SECONDS = 300  # time limit of ptxas and nvdisasm, which take about a second
_patching = threading.Lock()


@dataclass(frozen=True, slots=True)
class PrintedKernel:
    """A kernel of printed source: its name, launch, parameters and local memory.

    local   the 4-byte words of a thread's own arrays, most of which become registers
    """

    name: str
    launch: simt.Launch
    params: tuple[tir.Buffer | tir.Var, ...]
    local: int

    @property
    def bounds(self) -> tuple[int, int]:
        """The launch bounds: threads of a block, and how many blocks a multiprocessor should hold.

        ptxas keeps to as many registers as the second number leaves to a thread. It is chosen such
        that the thread's own arrays and FIXED_REGISTERS fit.
        """
        threads = self.launch.warps * schedule.WARP
        limit = max(MIN_LIMIT, self.local + FIXED_REGISTERS)
        return self.launch.threads, max(1, SM_REGISTERS // (threads * limit))


@dataclass(frozen=True, slots=True)
class CompiledKernel:
    """A kernel's machine code: SASS, and what ptxas reports about it with -v."""

    kernel: PrintedKernel
    log: str
    sass: str


def printed_kernels(f: tir.PrimFunc, source: str) -> list[PrintedKernel]:
    """Return the kernels of a program, which has been printed as `source`, in order."""
    params: tuple[tir.Buffer | tir.Var, ...] = (*f.params, *f.packed, *f.sizes)
    kernels, names = list[PrintedKernel](), iter(KERNEL.findall(source))
    for root in simt.roots(f.body):
        if isinstance(root, tir.Allocate) and root.buffer.scope == "global":
            params = (*params, root.buffer)  # later kernels take it, too
            continue
        launch = simt.launch_of(root, dict.fromkeys(tir.variables(root), 1))
        kernels.append(PrintedKernel(next(names), launch, params, _local_words(root)))
    return kernels


def _local_words(kernel: tir.Stmt) -> int:
    """Return the size of a thread's own arrays in words of 4 bytes, the size of a register."""
    arrays = {s.buffer: None for s in tir.every(kernel) if isinstance(s, tir.Allocate)}
    words = 0
    for b in (
        b for b in arrays if b.scope == simt.SCOPE or schedule.scope_kind(b.scope) == "local"
    ):
        size = simt.local_elements(b)
        words += math.ceil(size * b.dtype.bytes / 4) if isinstance(size, int) else 0
    return words


def numba_cuda(what: str) -> Any:
    """Return the module numba.cuda of numba-cuda; raise BuildError about `what` if there is none.

    If numba's simulator is on, the one of numba itself will do.
    """
    with importing("numba.cuda", what, INSTALL, BuildError):
        from numba import cuda
    module = cast("Any", cuda)
    if not simulated() and getattr(module, "implementation", "") != "NVIDIA":
        raise BuildError(what, "the package numba-cuda is not installed", INSTALL)
    return module


def simulated() -> bool:
    """Return whether numba.cuda is numba's simulator: NUMBA_ENABLE_CUDASIM=1 was set."""
    from numba import config

    return bool(cast("Any", config).ENABLE_CUDASIM)


def loaded(source: str, name: str) -> dict[str, Any]:
    """Run printed source, as a module of its own; return its names.

    numba reads the lines of the functions that it compiles; they are registered under a file name
    that no other source has.
    """
    file = f"<minitvm {name} {hash(source) & 0xFFFFFFFF:08x}>"
    linecache.cache[file] = len(source), None, source.splitlines(keepends=True), file
    scope: dict[str, Any] = {}
    exec(compile(source, file, "exec"), scope)
    return scope


def to_ptx(kernels: Sequence[PrintedKernel], source: str, name: str, arch: str = "") -> list[str]:
    """Compile each kernel of printed source to PTX for an architecture such as "sm_90"."""
    what = f"PTX of {name}"
    cuda = numba_cuda(what)
    if simulated():
        why = "numba's simulator is on, which has no compiler"
        raise BuildError(what, why, "unset NUMBA_ENABLE_CUDASIM and start Python again")
    digits = (arch or DEFAULT_ARCH).removeprefix("sm_")
    capability = int(digits[:-1]), int(digits[-1])
    scope = loaded(source, name)
    try:
        with _pretended_device(capability):
            return [
                cuda.compile_ptx(
                    scope[k.name].py_func,
                    tuple(_numba_type(cuda.types, p) for p in k.params),
                    cc=capability,
                    launch_bounds=k.bounds,
                )[0]
                for k in kernels
            ]
    except Exception as e:  # raised by numba-cuda, and by libraries of NVIDIA that it loads
        raise BuildError(what, f"{type(e).__name__}: {str(e).strip()}", INSTALL) from e


def _numba_type(types: Any, p: tir.Buffer | tir.Var) -> Any:
    """Return the type of a parameter: a contiguous array in one dimension, or an int."""
    if isinstance(p, tir.Var):
        return types.int64
    dtype = {"bool": "bool_", "bfloat16": "float16"}.get(p.dtype, str(p.dtype))
    return types.Array(getattr(types, dtype), 1, "C")


@contextlib.contextmanager
def _pretended_device(capability: tuple[int, int]) -> Generator[None]:
    """Return a context in which numba-cuda compiles device functions for `capability`.

    It asks the current device for its capability, even where compile_ptx is told one, and fails
    without a driver.
    """
    from numba.cuda import dispatcher  # pyright: ignore

    module = cast("Any", dispatcher)
    with _patching:
        before = module.get_current_device
        module.get_current_device = lambda: SimpleNamespace(compute_capability=capability)
        try:
            yield
        finally:
            module.get_current_device = before


def to_sass(
    kernels: Sequence[PrintedKernel], ptx: Sequence[str], arch: str = ""
) -> list[CompiledKernel]:
    """Compile the PTX of each kernel to machine code and disassemble it."""
    compiled: list[CompiledKernel] = []
    with tempfile.TemporaryDirectory() as folder:
        text, code = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        for kernel, kernel_ptx in zip(kernels, ptx, strict=True):
            text.write_text(kernel_ptx, encoding="utf-8")
            options = "-v", f"-arch={arch or DEFAULT_ARCH}", str(text), "-o", str(code)
            log = _run_tool("ptxas", kernel.name, *options)
            sass = _run_tool("nvdisasm", kernel.name, "-c", str(code))
            compiled.append(CompiledKernel(kernel, log, sass))
    return compiled


def _run_tool(tool: str, kernel: str, *options: str) -> str:
    """Run a program of NVIDIA's toolkit and return what it prints."""
    what, path = f"SASS of {kernel}", tool_path(tool)
    if path is None:
        raise BuildError(what, f"{tool} of NVIDIA's CUDA toolkit is not installed", INSTALL)
    try:
        process = subprocess.run(
            [path, *options], capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as e:
        raise BuildError(what, f"{path}: {e}", INSTALL) from e
    if process.returncode:
        why = f"{path} fails: {(process.stderr or process.stdout).strip()}"
        raise BuildError(what, why, f"one release for ptxas and NVVM: {INSTALL}")
    return process.stderr + process.stdout  # ptxas -v reports on stderr


def tool_path(tool: str) -> str | None:
    """Return the path of ptxas or nvdisasm: of Python packages, else of a toolkit, else of PATH."""
    try:
        from cuda.pathfinder import find_nvidia_binary_utility  # pyright: ignore
    except ImportError:
        return shutil.which(tool)
    return cast("Any", find_nvidia_binary_utility)(tool) or shutil.which(tool)
