"""What one instruction of the compute unit does: its loops, its micro-operations, its operands."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm.accel import Memory, Op, Uop
from minitvm.base import BuildError
from minitvm.lowering import memory_of
from minitvm.tir import Buffer, Call, For, Stmt, Var, first_element, is_memory, variables, walk

RESET = "fill_zero"
GEMM = ("gemm", "fused_gemm8x8_add")  # (accumulators, inputs, weights)
ACCUMULATE = "accumulate"  # (inputs, accumulators): a product with the first element of WGT
ALU = {op.name.lower(): op for op in Op}


@dataclass(frozen=True, slots=True)
class Kind:
    """What an instruction of the compute unit does: all leaves of its loops agree on it."""

    name: str
    imm: int | None


@dataclass(frozen=True, slots=True)
class Work:
    """The two loops of an instruction of the compute unit, and the micro-operations inside them."""

    extents: tuple[int, ...]
    factors: tuple[tuple[int, int, int], ...]
    uops: tuple[Uop, ...]


def inputs(s: Stmt) -> tuple[tuple[Var, ...], tuple[Buffer, ...]]:
    """The loops around `s` that it depends on, and the buffers in whose memory it works."""
    own = {n.var for n in walk(s) if isinstance(n, For)}
    views = [n for n in walk(s) if isinstance(n, Call) and is_memory(n)]
    buffers = dict.fromkeys(first_element(view).buffer for view in views)
    local = tuple(b for b in buffers if memory_of(b) is not None)
    return tuple(v for v in variables(s) if v not in own), local


def check_distance(kind: Kind, uops: tuple[Uop, ...]) -> None:
    """An accumulator is not written again by one of the next two micro-operations.

    Source: UopKernel::VerifyDep in the runtime of VTA; vta.verify() looks across loops, too.
    """
    for n, uop in enumerate(uops):
        if any(uop.dst == before.dst for before in uops[max(0, n - 2) : n]):
            raise BuildError(
                f"{kind.name}: micro-operations {max(0, n - 2)} to {n}",
                f"accumulator {uop.dst} is written again before it is there: adding takes the "
                "pipeline three steps",
                "reorder: the loops of the reduction outside of those over the accumulators",
            )


def roles(call: Call) -> tuple[Call | None, Call | None, Call | None]:
    """The views of an instruction of the compute unit as (dst, src, wgt)."""
    views = [a for a in call.args if isinstance(a, Call) and is_memory(a)]
    if call.name.endswith(f".{ACCUMULATE}"):
        views.reverse()
    dst, src, wgt = (*views, None, None)[:3]
    return dst, src, wgt


def memory_in(view: Call) -> Memory:
    """The memory of the accelerator that a view is in."""
    b = first_element(view).buffer
    memory = memory_of(b)
    if memory is None:
        raise BuildError(
            f"an instruction of the compute unit works on {b.name}",
            f"it is in {b.scope!r} memory",
            "a cache_read or set_scope into inp_buffer, wgt_buffer or acc_buffer",
        )
    return memory
