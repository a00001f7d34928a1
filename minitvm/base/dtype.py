"""Scalar types. A dtype is its name, with facts attached: `dtype("float32").bits == 32`."""

from typing import Any, Literal

import numpy as np

from .errors import ExprError

DTypeKind = Literal["bool", "int", "uint", "float"]


class DType(str):
    """A scalar type. Equal to its name, so `A.dtype == "float32"` reads as expected."""

    kind: DTypeKind
    bits: int
    numpy: np.dtype[np.generic]

    def __reduce__(self) -> tuple[Any, ...]:
        return dtype, (str(self),)  # copying and unpickling give the same object

    @property
    def bytes(self) -> int:
        """The size of one element in memory."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def low(self) -> float | int:
        """The smallest value: an exact int for integers, -inf for floats."""
        if self.kind == "float":
            return -np.inf
        return -(1 << (self.bits - 1)) if self.kind == "int" else 0

    @property
    def high(self) -> float | int:
        """The largest value: an exact int for integers, inf for floats."""
        if self.kind == "float":
            return np.inf
        return (1 << (self.bits - (self.kind == "int"))) - 1


def _make(name: str, kind: DTypeKind, bits: int) -> DType:
    made = DType(name)
    made.kind, made.bits, made.numpy = kind, bits, np.dtype(name)
    return made


BOOL = _make("bool", "bool", 1)
INT8, INT16, INT32, INT64 = (_make(f"int{b}", "int", b) for b in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (_make(f"uint{b}", "uint", b) for b in (8, 16, 32, 64))
FLOAT16, FLOAT32, FLOAT64 = (_make(f"float{b}", "float", b) for b in (16, 32, 64))

DTYPES: dict[str, DType] = {
    d: d
    for d in (
        BOOL, INT8, INT16, INT32, INT64, UINT8, UINT16, UINT32, UINT64, FLOAT16, FLOAT32, FLOAT64,
    )
}  # fmt: skip


def dtype(name: str) -> DType:
    """Return the interned DType called `name` (a string, numpy dtype or DType).

    Each operation on float16 rounds to float16; functions such as exp are computed in float32.
    """
    found = DTYPES.get(str(name)) or DTYPES.get(getattr(name, "__name__", ""))
    if str(name) == "bfloat16":
        raise ExprError(
            "dtype 'bfloat16' is not supported",
            "numpy has no such type to hold its arrays",
            "store float16, and compute in float32: A[i].astype('float32')",
        )
    if found is None:
        why, fix = "there is no such type", f"one of {', '.join(DTYPES)}"
        raise ExprError(f"dtype {str(name)!r}", why, fix)
    return found


def promote(a: DType, b: DType) -> DType:
    """Return the type that both convert to: float before int, then wider, otherwise as numpy.

    int32 with float32 gives float32 (as TVM; numpy would give float64). Raises ExprError for uint64
    with a signed type: no integer type holds both.
    """
    if a is b:
        return a
    if a.is_float != b.is_float:
        return a if a.is_float else b
    if UINT64 in (a, b) and "int" in (a.kind, b.kind):
        why = "no integer type holds the values of both"
        raise ExprError(f"{a} with {b}", why, f"convert one of them: x.astype('{a}')")
    return DTYPES[np.promote_types(a.numpy, b.numpy).name]
