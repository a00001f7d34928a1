"""Scalar types. A dtype is a string with attributes: `dtype("float32").bits == 32`."""

from functools import cache
from typing import Any, Literal

import numpy as np

from .errors import ExprError, importing

DTypeKind = Literal["bool", "int", "uint", "float"]


class DType(str):
    """A scalar type. It is a string equal to its name, so one can write `A.dtype == "float32"`."""

    kind: DTypeKind
    bits: int
    numpy: np.dtype[np.generic]

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (str(self),)  # copying and unpickling give the same object

    @property
    def bytes(self) -> int:
        """The number of bytes that one element takes in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger number of a float type."""
        return 2.0**-7 if self == BFLOAT16 else float(np.finfo(str(self)).eps)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def low(self) -> float | int:
        """The smallest value of this type: an int for integer types, -inf for float types."""
        if self.kind == "float":
            return -np.inf
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> float | int:
        """The largest value of this type: an int for integer types, inf for float types."""
        if self.kind == "float":
            return np.inf
        return (1 << (self.bits - (self.kind == "int"))) - 1


def _make(
    name: str, kind: DTypeKind, bits: int, numpy: np.dtype[np.generic] | None = None
) -> DType:
    new = DType(name)
    new.kind, new.bits, new.numpy = kind, bits, numpy or np.dtype(name)
    return new


BOOL = _make("bool", "bool", 1)
INT8, INT16, INT32, INT64 = (_make(f"int{b}", "int", b) for b in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (_make(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
BFLOAT16 = "bfloat16"  # the name of a type that exists only with the package ml_dtypes
FLOAT16, FLOAT32, FLOAT64 = (_make(f"float{b}", "float", b) for b in (16, 32, 64))

DTYPES: dict[str, DType] = {
    d: d
    for d in (
        BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, FLOAT32, FLOAT64,
    )
}  # fmt: skip


def dtype(name: str) -> DType:
    """Return the DType called `name`, which may be a string, a numpy dtype or a DType.

    Equal names give the same object. Raises ExprError for an unknown type. Operations on float16
    and bfloat16 round to their type, but functions such as exp compute in float32 before rounding.
    bfloat16 needs the package ml_dtypes; float64 is converted to it through float32, and on a GPU
    only tensor cores compute with it.
    """
    if BFLOAT16 in (str(name), getattr(name, "__name__", "")):
        return _bfloat16()
    known = DTYPES.get(str(name)) or DTYPES.get(getattr(name, "__name__", ""))
    if known is None:
        why, fix = "there is no such type", f"one of {', '.join(DTYPES)}"
        raise ExprError(f"dtype {str(name)!r}", why, fix)
    return known


@cache
def _bfloat16() -> DType:
    """Return the type bfloat16; raise ExprError without the package that has such arrays."""
    with importing("ml_dtypes", "dtype 'bfloat16'", "pip install ml_dtypes; or float16", ExprError):
        import ml_dtypes
    return _make(BFLOAT16, "float", 16, np.dtype(ml_dtypes.bfloat16))


def holds_floats(array: np.ndarray[Any, Any]) -> bool:
    """Return whether the elements are floats. numpy's kind of bfloat16 is "V", not "f"."""
    return array.dtype.kind == "f" or array.dtype.name == BFLOAT16


def promote(a: DType, b: DType) -> DType:
    """Return the type to which operands of types `a` and `b` are both converted.

    If one of them is a float type, that type is the result: int32 with float32 gives float32, as in
    TVM (numpy would give float64). Two floats or two integers follow numpy's rules. Raises
    ExprError for uint64 with a signed type, since no integer type represents all values of both.
    """
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if UINT64 in (a, b) and "int" in (a.kind, b.kind):
        why = "no integer type represents all values of both"
        raise ExprError(f"an operation on {a} with {b}", why, f"convert one: x.astype('{a}')")
    return dtype(np.promote_types(a.numpy, b.numpy).name)
