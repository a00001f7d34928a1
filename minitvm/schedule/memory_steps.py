"""The steps about threads and memory, as data; see steps.py for the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Bind:
    """Let the iterations of a loop be threads: of a GPU, or virtual ones.

        for i in range(8):            for i in bind(8, 'threadIdx.x'):
          C[i] = A[i]            ->     C[i] = A[i]

    blockIdx, threadIdx   hardware threads; memory that they share is computed for all of them
    vthread, cthread      virtual ones: one thread does the work of all, statement by statement

    Checks: the thread is known; one loop of a stage for each hardware thread; a reduce axis only to
    threadIdx; `extent` iterations, if given (else at lowering).
    """

    stage: str
    axis: str
    thread: str
    extent: int | None = None


@dataclass(frozen=True, slots=True)
class DoubleBuffer:
    """Compute a stage one iteration ahead, into the half of a buffer that is not being read.

        for i in range(n):            B[0] = f(0)
          B[0] = f(i)            ->   for i in range(n):
          C[i] = g(B[0])                if i + 1 < n: B[(i + 1) % 2] = f(i + 1)
                                        C[i] = g(B[i % 2])

    Checks: not an output or input; not stored elsewhere by store_at. Lowering checks that it is
    computed inside a loop that runs in order.
    """

    stage: str


@dataclass(frozen=True, slots=True)
class StorageAlign:
    """Pad a stage's rows: the stride of a dimension is `offset` more than a multiple of `factor`.

        storage_align(i, 32, 1)       B[i, j] at i*32 + j   ->   B[i, j] at i*33 + j

    Checks: the axis is a dimension of the stage's result; 0 <= offset < factor; not an input or
    output; no layout of its own.
    """

    stage: str
    axis: str
    factor: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class SetStorePredicate:
    """Store a stage's results only where conditions on its axes hold.

        for i in range(8):            for i in range(8):
          C[i] = A[i]            ->     if i < 4: C[i] = A[i]

    axes: those that conds mention, under their names with "_" for ".".

    Checks: the axes are the stage's, not reduce axes; each condition is a comparison.
    """

    stage: str
    axes: tuple[str, ...]
    conds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Say that a tensor will be read `offset` iterations of a loop later: a hint, no more.

        for i in range(8):            # pragma prefetch = ('A', 2)
          C[i] = A[i]            ->   for i in range(8):
                                        C[i] = A[i]

    Checks: the axis is a loop of the stage; the stage reads the tensor; offset >= 0.
    """

    stage: str
    tensor: str
    axis: str
    offset: int = 1


@dataclass(frozen=True, slots=True)
class StoreAt:
    """Keep a stage's results for the iterations of an outer loop; compute only what is new.

        for i in range(n):            B = allocate((4,))
          B = allocate((3,))          for i in range(n):
          for x in range(3):     ->     for x in range(1 if i > 0 else 3):
            B[x] = f(i + x)               B[(...) % 4] = f(...)
          C[i] = B[0] + B[2]            C[i] = B[i % 4] + B[(i + 2) % 4]

    Only the loop around the stage that is innermost slides so, along a dimension whose loop is
    plain; otherwise everything is computed anew. Memory is as large as the window, rounded up to a
    power of two, where that is less.

    Checks: the stage is, or then will be, computed inside that loop; the loops in between run in
    order.
    """

    stage: str
    target: str
    axis: str


MemoryStep: TypeAlias = Bind | DoubleBuffer | StorageAlign | SetStorePredicate | Prefetch | StoreAt
