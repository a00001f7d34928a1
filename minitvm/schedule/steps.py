"""The schedule primitives as data: small frozen records, so that a schedule is a list that can be
printed, saved as JSON, mutated by a searcher and replayed. `apply` (apply.py) gives them meaning.

Stages and axes are named, not pointed at: names are unique within a schedule and the same on
every replay.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, TypeAlias, cast

from minitvm.base import ScheduleError, as_tuple

from .memory_steps import Bind, DoubleBuffer, Prefetch, SetStorePredicate, StorageAlign, StoreAt

Kind: TypeAlias = Literal["vectorize", "unroll", "parallel"]


@dataclass(frozen=True, slots=True)
class Split:
    """Cut one loop in two; the inner one has `factor` iterations, or the outer one `nparts`.

        for i in range(n):            for i_outer in range(ceildiv(n, factor)):
          body(i)                ->     for i_inner in range(factor):
                                          if i_outer*factor + i_inner < n:
                                            body(i_outer*factor + i_inner)

    With disable_predication the `if` is left out; lowering raises where that would be wrong.

    Checks: the axis is a loop of the stage; exactly one of factor and nparts, an int >= 1.
    """

    stage: str
    axis: str
    factor: int | None = None
    nparts: int | None = None
    disable_predication: bool = False


@dataclass(frozen=True, slots=True)
class Fuse:
    """Make one loop of several neighbours.

        for i in range(n):            for i_j_fused in range(n*m):
          for j in range(m):     ->     body(i_j_fused // m, i_j_fused % m)
            body(i, j)

    Checks: the axes are neighbouring loops, outermost first; no stage is attached between them.
    """

    stage: str
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Reorder:
    """Permute loops: the named ones take, in the new order, the places they now have.

        for i in range(n):            for j in range(m):
          for j in range(m):     ->     for i in range(n):
            body(i, j)                    body(i, j)

    Checks: the axes are distinct loops of the stage.
    """

    stage: str
    axes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Annotate:
    """Say how a loop runs: vectorize, unroll or parallel.

        for i in range(8):            for i in vectorize(8):
          C[i] = A[i]            ->     C[i] = A[i]

    Checks: vectorize and parallel need a data axis (the iterations of a reduce axis all write the
    same element); a loop to vectorize or unroll needs a constant extent, which compute_at may give
    it; one vectorized loop a stage.
    """

    stage: str
    axis: str
    kind: Kind


@dataclass(frozen=True, slots=True)
class Pragma:
    """Attach a remark to a loop. Passes that know the key act on it; others leave it there.

        for i in range(4):            # pragma auto_unroll_max_step = 16
          body(i)                ->   for i in range(4):
                                        body(i)

    Checks: the key is a name, and none that another step makes; the value of one that passes know
    is an int >= 0.
    """

    stage: str
    axis: str
    key: str
    value: int | str


@dataclass(frozen=True, slots=True)
class ComputeAt:
    """Compute a stage inside a loop of one that reads it, as much as one iteration needs.

        for i in range(n):            for i in range(n):
          B[i] = f(i)            ->     B[0] = f(i)
        for i in range(n):              C[i] = g(B[0])
          C[i] = g(B[i])

    Checks: not an output or input; the loop exists; every reader runs inside that loop, or could
    still be computed there or inlined. Until all do, the step is pending (`State.pending`), and
    lowering refuses the schedule. A step after which a pending one could not become legal is
    refused.
    """

    stage: str
    target: str
    axis: str


@dataclass(frozen=True, slots=True)
class ComputeInline:
    """Put a stage's formula into its readers; it is never stored.

        for i in range(n):
          B[i] = f(i)            ->   for i in range(n):
        for i in range(n):              C[i] = g(f(i))
          C[i] = g(B[i])

    Checks: not an output or input; not a reduction; no stage is attached to it.
    """

    stage: str


@dataclass(frozen=True, slots=True)
class ComputeRoot:
    """Undo compute_at, compute_inline, store_at and double_buffer: compute a stage as a whole."""

    stage: str


@dataclass(frozen=True, slots=True)
class SetScope:
    """Choose the memory a stage's result lives in: "global", "shared", "local", ...

    Checks: the scope is known; inputs and outputs live in "global".
    """

    stage: str
    scope: str


@dataclass(frozen=True, slots=True)
class CacheRead:
    """Read a tensor through a copy in another memory.

                                      for i in range(n):
        for i in range(n):       ->     A_local[i] = A[i]
          C[i] = A[i] + 1             for i in range(n):
                                        C[i] = A_local[i] + 1

    Checks: every reader reads the tensor.
    """

    stage: str
    output: int
    scope: str
    readers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CacheWrite:
    """Compute a stage into another memory, then copy: the computation moves to a new stage.

        for i in range(n):            for i_c in range(n):
          C[i] = f(i)            ->     C_local[i_c] = f(i_c)
                                      for i in range(n):
                                        C[i] = C_local[i]

    Checks: the stage computes something, and its loops have not been changed yet.
    """

    stage: str
    scope: str


@dataclass(frozen=True, slots=True)
class RFactor:
    """Split a reduction in two stages: partial results along one reduce loop, then their fold.

        for k in range(n):            for f in range(4):
          B += A[k]              ->     for k in range(n // 4): B_rf[f] += A[k*4 + f]
                                      for f in range(4):
                                        B += B_rf[f]

    Checks: the axis is a reduce loop of the stage; its data axes have not been split or fused.
    """

    stage: str
    axis: str
    factor_axis: int = 0


@dataclass(frozen=True, slots=True)
class Tensorize:
    """Let the tensor intrinsic called `intrin` do the loop and all loops inside it.

        for io in range(n // 8):      for io in range(n // 8):
          for ii in range(8):    ->     gemm_8x8(C[io*8, ...], A[io*8, ...], B[...])
            ...

    Checks: the intrinsic is known; none of those loops is marked; one intrinsic a stage. Lowering
    checks that the loops compute the intrinsic's formula.
    """

    stage: str
    axis: str
    intrin: str


@dataclass(frozen=True, slots=True)
class TransformLayout:
    """Store a stage's result in another order: element (axes) lives at (layout).

        transform_layout(lambda k, j: (j // 16, k, j % 16))       [K, N] -> [N / 16, K, 16]

    Checks: not an input or output; no two elements share a place.
    """

    stage: str
    axes: tuple[str, ...]
    layout: tuple[str, ...]


Step: TypeAlias = (
    Split
    | Fuse
    | Reorder
    | Annotate
    | Pragma
    | ComputeAt
    | ComputeInline
    | ComputeRoot
    | SetScope
    | CacheRead
    | CacheWrite
    | RFactor
    | Tensorize
    | TransformLayout
    | Bind
    | DoubleBuffer
    | StorageAlign
    | SetStorePredicate
    | Prefetch
    | StoreAt
)

STEPS: dict[str, type[Any]] = {
    "split": Split,
    "fuse": Fuse,
    "reorder": Reorder,
    "annotate": Annotate,
    "pragma": Pragma,
    "compute_at": ComputeAt,
    "compute_inline": ComputeInline,
    "compute_root": ComputeRoot,
    "set_scope": SetScope,
    "cache_read": CacheRead,
    "cache_write": CacheWrite,
    "rfactor": RFactor,
    "tensorize": Tensorize,
    "transform_layout": TransformLayout,
    "bind": Bind,
    "double_buffer": DoubleBuffer,
    "storage_align": StorageAlign,
    "set_store_predicate": SetStorePredicate,
    "prefetch": Prefetch,
    "store_at": StoreAt,
}
NAMES: dict[type[Any], str] = {cls: name for name, cls in STEPS.items()}


def to_json(steps: tuple[Step, ...]) -> str:
    """The steps as JSON, one line a step."""
    rows = [json.dumps([NAMES[type(s)], asdict(s)]) for s in steps]
    return "[\n" + ",\n".join(rows) + "\n]"


def from_json(text: str) -> tuple[Step, ...]:
    """The steps that `to_json` wrote. ScheduleError if the text is not such a list."""
    try:
        rows = json.loads(text)
        return tuple(_step(name, given) for name, given in rows)
    except (ValueError, TypeError, RecursionError) as e:
        raise ScheduleError("steps from JSON", f"not a list of steps ({e})") from e


def _step(name: str, given: dict[str, Any]) -> Step:
    if name not in STEPS:
        raise ValueError(f"no step is called {name!r}")
    cls = STEPS[name]
    known = {f.name for f in fields(cls)}
    for key in given:
        if key not in known:
            raise ValueError(f"{name} has no {key}")
    step = cls(**{k: as_tuple(v) if isinstance(v, list) else v for k, v in given.items()})
    wrong = misfit(step)
    if wrong:
        raise ValueError(wrong)
    return step


def misfit(step: Any) -> str:
    """Which field of a step is not of its declared type: "factor of split is 'x'"; else empty."""
    if type(step) not in NAMES:
        return f"{reprlib.repr(step)} is no step"
    for f in fields(step):
        v = getattr(step, f.name)
        if not FITS[str(f.type)](v):
            shown = list(cast("tuple[Any, ...]", v)) if isinstance(v, tuple) else v  # as in JSON
            return f"{f.name} of {NAMES[type(step)]} is {reprlib.repr(shown)}"
    return ""


def _is_texts(v: object) -> bool:
    return isinstance(v, tuple) and all(isinstance(x, str) for x in cast("tuple[Any, ...]", v))


def _is_int(v: object) -> bool:
    return type(v) is int and -(2**63) <= v < 2**63  # True is no number


FITS: dict[str, Callable[[Any], bool]] = {  # what a field may be, by its declared type
    "str": lambda v: isinstance(v, str),
    "bool": lambda v: isinstance(v, bool),
    "int": _is_int,
    "int | None": lambda v: v is None or _is_int(v),
    "int | str": lambda v: isinstance(v, str) or _is_int(v),
    "tuple[str, ...]": _is_texts,
    "Kind": lambda v: isinstance(v, str),
}
