"""Expressions of a kernel as closures: numbers where all threads agree, arrays where they differ.

A closure takes the frame, a list with the values of all variables that are equal in all threads.
It returns a number, or an array with a value for each active lane.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from minitvm import schedule, tir
from minitvm.base import BuildError

from .threads import Batch

Frame: TypeAlias = list[Any]
Run: TypeAlias = Callable[[Frame], Any]


def _down(lane: Any, n: Any) -> Any:
    return tir.choose(lane + n < schedule.WARP, lane + n, lane)


SHUFFLES: dict[str, Callable[[Any, Any], Any]] = {  # (lane, operand) -> the lane that it reads
    "shfl_xor": np.bitwise_xor,
    "shfl_down": _down,
    "shfl_idx": np.full_like,
}


class Values(tir.Closures):
    """Compiles the expressions of one kernel.

    bound    loop variable -> the hardware index that it is bound to
    batch    the threads that run at present; closures read it when they run
    """

    def __init__(self, bound: dict[tir.Var, str]) -> None:
        super().__init__()
        self.bound = bound
        self.batch: Batch
        self._threads: dict[int, Any] = {}  # the thread parts of indices, for the present batch

    def start(self, batch: Batch) -> None:
        """Run on the threads of `batch` from now on."""
        self.batch = batch
        self._threads.clear()

    # indices

    def parts(self, e: tir.Index) -> tuple[Run | None, Run] | None:
        """Split an index into a part that depends on threads only, and a part equal in all threads.

        The first is computed once for a batch and kept, without regard to active lanes; it is None
        if no thread index occurs. Returns None if an atom mixes threads with loops or data.
        """
        terms, const = tir.split_terms(e)
        threads = [(a, c) for a, c in terms if self._of_threads(a)]
        uniform = [(a, c) for a, c in terms if not self._of_threads(a)]
        if not all(self.is_uniform(a) for a, _ in uniform):
            return None
        uniform_sum = tir.weighted_sum([(self.atom(a), c) for a, c in uniform], const)
        if not threads:
            return None, uniform_sum
        key = len(self._threads) + id(e)
        differ = tir.weighted_sum([(self.atom(a), c) for a, c in threads], 0)

        def of_threads(frame: Frame) -> Any:
            known = self._threads.get(key)
            if known is None:
                active, self.batch.active = self.batch.active, None
                known = self._threads[key] = differ(frame)
                self.batch.active = active
            return known

        return of_threads, uniform_sum

    def index(self, e: tir.Index) -> Run:
        """Compile an index."""
        parts = self.parts(e)
        if parts is None:
            terms, const = tir.split_terms(e)
            return tir.weighted_sum([(self.atom(a), c) for a, c in terms], const)
        threads, uniform_sum = parts
        if threads is None:
            return uniform_sum
        return lambda frame: self.batch.of(threads(frame)) + uniform_sum(frame)

    def atom(self, e: tir.Atom) -> Run:
        """Compile an atom of an index."""
        if isinstance(e, tir.Var) and e in self.bound:
            tag = self.bound[e]
            return lambda _: self.batch.of(self.batch.index[tag])
        if isinstance(e, tir.Lane):
            what, why = tir.text(e), "vectors are loops of lanes here"
            raise BuildError(what, why, "leave out the pass `vectorize`")
        return super().index(e)

    def is_uniform(self, e: tir.Index) -> bool:
        """Return whether `e` has the same value in all threads of a batch."""
        return isinstance(e, int) or not any(
            isinstance(n, tir.Load) or n in self.bound for n in _leaves(e)
        )

    def _of_threads(self, e: tir.Atom) -> bool:
        leaves = _leaves(e)
        return bool(leaves) and all(n in self.bound for n in leaves)

    # values

    def value(self, e: tir.Expr) -> Run:
        """Compile a value."""
        match e:
            case tir.Call(name) if name in SHUFFLES:
                return self.shuffle(e)
            case tir.Call(name) if name not in tir.INTRINSICS:
                raise BuildError(tir.text(e), "a GPU cannot compute it", "an intrinsic")
            case _:
                return super().value(e)

    def lazy(self, e: tir.IfThenElse) -> Run:
        """Compile a choice in which each thread computes only the arm that it takes."""
        cond, *arms = self.value(e.cond), self.value(e.a), self.value(e.b)

        def run(frame: Frame) -> Any:
            mask = cond(frame)
            if np.ndim(mask) == 0:
                return arms[0 if mask else 1](frame)
            values = np.empty(mask.shape, e.dtype.numpy)
            batch, active = self.batch, self.batch.active
            for arm, arm_mask in zip(arms, (mask, ~mask), strict=True):
                if arm_mask.any():
                    lanes = batch.chosen(arm_mask)
                    batch.active = lanes
                    values[arm_mask] = arm(frame)
                    batch.active = active
            return values

        return run

    def shuffle(self, e: tir.Call) -> Run:
        """Compile a read of another lane's value in the same warp."""
        value, amount = self.value(e.args[0]), self.either(e.args[1])
        source = SHUFFLES[e.name]

        def run(frame: Frame) -> Any:
            batch = self.batch
            slot = batch.of(batch.slot)
            values = np.zeros(batch.blocks * batch.launch.warps * schedule.WARP, e.dtype.numpy)
            present = np.zeros(len(values), np.bool_)
            values[slot], present[slot] = value(frame), True
            lane = slot % schedule.WARP
            slots = slot - lane + source(lane, int(amount(frame)))
            if not present[slots].all():
                self.inactive(e, ~present[slots])
            return values[slots]

        return run

    # defined by the kernel, which knows about faults

    def inactive(self, e: tir.Call, mask: Any) -> None:
        """Report that the lanes in `mask` read the values of lanes that do not take part."""
        raise NotImplementedError


def _leaves(e: tir.Index) -> list[tir.Expr]:
    """Return the variables and loads in `e`."""
    return [n for n in tir.walk(e) if isinstance(n, tir.Var | tir.Load)]
