"""A pass that refuses kernels which no GPU can launch, with the numbers."""

from __future__ import annotations

from collections.abc import Iterator

from minitvm import schedule, simt, tir
from minitvm.base import LoweringError, Reason, raise_first

from .kernels import is_kernel, shared_elements

FORGOT = "did you forget to bind? bind a loop to te.thread_axis('blockIdx.x')"
FASTER = 'set_scope("shared") or "local"; or compute_root, for a kernel of its own'


def check_launch(body: tir.Stmt) -> tir.Stmt:
    """Return `body`; raise LoweringError if one of its kernels cannot be launched.

    Each statement at the root is a kernel: it must have loops bound to blocks or threads, at most
    1024 threads a block, and at most 48 KB of shared memory, all of known sizes. It allocates no
    global memory, of which its blocks would share one copy, and stores to it only inside the loops
    over all its blocks. It has memory of scope "warp" only where each row of threads along
    threadIdx.x is a warp.
    """
    for part in simt.roots(body):
        if isinstance(part, tir.Allocate) and part.buffer.scope == "global":
            continue
        stored = [s.buffer.name for s in tir.every(part) if isinstance(s, tir.Store)]
        if not is_kernel(part):
            what = f"the loops that store to {stored[-1]}" if stored else "a statement"
            raise LoweringError(what, "no GPU thread runs them", FORGOT)
        raise_first(LoweringError, f"kernel that computes {stored[-1]}", _reasons(part))
    return body


def _reasons(kernel: tir.Stmt) -> Iterator[Reason]:
    """Yield (why, fix) for each reason why the GPU cannot run `kernel`."""
    for s in tir.every(kernel):
        if (
            isinstance(s, tir.For)
            and s.thread in schedule.THREADS
            and not isinstance(s.extent, int)
        ):
            why = f"the number of threads along {s.thread} is {tir.text(s.extent)}"
            yield why, "split the loop by a constant, and bind the inner loop"
    launch = simt.launch_of(kernel, dict.fromkeys(tir.variables(kernel), 1))
    if launch.threads > simt.MAX_THREADS:
        sizes = " x ".join(str(n) for n in launch.block if n > 1)
        why = f"a block has {sizes} threads, at most {simt.MAX_THREADS} are possible"
        yield why, "smaller factors in the splits whose loops are bound to threads"
    for tag, most in simt.MAX_ALONG.items():
        if launch.extent(tag) > most:
            yield f"{launch.extent(tag)} threads along {tag}, at most {most}", "bind another loop"
    yield from _memory(kernel, launch)
    blocks = frozenset(tag for tag in schedule.BLOCKS if launch.extent(tag) > 1)
    for name in dict.fromkeys(_stored_by_all(kernel, blocks)):
        yield f"all its blocks would store to {name}, which is in global memory", FASTER


def _stored_by_all(s: tir.Stmt, blocks: frozenset[str]) -> Iterator[str]:
    """Yield the names of global buffers that are stored to outside the loops over `blocks`."""
    if isinstance(s, tir.Store) and s.buffer.scope == "global" and blocks:
        yield s.buffer.name
    for part in tir.inner(s):
        yield from _stored_by_all(part, blocks - {s.thread} if isinstance(s, tir.For) else blocks)


def _memory(kernel: tir.Stmt, launch: simt.Launch) -> Iterator[Reason]:
    """Yield (why, fix) for each reason why `kernel` cannot have the memory it allocates."""
    x, y, z = launch.block
    shared = 0
    for b in (s.buffer for s in tir.every(kernel) if isinstance(s, tir.Allocate)):
        size, scope = tir.elements(b), schedule.scope_kind(b.scope)
        if scope == "global":
            why = f"its blocks would share {b.name}, which is in global memory"
            yield why, FASTER
        elif not isinstance(size, int):
            yield f"the size of {b.name} is {tir.text(size)}", "constant tile sizes"
        elif scope == "warp" and x != schedule.WARP and (x > schedule.WARP or y * z > 1):
            why = f"threadIdx.x has {x} threads, but the {schedule.WARP} of a warp share {b.name}"
            yield why, f'{schedule.WARP} threads along threadIdx.x, or set_scope("shared")'
        elif scope == "shared":
            shared += shared_elements(b, size) * b.dtype.bytes
    if shared > simt.MAX_SHARED:
        why = f"a block needs {shared} bytes of shared memory, at most {simt.MAX_SHARED}"
        yield why, "smaller tiles"
