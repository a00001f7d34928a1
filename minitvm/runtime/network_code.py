"""Print the calls of a network as one function in LLVM IR."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from .network import Call, Place

TABLES = "ptr %kernels, ptr %arena, ptr %input, ptr %output, ptr %param, ptr %constant"
CLOCK = getattr(time, "CLOCK_MONOTONIC", None)  # not on Windows
STAMP_BYTES = 16  # bytes that clock_gettime writes for one time: seconds and nanoseconds


def network_ir(calls: Sequence[Call], *, stamps: bool = False) -> str:
    """Return LLVM IR that defines `i32 @run(tables...)`, which makes the calls in order.

    It returns 0, or n if the nth call failed; the calls after that are not made. The tables hold
    the addresses of kernels, inputs, outputs, parameters and packed constants; another parameter is
    the address of the arena. So the code contains no addresses, and any process can use it.

    stamps   whether `run` has one more parameter, an array for the time before the first call and
             after each call, as clock_gettime stores it
    """
    tail = ", ptr %stamps" if stamps else ""
    lines = [f"define i32 @run({TABLES}{tail}) nounwind {{", "entry:"]
    lines += _stamp(0) if stamps else []
    for n, call in enumerate(calls, 1):
        lines += _call(n, call)
        lines += _stamp(n) if stamps else []
    lines += ["  ret i32 0"]
    if calls:
        sources = ", ".join(f"[ {n}, %call.{n} ]" for n in range(1, len(calls) + 1))
        lines += ["failed:", f"  %number = phi i32 {sources}", "  ret i32 %number"]
    declared = ["declare i32 @clock_gettime(i32, ptr)"] if stamps else []
    return "\n".join([*declared, *lines, "}"]) + "\n"


def _call(n: int, call: Call) -> Iterator[str]:
    """Yield the lines of one call: a basic block %call.n that continues at %then.n."""
    yield f"  br label %call.{n}"
    yield f"call.{n}:"
    yield from _entry(f"%kernel.{n}", "kernels", call.kernel)
    for k, place in enumerate(call.args):
        yield from _argument(f"%arg.{n}.{k}", place)
    args = ", ".join(f"ptr %arg.{n}.{k}" for k in range(len(call.args)))
    yield f"  %status.{n} = call i32 %kernel.{n}({args})"
    yield f"  %fine.{n} = icmp eq i32 %status.{n}, 0"
    yield f"  br i1 %fine.{n}, label %then.{n}, label %failed"
    yield f"then.{n}:"


def _argument(name: str, place: Place) -> Iterator[str]:
    if place.space == "arena":
        yield f"  {name} = getelementptr i8, ptr %arena, i64 {place.at}"
    else:
        yield from _entry(name, place.space, place.at)


def _entry(name: str, table: str, n: int) -> Iterator[str]:
    yield f"  {name}.at = getelementptr ptr, ptr %{table}, i64 {n}"
    yield f"  {name} = load ptr, ptr {name}.at"


def _stamp(n: int) -> Iterator[str]:
    yield f"  %stamp.{n} = getelementptr i8, ptr %stamps, i64 {STAMP_BYTES * n}"
    yield f"  %clock.{n} = call i32 @clock_gettime(i32 {CLOCK}, ptr %stamp.{n})"
