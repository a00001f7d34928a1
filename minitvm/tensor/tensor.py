"""Tensors, the operations that define them, and their axes: a formula as data.

    Operation = PlaceholderOp        an input
              | ComputeOp            out[axis] = body        (or a reduction of it)
              | ExternOp             a statement that writes its outputs as a whole
              | ScanOp               rows over time, each computed from earlier ones

A tensor is a buffer with a formula: bodies are ordinary loop-IR expressions whose loads name the
buffers of other tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias
from weakref import WeakKeyDictionary

from minitvm import tir
from minitvm.base import DType, ExprError, as_tuple, node

from .reducer import Reducer

AxisKind: TypeAlias = Literal["data", "reduce", "scan"]


@dataclass(frozen=True, slots=True, eq=False)
class Range:
    """min .. min + extent - 1."""

    min: tir.Index
    extent: tir.Index


@node
class Axis(tir.Var):
    """An axis of a compute: one output dimension ("data") or one summed-over index ("reduce").

    Kind "scan" is the time of a scan, whose values are taken one after another. An axis stands for
    its value in formulas, and is the handle by which schedules name loops.
    """

    kind: AxisKind = "data"
    start: tir.Index = 0
    extent: tir.Index = 1

    @property
    def var(self) -> Axis:
        """The axis itself; TVM keeps a separate variable."""
        return self

    @property
    def dom(self) -> Range:
        """The values it takes."""
        return Range(self.start, self.extent)

    def __repr__(self) -> str:
        end = tir.add(self.start, self.extent)
        return f"{self.kind} axis {self.name} in [{tir.text(self.start)}, {tir.text(end)})"


def axis(name: str, start: tir.Index, extent: tir.Index, kind: AxisKind) -> Axis:
    """A new axis over start .. start + extent - 1."""
    last = tir.sub(tir.add(start, extent), 1)
    top = None if isinstance(last, int) else last
    return Axis(name, tir.low(start), tir.high(last), top, kind=kind, start=start, extent=extent)


@node
class Reduce(tir.Expr):
    """`sources` folded over `axes`. Only as the whole body of a compute.

    where: only these points count. init: starts here instead of at the identity.
    """

    reducer: Reducer
    sources: tuple[tir.Expr, ...]
    axes: tuple[Axis, ...]
    where: tir.Expr
    init: tuple[tir.Expr, ...]
    value_index: int
    dtype: DType

    def __repr__(self) -> str:
        folded = ", ".join(map(tir.text, self.sources))
        return f"{self.reducer.name}({folded}, axis=[{', '.join(a.name for a in self.axes)}])"


@node
class PlaceholderOp:
    """An input tensor. is_state: no input, but what a scan has computed so far (any
    placeholder may be that; of this one it is known before te.scan is called)."""

    name: str
    shape: tuple[tir.Index, ...]
    dtypes: tuple[DType, ...]
    is_state: bool = False

    @property
    def num_outputs(self) -> int:
        """How many tensors it computes."""
        return len(self.dtypes)

    def output(self, i: int) -> Tensor:
        """The tensor itself (i = 0)."""
        return tensor_of(self, i)

    def __repr__(self) -> str:
        return f"placeholder {self.name}"


# what each operation reads, found once; entries go with their operation
_inputs: WeakKeyDictionary[ComputeOp, tuple[Tensor, ...]] = WeakKeyDictionary()


@node
class ComputeOp:
    """output n at `axis` = body[n], for every point of `axis`. A body may be a Reduce.

    shape is the extents of axis: one dimension an axis. dtypes: one for each output.
    past: reads of rows before its own, A[t - 1], that are right only if A is the state of a scan.
    needs: what its reads need of sizes, each index >= 0; A[0] of (n,) needs n - 1. Calls check it.
    attrs: remarks for those who schedule it, such as {"layout_free_placeholders": [B]}.
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
        """The reduction this op computes, or None."""
        first = self.body[0]
        return first if isinstance(first, Reduce) else None

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors its body reads, each once, in order of first appearance."""
        found = _inputs.get(self)
        if found is None:
            every = (*loads(self), *extent_loads(self))
            read = (e.buffer for e in every if isinstance(e.buffer, Tensor))
            found = _inputs.setdefault(self, tuple(dict.fromkeys(read)))
        return found

    @property
    def num_outputs(self) -> int:
        """How many tensors it computes."""
        return len(self.dtypes)

    def output(self, i: int) -> Tensor:
        """The `i`-th output tensor."""
        return tensor_of(self, i)

    def __repr__(self) -> str:
        return f"compute {self.name}({', '.join(a.name for a in self.axis)})"


@node
class ExternOp:
    """Outputs that a statement computes from `inputs`, all of them as a whole.

    body reads and writes in_buffers and out_buffers, one for each input and output; their memory
    is known when the operation becomes loops. It has no axes: its loops are its own.
    """

    name: str
    inputs: tuple[Tensor, ...]
    shapes: tuple[tuple[tir.Index, ...], ...]
    dtypes: tuple[DType, ...]
    in_buffers: tuple[tir.DeclaredBuffer, ...]
    out_buffers: tuple[tir.DeclaredBuffer, ...]
    body: tir.Stmt
    tag: str = ""

    @property
    def axis(self) -> tuple[Axis, ...]:
        """No axes."""
        return ()

    @property
    def reduce_axis(self) -> tuple[Axis, ...]:
        """No axes."""
        return ()

    @property
    def shape(self) -> tuple[tir.Index, ...]:
        """That of the first output."""
        return self.shapes[0]

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, each once."""
        return tuple(dict.fromkeys(self.inputs))

    @property
    def num_outputs(self) -> int:
        """How many tensors it computes."""
        return len(self.dtypes)

    def output(self, i: int) -> Tensor:
        """The `i`-th output tensor."""
        return tensor_of(self, i)

    def __repr__(self) -> str:
        return f"extern {self.name}"


@node
class ScanOp:
    """The rows of `inits`, then for every later time the row of `updates` at that time.

    states    the placeholders that stand, in the formulas of the updates, for the outputs so far
    scan_axis the times at which updates are computed, one after another

    One init, update and state for each output.
    """

    name: str
    inits: tuple[Tensor, ...]
    updates: tuple[Tensor, ...]
    states: tuple[Tensor, ...]
    scan_axis: Axis
    tag: str = ""

    @property
    def axis(self) -> tuple[Axis, ...]:
        """The axis over time: the loop in which the updates are computed."""
        return (self.scan_axis,)

    @property
    def reduce_axis(self) -> tuple[Axis, ...]:
        """No axes."""
        return ()

    @property
    def shapes(self) -> tuple[tuple[tir.Index, ...], ...]:
        """One for each output."""
        return tuple(t.shape for t in self.states)

    @property
    def shape(self) -> tuple[tir.Index, ...]:
        """That of the first output."""
        return self.shapes[0]

    @property
    def dtypes(self) -> tuple[DType, ...]:
        """One for each output."""
        return tuple(t.dtype for t in self.states)

    @property
    def input_tensors(self) -> tuple[Tensor, ...]:
        """The tensors it reads, each once; what the updates read is theirs."""
        return tuple(dict.fromkeys((*self.inits, *self.updates)))

    @property
    def num_outputs(self) -> int:
        """How many tensors it computes."""
        return len(self.dtypes)

    def output(self, i: int) -> Tensor:
        """The `i`-th output tensor."""
        return tensor_of(self, i)

    def __repr__(self) -> str:
        return f"scan {self.name}"


Operation: TypeAlias = PlaceholderOp | ComputeOp | ExternOp | ScanOp


@node
class Tensor(tir.Buffer):
    """One output of an operation. A[i, j] (or A(i, j), A[i][j]) is one element of it.

    Two tensors are equal if they are the same output of the same operation. In formulas a tensor
    stands where loops will have a buffer.
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

    def __iter__(self) -> Any:
        raise ExprError(f"iterating over {self.name}", "a tensor here is a formula, not data")

    def __add__(self, other: Any = None) -> Any:
        raise ExprError(
            f"an operator on {self.name} as a whole",
            "a formula works on elements",
            f"te.compute({self.name}.shape, lambda *i: {self.name}(*i) + ...), or topi",
        )

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __add__

    def __matmul__(self, other: Any) -> Any:
        raise ExprError(
            f"@ on {self.name}",
            "a formula works on elements",
            "topi.matmul(A, B), or te.sum(A[i, k] * B[k, j], axis=k) in a te.compute",
        )

    __rmatmul__ = __matmul__

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise ExprError(
            f"a numpy array of {self.name}",
            "a tensor here is a formula, not data",
            "te or topi; data come in when the compiled function is called",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """numpy's functions and numpy arrays do not work on tensors."""
        what = f"numpy.{ufunc.__name__} of {self.name}"
        raise ExprError(what, "a tensor here is a formula, not data", "the functions of te or topi")


def tensor_of(op: Operation, i: int) -> Tensor:
    """Output `i` of `op`; outputs of an op that has several are called name.v0, name.v1, ..."""
    name = op.name if len(op.dtypes) == 1 else f"{op.name}.v{i}"
    shape = op.shapes[i] if isinstance(op, ExternOp | ScanOp) else op.shape
    return Tensor(name, shape, op.dtypes[i], op=op, value_index=i)


def producers_first(outputs: Iterable[Operation]) -> list[Operation]:
    """All operations that `outputs` need, each once, those that it reads before it."""
    order: dict[Operation, None] = {}
    waiting = list(outputs)[::-1]  # the next one last; networks are deeper than Python's stack
    while waiting:
        op = waiting[-1]
        inputs = () if isinstance(op, PlaceholderOp) else op.input_tensors
        missing = [t.op for t in inputs if t.op not in order]
        if missing:
            waiting.append(missing[0])
        else:
            order.setdefault(waiting.pop())
    return list(order)


def parts(op: ComputeOp) -> list[tir.Expr]:
    """Every expression of the op's bodies, reductions taken apart."""
    found: list[tir.Expr] = []
    for e in op.body:
        found += [*e.sources, e.where, *e.init] if isinstance(e, Reduce) else [e]
    return found


def loads(op: ComputeOp) -> Iterator[tir.Load]:
    """Every load in the op's bodies."""
    for e in parts(op):
        for n in tir.walk(e):
            if isinstance(n, tir.Load):
                yield n


def limits(op: ComputeOp) -> list[tir.Expr]:
    """Where reduce axes begin and how long they are, where that is no constant: i + 1, len[i]."""
    ends = [n for a in op.reduce_axis for n in (a.start, a.extent)]
    return [n for n in ends if isinstance(n, tir.Expr)]


def extent_loads(op: ComputeOp) -> Iterator[tir.Load]:
    """Every load that says where a reduce axis begins or how long it is."""
    for e in limits(op):
        for n in tir.walk(e):
            if isinstance(n, tir.Load):
                yield n


def is_from_data(i: tir.Index) -> bool:
    """Does the index depend on data: P[i], or a reduce axis from P[i] to P[i + 1]?"""
    for n in () if isinstance(i, int) else tir.walk(i):
        ends = (n.start, n.extent) if isinstance(n, Axis) and n.kind == "reduce" else ()
        if isinstance(n, tir.AsIndex) or any(map(is_from_data, ends)):
            return True
    return False


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """A tensor with its first few indices given: A[i] of a matrix."""

    tensor: Tensor
    indices: tuple[Any, ...]

    def __getitem__(self, at: Any) -> tir.Expr | Slice:
        indices = (*self.indices, *as_tuple(at))
        if len(indices) < self.tensor.ndim:
            return Slice(self.tensor, indices)
        return element(self.tensor, indices)

    def __expr__(self) -> tir.Expr:
        return element(self.tensor, self.indices)

    def __iter__(self) -> Any:
        raise ExprError(
            f"iterating over a part of {self.tensor.name}",
            "a tensor here is a formula, not data",
            "te.sum(..., axis=k) adds up over a reduce axis",
        )

    def __add__(self, other: Any = None) -> Any:
        return self.__expr__()  # raises: indices are missing

    __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __add__
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __add__
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = __add__


def element(t: Tensor, indices: tuple[Any, ...]) -> tir.Load:
    """t[indices], checked for rank."""
    if len(indices) != t.ndim:
        raise ExprError(
            f"{t.name}[{', '.join(map(_show, indices))}]",
            f"{t.name} has {t.ndim} dimension(s), {len(indices)} index(es) given",
        )
    return tir.load(t, *indices)


def _show(i: Any) -> str:
    return i.name if isinstance(i, tir.Var) else str(i) if isinstance(i, int) else "..."
