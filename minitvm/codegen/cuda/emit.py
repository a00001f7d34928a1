"""Print kernels as Python for numba.cuda: short source from which NVVM makes good code.

Rules that decide the quality of the code (measured on SASS for sm_90):
- ld(A, i) and st(A, i, v) access shared and global memory. A signed index on [] costs a test for
  negative values that keeps NVVM from joining loads; local arrays, which become registers, use [].
- cp4 copies four elements at once, in 16 bytes.
- Loops of known length are not written out: NVVM unrolls them, and numba's own passes are slow on
  long sources. An unrolled loop that contains loops calls a device function once per iteration.
"""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, simt, tir
from minitvm.base import BOOL, BuildError, DType

from ..common import clean, flat, parameters
from ..numba import NumbaPrinter
from ..python import ATOM, INTRINSICS, TAB
from .kernels import is_hardware, is_kernel, shared_elements

SHORT = {tag: tag[0] + tag[-1] for tag in (*schedule.BLOCKS, *schedule.THREADS)}  # tx, by, ...
WARP = "warp"
WIDE = 4  # elements that cp4 copies
IN_MATH = {  # intrinsics of the module math, which numba.cuda compiles
    *("exp", "exp2", "log", "log2", "log10", "sqrt", "sin", "cos", "tan", "atan", "asin", "acos"),
    *("log1p", "atan2", "hypot", "copysign", "sinh", "cosh", "tanh", "erf", "floor", "ceil"),
    *("trunc", "fmod", "isnan", "isfinite", "isinf"),
}
SAME_TYPE = {"isnan", "isfinite", "isinf"}  # their results need no conversion
HELPERS = {
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

from minitvm.runtime.gpu_access import cp4, ld, st
"""


def emit_cuda(f: tir.PrimFunc) -> str:
    """Return Python source: the kernels for numba.cuda, and a function that launches them.

    The function has the parameters of emit_python(): flat device arrays, ints, symbolic sizes.
    Needs the passes of codegen.cuda. Raises BuildError for what numba.cuda cannot express.
    """
    name, params = clean(f.name), parameters(f)
    parts, host = list[str](), list[str]()
    for root in simt.roots(f.body):
        printer = CudaPrinter(name)
        for p in params:
            printer.name(p)
        if isinstance(root, tir.Allocate) and root.buffer.scope == "global":
            size, dtype = printer.expr(tir.elements(root.buffer)), _type(root.buffer.dtype)
            params = (*params, root.buffer)
            host.append(f"{TAB}{printer.name(root.buffer)} = cuda.device_array({size}, {dtype})")
        elif is_kernel(root):
            kernel = f"{name}_kernel" + (f"_{len(parts)}" if parts else "")
            parts.append(printer.kernel(kernel, params, root))
            arguments = ", ".join(map(printer.name, params))
            grid, block, condition = _launch(printer, root)
            host += [f"{TAB}if {condition}:"] if condition else []
            tab = TAB * (2 if condition else 1)
            host.append(f"{tab}{kernel}[{grid}, {block}]({arguments})")
    signature = ", ".join(CudaPrinter(name).name(p) for p in parameters(f))
    launch = "\n".join([f"def {name}({signature}):", *(host or [f"{TAB}pass"])])
    text = "\n\n\n".join(parts)
    helpers = "".join(f"\n{code}" for word, code in HELPERS.items() if f"{word}(" in text)
    return f"{HEAD}{helpers}\n\n{text}\n\n\n{launch}\n"


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


def _type(dtype: DType) -> str:
    return f"np.{'bool_' if dtype is BOOL else dtype}"


class CudaPrinter(NumbaPrinter):
    """A printer of one kernel. Loops over hardware threads are variables: tx, ty, bx, ..."""

    def __init__(self, function: str) -> None:
        super().__init__(())
        self.used |= {*SHORT.values(), WARP, "ld", "st", "cp4", "cuda", function}
        self.devices: list[str] = []
        self.warps = 1
        self.vectors = 0

    def kernel(self, name: str, params: tuple[tir.Buffer | tir.Var, ...], body: tir.Stmt) -> str:
        """Return the source of a kernel, after the device functions that it calls."""
        launch = simt.launch_of(body, dict.fromkeys(tir.variables(body), 1))
        self.warps = launch.warps
        lines = [f"def {name}({', '.join(map(self.name, params))}):"]
        inside = list(tir.every(body))
        for tag, short in SHORT.items():
            loops = [s for s in inside if isinstance(s, tir.For) and s.thread == tag]
            for s in loops:
                self.names[id(s.var)] = short
            if loops:
                lines.append(f"{TAB}{short} = cuda.{tag}")
        shared = {s.buffer: None for s in inside if isinstance(s, tir.Allocate)}
        for b in (b for b in shared if b.scope.partition(".")[0] != "local"):
            elements, copies = tir.elements(b), self.warps if b.scope == WARP else 1
            assert isinstance(elements, int)  # check_launch refuses other sizes
            size = shared_elements(b, elements * copies)
            lines.append(f"{TAB}{self.name(b)} = cuda.shared.array({size}, {_type(b.dtype)})")
        if any(b.scope == WARP for b in shared):
            x, y = launch.block[:2]
            lines.append(f"{TAB}{WARP} = {self._thread_number(x, y)} // {schedule.WARP}")
        lines += self.lines(body, 1)
        return "\n\n\n".join([*self.devices, "\n".join(["@cuda.jit", *lines])])

    @staticmethod
    def _thread_number(x: int, y: int) -> str:
        """Return the number of a thread in its block of x times y times z threads."""
        return f"(cuda.threadIdx.x + {x} * (cuda.threadIdx.y + {y} * cuda.threadIdx.z))"

    # expressions

    def offset(self, b: tir.Buffer, indices: tuple[tir.Index, ...]) -> str:
        """Print the offset of an element; each warp has a part of the memory of scope "warp"."""
        i = self.expr(flat(b, indices))
        return f"{WARP} * {self.expr(tir.elements(b), 7)} + {i}" if b.scope == WARP else i

    def element(self, buffer: tir.Buffer, indices: tuple[tir.Index, ...]) -> str:
        i = self.offset(buffer, indices)
        if buffer.scope.partition(".")[0] == "local":
            return f"{self.name(buffer)}[{i}]"
        return f"ld({self.name(buffer)}, {i})"

    def expr(self, e: tir.Index, tight: int = 0) -> str:
        match e:  # shifts need no correction for negative numbers
            case tir.FloorDiv(a, int(b)) if _is_power(b) and tir.lower_bound(a) >= 0:
                return f"({self.expr(a, 6)} >> {b.bit_length() - 1})"
            case tir.FloorMod(a, int(b)) if _is_power(b) and tir.lower_bound(a) >= 0:
                return f"({self.expr(a, 6)} & {b - 1})"
            case _:
                return super().expr(e, tight)

    def _typed(self, e: tir.Expr) -> tuple[str, int]:
        match e:
            case tir.Call(name, (value, operand)) if name in simt.SHUFFLES:
                lanes = f"0xffffffff, {self.expr(value)}, {self._lane(operand)}"
                return f"cuda.{_shuffle(name)}({lanes})", ATOM
            case tir.Binary("min" | "max" as op, a, b) if e.dtype.is_float:
                return f"{op}imum({self.expr(a)}, {self.expr(b)})", ATOM
            case _:
                return super()._typed(e)

    def _lane(self, operand: tir.Expr) -> str:
        return repr(operand.value) if isinstance(operand, tir.Const) else self.expr(operand)

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
                yield from self._vector(s, depth)
            case tir.For(kind="unroll") if _contains_loops(s.body):
                yield from self._calls(s, depth)
            case tir.Allocate(b):
                if b.scope.partition(".")[0] == "local":
                    size = self.expr(tir.elements(b))
                    yield f"{tab}{self.name(b)} = cuda.local.array({size}, {_type(b.dtype)})"
            case tir.Store(b, indices, value) if b.scope.partition(".")[0] != "local":
                yield f"{tab}st({self.name(b)}, {self.offset(b, indices)}, {self._stored(value)})"
            case tir.Evaluate(tir.Call(name)) if name in (simt.BARRIER, simt.WARP_BARRIER):
                yield f"{tab}cuda.{name}()"
            case _:
                yield from super()._statement(s, depth)

    def _vector(self, s: tir.For, depth: int) -> Iterator[str]:
        """Print a vectorized loop: for v: A[i + v] = B[j + v]  ->  cp4(A, i, B, j)."""
        if isinstance(s.body, tir.Seq):
            for part in s.body.body:
                yield from self._vector(tir.For(s.var, s.extent, part, s.kind), depth)
            return
        if s.extent == WIDE and isinstance(s.body, tir.Store):
            value, condition = s.body.value, None
            match value:
                case tir.IfThenElse(cond, tir.Load() as load, tir.Const(0)):
                    value, condition = load, _condition_of_all(cond, s.var)
                case _:
                    pass
            if isinstance(value, tir.Load) and (value is s.body.value or condition is not None):
                lines = self._wide_copy(s, s.body, value, condition, depth)
                if lines is not None:
                    yield from lines
                    return
        yield from self._statement(tir.For(s.var, s.extent, s.body), depth)

    def _wide_copy(
        self,
        s: tir.For,
        store: tir.Store,
        source: tir.Load,
        condition: tir.Expr | None,
        depth: int,
    ) -> list[str] | None:
        """Print a copy of four elements, of zeros if `condition` fails; None if it is not wide.

        The elements are in registers, in an array `wide0`, on their way to scattered places.
        """
        tab, to, start = TAB * depth, self._adjacent(s, store), self._adjacent(s, source)
        names = self.name(store.buffer), self.name(source.buffer)
        if start is None or (to is None and source.buffer.scope != "global"):
            return None
        if to is not None and condition is None:
            return [f"{tab}cp4({names[0]}, {to}, {names[1]}, {start})"]
        wide, v = f"wide{self.vectors}", self.name(s.var)
        self.vectors += 1
        lines = [f"{tab}{wide} = cuda.local.array({WIDE}, {_type(source.dtype)})"]
        if condition is not None:
            lines += [
                f"{tab}for {v} in range({WIDE}):",
                f"{tab}{TAB}{wide}[{v}] = {self._literal(tir.Const(0, source.dtype))}",
                f"{tab}if {self.expr(condition)}:",
            ]
        inner = tab + TAB * (condition is not None)
        lines.append(f"{inner}cp4({wide}, 0, {names[1]}, {start})")
        if to is not None:
            return [*lines, f"{tab}cp4({names[0]}, {to}, {wide}, 0)"]
        place = self.offset(store.buffer, store.indices)
        return [
            *lines,
            f"{tab}for {v} in range({WIDE}):",
            f"{tab}{TAB}st({names[0]}, {place}, {wide}[{v}])",
        ]

    def _adjacent(self, s: tir.For, access: tir.Store | tir.Load) -> str | None:
        """Print where the elements of a vectorized access begin; None if they are not adjacent."""
        b, i = access.buffer, flat(access.buffer, access.indices)
        linear = tir.coefficient(i, s.var)
        if b.scope == WARP or b.dtype.bytes != 4 or linear is None:
            return None
        stride, start = linear
        aligned = all(c % WIDE == 0 for _, c in tir.split_terms(start)[0])
        aligned = aligned and tir.split_terms(start)[1] % WIDE == 0
        return self.expr(start) if tir.prove_equal(stride, 1) and aligned else None

    def _calls(self, s: tir.For, depth: int) -> Iterator[str]:
        """Print an unrolled loop as calls of a device function, one for each iteration."""
        inside = list(tir.every(s.body))
        counters = {x.var for x in inside if isinstance(x, tir.For) and not is_hardware(x)}
        own = {x.buffer for x in inside if isinstance(x, tir.Allocate)}
        names: dict[str, None] = {}
        for n in tir.walk(s.body):
            if isinstance(n, tir.Var) and n not in counters and n is not s.var:
                names[self.name(n)] = None
            buffer = n.buffer if isinstance(n, tir.Load | tir.Store) else None
            if buffer is not None and buffer not in own:
                names[self.name(buffer)] = None
                if buffer.scope == WARP:
                    names[WARP] = None
        step, place = f"step{len(self.devices)}", len(self.devices)
        self.devices.append("")
        head = f"@cuda.jit(device=True)\ndef {step}({', '.join([self.name(s.var), *names])}):"
        self.devices[place] = "\n".join([head, *self.lines(s.body, 1)])
        assert isinstance(s.extent, int)
        for n in range(s.extent):
            yield f"{TAB * depth}{step}({', '.join([str(n), *names])})"


def _condition_of_all(cond: tir.Expr, v: tir.Var) -> tir.Expr | None:
    """Return a condition equal to `cond` for v = 0 .. WIDE - 1, if there is one; otherwise None.

    All four elements, or none, are inside an array whose edge is a multiple of four.
    """
    parts: list[tir.Expr] = []
    for part in lowering.conjuncts(cond):
        if not tir.free_of(part, (v,)):
            match part:
                case tir.Compare("<", a, b):
                    terms, const = tir.split_terms(tir.sub(tir.sub(b, a), tir.mul(v, -1)))
                case _:
                    return None
            if const % WIDE or any(c % WIDE or atom is v for atom, c in terms):
                return None
        parts.append(tir.substitute(part, {v: 0}))
    return tir.all_of(*parts)


def _is_power(n: int) -> bool:
    """Return whether `n` is a power of two."""
    return n & (n - 1) == 0


def _contains_loops(s: tir.Stmt) -> bool:
    return any(isinstance(x, tir.For) and not is_hardware(x) for x in tir.every(s))


def _shuffle(name: str) -> str:
    return {"shfl_idx": "shfl_sync"}.get(name, f"{name}_sync")
