"""Options for building and running programs on this machine, under TVM's names."""

from __future__ import annotations

from dataclasses import dataclass

from minitvm.base import ArgumentError

from .measure import MeasureOptions


@dataclass(frozen=True, slots=True)
class LocalBuilder:
    """Compile on this machine, each program in at most `timeout` seconds of CPU time."""

    timeout: float = 10.0


@dataclass(frozen=True, slots=True)
class LocalRunner:
    """Run programs on this machine, in a separate process.

    timeout                  seconds of wall time for all calls of one program
    number, repeat           the most timed calls in a repeat, and the number of repeats
    min_repeat_ms            a repeat ends earlier when its calls have taken this long
    enable_cpu_cache_flush   use other copies of constants in each call, as a network does
    check_correctness        whether to compare the results with the results of topi's schedule
    """

    timeout: float = 10.0
    number: int = 40
    repeat: int = 1
    min_repeat_ms: float = 20.0
    enable_cpu_cache_flush: bool = False
    check_correctness: bool = True


def local(
    builder: LocalBuilder | str, runner: LocalRunner | str
) -> tuple[LocalBuilder, LocalRunner]:
    """Return the given builder and runner; "local" stands for LocalBuilder() or LocalRunner()."""
    for name, given, kind in (("builder", builder, LocalBuilder), ("runner", runner, LocalRunner)):
        if not isinstance(given, kind) and not (isinstance(given, str) and given == "local"):  # pyright: ignore[reportUnnecessaryIsInstance]
            why = "programs are built and run on this machine only"
            raise ArgumentError(f"{name}={given!r}", why, '"local"')
    return (
        LocalBuilder() if isinstance(builder, str) else builder,
        LocalRunner() if isinstance(runner, str) else runner,
    )


def measure_options(builder: LocalBuilder, runner: LocalRunner) -> MeasureOptions:
    """Return the MeasureOptions that correspond to a builder and a runner."""
    return MeasureOptions(
        compile_seconds=builder.timeout,
        run_seconds=runner.timeout,
        number=runner.number,
        repeat=runner.repeat,
        min_repeat_ms=runner.min_repeat_ms,
        cold=runner.enable_cpu_cache_flush,
        check=runner.check_correctness,
    )
