"""Random programs: inputs, operations, and how exactly two results must agree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import tensor, tir
from minitvm.base import BOOL, DType

from .values import Rng, chance

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class RandomProgram:
    """A random program, and how exactly two ways of computing it must agree.

    inputs, outputs   the tensors that are arguments of the compiled program
    sizes             the value of each symbolic size
    exact             for each output, whether all correct programs agree to the last bit
    longest           the number of points of the longest reduction
    epsilon           the relative error of one operation in the narrowest float type
    """

    inputs: tuple[tensor.Tensor, ...]
    outputs: tuple[tensor.Tensor, ...]
    sizes: dict[tir.Var, int]
    exact: tuple[bool, ...]
    longest: int
    epsilon: float

    @property
    def tensors(self) -> tuple[tensor.Tensor, ...]:
        """The inputs, then the outputs."""
        return (*self.inputs, *self.outputs)

    @property
    def scalars(self) -> tuple[tir.Var, ...]:
        """The symbolic sizes that appear in no shape of an input or output."""
        shown = {id(n) for t in self.tensors for n in t.shape}
        return tuple(v for v in self.sizes if id(v) not in shown)

    @property
    def args(self) -> list[tensor.Tensor | tir.Var]:
        """The arguments of the compiled program, in order."""
        return [*self.tensors, *self.scalars]

    @property
    def ops(self) -> list[tensor.Operation]:
        """The operations of the outputs, each once, as arguments of create_schedule."""
        return list({id(t.op): t.op for t in self.outputs}.values())

    def shape(self, t: tensor.Tensor) -> tuple[int, ...]:
        """Return the shape of `t` with its symbolic sizes filled in."""
        return tuple(n if isinstance(n, int) else self.sizes[cast("tir.Var", n)] for n in t.shape)

    def arrays(self, rng: Rng) -> dict[tensor.Tensor, Array]:
        """Draw an array for each input, with floats that need only few bits: see random_array."""
        return {t: random_array(rng, self.shape(t), t.dtype) for t in self.inputs}

    def __str__(self) -> str:
        return "\n".join(
            [*_definitions(self), *(f"# {v.name} = {n}" for v, n in self.sizes.items())]
        )


def random_array(rng: Rng, shape: tuple[int, ...], dtype: DType) -> Array:
    """Draw an array; floats are multiples of 1/4 in -4 .. 4, and sometimes NaN, inf or -0.0."""
    if dtype.is_float:
        special = rng.choice((np.nan, np.inf, -np.inf, -0.0), shape) if chance(rng, 0.1) else 0.0
        made = np.where(rng.random(shape) < 0.1, special, rng.integers(-16, 17, shape) / 4)
        return made.astype(dtype.numpy)
    if dtype is BOOL:
        return rng.random(shape) < 0.5
    if chance(rng, 0.5):
        return rng.integers(0 if dtype.low == 0 else -9, 10, shape).astype(dtype.numpy)
    ends = np.iinfo(str(dtype))
    return rng.integers(ends.min, ends.max, shape, np.int64, endpoint=True).astype(dtype.numpy)


def _definitions(program: RandomProgram) -> Iterator[str]:
    """Yield the definition of each operation, producers first."""
    for op in tensor.producers_first(t.op for t in program.tensors):
        kind = f"{', '.join(op.dtypes)}[{', '.join(map(tir.text, op.shape))}]"
        match op:
            case tensor.PlaceholderOp(name, constant=constant):
                yield f"{name}: {kind} = {'constant' if constant else 'input'}"
            case tensor.ExternOp(name, body=body):
                yield f"{name}: {kind} ="
                yield from (f"  {line}" for line in tir.text(body).splitlines())
            case tensor.ScanOp(name, inits, updates, states):
                parts = zip(inits, updates, states, strict=True)
                steps = (f"{i.name}, then {u.name} of {s.name}" for i, u, s in parts)
                yield f"{name}: {kind} = {'; '.join(steps)}"
            case tensor.ComputeOp(name, axes, _, body):
                left = f"{name}({', '.join(a.name for a in axes)})"
                yield f"{left}: {kind} = {', '.join(map(_formula, body))}"


def _formula(e: tir.Expr) -> str:
    if not isinstance(e, tensor.Reduce):
        return tir.text(e)
    axes = ", ".join(f"{a.name} in {tir.text(a.start)} .. +{tir.text(a.extent)}" for a in e.axes)
    more = f", where={tir.text(e.where)}" if e.where is not tir.TRUE else ""
    more += f", init={', '.join(map(tir.text, e.init))}" if e.init else ""
    return f"{e.reducer.name}({', '.join(map(tir.text, e.sources))}, over {axes}{more})"
