"""Call Python functions from machine code. Each argument is packed into 64-bit slots:

an int     0, value
a float    1, bits of a double
memory     2, address, number of the dtype, dimensions, shape ..., strides in elements ...
"""

from __future__ import annotations

from minitvm import runtime, tir
from minitvm.base import DTYPES, FLOAT64, INT32, INT64, BuildError

from ..common import flat
from .code import Code, Operand, Value
from .expr import index, passable, pointer, value
from .math import cast


def call_packed(c: Code, e: tir.Call) -> Value:
    """Emit a call of a Python function and return its status: 0, or 1 if the function raised."""
    if c.mask is not None:
        why = "a function is called once, not once per lane"
        raise BuildError(f"{e.name}(...) under a vector condition", why)
    c.calls_python = True
    slots = [slot for a in e.args for slot in _slots(c, a)]
    row = c.name("arguments")
    c.entry.append(f"  {row} = alloca [{max(1, len(slots))} x i64], align 8")
    for n, slot in enumerate(slots):
        at = c.op(f"getelementptr i64, ptr {row}, i64 {n}", INT64, 1, "slot").text
        kind, text = (slot.type, slot.text) if isinstance(slot, Value) else slot
        c.emit(f"store {kind} {text}, ptr {at}, align 8")
    count = Value(str(len(e.args)), INT64)
    return c.call(runtime.CALL_PACKED, INT32, ("ptr", _name(c, tir.callee(e))), ("ptr", row), count)


def _slots(c: Code, a: tir.Expr) -> list[Operand]:
    """Return the 8-byte words that pass one argument to Python: its kind, then its value."""
    if isinstance(a, tir.Pointer | tir.View):
        passable(a)
        return _memory(c, a)
    v = value(c, a)
    if not v.dtype.is_float:
        return [Value("0", INT64), cast(c, v, INT64)]
    wide = cast(c, v, FLOAT64)
    return [Value("1", INT64), c.op(f"bitcast {wide} to i64", INT64)]


def _memory(c: Code, a: tir.Pointer | tir.View) -> list[Operand]:
    """Return the words that pass an array: kind 2, pointer, dtype, rank, shape and strides."""
    shape: tuple[tir.Index, ...]
    strides: tuple[tir.Index, ...]
    if isinstance(a, tir.View):
        shape, strides = a.shape, a.strides
    else:  # all elements from the pointer to the end
        b = a.first.buffer
        start = tir.add(flat(b, a.first.indices), a.offset)
        shape, strides = (tir.sub(tir.elements(b), start),), (1,)
    kind = list(DTYPES.values()).index(a.dtype)
    numbers = [Value(str(n), INT64) for n in (kind, len(shape))]
    sizes = [index(c, n) for n in (*shape, *strides)]
    return [Value("2", INT64), ("ptr", pointer(c, a)), *numbers, *sizes]


def _name(c: Code, name: str) -> str:
    """Declare a constant C string with the text `name` and return its label."""
    data = name.encode() + b"\0"
    shown = "".join(f"\\{byte:02X}" for byte in data)
    label = f"@name.{name.encode().hex()}"
    constant = f'private unnamed_addr constant [{len(data)} x i8] c"{shown}"'
    c.module.declarations[label] = f"{label} = {constant}"
    return label
