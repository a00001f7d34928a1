"""One-line formulas in the notation of Tensor Comprehensions (Vasilache et al., 2018).

    C = te.define("C(i, j) +=! A(i, k) * B(k, j)", A=A, B=B)

Indices that appear only on the right side are reduced over: +=! sums, *=! multiplies, max=! and
min=! take the largest and the smallest value. Ranges are inferred: an index runs over the whole
dimension that it indexes; in O(h + kh), h runs as far as h + kh stays in bounds for every kh.
`where h in 0:56` gives a range explicitly.
"""

from __future__ import annotations

import ast
import keyword
import math
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from minitvm import tensor, tir
from minitvm.base import ExprError, Reason, raise_first

FORM = re.compile(
    r"^\s*(\w+)\s*\(([^)]*)\)\s*(\+=!|\*=!|max=!|min=!|=)\s*(.*?)\s*(where\b.*)?$", re.S
)
RANGE = re.compile(r"^(\w+)\s+in\s+(-?\d{1,18})\s*:\s*(-?\d{1,18})$")
LONGEST = 1_000  # characters
LARGEST = 2**63  # constants are smaller
REDUCERS: dict[str, tensor.Reducer] = {
    "+=!": tensor.SUM,
    "*=!": tensor.PROD,
    "max=!": tensor.MAX,
    "min=!": tensor.MIN,
}
ELEMENTWISE = (tir.exp, tir.log, tir.sqrt, tir.rsqrt, tir.tanh, tir.sigmoid, tir.erf, tir.abs)
FUNCTIONS: dict[str, Callable[..., Any]] = {
    f.__name__: f for f in (*ELEMENTWISE, tir.floor, tir.ceil, tensor.max, tensor.min)
}
OPERANDS = {"max": 2, "min": 2}  # of the other functions: 1


@dataclass(frozen=True, slots=True)
class _Formula:
    """The parsed form of a line `name(left) op right where ranges`."""

    line: str
    name: str
    left: list[str]
    op: str
    right: ast.expr
    ranges: dict[str, tuple[int, int]]

    @property
    def what(self) -> str:
        """Return the call te.define(...) as a string; error messages begin with it."""
        return f"te.define({self.line!r})"


def define(line: str, /, **tensors: tensor.Tensor) -> tensor.Tensor:
    """Return the tensor that the formula `line` defines; keyword arguments are its inputs.

        C = te.define("C(i, j) +=! A(i, k) * B(k, j)", A=A, B=B)

    Raises ExprError if the line is not such a formula, or a range cannot be inferred.
    """
    f = _parse(line)
    for name, t in tensors.items():
        if not isinstance(t, tensor.Tensor):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExprError(f"{f.what}: {name}", f"it is {type(t).__name__}, not a tensor")
    try:
        return _defined(f, tensors)
    except RecursionError as e:
        raise ExprError(f.what, "it is nested too deeply", "several formulas") from e


def _defined(f: _Formula, tensors: dict[str, tensor.Tensor]) -> tensor.Tensor:
    calls = [n for n in ast.walk(f.right) if isinstance(n, ast.Call) and _callee(n) in tensors]
    ranges = _ranges(f, [(tensors[_callee(n)], n.args) for n in calls])
    reduced = [v for v in ranges if v not in f.left]
    raise_first(ExprError, f.what, _about_indices(f, ranges.keys(), reduced))
    shape = [ranges[v][1] for v in f.left]
    axes = {v: tensor.reduce_axis((ranges[v][0], ranges[v][1]), v) for v in reduced}

    def body(*at: Any) -> Any:
        env = dict(zip(f.left, at, strict=True)) | axes
        value = _value(f, f.right, env, tensors)
        return tensor.reduce(REDUCERS[f.op], value, list(axes.values())) if axes else value

    names = ", ".join(f.left)  # the axes take the names of the parameters
    body_name = "_".join(("body", *f.left))  # no parameter has this name
    return tensor.compute(
        shape, eval(f"lambda {names}: {body_name}({names})", {body_name: body}), f.name
    )


def _about_indices(f: _Formula, known: Collection[str], folded: list[str]) -> Iterator[Reason]:
    """Yield a reason if an index is only on the left side, or the operator does not fit `folded`.

    known    the indices on the right side
    folded   the indices that are only on the right side, over which +=!, ... reduce
    """
    for v in f.left:
        if v not in known:
            yield (f"nothing on the right side has the index {v}",)
    if folded and f.op == "=":
        left_out = ", ".join(folded)
        yield (f"{left_out} is only on the right side: reduce over it with +=!, max=!, ...",)
    if not folded and f.op != "=":
        why = "needs an index that is only on the right side, to reduce over; all are on the left"
        yield (f"{f.op} {why}",)


def _parse(line: str) -> _Formula:
    parts = FORM.match(line) if isinstance(line, str) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if parts and len(line) > LONGEST:
        why = f"it has {len(line)} characters, at most {LONGEST} are read"
        raise ExprError(f"te.define({line[:40]!r}...)", why, "several formulas")
    names = [n.strip() for n in parts[2].split(",")] if parts and parts[2].strip() else []
    if not parts or not all(map(_is_name, names)) or len(set(names)) < len(names):
        why = "not of the form name(i, j, ...) = expression, with =, +=!, *=!, max=! or min=!"
        raise ExprError(f"te.define({line!r})", why, "C(i, j) +=! A(i, k) * B(k, j)")
    ranges: dict[str, tuple[int, int]] = {}
    for part in (parts[5] or "where").removeprefix("where").split(","):
        if part.strip():
            match = RANGE.match(part.strip())
            if not match:
                raise ExprError(f"te.define: {part.strip()!r}", "not a range", "h in 0:56")
            ranges[match[1]] = int(match[2]), int(match[3])
    try:
        right = ast.parse(parts[4].strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        why = e.msg if isinstance(e, SyntaxError) else str(e)
        why = f"the right side is not an expression: {why}"
        raise ExprError(f"te.define({line!r})", why) from e
    return _Formula(line, parts[1], names, parts[3], right, ranges)


def _is_name(word: str) -> bool:
    """Return whether a parameter of a Python function can have this name."""
    return word.isidentifier() and not keyword.iskeyword(word) and word != "__debug__"


def _callee(n: ast.Call) -> str:
    return n.func.id if isinstance(n.func, ast.Name) else ""


# --- ranges --------------------------------------------------------------------------------------


def _ranges(
    f: _Formula, accesses: list[tuple[tensor.Tensor, list[ast.expr]]]
) -> dict[str, tuple[tir.Index, tir.Index]]:
    """Return the range (first, stop) of every index: the given one, or the inferred one.

    accesses   each tensor access on the right side, as (tensor, index expressions)
    """
    ranges: dict[str, tuple[tir.Index, tir.Index]] = dict(f.ranges)
    symbols: dict[str, tir.Var] = {}
    todo: list[tuple[tir.Index, tir.Index, tensor.Tensor]] = []
    for t, args in accesses:
        if len(args) != t.ndim:
            why = f"it has {t.ndim} dimensions, {len(args)} indices"
            raise ExprError(f"te.define: {t.name}", why)
        for e, size in zip(args, t.shape, strict=True):
            todo.append((_index(f, e, symbols), size, t))
    names = {id(v): n for n, v in symbols.items()}
    todo.sort(key=lambda row: len(tir.split_terms(row[0])[0]))  # plain indices first
    for e, size, t in todo:
        _solve(f, e, size, t, names, ranges)
    for v in symbols:
        if v not in ranges:
            raise ExprError(f.what, f"the range of {v} cannot be inferred", f"where {v} in 0:8")
    return {v: ranges[v] for v in symbols}


def _solve(
    f: _Formula,
    e: tir.Index,
    size: tir.Index,
    t: tensor.Tensor,
    names: dict[int, str],
    ranges: dict[str, Any],
) -> None:
    """Infer a range from the access of `t` with index `e`: 0 <= e < size must hold.

    If exactly one variable of `e` has no range yet, add the inferred one to `ranges`. If `e` is a
    single variable with a range, check the range instead.
    """
    terms, const = tir.split_terms(e)
    open_ = [(names[id(a)], c) for a, c in terms if names[id(a)] not in ranges]
    if len(open_) > 1 or (open_ and open_[0][1] < 0):
        return
    most: tir.Index = const
    for a, c in terms:
        if names[id(a)] in ranges:
            first, stop = ranges[names[id(a)]]
            most = most + c * (stop - 1 if c > 0 else first)
    if open_:
        (name, c), space = open_[0], tir.sub(tir.sub(size, 1), most)
        ranges[name] = (0, tir.floordiv(space, c) + 1)
    elif (
        len(terms) == 1
        and const == 0
        and names[id(terms[0][0])] not in f.ranges
        and terms[0][1] == 1
    ):
        have = ranges[names[id(terms[0][0])]][1]
        if not tir.prove_equal(have, size):
            raise ExprError(
                f.what,
                f"{names[id(terms[0][0])]} runs over {tir.text(have)} values, "
                f"but indexes {tir.text(size)} elements of {t.name}",
            )


def _index(f: _Formula, e: ast.expr, symbols: dict[str, tir.Var]) -> tir.Index:
    """Convert an index expression to an index over variables; add these to `symbols`.

    Raises ExprError unless it is a sum of multiples of variables.
    """
    match e:
        case ast.Constant(value=int() as n):
            return n
        case ast.Name(id=name):
            return symbols.setdefault(name, tir.Var(name))
        case ast.BinOp(left, ast.Add(), right):
            return _index(f, left, symbols) + _index(f, right, symbols)
        case ast.BinOp(left, ast.Sub(), right):
            return _index(f, left, symbols) - _index(f, right, symbols)
        case ast.BinOp(ast.Constant(), ast.Mult(), _) | ast.BinOp(_, ast.Mult(), ast.Constant()):
            return _index(f, e.left, symbols) * _index(f, e.right, symbols)
        case _:
            raise ExprError(f.what, f"{ast.unparse(e)} is not a sum of multiples of indices")


# --- values --------------------------------------------------------------------------------------


def _value(f: _Formula, e: ast.expr, env: dict[str, Any], tensors: dict[str, tensor.Tensor]) -> Any:
    """Convert an expression on the right side to a formula; `env` maps index names to axes.

    Raises ExprError for anything but arithmetic, comparisons, tensor accesses and known functions.
    """

    def go(n: ast.expr) -> Any:
        return _value(f, n, env, tensors)

    match e:
        case ast.Constant(value=int() | float() as n):
            return n
        case ast.Name(id=name) if name in env:
            return env[name]
        case ast.UnaryOp(ast.USub(), operand):
            return -go(operand)
        case ast.BinOp(left, op, right) if type(op) in OPERATORS:
            return _combined(f, e, OPERATORS[type(op)], go(left), go(right))
        case ast.Compare(left, [op], [right]) if type(op) in OPERATORS:
            return _combined(f, e, OPERATORS[type(op)], go(left), go(right))
        case ast.IfExp(test, body, orelse):
            return tir.if_then_else(go(test), go(body), go(orelse))
        case ast.Call(ast.Name(id=name), args, []) if name in tensors or name in FUNCTIONS:
            if name not in tensors and len(args) != (arity := OPERANDS.get(name, 1)):
                raise ExprError(f.what, f"{ast.unparse(e)}: {name} takes {arity} operands")
            return (tensors.get(name) or FUNCTIONS[name])(*map(go, args))
        case _:
            known = f"one of {', '.join((*tensors, *env, *FUNCTIONS))}"
            raise ExprError(f.what, f"{ast.unparse(e)} is not understood", known)


def _combined(f: _Formula, e: ast.expr, op: Callable[[Any, Any], Any], a: Any, b: Any) -> Any:
    """Return op(a, b); raise ExprError for two numbers whose result is no number of 64 bits."""
    numbers = (int, float)
    if not (isinstance(a, numbers) and isinstance(b, numbers)):
        return op(a, b)
    try:
        power = op is OPERATORS[ast.Pow] and abs(b) > 64  # the result may have billions of digits
        result = math.nan if power else op(a, b)
    except ArithmeticError:
        result = math.nan
    if not isinstance(result, numbers) or not abs(result) < LARGEST:
        raise ExprError(f.what, f"{ast.unparse(e)} has no value of 64 bits")
    return result


OPERATORS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Div: lambda a, b: a / b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
    ast.Pow: lambda a, b: a**b,
    ast.Lt: lambda a, b: a < b,
    ast.LtE: lambda a, b: a <= b,
    ast.Gt: lambda a, b: a > b,
    ast.GtE: lambda a, b: a >= b,
    ast.Eq: lambda a, b: a == b,
    ast.NotEq: lambda a, b: a != b,
}
