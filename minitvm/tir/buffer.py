"""Placeholders for memory: the operands of tensor intrinsics and extern operations."""

from __future__ import annotations

from typing import Any

from minitvm.base import ExprError, as_tuple, node
from minitvm.base import dtype as dtype_of

from .call import pointer
from .index import floordiv, floormod
from .nodes import Buffer, Index, Load, Mode, Pointer, Var
from .stmt import Store
from .value import index, load, value


@node
class DeclaredBuffer(Buffer):
    """A placeholder for memory that an intrinsic or extern operation is later applied to.

    strides         () if rows have no gaps; else one int, or variable, per dimension; a variable is
                    bound to the stride of the actual memory
    elem_offset     a variable that is bound to the offset of the first element in its allocation,
                    in elements; None if it is not needed
    offset_factor   the offset of the first element must be a multiple of this number
    """

    elem_offset: Var | None = None
    offset_factor: int = 1

    def access_ptr(
        self,
        access_mask: Mode = "rw",
        ptr_type: str = "handle",
        content_lanes: int = 1,
        offset: Any = 0,
    ) -> Pointer:
        """Return a pointer to element number `offset`.

        access_mask   how the callee uses the memory: "r" reads, "w" writes, "rw" does both
        ptr_type, content_lanes   ignored; TVM has them
        """
        del ptr_type, content_lanes
        return pointer(self, access_mask, offset)

    def vload(self, begin: Any, dtype: str | None = None) -> Load:
        """Return the load of the element at index `begin`."""
        if dtype is not None and str(dtype) != self.dtype:
            what = f"vload of {dtype} from {self.name}"
            why = f"its elements are {self.dtype}, and each load reads one element"
            raise ExprError(what, why, "load single elements in a vectorized loop")
        return element(self, begin)

    def vstore(self, begin: Any, what: Any) -> Store:
        """Return the statement that stores the value `what` at index `begin`."""
        return store(self, begin, what)

    def __getitem__(self, at: Any) -> Load:
        return element(self, at)


def decl_buffer(
    shape: Any,
    dtype: str = "float32",
    name: str = "buffer",
    data: Any = None,
    strides: Any = None,
    elem_offset: Any = None,
    scope: str = "global",
    data_alignment: int = -1,
    offset_factor: int = 0,
) -> DeclaredBuffer:
    """Declare a buffer for the operand of an intrinsic or extern operation; see DeclaredBuffer.

    `shape` and `strides` are in elements. `data` must be None, and `data_alignment` is ignored.
    """
    del data_alignment  # every element is aligned as its type needs
    if data is not None:
        why = "the operation that uses the buffer provides its memory"
        raise ExprError(f"decl_buffer({name}, data=...)", why, "omit data")
    dims = tuple(index(n) for n in as_tuple(shape))
    steps = () if strides is None else tuple(index(s) for s in as_tuple(strides))
    if steps and len(steps) != len(dims):
        raise ExprError(f"decl_buffer({name})", f"{len(dims)} dimensions but {len(steps)} strides")
    if not isinstance(elem_offset, Var | None):
        raise ExprError(f"decl_buffer({name}, elem_offset=...)", "not a variable", "te.var()")
    for what, text in (("name", name), ("scope", scope)):
        if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExprError(f"decl_buffer({what}={text!r})", f"a {what} is a string")
    if not isinstance(offset_factor, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"decl_buffer({name}, offset_factor={offset_factor!r})", "not an integer")
    kind = dtype_of(dtype)
    return DeclaredBuffer(name, dims, kind, scope, steps, elem_offset, max(1, offset_factor))


def positions(b: Buffer, at: Any) -> tuple[Index, ...]:
    """Return one index per dimension for the subscript `at`.

    A single index into a buffer of several dimensions is an element number in row-major order.
    """
    indices = tuple(index(i) for i in as_tuple(at))
    if len(indices) == len(b.shape):
        return indices
    if len(indices) != 1:
        what = f"{b.name} with {len(indices)} indices"
        raise ExprError(what, f"{b.name} has {len(b.shape)} dimension(s)")
    rest, inner = indices[0], list[Index]()
    for n in reversed(b.shape[1:]):
        inner.insert(0, floormod(rest, n))
        rest = floordiv(rest, n)
    return (rest, *inner) if b.shape else ()


def element(b: Buffer, at: Any) -> Load:
    """Return the load of b[at]."""
    return load(b, *positions(b, at))


def store(b: Buffer, at: Any, what: Any) -> Store:
    """Return the statement b[at] = what; `what` has the type of `b` or is a literal."""
    v = value(what, b.dtype)
    if v.dtype is not b.dtype:
        fix = f"x.astype({str(b.dtype)!r})"
        raise ExprError(f"a {v.dtype} is stored in {b.name}", f"its elements are {b.dtype}", fix)
    return Store(b, positions(b, at), v)
