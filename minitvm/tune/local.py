"""Options for building and running programs, under TVM's names."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from minitvm.base import ArgumentError

from .measure import MeasureOptions


@dataclass(frozen=True, slots=True)
class LocalBuilder:
    """Compile on this machine, each program in at most `timeout` seconds of CPU time."""

    timeout: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
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


@dataclass(frozen=True, slots=True)
class RPCRunner(LocalRunner):
    """Run programs on the devices of a Dask cluster, which takes the place of TVM's tracker.

    key          the kind of device: a worker with the Dask resource "device.KEY" has one
    host, port   of the Dask scheduler
    priority, n_parallel   ignored: Dask decides how many programs run at a time
    The other options are those of LocalRunner. Programs are built on the cluster, too.
    """

    key: str
    host: str = "127.0.0.1"
    port: int = 8786
    _: KW_ONLY
    priority: int = 1
    n_parallel: int | None = None


def measure_options(
    builder: LocalBuilder | str = "local", runner: LocalRunner | str = "local"
) -> MeasureOptions:
    """Return options for measuring; "local" stands for LocalBuilder() and LocalRunner()."""
    b = LocalBuilder() if isinstance(builder, str) and builder == "local" else builder
    r = LocalRunner() if isinstance(runner, str) and runner == "local" else runner
    if not isinstance(b, LocalBuilder) or not isinstance(r, LocalRunner):
        why = "programs are built and run on this machine, or on a Dask cluster"
        fix = '"local", or RPCRunner(key, host, port)'
        raise ArgumentError(f"builder={builder!r}, runner={runner!r}", why, fix)
    is_remote = isinstance(r, RPCRunner)
    return MeasureOptions(
        compile_seconds=b.timeout,
        run_seconds=r.timeout,
        number=r.number,
        repeat=r.repeat,
        min_repeat_ms=r.min_repeat_ms,
        cold=r.enable_cpu_cache_flush,
        check=r.check_correctness,
        cluster=f"tcp://{r.host}:{r.port}" if is_remote else "",
        device=r.key if is_remote else "",
    )
