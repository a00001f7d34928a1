"""Formulas as data: tensors, the operations that define them, and their axes.

    Operation = PlaceholderOp        an input
              | ComputeOp            out[axis] = body        (body may be a reduction)
              | ExternOp             a statement that writes whole outputs
              | ScanOp               a recurrence: each row is computed from earlier ones

A tensor is a buffer and the operation that defines it. A formula is an expression of the
loop IR whose loads read other tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeAlias, cast
from weakref import WeakKeyDictionary

from minitvm import tir
from minitvm.base import DType, ExprError, as_tuple, node

from .broadcast import broadcast_index, broadcast_shape
from .misuse import NotAnArray
from .reducer import Reducer

AxisKind: TypeAlias = Literal["data", "reduce", "scan"]
ELEMENTWISE = "elementwise"  # the tag of what an operator on two tensors makes


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """The integers min .. min + extent - 1."""

    min: tir.Index
    extent: tir.Index


@node
class Axis(tir.Var):
    """An axis of a compute: an output dimension ("data") or an index to reduce over ("reduce").

    An axis of kind "scan" is the time of a te.scan. In a formula, an axis stands for its current
    value; in a schedule, it stands for a loop.
    """

    kind: AxisKind = "data"
    start: tir.Index = 0
    extent: tir.Index = 1

    @property
    def var(self) -> Axis:
        """The axis itself, since an axis is a variable. In TVM it has a separate variable."""
        return self

    @property
    def dom(self) -> Range:
        """The range of values of the axis."""
        return Range(self.start, self.extent)

    def __repr__(self) -> str:
        end = tir.add(self.start, self.extent)
        return f"{self.kind} axis {self.name} in [{tir.text(self.start)}, {tir.text(end)})"


def axis(name: str, start: tir.Index, extent: tir.Index, kind: AxisKind) -> Axis:
    """Make an axis over start .. start + extent - 1."""
    last = tir.add(tir.add(start, extent), -1)
    top = None if isinstance(last, int) else last
    return Axis(
        name,
        tir.lower_bound(start),
        tir.upper_bound(last),
        top,
        kind=kind,
        start=start,
        extent=extent,
    )


@node
class Reduce(tir.Expr):
    """A reduction of `sources` over `axes`. It can only be the whole body of a compute.

    where         a condition; only points at which it is true are reduced
    init          start values that replace the identity of the reducer; () for the identity
    value_index   which component of a reduction of tuples this is
    """

    reducer: Reducer
    sources: tuple[tir.Expr, ...]
    axes: tuple[Axis, ...]
    where: tir.Expr
    init: tuple[tir.Expr, ...]
    value_index: int
    dtype: DType

    def __repr__(self) -> str:
        sources = ", ".join(map(tir.text, self.sources))
        return f"{self.reducer.name}({sources}, axis=[{', '.join(a.name for a in self.axes)}])"


class _Operation:
    """Base class of the operations."""

    __slots__ = ()

    @property
    def num_outputs(self) -> int:
        """The number of tensors that the operation computes."""
        return len(cast("Operation", self).dtypes)

    def output(self, i: int) -> Tensor:
        """Return output tensor number `i`; the first is 0."""
        return tensor_of(cast("Operation", self), i)


class _Shapes(_Operation):
    """Base class of the operations whose outputs may differ in shape."""

    __slots__ = ()

    @property
    def shape(self) -> tuple[tir.Index, ...]:
        """The shape of the first output."""
        return cast("ExternOp | ScanOp", self).shapes[0]


LAYOUT_FREE = "layout_free_placeholders"  # the attribute that lists constants, as in TVM


@node
class PlaceholderOp(_Operation):
    """An input of the program.

    is_state    whether it stands for the rows that a te.scan has computed so far
    constant    whether its contents are the same in every call, such as the weights of a network
    """

    name: str
    shape: tuple[tir.Index, ...]
    dtypes: tuple[DType, ...]
    is_state: bool = False
    constant: bool = False
    axis: ClassVar[tuple[Axis, ...]] = ()
    reduce_axis: ClassVar[tuple[Axis, ...]] = ()
    input_tensors: ClassVar[tuple[Tensor, ...]] = ()

    def __repr__(self) -> str:
        return f"placeholder {self.name}"


# the tensors that each operation reads, collected once; an entry dies with its operation
_inputs: WeakKeyDictionary[ComputeOp, tuple[Tensor, ...]] = WeakKeyDictionary()


@node
class ComputeOp(_Operation):
    """An operation with a formula: output number n at each point of `axis` is body[n].

    body    one expression per output; all may be parts of the same Reduce
    past    reads of earlier rows, A[t - 1], that are only legal if A is the state of a scan
    attrs   annotations for schedulers, such as {"layout_free_placeholders": [B]}
    needs   indices that each call checks to be >= 0, so that reads are in bounds: A[0] of a tensor
            of shape (n,) needs n - 1
    """

    name: str
    axis: tuple[Axis, ...]
    reduce_axis: tuple[Axis, ...]
    body: tuple[tir.Expr, ...]
    tag: str = ""
    past: tuple[tir.Load, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict[str, Any])
    needs: tuple[tir.Index, ...] = ()

    @property
    def shape(self) -> tuple[tir.Index, ...]:
        return tuple(a.extent for a in self.axis)

    @property
    def dtypes(self) -> tuple[DType, ...]:
        return tuple(e.dtype for e in self.body)

    @property
    def reduction(self) -> Reduce | None:
        """The reduction in the body; None if the body is not a reduction."""
        first = self.body[0]
        return first if isinstance(first, Reduce) else None

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The distinct tensors that the formula reads, in order of first appearance."""
        inputs = _inputs.get(self)
        if inputs is None:
            all_loads = (*loads(self), *extent_loads(self))
            tensors = (e.buffer for e in all_loads if isinstance(e.buffer, Tensor))
            inputs = _inputs.setdefault(self, tuple(dict.fromkeys(tensors)))
        return inputs

    def __repr__(self) -> str:
        return f"compute {self.name}({', '.join(a.name for a in self.axis)})"


@node
class ExternOp(_Shapes):
    """An operation with a statement that computes whole outputs from whole `inputs`.

    `body` reads `in_buffers` and writes `out_buffers`, one per input and output; lowering replaces
    them by real buffers. The operation has no axes, because the statement contains its own loops.
    """

    name: str
    inputs: tuple[Tensor, ...]
    shapes: tuple[tuple[tir.Index, ...], ...]
    dtypes: tuple[DType, ...]
    in_buffers: tuple[tir.DeclaredBuffer, ...]
    out_buffers: tuple[tir.DeclaredBuffer, ...]
    body: tir.Stmt
    tag: str = ""
    axis: ClassVar[tuple[Axis, ...]] = ()
    reduce_axis: ClassVar[tuple[Axis, ...]] = ()

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The distinct tensors that the operation reads."""
        return tuple(dict.fromkeys(self.inputs))

    def __repr__(self) -> str:
        return f"extern {self.name}"


@node
class ScanOp(_Shapes):
    """A recurrence: its first rows are `inits`, and each later row t is row t of `updates`.

    states      placeholders for the rows computed so far, which the updates read
    scan_axis   the loop over time, which computes one row of the updates per iteration

    There is one init, update and state per output.
    """

    name: str
    inits: tuple[Tensor, ...]
    updates: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    scan_axis: Axis
    tag: str = ""
    reduce_axis: ClassVar[tuple[Axis, ...]] = ()

    @property
    def axis(self) -> tuple[Axis, ...]:
        """The time axis, in a tuple; its loop computes the updates."""
        return (self.scan_axis,)

    @property
    def shapes(self) -> tuple[tuple[tir.Index, ...], ...]:
        """The shape of each output."""
        return tuple(t.shape for t in self.states)

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """The type of each output."""
        return tuple(t.dtype for t in self.states)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The distinct inits and updates, without the tensors that the updates read."""
        return tuple(dict.fromkeys((*self.inits, *self.updates)))

    def __repr__(self) -> str:
        return f"scan {self.name}"


Operation: TypeAlias = PlaceholderOp | ComputeOp | ExternOp | ScanOp


@node
class Tensor(tir.Buffer, NotAnArray):
    """One output of an operation. A[i, j], A(i, j) and A[i][j] all read one element of tensor A.

    Two tensors are equal if they are the same output of the same operation. Lowering replaces the
    tensors in formulas by buffers.
    """

    op: Operation = None  # type: ignore[assignment]  # given by tensor_of, the only constructor
    value_index: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tensor):
            return NotImplemented
        return self.op is other.op and self.value_index == other.value_index

    def __hash__(self) -> int:
        return hash((id(self.op), self.value_index))

    def __reduce__(self) -> tuple[Any, ...]:
        return tensor_of, (self.op, self.value_index)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __getitem__(self, at: Any) -> tir.Expr | Slice:
        return Slice(self, ())[at]

    def __call__(self, *indices: Any) -> tir.Load:
        return element(self, indices)

    def __repr__(self) -> str:
        return f"Tensor {self.name}: {self.dtype}[{', '.join(map(tir.text, self.shape))}]"

    def __bool__(self) -> bool:
        return True

    def _called(self) -> str:
        return self.name

    def __add__(self, other: Any) -> Any:
        return self._paired("add", lambda x, y: x + y, other)

    def __sub__(self, other: Any) -> Any:
        return self._paired("subtract", lambda x, y: x - y, other)

    def __mul__(self, other: Any) -> Any:
        return self._paired("multiply", lambda x, y: x * y, other)

    def __truediv__(self, other: Any) -> Any:
        return self._paired("divide", lambda x, y: x / y, other)

    def _paired(self, name: str, f: Callable[[Any, Any], tir.Expr], other: Any) -> Tensor:
        """Apply an operator to two whole tensors, as topi does: A + B is topi.add(A, B).

        An operator on a tensor and anything else is an error: indices are most likely missing.
        """
        if not isinstance(other, Tensor):
            return self._operator(other)  # raises
        shape = broadcast_shape(name, self.shape, other.shape)
        axes = tuple(axis(f"i{d}", 0, n, "data") for d, n in enumerate(shape))
        x, y = (element(t, tuple(broadcast_index(t.shape, axes))) for t in (self, other))
        return tensor_of(ComputeOp(f"T_{name}", axes, (), (f(x, y),), ELEMENTWISE), 0)


def tensor_of(op: Operation, i: int) -> Tensor:
    """Return output number `i` of `op`; several outputs are named name.v0, name.v1, ..."""
    name = op.name if len(op.dtypes) == 1 else f"{op.name}.v{i}"
    shape = op.shapes[i] if isinstance(op, _Shapes) else op.shape
    return Tensor(name, shape, op.dtypes[i], op=op, value_index=i)


def producers_first(outputs: Iterable[Operation]) -> list[Operation]:
    """Return `outputs` and all operations that they depend on, each once, producers first."""
    order: dict[Operation, None] = {}
    stack = list(outputs)[::-1]  # not recursive: networks may be very deep
    while stack:
        op = stack[-1]
        missing = [t.op for t in op.input_tensors if t.op not in order]
        if missing:
            stack.append(missing[0])
        else:
            order.setdefault(stack.pop())
    return list(order)


def parts(op: ComputeOp) -> list[tir.Expr]:
    """Return the expressions in the body of `op`; for a reduction, its sources, where and init."""
    expressions: list[tir.Expr] = []
    for e in op.body:
        expressions += [*e.sources, e.where, *e.init] if isinstance(e, Reduce) else [e]
    return expressions


def loads(op: ComputeOp) -> Iterator[tir.Load]:
    """Yield every load in the body of `op`."""
    return (n for e in parts(op) for n in tir.walk(e) if isinstance(n, tir.Load))


def variable_reduce_ranges(op: ComputeOp) -> list[tir.Expr]:
    """Return the non-constant starts and extents of the reduce axes, such as i + 1 and len[i]."""
    ends = [n for a in op.reduce_axis for n in (a.start, a.extent)]
    return [n for n in ends if isinstance(n, tir.Expr)]


def extent_loads(op: ComputeOp) -> Iterator[tir.Load]:
    """Yield every load in the start or extent of a reduce axis of `op`."""
    ends = variable_reduce_ranges(op)
    return (n for e in ends for n in tir.walk(e) if isinstance(n, tir.Load))


def is_from_data(i: tir.Index) -> bool:
    """Return whether an index depends on data: P[i], or a reduce axis over (P[i], P[i + 1])."""
    for n in tir.walk(i):
        ends = (n.start, n.extent) if isinstance(n, Axis) and n.kind == "reduce" else ()
        if isinstance(n, tir.AsIndex) or any(map(is_from_data, ends)):
            return True
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Slice(NotAnArray):
    """A tensor with only its first indices given, such as A[i] for a matrix A."""

    tensor: Tensor
    indices: tuple[Any, ...]

    def __getitem__(self, at: Any) -> tir.Expr | Slice:
        indices = (*self.indices, *as_tuple(at))
        if len(indices) < self.tensor.ndim:
            return Slice(self.tensor, indices)
        return element(self.tensor, indices)

    def __expr__(self) -> tir.Expr:
        return element(self.tensor, self.indices)

    def _called(self) -> str:
        return f"a part of {self.tensor.name}"

    def _one_element(self) -> Any:
        return self.__expr__()  # raises: indices are missing


def element(t: Tensor, indices: tuple[Any, ...]) -> tir.Load:
    """Return the load t[indices]; raise ExprError unless there is one index per dimension."""
    if len(indices) != t.ndim:
        why = f"{t.name} has {t.ndim} dimension(s), {len(indices)} index(es) given"
        raise ExprError(f"{t.name}[{', '.join(map(_show, indices))}]", why)
    return tir.load(t, *indices)


def _show(i: Any) -> str:
    return i.name if isinstance(i, tir.Var) else str(i) if isinstance(i, int) else "..."
