"""The values of indices and views in the current iteration of the enclosing loops."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod

from minitvm import accel, tir
from minitvm.base import ArgumentError, BuildError


def stride(index: tir.Index, var: tir.Var) -> int | None:
    """Return by how much `index` grows if `var` grows by 1; None if this varies."""
    factor = sum(c for a, c in tir.split_terms(index)[0] if a is var)
    return factor if tir.free_of(tir.sub(index, tir.mul(var, factor)), [var]) else None


@dataclass(frozen=True, slots=True, eq=False)
class Now:
    """The values of the enclosing loops' variables, and the element where each buffer begins."""

    config: accel.Config
    env: dict[tir.Var, int] = field(default_factory=dict[tir.Var, int])
    base: dict[tir.Buffer, int] = field(default_factory=dict[tir.Buffer, int])

    def inside(self) -> Now:
        """Return a copy; inner loops can set their variables in it without changing self."""
        return replace(self, env=dict(self.env))

    def value(self, e: tir.Index) -> int:
        """Return the value of an index, or of a condition on indices, in the current iteration.

        Raises BuildError if it depends on data: instructions have fixed addresses, and the
        accelerator has no branches.
        """
        try:
            return int(tir.index_value(e, self.env))
        except ArgumentError as data:
            why = "it depends on data, and the accelerator has fixed addresses and no branches"
            raise BuildError(tir.text(e), why, "indices of loop variables") from data

    def size(self, memory: accel.Memory) -> int:
        """Return how many numbers one element of `memory` has."""
        return prod(self.config.element_shape(memory))

    def element(self, view: tir.View, memory: accel.Memory) -> int:
        """Return the number of the element in `memory` at which a view begins."""
        at = view.first
        first, size = self.value(at.indices[0]), self.size(memory)
        if first % size:
            why = f"it begins at number {first} of {at.buffer.name}, inside an element of {size}"
            last = ", ".join(map(str, self.config.element_shape(memory)))
            raise BuildError(tir.text(at), why, f"last dimensions {last} in {memory.name}")
        return self.base[at.buffer] + first // size
