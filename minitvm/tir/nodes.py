"""Expressions of the loop IR.

Every expression is either an index or a value.

An *index* is a mathematical integer: it never wraps. A constant index is a plain `int`; anything
else is kept in affine normal form  c1*a1 + c2*a2 + ... + c0  (`Linear`), where each atom is

    Var          a loop counter or a size
    Lane         the vector 0, 1, ..., lanes-1, which replaces the counter of a vectorized loop
    Product      atom * atom                       (symbolic sizes only)
    FloorDiv     index // index                    rounds to minus infinity
    FloorMod     index %  index                    sign of the divisor
    Extremum     min or max of two indices
    AsIndex      a value used as an index: A[B[i]]

Equal atoms are the same object, so two equal indices have equal terms, and an unsimplified index
cannot be built: there is no pass that simplifies indices.

A *value* has a machine type (`dtype`) and behaves as C and numpy do: integers wrap.

    Const        a literal
    Cast         a value, or an index, converted to a dtype
    Binary       a op b on one dtype; also bool `and`, `or`
    Compare      a op b -> bool, on two values or two indices
    Not          the negation of a bool
    Select        a or b, depending on a condition; both may be computed
    IfThenElse   a or b, and only the chosen one is computed, so it can guard a load
    Call         an intrinsic such as exp
    Load         one element of a buffer
    Pointer      the address of an element, passed to a call; its Load is not executed
    View         an array in memory, passed to a call; its Load is not executed
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any, ClassVar, Literal, TypeAlias

from minitvm.base import BOOL, INT32, DType, node

from .ufunc import NotANumber, operator_of

Index: TypeAlias = "Expr | int"
Bound: TypeAlias = "int | float"  # a float only if infinite
INF = math.inf


def _unary(op: str) -> Callable[[Any], Any]:
    """Return a method that builds `op a`, for the unary operator `op`."""
    return lambda a: Expr.operate(op, a, None)


def _binary(op: str) -> Callable[[Any, Any], Any]:
    """Return a method that builds `a op b`, for the binary operator `op`."""
    return lambda a, b: Expr.operate(op, a, b)


def _both(op: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """Return a method that builds `a op b`, and its reflected form, which builds `b op a`."""
    return _binary(op), lambda a, b: Expr.operate(op, b, a)


class Expr(NotANumber):
    """Base class of all expressions. Python operators, including `==`, build new expressions."""

    __slots__ = ()
    dtype: DType = INT32  # indices read as int32 in formulas; they are computed in 64 bits
    operate: ClassVar[Callable[[str, Any, Any], Any]]  # set by value.py, which imports this file

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("div")
    __floordiv__, __rfloordiv__ = _both("floordiv")
    __mod__, __rmod__ = _both("floormod")
    __pow__, __rpow__ = _both("pow")
    __and__, __rand__ = _both("bitand")
    __or__, __ror__ = _both("bitor")
    __xor__, __rxor__ = _both("bitxor")
    __lshift__, __rlshift__ = _both("shl")
    __rshift__, __rrshift__ = _both("shr")
    __lt__, __le__, __gt__, __ge__ = map(_binary, ("<", "<=", ">", ">="))
    __eq__, __ne__ = map(_binary, ("==", "!="))
    __neg__, __invert__, __abs__ = map(_unary, ("neg", "not", "abs"))

    def equal(self, other: Any) -> Any:
        """Return the comparison self == other; TVM has both spellings."""
        return Expr.operate("==", self, other)

    def astype(self, dtype: str) -> Any:
        """Return this value converted to `dtype`."""
        return Expr.operate("astype", self, dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Build the expression for a numpy operator, so that np.float32(2) * x works.

        Other numpy functions, such as np.exp(x), raise ExprError.
        """
        a, b = (*inputs, None)[:2]
        return Expr.operate(operator_of(ufunc.__name__, method, bool(options)), a, b)

    __hash__ = object.__hash__


@node
class Var(Expr):
    """An integer variable with low <= var <= high.

    top   a symbolic upper bound, such as n - 1, or None
    """

    name: str
    low: Bound = -INF
    high: Bound = INF
    top: Index | None = None
    dtype: DType = INT32


class Interned(Expr):
    """Base class of interned atoms: equal atoms are the same object, even after unpickling."""

    __slots__ = ()
    again: ClassVar[Callable[..., Any]]  # set by index.py, which imports this file

    def __reduce__(self) -> tuple[Any, ...]:
        parts = tuple(getattr(self, f.name) for f in fields(self))  # type: ignore[arg-type]
        return Interned.again, (type(self), *parts)


@node
class Lane(Interned):
    """The vector 0, 1, ..., lanes-1. An expression that contains it is a vector."""

    lanes: int
    low: Bound
    high: Bound


@node
class Linear(Expr):
    """The index sum(c * atom) + const, with (atom, c) pairs in `terms`.

    It has at least one term, and more than one unless const != 0 or c != 1.
    """

    terms: tuple[tuple[Atom, int], ...]
    const: int


@node
class Product(Interned):
    """The index a * b, where neither factor is constant. Its value is in low .. high."""

    a: Atom
    b: Atom
    low: Bound
    high: Bound


@node
class FloorDiv(Interned):
    """The index a // b, rounded down; b > 0. Its value is in low .. high."""

    a: Index
    b: Index
    low: Bound
    high: Bound


@node
class FloorMod(Interned):
    """The index a % b for b > 0. Its value is in low .. high, a range within 0 .. b-1."""

    a: Index
    b: Index
    low: Bound
    high: Bound


@node
class Extremum(Interned):
    """The smaller or larger of the indices `a` and `b`. Its value is in low .. high."""

    op: Literal["min", "max"]
    a: Index
    b: Index
    low: Bound
    high: Bound


@node
class AsIndex(Interned):
    """A typed integer value, such as a load, used as an index. It is in low .. high."""

    value: Expr
    low: Bound
    high: Bound


Atom: TypeAlias = Var | Lane | Product | FloorDiv | FloorMod | Extremum | AsIndex
ATOMS = (Var, Lane, Product, FloorDiv, FloorMod, Extremum, AsIndex)


BinaryOp = Literal[
    "add", "sub", "mul", "div", "floordiv", "floormod", "truncdiv", "truncmod", "min", "max",
    "pow", "and", "or", "bitand", "bitor", "bitxor", "shl", "shr",
]  # fmt: skip
CompareOp = Literal["<", "<=", ">", ">=", "==", "!="]


@node
class Buffer:
    """A named array in memory with elements of type `dtype`.

    scope     the memory that stores it: "global" (main memory), "local" (registers or stack), ...
    strides   in elements, one per dimension; () for row-major order without gaps
    """

    name: str
    shape: tuple[Index, ...]
    dtype: DType
    scope: str = "global"
    strides: tuple[Index, ...] = ()


@node
class Const(Expr):
    """A literal of type `dtype`."""

    value: int | float | bool
    dtype: DType

    def __reduce__(self) -> Any:
        if self.dtype is BOOL:
            return _truth, (bool(self.value),)
        return Const, (self.value, self.dtype)


@node
class Cast(Expr):
    """`value`, a value or an index, converted to `dtype`.

    Floats are truncated to integers; integers wrap around in a narrower type.
    """

    value: Index
    dtype: DType


@node
class Binary(Expr):
    """The operator `op` applied to `a` and `b`; both operands and the result have type `dtype`."""

    op: BinaryOp
    a: Expr
    b: Expr
    dtype: DType


@node
class Compare(Expr):
    """The comparison `a op b`, a bool, of two indices or of two values of the same dtype."""

    op: CompareOp
    a: Index
    b: Index
    dtype = BOOL


@node
class Not(Expr):
    """The logical negation of the bool `a`."""

    a: Expr
    dtype = BOOL


@node
class Select(Expr):
    """`a` in the lanes where `cond` is true, else `b`; both may be computed.

    Select(cond, a, b), as users of TVM write it, converts its operands like `tir.select`.
    """

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType = None  # type: ignore[assignment]  # set by __post_init__
    converted: ClassVar[Callable[..., tuple[Expr, Expr, Expr]]]  # set by value.py

    def __post_init__(self) -> None:
        if not isinstance(self.dtype, DType):  # pyright: ignore[reportUnnecessaryIsInstance]
            cond, a, b = Select.converted(self.cond, self.a, self.b)
            for name, part in (("cond", cond), ("a", a), ("b", b), ("dtype", a.dtype)):
                object.__setattr__(self, name, part)


@node
class IfThenElse(Expr):
    """`a` in the lanes where `cond` is true, else `b`; a lane computes only the chosen one."""

    cond: Expr
    a: Expr
    b: Expr
    dtype: DType


@node
class Call(Expr):
    """A call of the function `name`: an intrinsic such as exp, or an opaque function."""

    name: str
    args: tuple[Expr, ...]
    dtype: DType


@node
class Load(Expr):
    """The element buffer[indices].

    There is one index per dimension; after the pass `flatten`, there is a single element offset.
    """

    buffer: Buffer
    indices: tuple[Index, ...]
    dtype: DType


Mode: TypeAlias = Literal["r", "w", "rw"]


@node
class Pointer(Expr):
    """The address `offset` elements after the element `first`, passed to a call.

    mode   whether the callee reads ("r") or writes ("w") the memory there, or both ("rw")
    """

    first: Load
    mode: Mode
    offset: Index

    @property
    def dtype(self) -> DType:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The type of the elements."""
        return self.first.dtype


@node
class View(Expr):
    """An array in memory that begins at the element `first`, passed to a call.

    strides   the distance between neighbours in each dimension, in elements
    """

    first: Load
    shape: tuple[Index, ...]
    strides: tuple[Index, ...]

    @property
    def dtype(self) -> DType:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The type of the elements."""
        return self.first.dtype


VALUES = (Const, Cast, Binary, Compare, Not, Select, IfThenElse, Call, Load, Pointer, View)


# folding makes no other bool literals, so `cond is TRUE` tests whether a condition always holds
TRUE, FALSE = Const(True, BOOL), Const(False, BOOL)


def _truth(value: bool) -> Const:
    return TRUE if value else FALSE
