"""Make temporary arrays parameters, so that a caller can provide memory once for all calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from minitvm import tir
from minitvm.base import Target

from .emit import stack_limit


def lifted(func: tir.PrimFunc, target: Target) -> tir.PrimFunc:
    """Return `func` with parameters, func.scratch, in place of the arrays that it would malloc.

        def f(A, C):                               def f(A, C, B):
          B = allocate((1000, 1000), ...)    ->      for i in range(1000): ...
          for i in range(1000): ...

    Arrays stay if they are in a parallel loop (each thread needs its own), fit on the stack or have
    a symbolic size. Programs for targets without machine code do not change.
    """
    if target.kind != "llvm":
        return func
    threads = target.num_cores > 1
    buffers = tuple(_on_heap(func.body, threads))
    if not buffers:
        return func
    return replace(
        func,
        params=(*func.params, *buffers),
        body=_without(func.body, frozenset(buffers), threads),
        outputs=(*func.outputs, *buffers),
        scratch=(*func.scratch, *buffers),
    )


def _on_heap(s: tir.Stmt, threads: bool) -> Iterator[tir.Buffer]:
    """Yield the buffers that emit_llvm does not put on the stack, in the order of emission."""
    stack, visited, used = [s], set[tir.Buffer](), 0
    while stack:
        s = stack.pop()
        if threads and _is_parallel(s):
            continue
        if isinstance(s, tir.Allocate) and s.buffer not in visited:
            visited.add(s.buffer)
            n = tir.elements(s.buffer)
            if isinstance(n, int):
                size = n * s.buffer.dtype.bytes
                if used + size <= stack_limit(s.buffer):
                    used += size
                else:
                    yield s.buffer
        stack += reversed(tir.inner(s))


def _is_parallel(s: tir.Stmt) -> bool:
    """Return whether `s` is a parallel loop of more than one iteration, which threads run."""
    return isinstance(s, tir.For) and s.kind == "parallel" and not tir.prove_equal(s.extent, 1)


def _without(s: tir.Stmt, buffers: frozenset[tir.Buffer], threads: bool) -> tir.Stmt:
    """Return `s` without the allocations of the buffers `buffers` outside parallel loops."""
    while isinstance(s, tir.Allocate) and s.buffer in buffers:
        s = s.body
    if threads and _is_parallel(s):
        return s
    return tir.map_children(s, lambda part: _without(part, buffers, threads), lambda e: e)
