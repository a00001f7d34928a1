"""Traversal of IR: `walk` visits nodes, `rewrite` rebuilds, `substitute` replaces variables.

An unchanged subtree is returned as the same object, so `new is old` tests whether it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import is_
from typing import Any, TypeAlias, get_args

from minitvm.base import DType

from .index import FOLDED, as_index, linear, split_terms
from .nodes import (
    ATOMS,
    VALUES,
    AsIndex,
    Atom,
    Binary,
    BinaryOp,
    Bound,
    Buffer,
    Cast,
    Compare,
    Const,
    Expr,
    IfThenElse,
    Index,
    Lane,
    Linear,
    Load,
    Not,
    Select,
    Var,
)
from .stmt import NOTHING, Allocate, For, If, Seq, Stmt, Store, seq
from .value import all_of, any_of, compare, index, index_of_value, negate

Node: TypeAlias = Expr | Stmt

# --- children: every node directly inside, in evaluation order -----------------------------------

# how a rewriter `go` is applied to a field with a child node, or several, by the type of the field
_APPLY = {
    **dict.fromkeys(("Index", "Atom", "Expr", "Load"), "go"),
    **dict.fromkeys(("tuple[Index, ...]", "tuple[Expr, ...]"), "go.all"),
    "Stmt": "go.stmt",
    "Stmt | None": "go.stmt",
    "tuple[Stmt, ...]": "go.stmts",
}


def _parts(cls: Any) -> dict[str, str]:
    """Return the names of the fields of `cls` with child nodes, and how `go` applies to each."""
    return {f.name: _APPLY[str(f.type)] for f in fields(cls) if f.type in _APPLY}


def _reader(cls: type, *kinds: str) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function that returns the children of a node: lambda e: (e.first, *e.shape).

    kinds   values of _APPLY, such as "go.stmt": only fields that a rewriter handles so are read
    """
    several = ("go.all", "go.stmts")
    parts = [(name, go) for name, go in _parts(cls).items() if go in kinds]
    reads = [f"*e.{name}," if go in several else f"e.{name}," for name, go in parts]
    return eval(f"lambda e: ({' '.join(reads)})")


_PARENTS = [cls for cls in (*ATOMS, *VALUES, *get_args(Stmt)) if _parts(cls)]
_CHILDREN: dict[type, Callable[[Any], Sequence[Any]]] = {
    **{cls: _reader(cls, *_APPLY.values()) for cls in _PARENTS},
    Linear: lambda e: [a for a, _ in e.terms],
    If: lambda s: (s.cond, s.body) if s.orelse is None else (s.cond, s.body, s.orelse),
}
_INNER: dict[type, Callable[[Any], Sequence[Stmt]]] = {
    **{cls: _reader(cls, "go.stmt", "go.stmts") for cls in get_args(Stmt)},
    If: lambda s: (s.body,) if s.orelse is None else (s.body, s.orelse),
}


def parts(n: Node) -> Sequence[Any]:
    """Return the child nodes of `n` and its constant indices (ints), in evaluation order."""
    children_of = _CHILDREN.get(type(n))
    return () if children_of is None else children_of(n)


def children(n: Node) -> list[Node]:
    """Return the child nodes of `n`, in evaluation order; constant indices (ints) are left out."""
    children_of = _CHILDREN.get(type(n))
    return [] if children_of is None else [c for c in children_of(n) if not isinstance(c, int)]


def inner(s: Stmt) -> Sequence[Stmt]:
    """Return the statements directly inside `s`."""
    return _INNER[type(s)](s)


def every(s: Stmt) -> Iterator[Stmt]:
    """Yield `s` and every statement inside it, outer statements first."""
    stack = [s]
    while stack:
        s = stack.pop()
        yield s
        stack += reversed(inner(s))


def walk(n: Node | Index) -> Iterator[Node]:
    """Yield every node in `n`, parents before children, in evaluation order."""
    if isinstance(n, int):
        return
    stack: list[Node] = [n]
    while stack:
        n = stack.pop()
        yield n
        children_of = _CHILDREN.get(type(n))
        if children_of is not None:
            stack += [c for c in reversed(children_of(n)) if not isinstance(c, int)]


def in_order(s: Stmt) -> Iterator[Stmt]:
    """Yield the statements that `s` runs in sequence, each allocation before its body.

    Sequences are flattened, except empty ones; loops and branches stay whole.
    """
    stack = [s]
    while stack:
        s = stack.pop()
        if isinstance(s, Seq) and s.body:
            stack += reversed(s.body)
            continue
        yield s
        if isinstance(s, Allocate):
            stack.append(s.body)


def free_of(n: Node | Index, variables: Iterable[Expr]) -> bool:
    """Return whether none of `variables` occurs in `n`."""
    ids = {id(v) for v in variables}
    return not any(id(m) in ids for m in walk(n))


# --- rewriting expressions -----------------------------------------------------------------------

Rule: TypeAlias = Callable[[Any], Any]  # returns the new expression; the same object keeps it
StmtRule: TypeAlias = Callable[[Stmt], Stmt]


def _keep(n: Any) -> Any:
    return n


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
        entry = self.done.get(id(e))
        if entry is not None:
            return entry[1]
        rebuild = _REBUILD.get(type(e))
        new = e if rebuild is None else rebuild(e, self)
        if isinstance(new, Expr) and not (self.leaves and rebuild):
            new = self.rule(new)
        self.done[id(e)] = (e, new)
        return new

    def all(self, items: tuple[Any, ...]) -> tuple[Any, ...]:
        new = tuple([self(x) for x in items])
        return items if all(map(is_, new, items)) else new


def _rebuild(cls: Any, make: Callable[..., Any]) -> Callable[[Any, Any], Any]:
    """Return a function (e, go) that applies `go` to the children of `e`, a node of class `cls`.

    If a child changes, it returns make(fields of the new node), else `e` itself. For Load it is

        def rebuild(e, go):
            indices = go.all(e.indices)
            return e if indices is e.indices else make(e.buffer, indices, e.dtype)
    """
    parts = _parts(cls)
    lines = [f"  {name} = {go}(e.{name})" for name, go in parts.items()]
    unchanged = " and ".join(f"{name} is e.{name}" for name in parts)
    arguments = ", ".join(f.name if f.name in parts else f"e.{f.name}" for f in fields(cls))
    space: dict[str, Any] = {"make": make}
    code = ["def rebuild(e, go):", *lines, f"  return e if {unchanged} else make({arguments})"]
    exec("\n".join(code), space)
    return space["rebuild"]


def _linear(e: Linear, go: _Rewriter) -> Index:
    terms: list[tuple[Atom, int]] = []
    const, unchanged = e.const, True
    for a, c in e.terms:
        new = go(a)
        if new is a:
            terms.append((a, c))
        else:
            unchanged = False
            more, n = split_terms(new)
            terms += [(x, c * k) for x, k in more]
            const += c * n
    return e if unchanged else linear(terms, const)


def _as_index(value: Expr, low: Bound, high: Bound) -> Index:
    e = index_of_value(value)
    return as_index(value, low, high) if isinstance(e, AsIndex) else e


def _cast(value: Index, dtype: DType) -> Expr:
    if isinstance(value, int) and dtype.is_integer and dtype.low <= value <= dtype.high:
        return Const(value, dtype)
    return Cast(value, dtype)


def _binary(op: BinaryOp, a: Expr, b: Expr, dtype: DType) -> Expr:
    if op in ("and", "or"):
        return all_of(a, b) if op == "and" else any_of(a, b)
    return Binary(op, a, b, dtype)


def _seq(parts: tuple[Stmt, ...]) -> Stmt:
    return seq(*parts)


def _choice(e: Any, go: _Rewriter) -> Expr:
    cond = go(e.cond)
    if isinstance(cond, Const):  # the other arm may be invalid now
        return go(e.a) if cond.value else go(e.b)
    a, b = go(e.a), go(e.b)
    unchanged = cond is e.cond and a is e.a and b is e.b
    return e if unchanged else type(e)(cond, a, b, e.dtype)


_FOLDED: dict[type, Callable[..., Any]] = {  # as index.FOLDED; the other classes fold nothing
    **FOLDED,
    AsIndex: _as_index,
    Cast: _cast,
    Binary: _binary,
    Compare: compare,
    Not: negate,
    Seq: _seq,
}
_REBUILD: dict[type, Callable[[Any, Any], Any]] = {
    **{cls: _rebuild(cls, _FOLDED.get(cls, cls)) for cls in _PARENTS},
    Linear: _linear,
    Select: _choice,
    IfThenElse: _choice,
}


def rewrite_expr(e: Any, rule: Rule) -> Any:
    """Replace every expression x in `e` by rule(x), innermost first, and fold the results."""
    return _Rewriter(rule)(e)


class _Direct(_Rewriter):
    """Applies a rule to the child expressions of a node, and another one to its statements."""

    def __init__(self, expr: Rule, stmt: StmtRule) -> None:
        self.expr, self.stmt = expr, stmt

    def __call__(self, e: Index) -> Any:
        return self.expr(e)

    def stmts(self, parts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        new = tuple([self.stmt(s) for s in parts])
        return parts if all(map(is_, new, parts)) else new


def map_inside(e: Expr, rule: Rule) -> Any:
    """Replace each child expression x of `e` by rule(x), and fold the result."""
    build = _REBUILD.get(type(e))
    return e if build is None else build(e, _Direct(rule, _keep))


# --- rewriting statements ------------------------------------------------------------------------


def map_children(s: Stmt, stmt: StmtRule, expr: Rule) -> Stmt:
    """Replace each child statement c of `s` by stmt(c), and each expression e by expr(e).

    An If whose new condition is constant is replaced by the branch that runs.
    """
    if not isinstance(s, If):
        return _REBUILD[type(s)](s, _Direct(expr, stmt))
    cond = expr(s.cond)
    if isinstance(cond, Const):  # a decided branch: drop the other one
        chosen = s.body if cond.value else s.orelse
        return NOTHING if chosen is None else stmt(chosen)
    body, orelse = stmt(s.body), None if s.orelse is None else stmt(s.orelse)
    unchanged = cond is s.cond and body is s.body and orelse is s.orelse
    return s if unchanged else If(cond, body, orelse, s.likely)


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
    return link if all(map(is_, parts, link.body)) else seq(*parts)


def rewrite(s: Stmt, stmt: StmtRule = _keep, expr: Rule = _keep) -> Stmt:
    """Replace statements x in `s` by stmt(x) and expressions by expr(x), innermost first."""
    return _rewritten(s, stmt, _keep if expr is _keep else _Rewriter(expr))


def _rewritten(s: Stmt, stmt: StmtRule, on_expr: Rule) -> Stmt:
    def go(s: Stmt) -> Stmt:
        return map_parts(s, one, stmt)

    def one(s: Stmt) -> Stmt:
        new = map_children(s, go, on_expr)
        is_decided = isinstance(s, If) and new is not s and isinstance(on_expr(s.cond), Const)
        return new if is_decided else stmt(new)  # its body is already rewritten

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
    if top is s.var.top:
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
