"""Print loops as Python that numba compiles: the code of target "python" with machine types.

numba computes integers in 64 bits and float32 * 2.0 in float64. So float constants name their type,
and an integer is truncated to its type, as in np.int8(...), wherever more than its lowest bits
matter. numba does not define int64 overflow; wrap_add(a, b) wraps explicitly.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeGuard

from minitvm import tir
from minitvm.base import BFLOAT16, BOOL, FLOAT16, INT64, UINT64, BuildError, DType

from ..common import parameters
from ..python import (
    ATOM,
    CHOICE,
    CLZ_HELPER,
    DOT4_HELPER,
    SIGNS,
    TAB,
    PythonPrinter,
    imports,
    numpy_type,
)

GROWING = ("add", "sub", "mul")
# the lowest bits of the result depend only on the lowest bits of the operands
MODULAR = (*GROWING, "bitand", "bitor", "bitxor")
LARGEST = 2**63 - 1
UNSIGNED = {"truncdiv": "floordiv", "truncmod": "floormod"}  # equal for non-negative operands
ONE = "{dtype}(1)"
TYPED = {  # intrinsics that need to know their type
    "abs": "abs({})",
    "rsqrt": f"({ONE} / np.sqrt({{}}))",
    "sigmoid": f"({ONE} / ({ONE} + np.exp(-({{}}))))",
}

HELPERS = {
    **dict.fromkeys(tir.DOT4, DOT4_HELPER),
    "clz": CLZ_HELPER,
    "wrap_add": '''
def wrap_add(a, b):
    """The lowest 64 bits of a + b."""
    return np.int64(np.uint64(a) + np.uint64(b))
''',
    "wrap_sub": '''
def wrap_sub(a, b):
    """The lowest 64 bits of a - b."""
    return np.int64(np.uint64(a) - np.uint64(b))
''',
    "wrap_mul": '''
def wrap_mul(a, b):
    """The lowest 64 bits of a * b."""
    return np.int64(np.uint64(a) * np.uint64(b))
''',
    "truncdiv": '''
def truncdiv(a, b):
    """a / b rounded to zero."""
    return -a if b == -1 else a // b + int(a % b != 0 and (a < 0) != (b < 0))
''',
    "truncmod": '''
def truncmod(a, b):
    """What is left of a after truncdiv(a, b): it has the sign of a."""
    rest = a % b if b != -1 else a - a
    return rest - b if rest != 0 and (a < 0) != (b < 0) else rest
''',
    "floordiv": '''
def floordiv(a, b):
    """a // b; the quotient -2**63 // -1 wraps, where a CPU would stop the program."""
    return -a if b == -1 else a // b
''',
    "floormod": '''
def floormod(a, b):
    """a % b; a CPU would stop the program at -2**63 % -1."""
    return a - a if b == -1 else a % b
''',
    "shl": '''
def shl(a, n, bits):
    """a << n; all of the bits are gone after as many places."""
    return a << n if 0 <= n < bits else a - a
''',
    "shr": '''
def shr(a, n, bits):
    """a >> n; 0 or, of a negative a, -1 is left after as many places as there are bits."""
    return a >> n if 0 <= n < bits else a >> (bits - 1) >> 1
''',
    "to_integer": '''
def to_integer(x, low, high):
    """The float x without its fraction, at least low, at most high; 0 for NaN."""
    if np.isnan(x):
        return 0
    if x <= low:
        return low
    return high if x >= high else int(x)
''',
    "to_uint64": '''
def to_uint64(x):
    """The same for uint64, whose upper half no int64 holds."""
    if np.isnan(x) or x <= 0:
        return np.uint64(0)
    return np.uint64(18446744073709551615) if x >= 2.0**64 else np.uint64(x)
''',
}


def emit_numba(f: tir.PrimFunc, *, parallel: bool = True) -> str:
    """Return Python source that defines `name(params...)` for numba, where name is clean(f.name).

    Parameters are as in emit_python(). With `parallel`, the outermost parallel loops run on
    numba's threads; otherwise they are plain loops.

    Needs flat buffers (pass `flatten`) and scalar loops. Raises BuildError for vectors,
    float16 and bfloat16.
    """
    typed = (n for n in tir.walk(f.body) if isinstance(n, tir.Load | tir.Const | tir.Cast))
    dtype = next((n.dtype for n in typed if n.dtype in (FLOAT16, BFLOAT16)), None)
    if dtype is not None:
        why = f"numba does not support {dtype} on CPUs"
        raise BuildError(f"{f.name} with {dtype}", why, 'target="llvm" or "python"')
    loops = tuple(_outermost(f.body)) if parallel else ()
    head, text = NumbaPrinter(loops).function(f)
    helpers = "".join(
        f'\n\n@numba.njit(error_model="numpy"){code}'
        for name, code in HELPERS.items()
        if f"{name}(" in text
    )
    head = f"{_decorator(f, bool(loops))}\n{head}"
    return f"{imports(text)}import numba\nimport numpy as np\n{helpers}\n\n{head}\n{text}\n"


def _decorator(f: tir.PrimFunc, parallel: bool) -> str:
    """Return the decorator that gives numba the parameter types and its options."""
    kinds = ", ".join(_kind(p) for p in parameters(f))
    lines = [
        f'    "void({kinds})",',
        '    error_model="numpy",  # 1.0 / 0.0 is inf and 1 // 0 is 0: nothing is raised',
        "    nogil=True,  # other Python threads run meanwhile",
    ]
    if parallel:
        lines.append("    parallel=True,  # the iterations of a numba.prange are shared by threads")
    return "\n".join(["@numba.njit(", *lines, ")"])


def _kind(p: tir.Buffer | tir.Var) -> str:
    """Return numba's name of a parameter's type, such as "float32[::1]": a contiguous array."""
    if isinstance(p, tir.Var):
        return "int64"
    return f"{'boolean' if p.dtype is BOOL else p.dtype}[::1]"


def _outermost(s: tir.Stmt) -> Iterator[tir.For]:
    """Yield the parallel loops that are not inside another parallel loop."""
    if isinstance(s, tir.For) and s.kind == "parallel":
        yield s
        return
    for part in tir.children(s):
        if isinstance(part, tir.Stmt):
            yield from _outermost(part)


class NumbaPrinter(PythonPrinter):
    """A printer of Python whose expressions have the same types in numba as in the loop IR.

    A signed integer may be computed in more bits than its type has, but its value fits the type.
    """

    integer = "np.int64"  # int(x) of a uint8 is unsigned, and gives a float64 with signed ints

    def __init__(self, shared: tuple[tir.For, ...]) -> None:
        super().__init__()
        self.shared = shared

    def _side(self, e: tir.Index, other: tir.Index, tight: int) -> str:
        if isinstance(e, tir.Const) and e.dtype.kind == "int":
            return self._bare(e, tight)
        return self.expr(e, tight)

    def _binary(self, e: tir.Binary) -> tuple[str, int]:
        if not e.dtype.is_integer or e.op in ("min", "max"):
            return super()._binary(e)
        text, strength = self._wide(e) if e.op in MODULAR else self._other(e)
        return (text, strength) if e.dtype is INT64 else (f"np.{e.dtype}({text})", ATOM)

    def _wide(self, e: tir.Binary) -> tuple[str, int]:
        """Print a sum, product, ... with correct lowest bits; return (text, binding strength)."""
        sign, strength, tight = SIGNS[e.op]
        side = self._part
        if e.op in GROWING and _reach(e) > LARGEST:
            if e.dtype is INT64:
                x, y = (self._side(a, b, CHOICE) for a, b in ((e.a, e.b), (e.b, e.a)))
                return f"wrap_{e.op}({x}, {y})", ATOM
            side = self._side
        after = tight + (tight == strength)
        return f"{side(e.a, e.b, tight)} {sign} {side(e.b, e.a, after)}", strength

    def _part(self, e: tir.Index, other: tir.Index, tight: int) -> str:
        """Print an operand of which only the lowest bits matter."""
        if _is_modular(e):
            text, strength = self._wide(e)
            return f"({text})" if strength < tight else text
        return self._side(e, other, tight)

    def _other(self, e: tir.Binary) -> tuple[str, int]:
        """Print an integer quotient, remainder or shift, by a helper if the CPU could trap."""
        if e.dtype.kind == "uint" and e.op in UNSIGNED:
            sign, strength, tight = SIGNS[UNSIGNED[e.op]]
            return f"{self.expr(e.a, tight)} {sign} {self.expr(e.b, tight + 1)}", strength
        amount = e.b.value if isinstance(e.b, tir.Const) else None
        a, b = self.expr(e.a), self._side(e.b, e.a, CHOICE)
        if e.op in ("shl", "shr"):
            if amount is None or not 0 <= amount < e.dtype.bits:
                return f"{e.op}({a}, {b}, {e.dtype.bits})", ATOM
        elif e.op.startswith("trunc") or (e.dtype is INT64 and amount in (None, -1)):
            return f"{e.op}({a}, {b})", ATOM
        sign, strength, tight = SIGNS[e.op]
        after = tight + (tight == strength)
        x, y = self._side(e.a, e.b, tight), self._side(e.b, e.a, after)
        return f"{x} {sign} {y}", strength

    def _cast(self, value: tir.Index, to: DType) -> str:
        x = self.expr(value)
        if to is BOOL:
            return f"bool({x})"
        fraction = isinstance(value, tir.Expr) and not tir.is_index(value) and value.dtype.is_float
        if fraction and to.is_integer:
            x = f"to_uint64({x})" if to is UINT64 else f"to_integer({x}, {to.low}, {to.high})"
        return f"np.{to}({x})"

    def _call(self, name: str, args: tuple[tir.Expr, ...], dtype: DType) -> str:
        if name == "abs" and dtype.kind == "uint":
            return self.expr(args[0])
        template = TYPED.get(name)
        if template is None:
            return super()._call(name, args, dtype)
        text = template.format(*(self.expr(a) for a in args), dtype=numpy_type(dtype))
        cut = dtype.is_integer and dtype is not INT64  # abs(np.int8(-128)) wraps
        return f"np.{dtype}({text})" if cut else text

    def _opaque(self, e: tir.Call) -> str:
        why = "code compiled by numba cannot call other functions"
        raise BuildError(f"{tir.callee(e)}(...)", why, "target='llvm' or 'python'")

    # --- statements ---

    def _statement(self, s: tir.Stmt, depth: int) -> Iterator[str]:
        lines = super()._statement(s, depth)
        if isinstance(s, tir.For) and self._is_shared(s):
            yield next(lines)
            i = self.name(s.var)
            yield f"{TAB * (depth + 1)}{i} = np.int64({i})  # numba takes it for unsigned"
        yield from lines

    def _range(self, s: tir.For) -> tuple[str, str]:
        return ("numba.prange", "") if self._is_shared(s) else super()._range(s)

    def _is_shared(self, s: tir.For) -> bool:
        return any(s is loop for loop in self.shared)

    def _stored(self, value: tir.Expr) -> str:
        if _is_modular(value):
            return self._wide(value)[0]  # the store truncates
        return super()._stored(value)


def _is_modular(e: tir.Index) -> TypeGuard[tir.Binary]:
    """Return whether the lowest bits of `e` depend only on the lowest bits of its operands."""
    return isinstance(e, tir.Binary) and e.dtype.kind == "int" and e.op in MODULAR


def _reach(e: tir.Index) -> int:
    """Return an upper bound of |e| if no operation in `e` wrapped."""
    if isinstance(e, tir.Const):
        return abs(int(e.value))
    if not _is_modular(e):
        assert isinstance(e, tir.Expr)
        return 1 << (e.dtype.bits - 1)
    a, b = _reach(e.a), _reach(e.b)
    match e.op:
        case "add" | "sub":
            return a + b
        case "mul":
            return max(a * b, a, b)
        case _:  # bitwise operators
            return 1 << max(a, b).bit_length()
