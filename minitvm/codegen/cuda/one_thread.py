"""A pass that lets one thread do what every thread of a block would do."""

from __future__ import annotations

from minitvm import schedule, simt, tir

from .kernels import map_kernels


def one_thread(body: tir.Stmt) -> tir.Stmt:
    """Let thread 0 alone store to memory that threads share, outside the loops over threads.

        for bx in bind(4, "blockIdx.x"):        for bx in bind(4, "blockIdx.x"):
          S[0] = A[bx]                     ->     for t in bind(32, "threadIdx.x"):
          for tx in bind(32, "threadIdx.x"):        if t == 0:
            C[bx*32 + tx] = S[0]                      S[0] = A[bx]
                                                  for tx in bind(32, "threadIdx.x"): ...

    Otherwise 32 threads would store the same value, and for an update, S[0] = S[0] + 1, race. Each
    row of threads has "warp" memory of its own (check_launch), so its thread 0 stores there.
    """
    return map_kernels(body, _in_kernel)


def _in_kernel(kernel: tir.Stmt) -> tir.Stmt:
    """Return the kernel with each store guarded so that one thread runs it where several would."""
    launch = simt.launch_of(kernel, dict.fromkeys(tir.variables(kernel), 1))

    def visit(s: tir.Stmt, bound: frozenset[str]) -> tir.Stmt:
        match s:
            case tir.For(var, extent, inner, kind, thread):
                return tir.For(var, extent, visit(inner, bound | {thread}), kind, thread)
            case tir.If(cond, inner, orelse, likely):
                else_branch = None if orelse is None else visit(orelse, bound)
                return tir.If(cond, visit(inner, bound), else_branch, likely)
            case tir.Seq(parts):
                return tir.seq(*(visit(part, bound) for part in parts))
            case tir.Allocate(buffer, inner):
                return tir.Allocate(buffer, visit(inner, bound))
            case tir.Pragma(key, value, inner):
                return tir.Pragma(key, value, visit(inner, bound))
            case tir.Store(buffer) if schedule.scope_kind(buffer.scope) != "local":
                for tag in ("threadIdx.x",) if buffer.scope == "warp" else schedule.THREADS:
                    if tag not in bound and launch.extent(tag) > 1:
                        s = _in_thread_0(s, tag, launch.extent(tag))
                return s
            case _:
                return s

    return visit(kernel, frozenset())


def _in_thread_0(s: tir.Stmt, tag: str, threads: int) -> tir.Stmt:
    var = tir.Var(tag.replace("threadIdx.", "t"), 0, threads - 1)
    return tir.For(var, threads, tir.If(tir.compare("==", var, 0), s), "bind", tag)
