"""A pass that unrolls loops."""

from __future__ import annotations

from dataclasses import replace

from minitvm import tir

from .budget import MOST_OPERATIONS, operations, statements


def unroll(s: tir.Stmt) -> tir.Stmt:
    """Unroll the loops marked for it, and short loops under the pragma auto_unroll_max_step.

    for i in unroll(2):               C[0] = A[0]
      C[i] = A[i]              ->     C[1] = A[1]

    Inside the pragma unroll_explicit = 0, short loops are left to the target's compiler, but loops
    marked "unroll" are still unrolled. A loop whose copies would have more than MOST_OPERATIONS
    operations stays a loop; all copies together add at most twice that number.
    """
    most, run = MOST_OPERATIONS, _Unroll(MOST_OPERATIONS)
    done = run(s)
    while run.added > 2 * MOST_OPERATIONS:
        most //= 2
        run = _Unroll(most)
        done = run(s)
    return done


class _Unroll:
    """Unroll loops that become at most `most` operations; `added` counts the new operations."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.added = 0

    def __call__(self, s: tir.Stmt, auto: int = 0, explicit: bool = True) -> tir.Stmt:
        """Return `s` with its marked loops unrolled; if `explicit`, its short serial loops, too.

        A loop is short if iterations times statements are at most `auto`.
        """
        if isinstance(s, tir.Pragma) and s.key == "auto_unroll_max_step":
            return self(s.body, int(s.value), explicit)
        if isinstance(s, tir.Pragma) and s.key == "unroll_explicit":
            explicit = bool(s.value)
        if isinstance(s, tir.Allocate | tir.Seq):
            return tir.map_parts(s, lambda c: self(c, auto, explicit))
        s = tir.map_children(s, lambda c: self(c, auto, explicit), lambda e: e)
        if not isinstance(s, tir.For):
            return s
        asked = s.kind == "unroll"
        if not asked and not (s.kind == "serial" and explicit and auto):
            return s
        if isinstance(s.extent, int) and (asked or s.extent * statements(s.body) <= auto):
            cost = operations(s.body)
            if s.extent * cost <= self.most:
                self.added += (s.extent - 1) * cost
                return tir.seq(*(tir.substitute(s.body, {s.var: i}) for i in range(s.extent)))
        return replace(s, kind="serial") if asked else s
