"""Print kernels as Python for numba.cuda: short source from which NVVM makes good code.

Rules that decide the quality of the code (measured on SASS for sm_90):
- ld(A, i) and st(A, i, v) access shared and global memory. A signed index on [] costs a test for
  negative values that keeps NVVM from joining loads; local arrays, which become registers, use [].
- cp16 copies 16 bytes at once; cp_async16 does not wait for them (copies.py).
- Loops of known length are not written out: NVVM unrolls them, and numba's own passes are slow on
  long sources. An unrolled loop that contains loops calls a device function once per iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, simt, tir
from minitvm.base import BuildError, DType

from ..common import clean, parameters
from ..numba import HELPERS as NUMBA_HELPERS
from ..python import ATOM, INTRINSICS, TAB
from .copies import ACCESSES, WARP, type_name
from .kernels import is_hardware, is_kernel, is_power, shared_elements
from .tensor_cores import LANE, STORE_TILE, TensorPrinter, has_instructions, in_registers

SHORT = {tag: tag[0] + tag[-1] for tag in (*schedule.BLOCKS, *schedule.THREADS)}  # tx, by, ...
IN_MATH = {  # intrinsics of the module math, which numba.cuda compiles
    *("exp", "exp2", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "atan", "asin", "acos"),
    *("log1p", "atan2", "hypot", "copysign", "sinh", "cosh", "tanh", "erf", "floor", "ceil"),
    *("trunc", "fmod", "isnan", "isfinite", "isinf"),
}
SAME_TYPE = {"isnan", "isfinite", "isinf"}  # their results need no conversion
HELPERS = {
    **{
        word: f"\n@cuda.jit(device=True){code}".replace("np.isnan", "math.isnan")
        for word, code in NUMBA_HELPERS.items()
    },
    "store_tile": STORE_TILE,
    "maximum": '''
@cuda.jit(device=True)
def maximum(a, b):
    """The larger one of a and b; NaN if either is."""
    return a if a > b or a != a else b
''',
    "minimum": '''
@cuda.jit(device=True)
def minimum(a, b):
    """The smaller one of a and b; NaN if either is."""
    return a if a < b or a != a else b
''',
}
HEAD = """\
import math

import numpy as np
from numba import cuda
"""


def emit_cuda(f: tir.PrimFunc) -> str:
    """Return Python source: the kernels for numba.cuda, and a function that launches them.

    The function has the parameters of emit_python(): flat device arrays, ints, symbolic sizes.
    Needs the passes of codegen.cuda. Raises BuildError for what numba.cuda cannot express.
    """
    name, params = clean(f.name), parameters(f)
    parts, host, steps = list[str](), list[str](), 0
    for root in simt.roots(f.body):
        printer = CudaPrinter(name, steps)
        for p in params:
            printer.name(p)
        if isinstance(root, tir.Allocate) and root.buffer.scope == "global":
            size, dtype = printer.expr(tir.elements(root.buffer)), type_name(root.buffer.dtype)
            params = (*params, root.buffer)
            host.append(f"{TAB}{printer.name(root.buffer)} = cuda.device_array({size}, {dtype})")
        elif is_kernel(root):
            kernel = f"{name}_kernel" + (f"_{len(parts)}" if parts else "")
            parts.append(printer.kernel(kernel, params, root))
            steps += len(printer.devices)
            arguments = ", ".join(map(printer.name, params))
            grid, block, condition = _launch(printer, root)
            host += [f"{TAB}if {condition}:"] if condition else []
            tab = TAB * (2 if condition else 1)
            host.append(f"{tab}{kernel}[{grid}, {block}]({arguments})")
    signature = ", ".join(CudaPrinter(name).name(p) for p in parameters(f))
    launch = "\n".join([f"def {name}({signature}):", *(host or [f"{TAB}pass"])])
    text = "\n\n\n".join(parts)
    helpers = "".join(f"\n{code}" for word, code in HELPERS.items() if f"{word}(" in text)
    used = ", ".join(name for name in ACCESSES if f"{name}(" in helpers + text)
    imports = f"\nfrom minitvm.runtime.gpu_access import {used}\n" if used else ""
    return f"{HEAD}{imports}{helpers}\n\n{text}\n\n\n{launch}\n"


def _launch(printer: CudaPrinter, kernel: tir.Stmt) -> tuple[str, str, str]:
    """Return the grid, the block, and a condition: no GPU launches a grid without blocks.

    For example: ("(8, 8)", "(16, 16)", ""), or with a symbolic size ("n", "32", "n > 0").
    """
    extents: dict[str, tir.Index] = {}
    for s in tir.every(kernel):
        if isinstance(s, tir.For) and is_hardware(s):
            extents[s.thread] = s.extent
    sizes: list[str] = []
    for tags in (schedule.BLOCKS, schedule.THREADS):
        used = [printer.expr(extents.get(tag, 1)) for tag in tags]
        while len(used) > 1 and used[-1] == "1":
            used.pop()
        sizes.append(used[0] if len(used) == 1 else f"({', '.join(used)})")
    symbolic = (n for n in extents.values() if not isinstance(n, int))
    grid, block = sizes
    return grid, block, " and ".join(f"{printer.expr(n)} > 0" for n in symbolic)


class CudaPrinter(TensorPrinter):
    """A printer of one kernel. Loops over hardware threads are variables: tx, ty, bx, ...

    steps   the number of device functions of the kernels before
    """

    def __init__(self, function: str, steps: int = 0) -> None:
        super().__init__()
        self.steps = steps
        self.used |= {*SHORT.values(), WARP, LANE, *ACCESSES, "cuda", function}
        self.devices: list[str] = []
        self.warps = 1

    def kernel(self, name: str, params: tuple[tir.Buffer | tir.Var, ...], body: tir.Stmt) -> str:
        """Return the source of a kernel, after the device functions that it calls."""
        launch = simt.launch_of(body, dict.fromkeys(tir.variables(body), 1))
        self.warps = launch.warps
        lines = [f"def {name}({', '.join(map(self.name, params))}):"]
        statements = list(tir.every(body))
        for tag, short in SHORT.items():
            loops = [s for s in statements if isinstance(s, tir.For) and s.thread == tag]
            for s in loops:
                self.names[id(s.var)] = short
            if loops:
                lines.append(f"{TAB}{short} = cuda.{tag}")
        shared = {s.buffer: None for s in statements if isinstance(s, tir.Allocate)}
        for b in (b for b in shared if not in_registers(b)):
            elements, copies = tir.elements(b), self.warps if b.scope == WARP else 1
            assert isinstance(elements, int)  # check_launch refuses other sizes
            size = shared_elements(b, elements * copies)
            lines.append(f"{TAB}{self.name(b)} = cuda.shared.array({size}, {type_name(b.dtype)})")
        if any(b.scope == WARP for b in shared):
            x, y = launch.block[:2]
            lines.append(f"{TAB}{WARP} = {self._thread_number(x, y)} // {schedule.WARP}")
        if has_instructions(body):
            x, y = launch.block[:2]
            lines.append(f"{TAB}{LANE} = {self._thread_number(x, y)} & {schedule.WARP - 1}")
        lines += self.lines(body, 1)
        return "\n\n\n".join([*self.devices, "\n".join(["@cuda.jit", *lines])])

    @staticmethod
    def _thread_number(x: int, y: int) -> str:
        """Return the number of a thread in its block of x times y times z threads."""
        return f"(cuda.threadIdx.x + {x} * (cuda.threadIdx.y + {y} * cuda.threadIdx.z))"

    # expressions

    def element(self, buffer: tir.Buffer, indices: tuple[tir.Index, ...]) -> str:
        i = self.offset(buffer, indices)
        if schedule.scope_kind(buffer.scope) == "local":
            return f"{self.name(buffer)}[{i}]"
        return f"ld({self.name(buffer)}, {i})"

    def expr(self, e: tir.Index, tight: int = 0) -> str:
        match e:  # shifts need no correction for negative numbers
            case tir.FloorDiv(a, int(b)) if is_power(b) and tir.lower_bound(a) >= 0:
                return f"({self.expr(a, 6)} >> {b.bit_length() - 1})"
            case tir.FloorMod(a, int(b)) if is_power(b) and tir.lower_bound(a) >= 0:
                return f"({self.expr(a, 6)} & {b - 1})"
            case _:
                return super().expr(e, tight)

    def _typed(self, e: tir.Expr) -> tuple[str, int]:
        """Print an expression; return its text and how strongly it binds."""
        match e:
            case tir.Call(name, (value, operand)) if name in simt.SHUFFLES:
                lanes = f"0xffffffff, {self.expr(value)}, {self.number(operand)}"
                return f"cuda.{_shuffle(name)}({lanes})", ATOM
            case tir.Binary("min" | "max" as op, a, b) if e.dtype.is_float:
                return f"{op}imum({self.expr(a)}, {self.expr(b)})", ATOM
            case _:
                return super()._typed(e)

    def _side(self, e: tir.Index, other: tir.Index, tight: int) -> str:
        return self.expr(e, tight)  # a literal without a type would be a float64

    def _call(self, name: str, args: tuple[tir.Expr, ...], dtype: DType) -> str:
        if name in IN_MATH:
            call = f"math.{name}({', '.join(map(self.expr, args))})"
            return call if name in SAME_TYPE else f"np.{dtype}({call})"
        if "np." in INTRINSICS.get(name, "") and name not in ("rsqrt", "sigmoid"):
            why = "numba.cuda has no such function"
            raise BuildError(f"{name}(...)", why, f"one of {', '.join(sorted(IN_MATH))}")
        return (
            super()
            ._call(name, args, dtype)
            .replace("np.exp", "math.exp")
            .replace("np.sqrt", "math.sqrt")
        )

    def _bare(self, e: tir.Const, tight: int = -1) -> str:
        return super()._bare(e, tight).replace("np.inf", "math.inf").replace("np.nan", "math.nan")

    def _stored(self, value: tir.Expr) -> str:
        return self._literal(value) if isinstance(value, tir.Const) else super()._stored(value)

    # statements

    def _statement(self, s: tir.Stmt, depth: int) -> Iterator[str]:
        tab = TAB * depth
        match s:
            case tir.For() if is_hardware(s):
                yield from self.lines(s.body, depth)
            case tir.For(kind="vectorize"):
                yield from self.vector(s, depth)
            case tir.For(kind="unroll") if _contains_loops(s.body):
                yield from self._calls(s, depth)
            case tir.Allocate(b):
                if in_registers(b):
                    size = self.expr(simt.local_elements(b))
                    yield f"{tab}{self.name(b)} = cuda.local.array({size}, {type_name(b.dtype)})"
            case tir.Store(b, indices, value) if schedule.scope_kind(b.scope) != "local":
                late = self.late_copy(s) if self.asynchronous else None
                stored = f"st({self.name(b)}, {self.offset(b, indices)}, {self._stored(value)})"
                yield f"{tab}{late or stored}"
            case tir.Pragma(simt.ASYNC, _, body):
                self.asynchronous = True
                yield from self.lines(body, depth)
                self.asynchronous = False
            case tir.Evaluate(tir.Call(name) as call) if name in simt.INSTRUCTIONS:
                yield from self.instruction(call, depth)
            case tir.Evaluate(tir.Call(simt.ASYNC_WAIT)):
                yield f"{tab}cp_async_wait()"
            case tir.Evaluate(tir.Call(name)) if name in (simt.BARRIER, simt.WARP_BARRIER):
                yield f"{tab}cuda.{name}()"
            case _:
                yield from super()._statement(s, depth)

    def _calls(self, s: tir.For, depth: int) -> Iterator[str]:
        """Print an unrolled loop as calls of a device function, one for each iteration."""
        statements = list(tir.every(s.body))
        counters = {x.var for x in statements if isinstance(x, tir.For) and not is_hardware(x)}
        allocated = (x.buffer for x in statements if isinstance(x, tir.Allocate))
        private = {b for b in allocated if in_registers(b)}
        names: dict[str, None] = {}
        for n in tir.walk(s.body):
            if isinstance(n, tir.Var) and n not in counters and n is not s.var:
                names[self.name(n)] = None
            buffer = n.buffer if isinstance(n, tir.Load | tir.Store) else None
            if buffer is not None and buffer not in private:
                names[self.name(buffer)] = None
                if buffer.scope == WARP:
                    names[WARP] = None
        if has_instructions(s.body):
            names[LANE] = None
        index = len(self.devices)
        step = f"step{self.steps + index}"
        self.devices.append("")
        head = f"@cuda.jit(device=True)\ndef {step}({', '.join([self.name(s.var), *names])}):"
        self.devices[index] = "\n".join([head, *self.lines(s.body, 1)])
        assert isinstance(s.extent, int)
        for n in range(s.extent):
            yield f"{TAB * depth}{step}({', '.join([str(n), *names])})"


def _contains_loops(s: tir.Stmt) -> bool:
    return any(isinstance(x, tir.For) and not is_hardware(x) for x in tir.every(s))


def _shuffle(name: str) -> str:
    return {"shfl_idx": "shfl_sync"}.get(name, f"{name}_sync")
