"""Expressions in LLVM IR: indices as 64-bit integers, values in their own type."""

from __future__ import annotations

from minitvm import tir
from minitvm.base import BFLOAT16, FLOAT32, FLOAT64, INT32, INT64, UINT8, UINT16, BuildError, DType

from ..common import flat, is_c_function
from .code import Code, Value, constant, type_of, vector
from .dot4 import dot4, together
from .math import binary, cast, compare, divide_by_power, intrinsic, invert, select
from .memory import Address, read
from .number import Number
from .to_integer import is_whole, limit, limits, rounded_plus, to_integer

FITS_32 = 1 << 31
NO_FUNCTION = "the LLVM target has no such function"
SLOW = ("floordiv", "floormod", "truncdiv", "truncmod", "pow")

# --- indices -------------------------------------------------------------------------------------


def index(c: Code, e: tir.Index) -> Value:
    """Emit an index as an i64, or as a vector of i64 if it varies between lanes."""
    if isinstance(e, int):
        return Value(str(e), INT64)
    cached = c.known.get(e)
    if cached is not None:
        return cached
    terms, const = tir.split_terms(e)
    result = _atom(c, e) if terms[0][0] is e else _sum(c, terms, const)
    if c.steady(e):
        c.known[e] = result
    return result


def _sum(c: Code, terms: tuple[tuple[tir.Atom, int], ...], const: int) -> Value:
    """Emit sum(k * atom) + const; add the scalar terms first, so that few adds are on vectors."""
    scalars = [t for t in terms if c.lanes(t[0]) == 1]
    lane_terms = [t for t in terms if c.lanes(t[0]) > 1]
    total: Value | None = None
    for atom, k in scalars:
        total = _plus(c, total, _scaled(c, atom, k))
    if const or total is None:
        total = _plus(c, total, Value(str(const), INT64))
    for atom, k in lane_terms:
        total = _plus(c, total, _scaled(c, atom, k))
    return total


def _plus(c: Code, a: Value | None, b: Value) -> Value:
    if a is None or a.text == "0":
        return b
    a, b = c.broadcast(a, b)
    return c.op(f"add nsw {a}, {b.text}", INT64, a.lanes)


def _scaled(c: Code, atom: tir.Atom, k: int) -> Value:
    """Return the value of `atom` times `k`."""
    if isinstance(atom, tir.Lane):
        return vector([k * n for n in range(atom.lanes)])
    v = index(c, atom)
    if k == 1:
        return v
    factor = c.splat(Value(str(k), INT64), v.lanes)
    return c.op(f"mul nsw {v}, {factor.text}", INT64, v.lanes)


def _atom(c: Code, e: tir.Expr) -> Value:
    match e:
        case tir.Var():
            if e not in c.vars:
                raise BuildError(
                    f"variable {e.name!r}", "no enclosing loop or parameter defines it"
                )
            return c.vars[e]
        case tir.Lane(n):
            return vector(list(range(n)))
        case tir.Product(a, b):
            x, y = c.broadcast(index(c, a), index(c, b))
            return c.op(f"mul nsw {x}, {y.text}", INT64, x.lanes)
        case tir.FloorDiv() | tir.FloorMod():
            return _divide(c, e)
        case tir.Extremum(op, a, b):
            return c.intrinsic(f"s{op}", *c.broadcast(index(c, a), index(c, b)))
        case tir.AsIndex(data):
            return cast(c, value(c, data), INT64)
        case _:
            raise BuildError(f"index {type(e).__name__}", "the LLVM target has no such index")


def _divide(c: Code, e: tir.FloorDiv | tir.FloorMod) -> Value:
    """Emit a // b or a % b, rounded to minus infinity, for b > 0."""
    op = "floordiv" if isinstance(e, tir.FloorDiv) else "floormod"
    a = index(c, e.a)
    if isinstance(e.b, int) and e.b & (e.b - 1) == 0:
        return divide_by_power(c, op, a, e.b)
    if isinstance(e.b, int):
        b: Value = Value(str(e.b), INT64)
    else:  # an empty tensor has size 0: its loops do not run, but this code may
        b = c.intrinsic("smax", index(c, e.b), Value("1", INT64))
    if tir.lower_bound(e.a) >= 0:
        narrow = max(tir.upper_bound(e.a), tir.upper_bound(e.b)) < FITS_32
        return _divide_unsigned(c, op, a, b, narrow)
    a, b = c.broadcast(a, b)
    rest = c.op(f"srem {a}, {b.text}", INT64, a.lanes)
    minus = c.op(f"ashr {rest}, {c.splat(Value('63', INT64), a.lanes).text}", INT64, a.lanes)
    if op == "floormod":  # -1 % 8: rest -1, 8 added
        return binary(c, "add", rest, binary(c, "bitand", minus, b))
    return binary(c, "add", c.op(f"sdiv {a}, {b.text}", INT64, a.lanes), minus)


def _divide_unsigned(c: Code, op: str, a: Value, b: Value, narrow: bool) -> Value:
    """Emit a // b or a % b for a >= 0, in 32 bits (far cheaper) if `narrow`."""
    dtype = INT32 if narrow else INT64
    divisor = cast(c, b, dtype) if b.text.startswith("%") else Value(b.text, dtype)
    x, y = c.broadcast(cast(c, a, dtype), divisor)
    result = c.op(f"{'udiv' if op == 'floordiv' else 'urem'} {x}, {y.text}", dtype, x.lanes)
    return cast(c, result, INT64)


# --- addresses -----------------------------------------------------------------------------------


def address(c: Code, buffer: tir.Buffer, i: tir.Index) -> Address:
    """Return the address of buffer[i]: a pointer to its first lane and the stride between lanes.

    The constant part of an index is added last, so that accesses near each other share the other
    instructions: A[i*8 + k + 3] needs one instruction more than A[i*8 + k].
    """
    terms, const = tir.split_terms(i)
    lane_terms = tuple(t for t in terms if c.lanes(t[0]) > 1)
    scalars = tuple(t for t in terms if c.lanes(t[0]) == 1)
    pointer = _move(c, buffer, _base(c, buffer, scalars), const)
    if not lane_terms:
        return Address(pointer)
    if len(lane_terms) == 1 and isinstance(lane_terms[0][0], tir.Lane):
        return Address(pointer, lane_terms[0][0].lanes, lane_terms[0][1])
    steps = _sum(c, lane_terms, 0)
    kind = type_of_element(buffer)
    spread = c.op(f"getelementptr {kind}, ptr {pointer}, {steps}", INT64, steps.lanes)
    return Address(spread.text, steps.lanes, None)


def type_of_element(buffer: tir.Buffer) -> str:
    """Return the LLVM type of one element in memory."""
    return "i8" if buffer.dtype.bytes == 1 else type_of(buffer.dtype)


def _base(c: Code, buffer: tir.Buffer, terms: tuple[tuple[tir.Atom, int], ...]) -> str:
    """Return the pointer to buffer[sum(terms)], cached until the scope ends."""
    start = c.pointers[buffer]
    if not terms:
        return start
    key = (buffer, frozenset(terms))
    if key in c.known:
        return c.known[key].text
    offset = _sum(c, terms, 0)
    result = c.op(f"getelementptr {type_of_element(buffer)}, ptr {start}, {offset}", INT64, 1, "at")
    if all(c.steady(atom) for atom, _ in terms):
        c.known[key] = result
    return result.text


def _move(c: Code, buffer: tir.Buffer, pointer: str, offset: int) -> str:
    if offset == 0:
        return pointer
    text = f"getelementptr {type_of_element(buffer)}, ptr {pointer}, i64 {offset}"
    return c.op(text, INT64, 1, "at").text


def in_bounds(buffer: tir.Buffer, i: tir.Index) -> bool:
    """Return whether buffer[i] is provably in bounds, even in lanes where the mask is off."""
    size = tir.elements(buffer)
    return tir.lower_bound(i) >= 0 and isinstance(size, int) and tir.upper_bound(i) < size


# --- values --------------------------------------------------------------------------------------


def value(c: Code, e: tir.Index) -> Value:
    """Emit an expression of the loop IR in its own type; indices become int32."""
    match e:
        case tir.Load(buffer, indices):
            return load(c, buffer, indices)
        case tir.Const(number, dtype):
            return constant(number, dtype)
        case tir.Binary("add", acc, tir.Call(name, (tir.Const(0), *factors))) | tir.Call(
            name, (acc, *factors)
        ) if name in tir.DOT4:
            a, b = _four(c, factors[:4]), _four(c, factors[4:])
            return dot4(c, tir.DOT4[name], value(c, acc), a, b)
        case tir.Binary(op, a, b):
            if op in ("and", "or") and not harmless(b):
                return _short_circuit(c, op, a, b)
            return binary(c, op, value(c, a), value(c, b))
        case tir.Cast(tir.Cast(tir.Expr() as inner, narrow), dtype) if _is_limit(
            inner, narrow, dtype
        ):
            return limit(_whole(c, inner), narrow).value
        case tir.Cast(tir.Expr() as inner, dtype) if dtype.is_integer and _is_float(inner):
            return _to_integer(c, inner, dtype)
        case tir.Cast(inner, dtype):
            return cast(c, _narrow(c, inner) if tir.is_index(inner) else value(c, inner), dtype)
        case tir.Compare(op, a, b):
            if tir.is_index(a) and tir.is_index(b):
                return _compare_indices(c, e)
            return compare(c, op, value(c, a), value(c, b))
        case tir.Not(a):
            return invert(c, value(c, a))
        case tir.Select(cond, a, b):
            return select(c, value(c, cond), value(c, a), value(c, b))
        case tir.IfThenElse(cond, a, b):
            return _if_then_else(c, cond, a, b)
        case tir.Call() if tir.is_opaque(e):
            return _c_function(c, e)
        case tir.Call(name, args):
            return intrinsic(c, name, [value(c, a) for a in args])
        case _ if tir.is_index(e):
            return cast(c, index(c, e), INT32)
        case _:
            raise BuildError(f"a {type(e).__name__}", "the LLVM target has no such expression")


def _is_float(e: tir.Expr) -> bool:
    """Return whether `e` is a float32 or float64; float16 is converted through float32."""
    return not tir.is_index(e) and e.dtype in (FLOAT32, FLOAT64)


def _to_integer(c: Code, e: tir.Expr, to: DType) -> Value:
    """Emit the float `e` as an integer; int32(round(x)) is one instruction."""
    match e:
        case tir.Call("round", (x,)):
            return to_integer(Number(c, value(c, x)), to, nearest=True, known=limits(x))
        case tir.Binary("add", tir.Call("round", (x,)), tir.Const(n)) if (
            to.bits <= 16 and float(n).is_integer() and abs(n) < 1 << 16
        ):
            return rounded_plus(Number(c, value(c, x)), int(n), to)
        case _:
            return to_integer(Number(c, value(c, e)), to, known=limits(e))


def _is_limit(e: tir.Expr, narrow: DType, to: DType) -> bool:
    """Return whether the integers `narrow` between the float `e` and `to` only limit its range."""
    return _is_float(e) and e.dtype is to and narrow in (UINT8, UINT16)


def _whole(c: Code, e: tir.Expr) -> Number:
    """Emit the float `e` without its fraction."""
    x = Number(c, value(c, e))
    return x if is_whole(e) else x.intrinsic("trunc")


def passable(e: tir.Expr) -> tir.Expr:
    """Return an argument of a function; raise BuildError if it is of the type bfloat16."""
    if e.dtype == BFLOAT16:
        why = "code of the LLVM target passes no bfloat16 to functions"
        raise BuildError(f"{tir.text(e)} as an argument", why, 'float32, or target="python"')
    return e


def _c_function(c: Code, e: tir.Call) -> Value:
    """Call a C function of this process and return its result."""
    if c.mask is not None or not is_c_function(e, NO_FUNCTION):
        why = "only a C function can return a value, and not under a vector condition"
        raise BuildError(f"{e.name}(...)", why, "a function that writes its result to an output")
    operands = [
        ("ptr", pointer(c, a)) if isinstance(a, tir.Pointer | tir.View) else value(c, a)
        for a in map(passable, e.args)
    ]
    return c.call(tir.callee(e), e.dtype, *operands)


def pointer(c: Code, e: tir.Pointer | tir.View) -> str:
    """Return the address at which a pointer or view begins."""
    b = e.first.buffer
    start = address(c, b, flat(b, e.first.indices)).pointer
    if isinstance(e, tir.View):
        return start
    kind, offset = type_of_element(b), index(c, e.offset)
    return c.op(f"getelementptr {kind}, ptr {start}, {offset}", INT64, 1, "at").text


def load(c: Code, buffer: tir.Buffer, indices: tuple[tir.Index, ...]) -> Value:
    """Emit a load from a flat buffer; it is masked only if an index could be out of bounds."""
    i = flat(buffer, indices)
    safe = c.mask is None or in_bounds(buffer, i)
    return read(c, buffer.dtype, address(c, buffer, i), None if safe else c.mask)


def _four(c: Code, parts: list[tir.Expr]) -> Value:
    """Emit four bytes as one 32-bit number, by a single load if they are consecutive."""
    loads = [e for e in parts if isinstance(e, tir.Load)]
    offsets = [flat(e.buffer, e.indices) for e in loads]
    if len(loads) == 4 and all(e.buffer is loads[0].buffer for e in loads):
        buffer, start = loads[0].buffer, offsets[0]
        are_adjacent = all(tir.prove_equal(i, tir.add(start, n)) for n, i in enumerate(offsets))
        if are_adjacent and (c.mask is None or all(in_bounds(buffer, i) for i in offsets)):
            at = address(c, buffer, start)
            if at.lanes == 1 or at.stride == 4:  # the groups of four are contiguous
                kind = type_of(INT32, at.lanes)
                return c.op(f"load {kind}, ptr {at.pointer}, align 1", INT32, at.lanes)
    return together(c, [value(c, e) for e in parts])


def _narrow(c: Code, e: tir.Index) -> Value:
    """Emit an index, in 32 bits if its bounds allow; converting 32 bits is cheaper than 64."""
    v = index(c, e)
    fits = tir.lower_bound(e) >= -FITS_32 and tir.upper_bound(e) < FITS_32
    return cast(c, v, INT32) if fits and v.text.startswith("%") else v


def _compare_indices(c: Code, e: tir.Compare) -> Value:
    a, b = index(c, e.a), index(c, e.b)
    fits = all(tir.lower_bound(i) > -FITS_32 and tir.upper_bound(i) < FITS_32 for i in (e.a, e.b))
    if max(a.lanes, b.lanes) > 1 and fits:  # 32-bit lanes: twice as many fit in a register
        a, b = (cast(c, v, INT32) for v in c.broadcast(a, b))
    return compare(c, e.op, a, b)


def harmless(e: tir.Expr) -> bool:
    """Return whether `e` may be computed speculatively: it is cheap and stays in bounds."""
    for n in tir.walk(e):
        if isinstance(n, tir.Call) or (
            isinstance(n, tir.FloorDiv | tir.FloorMod) and not isinstance(n.b, int)
        ):
            return False
        if isinstance(n, tir.Binary) and n.op in SLOW:
            return False
        if isinstance(n, tir.Load) and not all(in_bounds(n.buffer, i) for i in n.indices):
            return False
    return True


def _if_then_else(c: Code, cond: tir.Expr, a: tir.Expr, b: tir.Expr) -> Value:
    test = value(c, cond)
    if harmless(a) and harmless(b):
        return select(c, test, value(c, a), value(c, b))
    if test.lanes == 1:
        lanes = max(c.lanes(a), c.lanes(b))
        arms = (lambda: c.splat(value(c, a), lanes)), (lambda: c.splat(value(c, b), lanes))
        return c.choose(test, *arms)
    with c.where(test):
        x = value(c, a)
    with c.where(invert(c, test)):
        y = value(c, b)
    return select(c, test, x, y)


def _short_circuit(c: Code, op: str, a: tir.Expr, b: tir.Expr) -> Value:
    """Emit `a and b` or `a or b` so that b is computed only if needed."""
    if op == "and":
        return _if_then_else(c, a, b, tir.FALSE)
    return _if_then_else(c, a, tir.TRUE, b)
