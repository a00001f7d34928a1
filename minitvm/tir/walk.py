"""Traversal of IR: `walk` visits nodes, `rewrite` rebuilds, `substitute` replaces variables.

An unchanged subtree is returned as the same object, so `new is old` tests whether it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from .index import (
    as_index,
    floordiv,
    floormod,
    linear,
    maximum,
    minimum,
    mul,
    split_terms,
)
from .nodes import (
    AsIndex,
    Atom,
    Binary,
    Buffer,
    Call,
    Cast,
    Compare,
    Const,
    Expr,
    Extremum,
    FloorDiv,
    FloorMod,
    IfThenElse,
    Index,
    Lane,
    Linear,
    Load,
    Not,
    Pointer,
    Product,
    Var,
    View,
    Where,
)
from .stmt import NOTHING, Allocate, Evaluate, For, If, Pragma, Seq, Stmt, Store, seq
from .value import all_of, any_of, compare, index, index_of_value, negate

Node: TypeAlias = Expr | Stmt

# --- children: every node directly inside, in evaluation order -----------------------------------

_CHILDREN: dict[type, Callable[[Any], Iterable[Any]]] = {
    Linear: lambda e: [a for a, _ in e.terms],
    Product: lambda e: (e.a, e.b),
    FloorDiv: lambda e: (e.a, e.b),
    FloorMod: lambda e: (e.a, e.b),
    Extremum: lambda e: (e.a, e.b),
    AsIndex: lambda e: (e.value,),
    Cast: lambda e: (e.value,),
    Binary: lambda e: (e.a, e.b),
    Compare: lambda e: (e.a, e.b),
    Not: lambda e: (e.a,),
    Where: lambda e: (e.cond, e.a, e.b),
    IfThenElse: lambda e: (e.cond, e.a, e.b),
    Call: lambda e: e.args,
    Load: lambda e: e.indices,
    Pointer: lambda e: (e.first, e.offset),
    View: lambda e: (e.first, *e.shape, *e.strides),
    For: lambda s: (s.extent, s.body),
    Store: lambda s: (*s.indices, s.value),
    If: lambda s: (s.cond, s.body) if s.orelse is None else (s.cond, s.body, s.orelse),
    Seq: lambda s: s.body,
    Allocate: lambda s: (s.body,),
    Evaluate: lambda s: (s.value,),
    Pragma: lambda s: (s.body,),
}


def children(n: Node) -> list[Node]:
    """Return the child nodes of `n`, in evaluation order; constant indices (ints) are left out."""
    inside = _CHILDREN.get(type(n))
    return [] if inside is None else [c for c in inside(n) if not isinstance(c, int)]


def walk(n: Node | Index) -> Iterator[Node]:
    """Yield every node in `n`, parents before children, in evaluation order."""
    if isinstance(n, int):
        return
    stack: list[Node] = [n]
    while stack:
        n = stack.pop()
        yield n
        inside = _CHILDREN.get(type(n))
        if inside is not None:
            stack += [c for c in reversed(tuple(inside(n))) if not isinstance(c, int)]


def in_order(s: Stmt) -> Iterator[Stmt]:
    """Yield the statements that `s` runs in sequence, each allocation before its body.

    Sequences are flattened, except empty ones; loops and branches stay whole.
    """
    waiting = [s]
    while waiting:
        s = waiting.pop()
        if isinstance(s, Seq) and s.body:
            waiting += reversed(s.body)
            continue
        yield s
        if isinstance(s, Allocate):
            waiting.append(s.body)


def free_of(n: Node | Index, variables: Iterable[Expr]) -> bool:
    """Return whether none of `variables` occurs in `n`."""
    wanted = {id(v) for v in variables}
    return not any(id(m) in wanted for m in walk(n))


# --- rewriting expressions -----------------------------------------------------------------------

Rule: TypeAlias = Callable[[Any], Any]  # returns the new expression; the same object keeps it


class _Rewriter:
    """Applies a rule bottom-up: to the children of a node, then to the node rebuilt from them.

    leaves   apply the rule only to leaves of the original expression, not to what folding returns:
             replacing i by i + 1 in (i + 5) % 6 gives (i + 6) % 6 = i, whose i is not replaced
    """

    def __init__(self, rule: Rule, leaves: bool = False) -> None:
        self.rule, self.leaves = rule, leaves
        self.done: dict[int, tuple[Any, Any]] = {}  # id -> (node kept alive, its rewrite)

    def __call__(self, e: Index) -> Any:
        if isinstance(e, int):
            return e
        seen = self.done.get(id(e))
        if seen is not None:
            return seen[1]
        rebuild = _REBUILD.get(type(e))
        new = e if rebuild is None else rebuild(e, self)
        if isinstance(new, Expr) and not (self.leaves and rebuild):
            new = self.rule(new)
        self.done[id(e)] = (e, new)
        return new

    def all(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        new = tuple([self(x) for x in items])
        return items if all(map(_identical, new, items)) else new


def _identical(a: object, b: object) -> bool:
    return a is b or (type(a) is int and type(b) is int and a == b)


def _linear(e: Linear, go: _Rewriter) -> Index:
    terms: list[tuple[Atom, int]] = []
    const, same = e.const, True
    for a, c in e.terms:
        new = go(a)
        if new is a:
            terms.append((a, c))
        else:
            same = False
            more, n = split_terms(new)
            terms += [(x, c * k) for x, k in more]
            const += c * n
    return e if same else linear(terms, const)


def _pair(build: Callable[[Index, Index], Index]) -> Callable[[Any, _Rewriter], Any]:
    def rebuild(e: Any, go: _Rewriter) -> Any:
        a, b = go(e.a), go(e.b)
        return e if _identical(a, e.a) and _identical(b, e.b) else build(a, b)

    return rebuild


def _extremum(e: Extremum, go: _Rewriter) -> Index:
    a, b = go(e.a), go(e.b)
    if _identical(a, e.a) and _identical(b, e.b):
        return e
    return minimum(a, b) if e.op == "min" else maximum(a, b)


def _as_index(e: AsIndex, go: _Rewriter) -> Index:
    new = go(e.value)
    if new is e.value:
        return e
    found = index_of_value(new)
    return as_index(new, e.low, e.high) if isinstance(found, AsIndex) else found


def _cast(e: Cast, go: _Rewriter) -> Expr:
    new = go(e.value)
    if _identical(new, e.value):
        return e
    fits = isinstance(new, int) and e.dtype.is_integer and e.dtype.low <= new <= e.dtype.high
    return Const(new, e.dtype) if fits else Cast(new, e.dtype)


def _binary(e: Binary, go: _Rewriter) -> Expr:
    a, b = go(e.a), go(e.b)
    if a is e.a and b is e.b:
        return e
    if e.op in ("and", "or"):
        return all_of(a, b) if e.op == "and" else any_of(a, b)
    return Binary(e.op, a, b, e.dtype)


def _compare(e: Compare, go: _Rewriter) -> Expr:
    a, b = go(e.a), go(e.b)
    return e if _identical(a, e.a) and _identical(b, e.b) else compare(e.op, a, b)


def _not(e: Not, go: _Rewriter) -> Expr:
    a = go(e.a)
    return e if a is e.a else negate(a)


def _choice(e: Any, go: _Rewriter) -> Expr:
    cond = go(e.cond)
    if isinstance(cond, Const):  # the other arm may be invalid now
        return go(e.a) if cond.value else go(e.b)
    a, b = go(e.a), go(e.b)
    same = cond is e.cond and a is e.a and b is e.b
    return e if same else type(e)(cond, a, b, e.dtype)


def _call(e: Call, go: _Rewriter) -> Expr:
    args = go.all(e.args)
    return e if args is e.args else Call(e.name, args, e.dtype)


def _load(e: Load, go: _Rewriter) -> Expr:
    indices = go.all(e.indices)
    return e if indices is e.indices else Load(e.buffer, indices, e.dtype)


def _pointer(e: Pointer, go: _Rewriter) -> Expr:
    first, offset = go(e.first), go(e.offset)
    same = first is e.first and _identical(offset, e.offset)
    return e if same else Pointer(first, e.mode, offset, first.dtype)


def _view(e: View, go: _Rewriter) -> Expr:
    first, shape, strides = go(e.first), go.all(e.shape), go.all(e.strides)
    same = first is e.first and shape is e.shape and strides is e.strides
    return e if same else View(first, shape, strides, first.dtype)


_REBUILD: dict[type, Callable[[Any, _Rewriter], Any]] = {
    Linear: _linear,
    Product: _pair(mul),
    FloorDiv: _pair(floordiv),
    FloorMod: _pair(floormod),
    Extremum: _extremum,
    AsIndex: _as_index,
    Cast: _cast,
    Binary: _binary,
    Compare: _compare,
    Not: _not,
    Where: _choice,
    IfThenElse: _choice,
    Call: _call,
    Load: _load,
    Pointer: _pointer,
    View: _view,
}


def rewrite_expr(e: Any, rule: Rule) -> Any:
    """Replace every expression x in `e` by rule(x), innermost first, and fold the results."""
    return _Rewriter(rule)(e)


class _Direct(_Rewriter):
    """Applies the rule to the children of a node, but not to their children."""

    def __call__(self, e: Index) -> Any:
        return e if isinstance(e, int) else self.rule(e)


def map_inside(e: Expr, rule: Rule) -> Any:
    """Replace each child expression x of `e` by rule(x), and fold the result."""
    build = _REBUILD.get(type(e))
    return e if build is None else build(e, _Direct(rule))


# --- rewriting statements ------------------------------------------------------------------------

StmtRule: TypeAlias = Callable[[Stmt], Stmt]


def map_children(s: Stmt, stmt: StmtRule, expr: Rule) -> Stmt:
    """Replace each child statement c of `s` by stmt(c), and each expression e by expr(e).

    An If whose new condition is constant is replaced by the branch that runs.
    """
    match s:
        case For(var, extent, body, kind, thread):
            new, e = stmt(body), expr(extent)
            same = new is body and _identical(e, extent)
            return s if same else For(var, e, new, kind, thread)
        case Store(buffer, indices, value):
            at, v = tuple([expr(i) for i in indices]), expr(value)
            same = v is value and all(map(_identical, at, indices))
            return s if same else Store(buffer, at, v)
        case If(cond, body, orelse, likely):
            c = expr(cond)
            if isinstance(c, Const):  # a decided branch: drop the other one
                chosen = body if c.value else orelse
                return NOTHING if chosen is None else stmt(chosen)
            new, other = stmt(body), None if orelse is None else stmt(orelse)
            same = c is cond and new is body and other is orelse
            return s if same else If(c, new, other, likely)
        case Seq(parts):
            news = [stmt(p) for p in parts]
            return s if all(map(_identical, news, parts)) else seq(*news)
        case Allocate(buffer, body):
            new = stmt(body)
            return s if new is body else Allocate(buffer, new)
        case Evaluate(value):
            v = expr(value)
            return s if v is value else Evaluate(v)
        case Pragma(key, value, body):
            new = stmt(body)
            return s if new is body else Pragma(key, value, new)


def map_parts(s: Stmt, stmt: StmtRule, whole: StmtRule | None = None) -> Stmt:
    """Apply `stmt` to each loop, branch, store, ... that `s` runs in sequence.

    whole   applied afterwards to the sequences and allocations that contain them, innermost first

    Allocations are handled without recursion: in a program of many stages, each stage is inside the
    allocations of the stages before it, which can exceed Python's recursion limit.
    """
    # each allocation or sequence around `s`, with its new parts except the last
    chain: list[tuple[Allocate | Seq, list[Stmt]]] = []
    while isinstance(s, Allocate) or (isinstance(s, Seq) and s.body):
        if isinstance(s, Allocate):
            chain.append((s, []))
            s = s.body
        else:
            chain.append((s, [map_parts(p, stmt, whole) for p in s.body[:-1]]))
            s = s.body[-1]
    new = stmt(s) if not isinstance(s, Seq) else s if whole is None else whole(s)
    for link, first in reversed(chain):
        new = _relinked(link, [*first, new])
        if whole is not None and not (isinstance(link, Seq) and not isinstance(new, Seq)):
            new = whole(new)  # if one part is left, it has been rewritten already
    return new


def _relinked(link: Allocate | Seq, parts: list[Stmt]) -> Stmt:
    """Return a copy of `link` with these parts, or `link` itself if no part has changed."""
    if isinstance(link, Allocate):
        return link if parts[0] is link.body else Allocate(link.buffer, parts[0])
    return link if all(map(_identical, parts, link.body)) else seq(*parts)


def _keep(n: Any) -> Any:
    return n


def rewrite(s: Stmt, stmt: StmtRule = _keep, expr: Rule = _keep) -> Stmt:
    """Replace statements x in `s` by stmt(x) and expressions by expr(x), innermost first."""
    return _rewritten(s, stmt, _keep if expr is _keep else _Rewriter(expr))


def _rewritten(s: Stmt, stmt: StmtRule, on_expr: Rule) -> Stmt:
    def go(s: Stmt) -> Stmt:
        return map_parts(s, one, stmt)

    def one(s: Stmt) -> Stmt:
        new = map_children(s, go, on_expr)
        decided = isinstance(s, If) and new is not s and isinstance(on_expr(s.cond), Const)
        return new if decided else stmt(new)  # its body is already rewritten

    return go(s)


def substitute(n: Any, values: Mapping[Any, Any]) -> Any:
    """Replace each variable v of `values` in `n`, an expression or statement, by values[v].

    The results are folded. Variables in the inserted indices are not replaced again.
    """
    if isinstance(n, int | Const):
        return n
    table = {id(v): index(to) for v, to in values.items()}
    go = _Rewriter(lambda e: table.get(id(e), e), leaves=True)
    return go(n) if isinstance(n, Expr) else _rewritten(n, lambda s: _ended(s, go), go)


def _ended(s: Stmt, go: _Rewriter) -> Stmt:
    """Apply the substitution `go` to the symbolic upper bound of the counter, if `s` is a loop.

    Replacing i by 2 in `for j in range(n - i)` changes the bound of j from n - i - 1 to n - 3.
    """
    if not isinstance(s, For) or s.var.top is None:
        return s
    top = go(s.var.top)
    if _identical(top, s.var.top):
        return s
    last = max(0, top) if isinstance(top, int) else s.var.high
    counter = Var(s.var.name, s.var.low, last, None if isinstance(top, int) else top)
    return For(counter, s.extent, substitute(s.body, {s.var: counter}), s.kind, s.thread)


def rebuffer(n: Any, buffers: Mapping[Buffer, Buffer]) -> Any:
    """Replace buffers in every load, store and allocation in `n`; do not change the indices."""

    def on_expr(e: Expr) -> Expr:
        if isinstance(e, Load) and e.buffer in buffers:
            new = buffers[e.buffer]
            return Load(new, e.indices, new.dtype)
        return e

    def on_stmt(s: Stmt) -> Stmt:
        match s:
            case Store(buffer, indices, value) if buffer in buffers:
                return Store(buffers[buffer], indices, value)
            case Allocate(buffer, body) if buffer in buffers:
                return Allocate(buffers[buffer], body)
            case _:
                return s

    return rewrite_expr(n, on_expr) if isinstance(n, Expr) else rewrite(n, on_stmt, on_expr)


def lanes(e: Index) -> int:
    """Return the number of vector lanes of `e`; 1 for a scalar."""
    return next((n.lanes for n in walk(e) if isinstance(n, Lane)), 1)


def variables(n: Node | Index) -> list[Var]:
    """Return the distinct variables in `n`, in order of first appearance."""
    return list({id(m): m for m in walk(n) if isinstance(m, Var)}.values())
