"""Write answers as JSON and read them back: formulas, loop programs, schedules, arrays, spaces.

A node becomes a row [class, field, field, ...] that refers to earlier rows, so shared nodes (above
all variables) stay shared. Operation number n of a problem that reader and writer have both built
is written as ["given", n]. Reading calls only the constructors in MAKERS and runs no other code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import autotvm, te, tensor, tir
from minitvm.base import DType, ExprError, dtype

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Json: TypeAlias = Any
MAX_BYTES = 255 << 20  # of all arrays; a message from an untrusted process may have 1 MiB more
PLAIN = (
    *(tensor.Axis, tensor.ComputeOp, tensor.ExternOp, tensor.PlaceholderOp, tensor.Reduce),
    *(tensor.Tensor, tir.Allocate, tir.Binary, tir.Buffer, tir.Call, tir.Cast, tir.Compare),
    *(tir.DeclaredBuffer, tir.Evaluate, tir.For, tir.If, tir.IfThenElse, tir.Load, tir.Not),
    *(tir.Pointer, tir.View),
    *(tir.Pragma, tir.PrimFunc, tir.Seq, tir.Store, tir.Var, tir.Select),
)


def _const(value: Any, kind: Any) -> tir.Const:
    """Make a constant; True and False are the unique objects tir.TRUE and tir.FALSE."""
    return tir.Const(value, kind) if kind != "bool" else tir.TRUE if value else tir.FALSE


def _declared(
    name: str, op: Any, ins: Any, outs: Any, binds: Any, body: Any, reset: Any, update: Any
) -> tensor.TensorIntrin:
    """Declare a tensor intrinsic from the fields of a row, with all checks of its statements."""

    def statements(ins: Any, outs: Any) -> Any:
        return body, reset, update

    return tensor.decl_tensor_intrin(op, statements, binds, name)


FOLDED = {**tir.FOLDED, tir.Const: _const, tensor.TensorIntrin: _declared}
MAKERS: dict[str, Callable[..., Any]] = {
    **{cls.__name__: cls for cls in PLAIN},
    **{cls.__name__: make for cls, make in FOLDED.items()},
}
FIELDS = {cls: tuple(f.name for f in fields(cast("Any", cls))) for cls in (*PLAIN, *FOLDED)}
REDUCERS: dict[str, tensor.Reducer] = {
    r.name: r for r in (tensor.SUM, tensor.PROD, tensor.MAX, tensor.MIN)
}
MAX_CONFIGURATIONS = 100_000
FEWER = f"a space needs knobs, and at most {MAX_CONFIGURATIONS:,} configurations"
DEEPEST = 200  # levels of lists in lists
OWN = "a schedule must compute the tensors that the function was given"


@dataclass(frozen=True, slots=True)
class Space:
    """What a ConfigSpace of autotvm contains, as plain data.

    knobs            name -> options, such as {"tile_y": [[-1, 1], [-1, 2]]}
    configurations   those that the filters allow: for each knob, the number of its option
    """

    knobs: dict[str, list[Any]]
    configurations: list[list[int]]


class Writer:
    """Turn values into JSON; `rows` and `blobs` collect the nodes and arrays that they contain."""

    def __init__(self, operations: Sequence[tensor.Operation] = ()) -> None:
        self.rows: list[Json] = []
        self.blobs: list[bytes] = []
        self._given = {id(op): n for n, op in enumerate(operations)}
        self._known: dict[int, tuple[int, Any]] = {}  # id -> (row, node that keeps the id)

    def write(self, x: Any) -> Json:
        """Return `x` as JSON; raise ExprError if a value of its type cannot be written."""
        match x:
            case DType():
                return ["dtype", str(x)]
            case None | str():
                return x
            case bool() | np.bool_():
                return bool(x)
            case int() | np.integer():
                return int(cast("Any", x))
            case float() | np.floating():
                return float(cast("float", x))
            case tuple() | list() | dict() | np.ndarray():
                return self._container(cast("Any", x))
            case te.Schedule():
                outs = [self.write(s.origin) for s in x.state.stages if s.is_output]
                if not _all_given(outs):
                    raise ExprError("a schedule of another formula cannot be handed in", OWN)
                return ["schedule", x.to_json(), outs]
            case autotvm.ConfigSpace(space_map=knobs):
                options = [[name, [o.json for o in k.entities]] for name, k in knobs.items()]
                if not knobs or x.range_length > MAX_CONFIGURATIONS:
                    raise ExprError(f"{x.range_length} configurations cannot be handed in", FEWER)
                numbers = (n for n in range(x.range_length) if x.is_index_valid(n))
                return ["space", options, [list(x.space.row(n)) for n in numbers]]
            case tensor.Reducer(name=name) if REDUCERS.get(name) is x:
                return ["reducer", name]
            case _:
                return self._node(x)

    def _container(self, x: Any) -> Json:
        if isinstance(x, np.ndarray):
            array = cast("Array", x)
            if array.dtype.kind not in "biuf":
                why = "only numbers can"
                raise ExprError(f"an array of {array.dtype} cannot be handed in", why)
            if sum(map(len, self.blobs)) + array.nbytes > MAX_BYTES:
                why = "too large"
                raise ExprError(f"an array of {array.nbytes} bytes cannot be handed in", why)
            self.blobs.append(array.tobytes())
            return ["array", len(self.blobs) - 1, array.dtype.str, list(array.shape)]
        if isinstance(x, dict):
            pairs = cast("dict[Any, Any]", x).items()
            return ["dict", [[self.write(k), self.write(v)] for k, v in pairs]]
        kind = "tuple" if isinstance(x, tuple) else "list"
        return [kind, [self.write(e) for e in cast("list[Any]", x)]]

    def _node(self, x: Any) -> Json:
        if id(x) in self._given:
            return ["given", self._given[id(x)]]
        if id(x) in self._known:
            return ["node", self._known[id(x)][0]]
        if type(x) not in FIELDS:
            what = f"a {type(x).__name__}"
            why = (
                "only numbers, strings, lists, arrays, tensors, loop programs, schedules and tensor"
                " intrinsics can"
            )
            raise ExprError(f"{what} cannot be handed in", why)
        plain: dict[str, Any] = {}  # replaces attributes: they are notes for schedulers
        values = [plain if f == "attrs" else getattr(x, f) for f in FIELDS[type(x)]]
        row = [type(x).__name__, *map(self.write, values)]
        self.rows.append(row)
        self._known[id(x)] = (len(self.rows) - 1, x)
        return ["node", len(self.rows) - 1]


class Reader:
    """Turn the JSON of a Writer into values; `operations` must be the same as for the Writer."""

    def __init__(
        self,
        rows: Sequence[Json],
        blobs: Sequence[bytes],
        operations: Sequence[tensor.Operation] = (),
        intrins: Iterable[tensor.TensorIntrin] = (),
    ) -> None:
        self._blobs = blobs
        self._given, self._intrins = operations, tuple(intrins)
        self._nodes: list[Any] = []
        for name, *parts in rows:
            self._nodes.append(MAKERS[name](*(self.read(p) for p in parts)))

    def read(self, x: Any, depth: int = 0) -> Any:
        """Return the value that was written as `x`; a malformed `x` may raise any exception."""
        if depth > DEEPEST:
            raise ExprError(f"lists nested {depth} levels deep", f"too deep, at most {DEEPEST}")
        if not isinstance(x, list):
            return x
        kind, what, *rest = cast("list[Any]", x)
        match kind:
            case "tuple":
                return tuple(self.read(e, depth + 1) for e in what)
            case "list":
                return [self.read(e, depth + 1) for e in what]
            case "dict":
                return {self.read(k, depth + 1): self.read(v, depth + 1) for k, v in what}
            case "array":
                return _array(self._blobs[cast("int", what)], *rest)
            case "dtype":
                return dtype(what)
            case "reducer":
                return REDUCERS[what]
            case "node":
                return self._nodes[what]
            case "given":
                return cast("Any", self._given[what])
            case "space":
                return Space(dict(what), rest[0])
            case "schedule":
                if not _all_given(rest[0]):
                    raise ExprError("a schedule of another formula", OWN)
                ops = [self.read(op) for op in rest[0]]
                return te.Schedule.from_json(what, ops, self._intrins)
            case _:
                raise ExprError(f"a {kind!r}", "no such kind of data")


def _array(data: bytes, kind: Any, shape: Any) -> Array:
    if np.dtype(kind).kind not in "biuf":
        raise ExprError(f"an array of {kind}", "only numbers are accepted")
    return np.frombuffer(data, kind).reshape(shape)


def _all_given(outs: Json) -> bool:
    """Return whether all `outs` belong to the problem; other operations could call C functions."""
    return all(kind == "given" for kind, _ in outs)


def operations(values: Iterable[Any]) -> list[tensor.Operation]:
    """Return the operations that compute the tensors among `values`, each once, producers first."""
    return tensor.producers_first(x.op for x in values if isinstance(x, tensor.Tensor))
