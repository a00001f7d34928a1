"""A pass that hides the latency of global memory behind the products of a double-buffered loop."""

from __future__ import annotations

from minitvm import simt, tir

from .kernels import is_hardware


def store_late(body: tir.Stmt) -> tir.Stmt:
    """Load the next tile into registers first, and store it to shared memory last.

        for k in range(n):                        for k in range(n):
          if k + 1 < n:                             if k + 1 < n:
            S[(k + 1) % 2] = A[k + 1]        ->       R = A[k + 1]
          use S[k % 2]                              use S[k % 2]
                                                    if k + 1 < n:
                                                      S[(k + 1) % 2] = R

    A store waits for its load. In the first form the products wait, too, since they come after the
    store; in the second form they run while the load is under way. Asynchronous copies need none of
    this.
    """
    return tir.rewrite(body, _in_loop)


def _in_loop(s: tir.Stmt) -> tir.Stmt:
    """Return the loop with its loads into registers first and their stores last, if it has any."""
    if not (isinstance(s, tir.For) and s.kind in ("serial", "unroll")):
        return s
    parts = s.body.body if isinstance(s.body, tir.Seq) else ()
    written = {x.buffer for x in tir.every(s) if isinstance(x, tir.Store)}
    early, late, registers = list[tir.Stmt](), list[tir.Stmt](), list[tir.Buffer]()
    for part in parts:
        halves = _halves(part, written)
        if halves is None:
            break
        registers.append(halves[0])
        early.append(halves[1])
        late.append(halves[2])
    if not early:
        return s
    body = tir.seq(*early, *parts[len(early) :], *late)
    loop: tir.Stmt = tir.For(s.var, s.extent, body, s.kind, s.thread)
    for register in registers:
        loop = tir.Allocate(register, loop)
    return loop


def _halves(s: tir.Stmt, written: set[tir.Buffer]) -> tuple[tir.Buffer, tir.Stmt, tir.Stmt] | None:
    """Split `if more: S[i] = A[j]` into (registers, the loads, the stores); None if it is not so.

    written   the buffers that the loop around stores to; their elements cannot be loaded early
    """
    if not (isinstance(s, tir.If) and s.orelse is None):
        return None
    statements = list(tir.every(s))
    stores = [x for x in statements if isinstance(x, tir.Store)]
    late = any(isinstance(x, tir.Pragma) and x.key == simt.ASYNC for x in statements)
    if len(stores) != 1 or late or any(isinstance(x, tir.Evaluate) for x in statements):
        return None
    (store,) = stores
    # loops around the store, but no empty ones
    enclosing = (x for x in statements if any(inner is store for inner in tir.every(x)))
    loops = [x for x in enclosing if isinstance(x, tir.For) and not is_hardware(x)]
    loads = [n for n in tir.walk(store.value) if isinstance(n, tir.Load)]
    from_global = all(n.buffer.scope == "global" and n.buffer not in written for n in loads)
    if store.buffer.scope != "shared" or not from_global:
        return None
    index, size = tir.index(0), 1
    for loop in reversed(loops):
        if not isinstance(loop.extent, int):
            return None
        index = tir.add(index, tir.mul(loop.var, size))
        size *= loop.extent
    registers = tir.Buffer(f"{store.buffer.name}.next", (size,), store.buffer.dtype, "local")

    def with_store(new: tir.Store) -> tir.Stmt:
        return tir.rewrite(s, lambda x: new if x is store else x)

    loaded = tir.Load(registers, (index,), registers.dtype)
    return (
        registers,
        with_store(tir.Store(registers, (index,), store.value)),
        with_store(tir.Store(store.buffer, store.indices, loaded)),
    )
