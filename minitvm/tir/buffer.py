"""Buffers that are declared before their memory is known: the operands of tensor intrinsics."""

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
    """A named buffer whose memory is chosen where an intrinsic or extern operation uses it.

    strides         () if there are no gaps; else ints, or variables that are bound to the strides
                    of that memory
    elem_offset     a variable that is bound to the distance from the start of that memory, or None
    offset_factor   that distance is a multiple of it
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
        """Return a pointer to read from ("r"), write to ("w") or both; `offset` is in elements."""
        del ptr_type, content_lanes
        return pointer(self, access_mask, offset)

    def vload(self, begin: Any, dtype: str | None = None) -> Load:
        """Return the element at `begin`."""
        if dtype is not None and str(dtype) != self.dtype:
            raise ExprError(
                f"vload of {dtype} from {self.name}",
                f"it holds {self.dtype}, and is read one element at a time",
                "a vectorized loop over single elements",
            )
        return self[begin]

    def vstore(self, begin: Any, what: Any) -> Store:
        """Return the statement that stores `what` at `begin`."""
        return store(self, begin, what)

    def __getitem__(self, at: Any) -> Load:
        return load(self, *positions(self, at))


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
    """Declare a buffer whose memory is chosen where it is used."""
    del data_alignment  # every element is aligned as its type needs
    if data is not None:
        why = "its memory is chosen where it is used"
        raise ExprError(f"decl_buffer({name}, data=...)", why, "leave it out")
    dims = tuple(index(n) for n in as_tuple(shape))
    steps = () if strides is None else tuple(index(s) for s in as_tuple(strides))
    if steps and len(steps) != len(dims):
        raise ExprError(f"decl_buffer({name})", f"{len(dims)} dimensions but {len(steps)} strides")
    if not isinstance(elem_offset, Var | None):
        raise ExprError(f"decl_buffer({name}, elem_offset=...)", "not a variable", "te.var()")
    for what, given in (("name", name), ("scope", scope)):
        if not isinstance(given, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ExprError(f"decl_buffer({what}={given!r})", f"a {what} is a string")
    if not isinstance(offset_factor, int):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ExprError(f"decl_buffer({name}, offset_factor={offset_factor!r})", "not an integer")
    kind = dtype_of(dtype)
    return DeclaredBuffer(name, dims, kind, scope, steps, elem_offset, max(1, offset_factor))


def positions(b: Buffer, at: Any) -> tuple[Index, ...]:
    """Return one index per dimension for `at`; a single index counts elements row by row."""
    given = tuple(index(i) for i in as_tuple(at))
    if len(given) == len(b.shape):
        return given
    if len(given) != 1:
        raise ExprError(f"{b.name} at {len(given)} indices", f"it has {len(b.shape)} dimension(s)")
    rest, found = given[0], list[Index]()
    for n in reversed(b.shape[1:]):
        found.insert(0, floormod(rest, n))
        rest = floordiv(rest, n)
    return (rest, *found) if b.shape else ()


def store(b: Buffer, at: Any, what: Any) -> Store:
    """Return the statement b[at] = what; `what` has the type of `b` or is a literal."""
    v = value(what, b.dtype)
    if v.dtype is not b.dtype:
        fix = f"x.astype({str(b.dtype)!r})"
        raise ExprError(f"a {v.dtype} is stored in {b.name}", f"it holds {b.dtype}", fix)
    return Store(b, positions(b, at), v)
