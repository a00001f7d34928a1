"""Measure programs in two worker processes: one compiles while the other one runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np

from minitvm import tir
from minitvm.base import Target

from .trial import Result

Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
Program: TypeAlias = Callable[[], tir.PrimFunc]  # lowers a candidate for the target


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How to measure, and the limits of one program.

    compile_seconds   wall time of compiling
    run_seconds       wall time of linking, checking and all timed calls
    number            the most timed calls of one repeat
    min_repeat_ms     a repeat ends earlier when its calls have taken this long
    repeat            the number of repeats; each gives the shortest of its calls
    early_stop        stop when a call takes this many times as long as the best program so far
    cold              use other copies of the constants in each call, as a network does
    check             whether to compare the outputs with those of the reference
    memory            bytes that a process may allocate
    """

    compile_seconds: float = 2.0
    run_seconds: float = 4.0
    number: int = 40
    min_repeat_ms: float = 20.0
    repeat: int = 1
    early_stop: float = 3.0
    cold: bool = False
    check: bool = True
    memory: int = 4 << 30


class Measurer:
    """Two kinds of worker processes that build and run the programs of one task.

    reference   a program for the same arguments, whose outputs are the right ones; its parameters
                give the shapes and dtypes
    inputs      the arrays to compute with, in the order of the parameters that are not outputs; by
                default random ones, drawn once
    Use it in a `with` statement, or close() it.
    """

    def __init__(
        self,
        reference: tir.PrimFunc,
        target: str | Target = "llvm",
        *,
        inputs: Sequence[Array] | None = None,
        rng: np.random.Generator | None = None,
        options: MeasureOptions | None = None,
    ) -> None:
        raise NotImplementedError

    @property
    def reference_seconds(self) -> float:
        """Return the time of one call of the reference, measured when it is first needed.

        Raises MeasureError if the reference cannot be measured.
        """
        raise NotImplementedError

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order; a failure is a result too.

        A program is called in this process to be lowered, in another thread and a few programs
        ahead of the results. Errors other than TVMError in such a call are raised here.
        """
        raise NotImplementedError

    def final(self, programs: Sequence[Program], rounds: int = 10) -> list[Result]:
        """Measure a few programs and the reference in turns, and compare by wall time.

        Returns a result for each program, then that of the reference; `seconds` has the shortest
        call of each round.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End all processes."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
