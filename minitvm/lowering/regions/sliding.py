"""Sliding windows (store_at): each iteration computes only new elements."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm import schedule, tensor, tir
from minitvm.base import LoweringError


@dataclass(frozen=True, slots=True, eq=False)
class StoredDimension:
    """One dimension of a buffer: `extent` elements, starting at `start`.

    fold: element i of the tensor is stored at (i - start) % fold, or at i - start if fold is 0.
    """

    start: tir.Index
    extent: tir.Index
    fold: int = 0

    def place(self, i: tir.Index) -> tir.Index:
        """Return the index in the buffer of element `i` of the tensor."""
        local = tir.sub(i, self.start)
        return tir.floormod(local, self.fold) if self.fold else local


def check_attached(stage: schedule.Stage) -> None:
    """Raise LoweringError if a stage with store_at is not computed in a loop."""
    if stage.store is not None and not isinstance(stage.attach, schedule.At):
        why = "it is not yet computed inside that loop"
        fix = "compute_at that loop or one inside it; or compute_root, which undoes store_at"
        raise LoweringError(f"store_at of {stage.name}", why, fix)


def storage_for(
    window: tuple[tir.Index, tir.Index], hull: tuple[tir.Index, tir.Index], may_fold: bool
) -> StoredDimension:
    """Return how to store a dimension of which one iteration needs `window`, and the loop `hull`.

    Both are (start, extent). A window of 3 elements in rows of 100 is stored in 4: as the window
    moves, element i + 4 replaces element i, which is no longer in the window.
    """
    start, extent = hull
    size = window[1]
    if not may_fold or not isinstance(size, int) or tir.prove_equal(window[0], start):
        return StoredDimension(start, extent)
    fold = 1 << max(0, size - 1).bit_length()  # 3 -> 4
    if isinstance(extent, int) and extent <= fold:
        return StoredDimension(start, extent)
    return StoredDimension(start, fold, fold)


def may_fold(state: schedule.State) -> bool:
    """Return False if any stage is tensorized, since intrinsics expect buffers without a fold."""
    return not any(n.intrin is not None for s in state.stages for n in s.notes.values())


def slide(
    stage: schedule.Stage, windows: dict[tensor.Axis, tuple[tir.Index, tir.Index]], loop: tir.Var
) -> tuple[tensor.Axis, tir.Index, tir.Index] | str:
    """Return (axis, start, extent) of the new elements in each iteration of the innermost `loop`.

    The window i .. i + 2 needs all three elements in the first iteration, later only i + 2: the new
    part begins at i + 2*min(i, 1) and has 3 - 2*min(i, 1) elements. If nothing can be kept, return
    the reason as a string.
    """
    moving_axes = [a for a, (lo, _) in windows.items() if not tir.free_of(lo, (loop,))]
    if any(n.intrin is not None for n in stage.notes.values()):
        return "a tensor intrinsic computes equally many elements in each iteration of"
    if len(moving_axes) != 1:
        names = " and ".join(a.name for a in moving_axes)
        return f"{names} move together with" if moving_axes else "its part is the same in all of"
    (a,) = moving_axes
    start, size = windows[a]
    terms, const = tir.split_terms(start)
    step = sum(c for t, c in terms if t is loop)
    rest = tir.linear((t for t in terms if t[0] is not loop), const)
    if not any(a is b for b in stage.leaves):
        return f"its axis {a.name} is split or fused, and would slide along"
    if stage.note(a).kind != "serial":
        return f"its axis {a.name} is marked {stage.note(a).kind}, and would slide along"
    if not isinstance(size, int):
        return "its part has no constant size along"
    if not tir.free_of(rest, (loop,)) or step <= 0:
        return "its part does not move evenly forward with"
    if step >= size:
        return "its parts do not overlap along"
    later, old = tir.minimum(loop, 1), size - step
    return a, tir.add(start, tir.mul(later, old)), tir.sub(size, tir.mul(later, old))
