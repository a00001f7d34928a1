"""Programs that compute twice their input, and programs for the same arguments that fail."""

from collections.abc import Callable
from dataclasses import replace

import minitvm as tvm
from minitvm import te, tir
from minitvm.base import LoweringError, ScheduleError, dtype

N = 1000  # the arrays do not fill their last cache line
PIPES = range(3, 32)  # file descriptors among which are the runner's pipes


def doubled(factor: int = 8) -> tir.PrimFunc:
    A = te.placeholder((N,), name="A")
    B = te.compute((N,), lambda i: A[i] + A[i], name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(s[B].op.axis[0], factor)[1])
    return tvm.lower(s, [A, B])


def calling(name: str, *args: object) -> tir.PrimFunc:
    """Call a C function instead."""
    return replace(doubled(), body=tir.Evaluate(tir.call_extern("int32", name, *args)))


def storing(first: int, count: int) -> tir.PrimFunc:
    """Store to B[first], ..., behind the right elements."""
    func = doubled()
    (B,) = func.outputs
    k = tir.Var("k", 0, count - 1)
    extra = tir.For(k, count, tir.Store(B, (first + k,), tir.const(1.0)))
    return replace(func, body=tir.Seq((func.body, extra)))


def writing_to_pipes() -> tir.PrimFunc:
    func = doubled()
    (B,) = func.outputs
    calls = [tir.Evaluate(tir.call_extern("int64", "write", n, B, 64)) for n in PIPES]
    wait = tir.Evaluate(tir.call_extern("int32", "pause"))
    return replace(func, body=tir.Seq((func.body, *calls, wait)))


def allocating(size: int) -> tir.PrimFunc:
    """Use a temporary array of `size` bytes."""
    func = doubled()
    t = tir.Buffer("t", (size,), dtype("int8"))
    use = tir.Evaluate(tir.call_extern("int64", "write", -1, t, 1))
    return replace(func, body=tir.Seq((tir.Allocate(t, use), func.body)))


def wrong() -> tir.PrimFunc:
    return storing(N // 2, 1)


def unfinished() -> tir.PrimFunc:
    """Store nothing: the outputs of the program before must not count."""
    func = doubled()
    return replace(func, body=tir.Evaluate(tir.call_extern("int32", "getpid")))


def huge(stores: int = 5_000) -> tir.PrimFunc:
    """Take LLVM seconds to compile."""
    func = doubled()
    A, (B,) = func.params[0], func.outputs
    assert isinstance(A, tir.Buffer)
    some = [
        tir.Store(B, (n * 7 % N,), tir.load(A, n * 13 % N) * tir.load(B, n * 11 % N))
        for n in range(stores)
    ]
    return replace(func, body=tir.Seq(tuple(some)))


def illegal() -> tir.PrimFunc:
    raise ScheduleError("split", "illegal")


def impossible() -> tir.PrimFunc:
    raise LoweringError("lower", "impossible")


def for_other_shapes() -> tir.PrimFunc:
    A = te.placeholder((N + 1,), name="A")
    B = te.compute((N + 1,), lambda i: A[i] + A[i], name="B")
    return tvm.lower(te.create_schedule(B.op), [A, B])


FAILURES: dict[str, tuple[Callable[[], tir.PrimFunc], str, str]] = {
    "abort": (lambda: calling("abort"), "crash", "SIGABRT"),
    "overrun": (lambda: storing(N, 64), "crash", "SIGSEGV"),
    "far": (lambda: storing(1 << 40, 1), "crash", "SIGSEGV"),
    "exit": (lambda: calling("_exit", 3), "exit", "exit code 3"),
    "hang": (lambda: calling("pause"), "run time-out", "no answer within"),
    "garbage": (writing_to_pipes, "garbage", "not a reply"),
    "memory": (lambda: allocating(8 << 30), "memory", "cannot be allocated"),
    "wrong": (wrong, "wrong answer", "B[500] is 1.0 instead of"),
    "close": (lambda: storing(N, 1), "wrong answer", "past the end"),
    "unfinished": (unfinished, "wrong answer", "is nan instead of"),
    "illegal": (illegal, "schedule", "illegal"),
    "impossible": (impossible, "lower", "impossible"),
    "shapes": (for_other_shapes, "lower", "float32[1001]"),
    "unknown": (lambda: calling("no_such_function"), "compile", "no_such_function"),
    "slow build": (huge, "compile time-out", "no answer within"),
}
