"""Print loops as Python that can be read, run and stepped through.

Values are numpy scalars, so they round and wrap as machine code does; indices are Python ints.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import assert_never

from minitvm import tir
from minitvm.base import BFLOAT16, BOOL, BuildError, DType

from ..common import clean, flat, in_python, is_c_function, parameters, refuse_threads

TAB = "    "
SCALAR = ("Python code has no vectors", "leave out the pass `vectorize`")

# operator -> (sign, binding strength, least strength of its operands)
SIGNS = {
    "or": ("or", 0, 0), "and": ("and", 1, 1),
    "bitand": ("&", 3, 6), "bitor": ("|", 3, 6), "bitxor": ("^", 3, 6),
    "shl": ("<<", 3, 6), "shr": (">>", 3, 6),
    "add": ("+", 6, 6), "sub": ("-", 6, 6), "mul": ("*", 7, 7), "div": ("/", 7, 7),
    "floordiv": ("//", 7, 7), "floormod": ("%", 7, 7), "pow": ("**", 8, 9),
}  # fmt: skip
FUNCTIONS = {"min": "min", "max": "max", "truncdiv": "truncdiv", "truncmod": "np.fmod"}
NO_FUNCTION = "Python code cannot express it"
CHOICE, NOT, COMPARE, SIGNED, ATOM = -1, 1, 2, 6, 9  # binding strengths of everything else

INTRINSICS = {
    "exp": "np.exp({})", "exp2": "np.exp2({})", "log": "np.log({})", "log2": "np.log2({})",
    "log10": "np.log10({})", "sqrt": "np.sqrt({})", "rsqrt": "(1 / np.sqrt({}))",
    "sin": "np.sin({})", "cos": "np.cos({})", "tan": "np.tan({})", "atan": "np.arctan({})",
    "asin": "np.arcsin({})", "acos": "np.arccos({})", "log1p": "np.log1p({})",
    "atan2": "np.arctan2({}, {})", "hypot": "np.hypot({}, {})",
    "copysign": "np.copysign({}, {})",
    "sinh": "np.sinh({})", "cosh": "np.cosh({})", "tanh": "np.tanh({})",
    "sigmoid": "(1 / (1 + np.exp(-({}))))", "erf": "{dtype}(math.erf({}))",
    "floor": "np.floor({})", "ceil": "np.ceil({})", "trunc": "np.trunc({})",
    "round": "np.rint({})", "abs": "abs({})", "clz": "clz({}, {bits})", "fmod": "np.fmod({}, {})",
    "isnan": "np.isnan({})", "isfinite": "np.isfinite({})", "isinf": "np.isinf({})",
    **dict.fromkeys(tir.DOT4, "dot4({}, ({}, {}, {}, {}), ({}, {}, {}, {}))"),
}  # fmt: skip

DOT4_HELPER = '''
def dot4(acc, a, b):
    """acc + a[0]*b[0] + a[1]*b[1] + a[2]*b[2] + a[3]*b[3] as an int32, which wraps."""
    for n in range(4):
        acc = np.int32(acc + np.int32(a[n]) * np.int32(b[n]))
    return acc
'''
CLZ_HELPER = '''
def clz(x, bits):
    """The number of zeros before the first 1 among the bits of x."""
    for n in range(bits):
        if x >> (bits - 1 - n) & 1:
            return np.int32(n)
    return np.int32(bits)
'''
HELPERS = {
    **dict.fromkeys(tir.DOT4, DOT4_HELPER),
    "clz": CLZ_HELPER,
    "view": '''
def view(row, start, shape, strides):
    """A part of the elements in `row`, as an array."""
    steps = [s * row.itemsize for s in strides]
    return np.lib.stride_tricks.as_strided(row[start:], shape, steps)
''',
    "truncdiv": '''
def truncdiv(a, b):
    """a / b rounded to zero."""
    return a // b + int(a % b != 0 and (a < 0) != (b < 0))
''',
    "to_integer": '''
def to_integer(x, dtype):
    """The float x without its fraction; the nearest end of the range of dtype; 0 for NaN."""
    ends = np.iinfo(dtype)
    if np.isnan(x):
        return dtype(0)
    if x <= ends.min:
        return dtype(ends.min)
    return dtype(ends.max if x >= ends.max else int(x))
''',
}


def emit_python(f: tir.PrimFunc) -> str:
    """Return Python source that defines `name(params...)`, where name is clean(f.name).

    Buffers are passed as one-dimensional numpy arrays (views: `A.reshape(-1)`), scalars as ints,
    in the order of f.params; symbolic sizes that are not parameters follow.

    Needs flat buffers (pass `flatten`) and scalar loops. Raises BuildError for vectors.
    """
    p = PythonPrinter()
    head, text = p.function(f)
    helpers = "".join(f"\n{code}" for word, code in HELPERS.items() if f"{word}(" in text)
    silence = '@np.errstate(all="ignore")  # integers wrap, 1.0 / 0.0 is inf: no warning'
    import_line = "\nfrom minitvm.tir import registered\n" if "registered(" in text else ""
    return (
        f"{imports(text)}import numpy as np\n{import_line}{helpers}\n\n{silence}\n{head}\n{text}\n"
    )


def imports(text: str) -> str:
    """Return the lines that import the modules math and ml_dtypes if `text` uses them."""
    return "".join(f"import {m}\n\n" for m in ("math", "ml_dtypes") if f"{m}." in text)


def numpy_type(dtype: DType) -> str:
    """Return how Python code names a type: np.float32; numpy has no bfloat16 of its own."""
    return f"{'ml_dtypes' if dtype == BFLOAT16 else 'np'}.{dtype}"


class PythonPrinter(tir.Printer):
    """A printer of runnable Python; indices print as in the loop IR."""

    integer = "int"  # converts a value to an index

    def function(self, f: tir.PrimFunc) -> tuple[str, str]:
        """Return the line `def name(params...):` and the indented body of a function."""
        head = f"def {clean(f.name)}({', '.join(self.name(x) for x in parameters(f))}):"
        return head, "\n".join(self.lines(f.body, 1))

    def name(self, x: tir.Var | tir.Buffer) -> str:
        """Return the Python name of a variable or buffer, numbered if the name is taken."""
        if id(x) not in self.names:
            word = base = clean(x.name)
            n = 1
            while word in self.used:
                word, n = f"{base}_{n}", n + 1
            self.names[id(x)] = word
            self.used.add(word)
        return self.names[id(x)]

    # --- expressions ---

    def element(self, buffer: tir.Buffer, indices: tuple[tir.Index, ...]) -> str:
        """Print `buffer[i]` for a flat index i."""
        i = flat(buffer, indices)
        if tir.lanes(i) > 1:
            raise BuildError(f"a vector of {tir.lanes(i)} lanes", *SCALAR)
        return f"{self.name(buffer)}[{self.expr(i)}]"

    def expr(self, e: tir.Index, tight: int = 0) -> str:
        """Print `e` as Python, in parentheses if it binds less tightly than `tight`."""
        if isinstance(e, tir.AsIndex):
            return f"{self.integer}({self.expr(e.value, CHOICE)})"
        if isinstance(e, tir.Lane):
            raise BuildError(f"a vector of {e.lanes} lanes", *SCALAR)
        if tir.is_index(e) or not isinstance(e, tir.Expr):
            return super().expr(e, tight)
        text, strength = self._typed(e)
        return f"({text})" if strength < tight else text

    def _typed(self, e: tir.Expr) -> tuple[str, int]:
        """Return the Python text of a value and its binding strength (see SIGNS)."""
        match e:
            case tir.Const(value, dtype):
                return (repr(value) if dtype is BOOL else self._literal(e)), ATOM
            case tir.Load(buffer, indices):
                return self.element(buffer, indices), ATOM
            case tir.Cast(value, dtype):
                return self._cast(value, dtype), ATOM
            case tir.Binary():
                return self._binary(e)
            case tir.Compare(op, a, b):
                x, y = self._side(a, b, COMPARE + 1), self._side(b, a, COMPARE + 1)
                return f"{x} {op} {y}", COMPARE
            case tir.Not(a):
                return f"not {self.expr(a, COMPARE)}", NOT
            case tir.Select(cond, a, b) | tir.IfThenElse(cond, a, b):
                return f"{self.expr(a)} if {self.expr(cond)} else {self.expr(b, CHOICE)}", CHOICE
            case tir.Call() if tir.is_opaque(e):
                return f"{numpy_type(e.dtype)}({self._opaque(e)})", ATOM
            case tir.Call(name, args):
                return self._call(name, args, e.dtype), ATOM
            case _:
                raise BuildError(f"a {type(e).__name__}", "Python code cannot express this node")

    def _literal(self, e: tir.Const) -> str:
        """Print a constant as a numpy scalar, such as np.float32(0.5)."""
        return f"{numpy_type(e.dtype)}({self._bare(e)})"

    def _bare(self, e: tir.Const, tight: int = CHOICE) -> str:
        """Print a constant without a type; numpy gives it the type of the other operand."""
        text = repr(e.value)
        if isinstance(e.value, float) and not math.isfinite(e.value):
            text = "np.nan" if math.isnan(e.value) else "np.inf" if e.value > 0 else "-np.inf"
        return f"({text})" if text.startswith("-") and tight > SIGNED else text

    def _side(self, e: tir.Index, other: tir.Index, tight: int) -> str:
        """Print the operand `e`; a constant needs no type if the `other` operand has one."""
        if isinstance(e, tir.Const) and not isinstance(other, tir.Const):
            return self._bare(e, tight)
        return self.expr(e, tight)

    def _binary(self, e: tir.Binary) -> tuple[str, int]:
        if e.op in FUNCTIONS:
            name, a, b = FUNCTIONS[e.op], e.a, e.b
            if e.dtype.is_float:  # min or max; Python's max(x, 0.0) keeps only a NaN of x
                a, b = (b, a) if isinstance(a, tir.Const) else (a, b)
                if not isinstance(b, tir.Const) or math.isnan(b.value):
                    name = f"np.{name}imum"
            return f"{name}({self.expr(a)}, {self.expr(b)})", ATOM
        sign, strength, tight = SIGNS[e.op]
        after = tight + (tight == strength)  # a - (b - c)
        x, y = self._side(e.a, e.b, tight), self._side(e.b, e.a, after)
        return f"{x} {sign} {y}", strength

    def _cast(self, value: tir.Index, to: DType) -> str:
        x = self.expr(value)
        if to is BOOL:
            return f"bool({x})"
        if tir.is_index(value):
            fits = to.is_float or (
                to.low <= tir.lower_bound(value) and tir.upper_bound(value) <= to.high
            )
            return f"{numpy_type(to)}({x})" if fits else f"{numpy_type(to)}(np.int64({x}))"
        if isinstance(value, tir.Expr) and value.dtype.is_float and to.is_integer:
            return f"to_integer({x}, np.{to})"
        return f"{numpy_type(to)}({x})"

    def _call(self, name: str, args: tuple[tir.Expr, ...], dtype: DType) -> str:
        if name not in INTRINSICS:
            raise BuildError(f"{name}(...)", NO_FUNCTION, f"one of {', '.join(INTRINSICS)}")
        bits = args[0].dtype.bits
        return INTRINSICS[name].format(
            *(self.expr(a) for a in args), dtype=numpy_type(dtype), bits=bits
        )

    def _opaque(self, e: tir.Call) -> str:
        """Print a call of a registered function, on numpy arrays."""
        if is_c_function(e, NO_FUNCTION):
            what, why = f"C function {tir.callee(e)}(...)", "Python code cannot call it"
            raise BuildError(what, why, in_python(tir.callee(e)))
        args = [
            self._array(a) if isinstance(a, tir.Pointer | tir.View) else self.expr(a)
            for a in e.args
        ]
        return f"registered({tir.callee(e)!r})({', '.join(args)})"

    def _array(self, e: tir.Pointer | tir.View) -> str:
        """Print the numpy array that a pointer or view refers to."""
        b = e.first.buffer
        name, start = self.name(b), flat(b, e.first.indices)
        if isinstance(e, tir.Pointer):
            return f"{name}[{self.expr(tir.add(start, e.offset))}:]"
        shape, strides = ([self.expr(n) for n in part] for part in (e.shape, e.strides))
        rows = [f"({', '.join(part)}{',' if len(part) == 1 else ''})" for part in (shape, strides)]
        return f"view({name}, {self.expr(start)}, {rows[0]}, {rows[1]})"

    # --- statements ---

    def _statement(self, s: tir.Stmt, depth: int) -> Iterator[str]:
        tab = TAB * depth
        match s:
            case tir.For(var, extent, body):
                refuse_threads(s)
                numbers, comment = self._range(s)
                yield f"{tab}for {self.name(var)} in {numbers}({self.expr(extent)}):{comment}"
                yield from self.lines(body, depth + 1)
            case tir.Store(buffer, indices, value):
                yield f"{tab}{self.element(buffer, indices)} = {self._stored(value)}"
            case tir.If(cond, body, orelse):
                yield f"{tab}if {self.expr(cond)}:"
                yield from self.lines(body, depth + 1)
                if orelse is not None:
                    yield f"{tab}else:"
                    yield from self.lines(orelse, depth + 1)
            case tir.Seq():
                yield f"{tab}pass"
            case tir.Allocate(buffer):
                size = self.expr(tir.elements(buffer))
                yield f"{tab}{self.name(buffer)} = np.empty({size}, {self._kept(buffer.dtype)})"
            case tir.Evaluate(tir.Call() as e) if tir.is_opaque(e):
                yield f"{tab}{self._opaque(e)}"
            case tir.Evaluate(value):
                yield f"{tab}{self.expr(value)}"
            case tir.Pragma(key, value, body):
                yield f"{tab}# pragma {key} = {value!r}"
                yield from self.lines(body, depth)
            case _:
                assert_never(s)

    def _range(self, s: tir.For) -> tuple[str, str]:
        """Return the function that a loop iterates over ("range"), and a comment for its line."""
        return "range", "  # parallel" if s.kind == "parallel" else ""

    def _stored(self, value: tir.Expr) -> str:
        """Print the value on the right of `=`; the array on the left gives its type."""
        return self._bare(value) if isinstance(value, tir.Const) else self.expr(value, CHOICE)

    def _kept(self, dtype: DType) -> str:
        return "np.bool_" if dtype is BOOL else numpy_type(dtype)
