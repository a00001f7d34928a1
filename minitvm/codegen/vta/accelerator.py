"""Small passes of target "vta" for pragmas, allocations and memory capacities."""

from __future__ import annotations

from dataclasses import replace

from minitvm import accel, lowering, tir
from minitvm.base import LoweringError
from minitvm.base import dtype as dtype_of

from ..common import ACTED_ON

TRIMMED = 2  # the iterations that remain of a loop with the pragma trim_loop
NOP = "ex.nop"


def apply_pragmas(s: tir.Stmt) -> tir.Stmt:
    """Apply the pragmas trim_loop and coproc_sync, and drop pragmas for other machines.

        # pragma trim_loop = 1
        for i in range(64):              ->   for i in range(2):
          body(i)                               body(i)

    trim_loop makes a long program short enough to look at. Two iterations remain, whatever the
    number in the pragma, so the program computes less.

        # pragma coproc_sync = 1
        for i in range(8):               ->   for i in range(8):
          body(i)                               body(i)
                                              ex.nop()

    coproc_sync separates the statements before and after the loop by an instruction of the compute
    unit. If another pragma turns the loop into one instruction, the nop follows that instruction:

        # pragma dma_copy = 1                   # pragma dma_copy = 1
        # pragma coproc_sync = 1                for i in range(8):
        for i in range(8):               ->       C[i] = CL[i]
          C[i] = CL[i]                          ex.nop()
    """

    def on_stmt(s: tir.Stmt) -> tir.Stmt:
        match s:
            case tir.Pragma("trim_loop", _, tir.For(var, extent, body, kind, thread)):
                n = min(extent, TRIMMED) if isinstance(extent, int) else TRIMMED
                return tir.For(var, n, body, kind, thread)
            case tir.Pragma("coproc_sync", _, body):
                return tir.seq(body, tir.Evaluate(tir.Call(NOP, (), dtype_of("int32"))))
            case tir.Pragma(key, value, tir.Seq((body, tir.Evaluate(tir.Call(name)) as sync))) if (
                name == NOP
            ):
                return tir.seq(tir.Pragma(key, value, body), sync)
            case tir.Pragma(key) if key == lowering.DOUBLE:
                why = "its units overlap through tokens and virtual threads"
                fix = "bind an outer loop to te.thread_axis('cthread'): each gets its own buffers"
                raise LoweringError("double_buffer for target vta", why, fix)
            case tir.Pragma(key, _, body) if key not in ACTED_ON:
                return body
            case _:
                return s

    return tir.rewrite(s, on_stmt)


def lift_allocations(s: tir.Stmt) -> tir.Stmt:
    """Move each allocation to the beginning of the loop around it.

        for k in range(8):                      for k in range(8):
          A_buf = allocate(...)                   A_buf = allocate(...)
          load(A_buf)                   ->        B_buf = allocate(...)
          B_buf = allocate(...)                   load(A_buf)
          load(B_buf)                             load(B_buf)

    Allocations then no longer separate neighbouring statements of one unit.
    """
    buffers: list[tir.Buffer] = []

    def without(s: tir.Stmt) -> tir.Stmt:
        """Return `s` without the allocations outside of its loops, which `buffers` gets."""
        match s:
            case tir.Allocate(buffer, body):
                buffers.append(buffer)
                return without(body)
            case tir.For():
                return replace(s, body=lift_allocations(s.body))
            case _:
                return tir.map_children(s, without, lambda e: e)

    body = without(s)
    for b in reversed(buffers):
        body = tir.Allocate(b, body)
    return body


def check_capacity(s: tir.Stmt) -> tir.Stmt:
    """Check that buffers allocated at the same time fit into the accelerator's memories.

    Raises LoweringError, with the buffers, their sizes and the capacity, if they do not fit, and
    for a buffer in a scope that the accelerator does not have.
    """
    _check(s, ())
    return s


def _check(s: tir.Stmt, around: tuple[tir.Buffer, ...]) -> None:
    if isinstance(s, tir.Allocate):
        _check_fits(s.buffer, around)
        around = (*around, s.buffer)
    for part in tir.inner(s):
        _check(part, around)


def _check_fits(b: tir.Buffer, around: tuple[tir.Buffer, ...]) -> None:
    """Check that `b` fits into its memory together with the buffers `around`."""
    memory = lowering.memory_of(b)
    if memory is None:
        why = "the accelerator computes only in its own memories"
        fix = "set_scope(env.inp_scope, wgt_scope or acc_scope); or compute it outside"
        raise LoweringError(f"{b.name} in {b.scope!r} memory", why, fix)
    sharers = [other for other in (*around, b) if lowering.memory_of(other) is memory]
    needs = [_need(other, memory) for other in sharers]
    config = lowering.machine()
    usable = lowering.capacity(config, memory)
    if sum(needs) > usable:
        terms = " + ".join(f"{other.name} {n}" for other, n in zip(sharers, needs, strict=True))
        raise LoweringError(
            f"{b.name}[{', '.join(map(tir.text, b.shape))}] in {b.scope!r}",
            f"{sum(needs)} elements of {memory.name} are needed ({terms}), {config.name} has "
            f"{usable}" + (" that can be addressed" if usable < config.depth(memory) else ""),
            "smaller tiles, fewer virtual threads (each has its own buffers), or a larger Config",
        )


def _need(b: tir.Buffer, memory: accel.Memory) -> int:
    """Return how many elements of `memory` the buffer `b` needs."""
    count = tir.elements(b)
    if not isinstance(count, int):
        what = f"{b.name}[{', '.join(map(tir.text, b.shape))}] in {b.scope!r}"
        raise LoweringError(what, "its size is not a constant", "constant shapes and extents")
    return -(-count // lowering.element_size(memory))
