"""The sizes by which splits may divide loops: integers, and formulas over a program's variables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from minitvm import tensor, tir
from minitvm.base import ScheduleError

from .formula import arithmetic, parsed
from .state import State
from .step import Checks


def program_sizes(state: State) -> dict[str, tir.Var]:
    """Map names to the variables that splits may name: those in shapes, and scalar arguments.

    A name that two variables share is left out.
    """
    ops = [s.op for s in state.stages]
    shapes = [tensor.tensor_of(op, i).shape for op in ops for i in range(len(op.dtypes))]
    sizes = dict.fromkeys(
        v for shape in shapes for n in shape if not isinstance(n, int) for v in tir.variables(n)
    )
    sizes |= dict.fromkeys(state.sizes)
    names = [v.name for v in sizes]
    return {v.name: v for v in sizes if names.count(v.name) == 1}


def with_sizes(state: State, sizes: Iterable[tir.Var]) -> State:
    """Return `state` with `sizes`, scalar arguments of the program, among those splits may name."""
    sizes = tuple(sizes)
    for v in sizes:
        if not isinstance(v, tir.Var):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ScheduleError(f"size {v!r}", "not a variable", 'te.var("n")')
    known = program_sizes(state).values()
    new = [v for v in dict.fromkeys(sizes) if not any(v is k for k in known)]
    return replace(state, sizes=(*state.sizes, *new)) if new else state


def part_size(state: State, size: int | str | None) -> tir.Index | None:
    """Return the size of a split as an index expression, or None if `size` is None.

    Raises ScheduleError if `size` is a string but not a formula over the program's sizes.
    """
    if not isinstance(size, str):
        return size
    return tir.index(arithmetic(parsed(size), program_sizes(state), size))


def is_size(state: State, source: str) -> Checks:
    """Check that `source` is a formula over the program's sizes whose value can be >= 1."""
    size = part_size(state, source)
    assert size is not None
    if isinstance(size, int) or tir.upper_bound(size) < 1:
        yield f"the size of a part is an integer >= 1, not {source!r}", ""
