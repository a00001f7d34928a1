"""A pass that unrolls loops."""

from __future__ import annotations

from dataclasses import dataclass, replace

from minitvm import tir

from .budget import MAX_OPERATIONS, MAX_SCALAR_ACCESSES, MAX_SCALAR_STORES, code_size


def unroll(s: tir.Stmt) -> tir.Stmt:
    """Unroll the loops marked for it, and short loops under the pragma auto_unroll_max_step.

    for i in unroll(2):               C[0] = A[0]
      C[i] = A[i]              ->     C[1] = A[1]

    Inside the pragma unroll_explicit = 0, short loops are left to the target's compiler, but loops
    marked "unroll" are still unrolled. A loop is short if iterations times statements are at most
    the pragma's value, and its copies at most MAX_SCALAR_STORES scalar stores and at most
    MAX_SCALAR_ACCESSES scalar loads and stores. A loop whose copies would have more than
    MAX_OPERATIONS operations stays a loop; all copies together add at most twice that number.
    """
    limit = MAX_OPERATIONS
    while True:
        unroller = _Unroller(limit)
        body = unroller.stmt(s, 0, True)
        if unroller.added <= 2 * MAX_OPERATIONS:
            return body
        limit //= 2


@dataclass(slots=True)
class _Unroller:
    """Unrolls loops that become at most `limit` operations each.

    added   the operations that copies have added so far
    """

    limit: int
    added: int = 0

    def stmt(self, s: tir.Stmt, steps: int, explicit: bool) -> tir.Stmt:
        """Return `s` with its marked loops unrolled; if `explicit`, its short serial loops, too.

        steps   the value of the enclosing auto_unroll_max_step, or 0
        """
        if isinstance(s, tir.Pragma) and s.key == "auto_unroll_max_step":
            return self.stmt(s.body, int(s.value), explicit)
        if isinstance(s, tir.Pragma) and s.key == "unroll_explicit":
            explicit = bool(s.value)

        def inside(c: tir.Stmt) -> tir.Stmt:
            return self.stmt(c, steps, explicit)

        if isinstance(s, tir.Allocate | tir.Seq):
            return tir.map_parts(s, inside)
        s = tir.map_children(s, inside, lambda e: e)
        short = steps if explicit else 0
        if not isinstance(s, tir.For) or not (s.kind == "unroll" or (s.kind == "serial" and short)):
            return s
        if isinstance(s.extent, int) and self.copies(s, s.extent, short):
            return tir.seq(*(tir.substitute(s.body, {s.var: i}) for i in range(s.extent)))
        return replace(s, kind="serial") if s.kind == "unroll" else s

    def copies(self, loop: tir.For, n: int, short: int) -> bool:
        """Return whether to unroll `loop`, which is marked or serial; if so, add to `added`.

        n       the extent of the loop
        short   a serial loop is short if it has at most so many statements times iterations
        """
        size = code_size(loop.body)
        is_short = (
            n * max(1, size.statements) <= short
            and n * size.scalar_stores <= MAX_SCALAR_STORES
            and n * size.scalar_accesses <= MAX_SCALAR_ACCESSES
        )
        if not (loop.kind == "unroll" or is_short) or n * size.operations > self.limit:
            return False
        self.added += (n - 1) * size.operations
        return True
