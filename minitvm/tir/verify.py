"""The rules of valid loop IR, called laws, and `verify`, which raises VerifyError for a violation.

A law is a function of one statement and its scope that yields a message for each violation. Its
docstring states the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal, TypeAlias, get_args

from minitvm.base import BOOL, ArgumentError, DType, VerifyError, check_kind, check_text

from . import nodes
from .func import PrimFunc
from .index import elements, is_index, nonneg, sub
from .numeric import BINARY, INTRINSICS, Intrinsic
from .stmt import Allocate, Evaluate, For, If, Stmt, Store
from .text import Printer, text
from .walk import children, inner, lanes, parts, walk

Level: TypeAlias = Literal["nest", "flat", "vector"]


@dataclass(frozen=True, slots=True)
class Scope:
    """The context of a statement: what it may use, and the conditions under which it runs."""

    level: Level
    variables: frozenset[nodes.Var]
    buffers: frozenset[nodes.Buffer]
    writable: frozenset[nodes.Buffer]
    mask: int = 1  # lanes of the enclosing vector conditions; 1 if there are none
    certain: bool = True  # it runs at least once: no enclosing condition or possibly empty loop


LOOP_IR = (nodes.Linear, *nodes.ATOMS, *nodes.VALUES)
Law: TypeAlias = Callable[[Stmt, Scope], Iterator[str]]


# --- what a statement mentions directly, without the statements inside it ------------------------


def _exprs(s: Stmt) -> tuple[nodes.Index, ...]:
    if isinstance(s, Allocate):
        return (*s.buffer.shape, *s.buffer.strides)
    return tuple(part for part in parts(s) if not isinstance(part, Stmt))


@lru_cache(maxsize=1)  # all laws are applied to one statement before the next
def _nodes(s: Stmt) -> list[nodes.Expr]:
    """Return every expression in `s`, parents first, but not those in the statements inside `s`."""
    return [n for e in _exprs(s) for n in walk(e) if isinstance(n, nodes.Expr)]


@lru_cache(maxsize=1)
def _accesses(s: Stmt) -> list[tuple[nodes.Buffer, tuple[nodes.Index, ...]]]:
    """Return (buffer, indices) of every load and store in `s`, but not in statements inside `s`."""
    stored = [(s.buffer, s.indices)] if isinstance(s, Store) else []
    return stored + [(e.buffer, e.indices) for e in _nodes(s) if isinstance(e, nodes.Load)]


def _sure_accesses(s: Stmt) -> Iterator[tuple[nodes.Buffer, tuple[nodes.Index, ...]]]:
    """Yield the accesses that happen whenever `s` runs: all but those in arms of if_then_else."""
    if isinstance(s, Store):
        yield s.buffer, s.indices
    stack = [e for e in _exprs(s) if isinstance(e, nodes.Expr)]
    while stack:
        e = stack.pop()
        if isinstance(e, nodes.Load):
            yield e.buffer, e.indices
        if isinstance(e, nodes.IfThenElse):
            stack.append(e.cond)
        elif not isinstance(e, nodes.Pointer | nodes.View):
            stack.extend(n for n in children(e) if isinstance(n, nodes.Expr))


# --- the laws ------------------------------------------------------------------------------------


def variables_are_in_scope(s: Stmt, scope: Scope) -> Iterator[str]:
    """Every variable used is a parameter, a size, or the counter of an enclosing loop."""
    for e in _nodes(s):
        if isinstance(e, nodes.Var) and e not in scope.variables:
            yield f"{e.name!r} is neither the counter of an enclosing loop nor a parameter or size"


def variables_are_bound_once(s: Stmt, scope: Scope) -> Iterator[str]:
    """Nested loops have different counters. Loops in sequence may have the same counter."""
    if isinstance(s, For) and s.var in scope.variables:
        yield f"{s.var.name!r} is already the counter of an enclosing loop, a parameter or a size"


def buffers_exist(s: Stmt, scope: Scope) -> Iterator[str]:
    """Every buffer that is accessed is a parameter, or an enclosing statement allocates it."""
    for buffer, _ in _accesses(s):
        if buffer not in scope.buffers:
            yield f"{buffer.name!r} is neither a parameter nor allocated by an enclosing statement"


def inputs_are_only_read(s: Stmt, scope: Scope) -> Iterator[str]:
    """Statements store only to outputs and to allocated buffers."""
    if isinstance(s, Store) and s.buffer in scope.buffers and s.buffer not in scope.writable:
        yield f"{s.buffer.name!r} is an input: PrimFunc.outputs does not list it"


def ranks_match(s: Stmt, scope: Scope) -> Iterator[str]:
    """An access has one index per dimension, or a single offset (as always after `flatten`)."""
    for buffer, indices in _accesses(s):
        count, rank = len(indices), len(buffer.shape)
        if count != 1 and scope.level != "nest":
            yield f"{buffer.name!r} has {count} indices; after flatten an access has one offset"
        elif count not in (1, rank):
            yield f"{buffer.name!r} has {rank} dimensions, {count} indices given"


def only_loop_ir_is_left(s: Stmt, scope: Scope) -> Iterator[str]:
    """Every expression is a node of the loop IR; no tensor element or iteration axis remains."""
    for e in _nodes(s):
        if not isinstance(e, LOOP_IR):
            yield f"{type(e).__name__} is not part of the loop IR"


def indices_are_indices(s: Stmt, scope: Scope) -> Iterator[str]:
    """Subscripts and extents are indices, without a type; stored values and conditions have one."""
    integers = [s.extent] if isinstance(s, For) else []
    integers += _exprs(s) if isinstance(s, Allocate) else []
    integers += [i for _, indices in _accesses(s) for i in indices]
    integers += [
        i for e in _nodes(s) if isinstance(e, nodes.Pointer | nodes.View) for i in children(e)[1:]
    ]
    for e in integers:
        if not is_index(e):
            yield f"{_quote(e)} is a value, not an index; tir.index converts a value to an index"
    for e in _exprs(s)[-1:] if isinstance(s, Store | Evaluate | If) else ():
        if not _is_value(e):
            yield f"{_quote(e)} is not a typed value: tir.value converts it"


def _is_value(e: object) -> bool:
    return isinstance(e, nodes.Expr) and not is_index(e)


def _quote(e: object) -> str:
    return text(e) if isinstance(e, nodes.Expr) else repr(e)


def stores_have_the_type_of_the_buffer(s: Stmt, scope: Scope) -> Iterator[str]:
    """Stored values and loads have the element type of the buffer."""
    if isinstance(s, Store) and not is_index(s.value) and s.value.dtype != s.buffer.dtype:
        yield f"a {s.value.dtype} is stored in {s.buffer.name!r}, a buffer of {s.buffer.dtype}"
    for e in _nodes(s):
        if isinstance(e, nodes.Load) and e.dtype != e.buffer.dtype:
            yield f"{text(e)} has type {e.dtype}, but {e.buffer.name!r} is of {e.buffer.dtype}"


def operands_have_one_type(s: Stmt, scope: Scope) -> Iterator[str]:
    """The operands of an operator have the same type, and the operator supports it."""
    if isinstance(s, If) and s.cond.dtype != BOOL:
        yield f"the condition is {s.cond.dtype}, not bool"
    for e in _nodes(s):
        why = _mistyped(e)
        if why:
            yield f"in {text(e)}: {why}"


CHOICES = (nodes.Select, nodes.IfThenElse)
OF_VALUES = (nodes.Binary, nodes.Not, nodes.Call, nodes.AsIndex, *CHOICES)  # operands are values


def _mistyped(e: nodes.Expr) -> str:
    """Return why the operands of `e` have a wrong type; "" if their types are right."""
    for v in parts(e) if isinstance(e, OF_VALUES) else ():
        if not _is_value(v):
            return f"{_quote(v)} is not a typed value: tir.value converts it"
    match e:
        case nodes.Binary(op, a, b, dtype):
            if not a.dtype == b.dtype == dtype:
                return f"{op} of {a.dtype} and {b.dtype} cannot give {dtype}"
            return "" if dtype.kind in BINARY[op].on else f"{op} is not defined on {dtype}"
        case nodes.Compare(_, a, b):
            return _incomparable(a, b)
        case nodes.Not(a):
            return "" if a.dtype == BOOL else f"tir.Not is not defined on {a.dtype}"
        case nodes.Select(cond, a, b, dtype) | nodes.IfThenElse(cond, a, b, dtype):
            if cond.dtype != BOOL:
                return f"the condition is {cond.dtype}, not bool"
            fits = a.dtype == b.dtype == dtype
            return "" if fits else f"arms of {a.dtype} and {b.dtype} cannot give {dtype}"
        case nodes.Call(name, args, dtype) if name in INTRINSICS:
            return _miscalled(INTRINSICS[name], name, args, dtype)
        case nodes.AsIndex(value):
            return "" if value.dtype.is_integer else f"{value.dtype} is used as an index"
        case _:
            return ""


def _incomparable(a: nodes.Index, b: nodes.Index) -> str:
    """Return why `a` and `b` cannot be compared, or ""."""
    if is_index(a) and is_index(b):
        return ""
    if not (_is_value(a) and _is_value(b)):
        return "an index is compared with a value: tir.value converts it"
    types = [e.dtype for e in (a, b) if isinstance(e, nodes.Expr)]
    return "" if types[0] == types[1] else f"{types[0]} is compared with {types[1]}"


def _miscalled(known: Intrinsic, name: str, args: tuple[nodes.Expr, ...], dtype: DType) -> str:
    """Return what is wrong with a call of an intrinsic, or ""."""
    if len(args) != known.args:
        return f"{name} takes {known.args} arguments, {len(args)} given"
    takes = known.takes or (args[0].dtype,) * known.args
    fits = all(a.dtype == t for a, t in zip(args, takes, strict=True))
    fits = fits and (bool(known.takes) or takes[0].kind in known.on)
    right = fits and dtype == (known.gives or takes[0])
    return "" if right else f"{name} of {', '.join(a.dtype for a in args)} cannot give {dtype}"


def lanes_agree(s: Stmt, scope: Scope) -> Iterator[str]:
    """All vectors in a statement and its vector conditions have one width.

    A statement that stores a vector, or stores under a vector condition, has a vector index.
    """
    widths = {e.lanes for e in _nodes(s) if isinstance(e, nodes.Lane)}
    if scope.mask > 1:
        widths.add(scope.mask)
    if len(widths) > 1:
        yield f"the statement mixes vectors of {' and '.join(map(str, sorted(widths)))} lanes"
    if isinstance(s, For | Allocate) and any(lanes(e) > 1 for e in _exprs(s)):
        yield "an extent is a vector, not a scalar"
    if isinstance(s, Store) and all(lanes(i) == 1 for i in s.indices):
        if lanes(s.value) > 1:
            yield f"{lanes(s.value)} lanes are stored in one element"
        elif scope.mask > 1:
            yield "one element is stored under a vector condition: several lanes may store to it"


def ranges_cover_loops(s: Stmt, scope: Scope) -> Iterator[str]:
    """The declared range of a loop counter includes all its values; folding relies on that."""
    if not isinstance(s, For) or not is_index(s.extent):
        return
    last = sub(s.extent, 1)
    bounded = s.var.high == float("inf") or nonneg(sub(int(s.var.high), last))
    if s.var.low > 0 or not bounded:
        yield f"{s.var.name!r} is declared as {s.var.low} .. {s.var.high}, not 0 .. {text(last)}"
    if s.var.top is not None and not nonneg(sub(s.var.top, last)):
        yield f"{s.var.name!r} is declared as at most {text(s.var.top)}, not {text(last)}"


def accesses_are_inside(s: Stmt, scope: Scope) -> Iterator[str]:
    """No access is provably out of bounds, except in code that might not run."""
    if not scope.certain:
        return
    for buffer, indices in _sure_accesses(s):
        flat = len(indices) == 1 and (scope.level != "nest" or len(buffer.shape) != 1)
        extents = (elements(buffer),) if flat else buffer.shape
        for i, n in zip(indices, extents, strict=False):
            if nonneg(sub(-1, i)) or nonneg(sub(i, n)):
                at = Printer().element(buffer, indices)
                yield f"{at} is outside {buffer.name!r}: {text(i)} is not in 0 .. {text(sub(n, 1))}"


def no_loop_is_left_to_unfold(s: Stmt, scope: Scope) -> Iterator[str]:
    """At level "vector", there are no loops of kind "vectorize" or "unroll"."""
    if scope.level == "vector" and isinstance(s, For) and s.kind in ("vectorize", "unroll"):
        yield f"the loop remains after the pass that replaces {s.kind!r} loops"


LAWS: tuple[Law, ...] = (  # later laws may rely on earlier laws
    only_loop_ir_is_left,
    variables_are_in_scope,
    variables_are_bound_once,
    buffers_exist,
    inputs_are_only_read,
    indices_are_indices,
    ranks_match,
    stores_have_the_type_of_the_buffer,
    operands_have_one_type,
    lanes_agree,
    ranges_cover_loops,
    accesses_are_inside,
    no_loop_is_left_to_unfold,
)


# --- applying them -------------------------------------------------------------------------------


def _inside(s: Stmt, scope: Scope) -> Scope:
    """Return the scope of the statements directly inside `s`."""
    match s:
        case For(var, extent):
            runs = scope.certain and is_index(extent) and nonneg(sub(extent, 1))
            return replace(scope, variables=scope.variables | {var}, certain=runs)
        case If(cond):
            return replace(scope, mask=max(scope.mask, lanes(cond)), certain=False)
        case Allocate(buffer):
            known, writable = scope.buffers | {buffer}, scope.writable | {buffer}
            return replace(scope, buffers=known, writable=writable)
        case _:
            return scope


def _breaches(s: Stmt, scope: Scope) -> Iterator[tuple[Stmt, str]]:
    """Yield (statement, message) for every violation of a law in `s`, outer statements first."""
    stack = [(s, scope)]
    while stack:
        s, scope = stack.pop()
        for law in LAWS:
            for why in law(s, scope):
                yield s, why
        inner_scope = _inside(s, scope)
        stack += [(part, inner_scope) for part in reversed(inner(s))]


def verify(f: PrimFunc, level: Level = "nest") -> None:
    """Raise VerifyError if a statement of `f` breaks a law; quote the first such statement.

    level   the form of the program: "nest" has one index per dimension, "flat" one offset per
            access, and "vector" is "flat" without loops to vectorize or unroll
    """
    check_kind("program", f, PrimFunc, fix="what tvm.lower returns")
    if check_text("verify: level", level, '"nest"') not in get_args(Level):
        what = f"verify: level={level!r}"
        raise ArgumentError(what, "no such level", '"nest", "flat" or "vector"')
    missing = [b.name for b in f.outputs if not any(b is p for p in f.params)]
    if missing:
        raise VerifyError(f"{f.name}: output {missing[0]!r}", "is not a parameter")
    if f.prepack is not None:
        verify(f.prepack, level)
    buffers = frozenset(p for p in (*f.params, *f.packed) if isinstance(p, nodes.Buffer))
    variables = frozenset([*(p for p in f.params if isinstance(p, nodes.Var)), *f.sizes])
    scope = Scope(level, variables, buffers, frozenset(f.outputs))
    for s, why in _breaches(f.body, scope):
        line = next(f.printer().lines(s))
        raise VerifyError(f"{f.name}: {line.removesuffix(':')}", why)
