"""Measure programs in worker processes: some compile programs, and one runs compiled programs.

program() -> loops -> LLVM IR       in this process
LLVM IR   -> object file            in a builder, which may abort or take too long
object    -> seconds, right or not  in the runner, which may crash, hang or overwrite its memory

For a GPU, source for numba.cuda takes the place of LLVM IR and object: the runner compiles it, too.
"""

from __future__ import annotations

import copy
import math
import os
import statistics
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from typing import Any, Self, TypeAlias

import numpy as np

from minitvm import codegen, runtime, tir, workers
from minitvm.base import ArgumentError, MeasureError, Target, dtype, host

from .builder import LLVM, SLOWDOWN, Builder, Built, Program
from .inputs import Array, arguments, checked, draw, expected_of, tolerance
from .trial import ErrorKind, Result

JOB = "minitvm.runtime.run_job"
LIFETIME = 1000  # programs per process: loaded code stays in memory
PATIENCE = 120.0  # time limit in seconds for compiling the reference, and also for running it
SLOWER = 8  # any program may run this many times as long as the reference
MEMORY = 4 << 30  # bytes that a process may allocate
LARGEST = 64 << 20  # bytes; a larger cache keeps the weights of most networks in any case
HOPELESS = 3  # remeasure() drops programs that take this many times as long as the fastest
ROUNDS, ROUND_MS = 20, 5.0  # of remeasure(): rounds; milliseconds that a program runs in a round
MOVED = 5  # of its rounds, after which the arguments move to other addresses
Cpus: TypeAlias = tuple[list[int] | None, list[int] | None]
KINDS: dict[workers.FailureKind, ErrorKind] = {
    "crashed": "crash",
    "exited": "exit",
    "timed out": "run time-out",
    "garbage": "garbage",
}
OUTCOMES: dict[str, ErrorKind] = {
    "compile": "compile",
    "exit": "exit",
    "memory": "memory",
    "wrong answer": "wrong answer",
}


@dataclass(frozen=True, slots=True)
class MeasureOptions:
    """How to measure programs, and the limits for one program.

    compile_seconds   CPU time of compiling
    run_seconds       wall time of linking, checking and all timed calls; if the reference is slow,
                      at least the time of eight of its calls
    number            the most timed calls of one repeat
    min_repeat_ms     a repeat ends earlier when its calls have taken this long
    repeat            the number of repeats; each gives the shortest of its calls
    early_stop        stop when a call takes this many times as long as the best program so far
    cold              use other copies of the constants in each call, as a network does; not on a
                      GPU
    check             whether to compare the outputs with the outputs of the reference
    memory            bytes that a process may allocate
    cluster           the address of a Dask scheduler whose workers build and run the programs; see
                      DaskMeasurer. "" for this machine
    device            the kind of device that is needed there, such as "avx512"; "" for the kind of
                      this machine
    """

    compile_seconds: float = 2.0
    run_seconds: float = 4.0
    number: int = 40
    min_repeat_ms: float = 20.0
    repeat: int = 1
    early_stop: float = 3.0
    cold: bool = False
    check: bool = True
    memory: int = MEMORY
    cluster: str = ""
    device: str = ""


class Processes:
    """The processes that build and run programs for a target; several measurers may share them.

    memory     bytes that a process may allocate
    cpus       the CPUs for builders and for the runner, None for all; by default see processors()
    builders   how many processes build; by default one for each core but one
    Processes start when they are first needed. Use it in a `with` statement, or close() it.
    """

    def __init__(
        self,
        target: str | Target = LLVM,
        memory: int = MEMORY,
        *,
        cpus: Cpus | None = None,
        builders: int | None = None,
    ) -> None:
        self.target, self.memory = Target(target), memory
        self._cpus = processors(self.target.num_cores) if cpus is None else cpus
        self._builders = max(1, host().cores - 1) if builders is None else builders
        self._builder: Builder | None = None
        self._runner: workers.Worker | None = None
        self._user: object = None  # the measurer whose arguments the runner has

    @property
    def builder(self) -> Builder:
        """Return the processes that build; start them if they are not running."""
        if self._builder is None:
            self._builder = Builder(self.target, self._builders, self.memory, self._cpus[0])
        return self._builder

    @property
    def runner(self) -> workers.Worker:
        """Return the process that runs programs; start it if it is not running."""
        if self._runner is None:
            memory = self.memory if self.target.kind == LLVM else None  # CUDA reserves addresses
            self._runner = workers.Worker(JOB, memory=memory, cpus=self._cpus[1], renew=LIFETIME)
        return self._runner

    def prepare(self, user: object, value: Any, blobs: Sequence[bytes]) -> None:
        """Send `user`'s arguments for the next programs to the runner, unless it has them."""
        if self._user is user:
            return
        self._user = None
        failure = self.runner.prepare(value, blobs)
        if failure is not None:
            raise MeasureError("the measuring process", _told(failure))
        self._user = user

    def forget(self) -> None:
        """Let the next prepare() send the arguments again, to a new process where that is cheap."""
        self._user = None

    def close(self) -> None:
        """End all processes; the next measurement starts them again."""
        for process in (self._builder, self._runner):
            if process is not None:
                process.close()
        self._builder = self._runner = self._user = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Measurer:
    """Builds and runs programs for one formula and one target, in other processes.

    reference   a program that computes the expected outputs; its parameters determine the shapes
                and dtypes
    inputs      the arguments that are not outputs, in order; by default random arrays, drawn once
    rng         draws the inputs
    processes   processes that several measurers share; by default a measurer starts its own
    Processes start when they are first needed. Use it in a `with` statement, or close() it.

    With target "cuda" the programs run on a GPU, and CUDA's events measure them. No GPU has run
    this yet: it was tested with numba's simulator.
    """

    def __init__(
        self,
        reference: tir.PrimFunc,
        target: str | Target = LLVM,
        *,
        inputs: Sequence[Array] | None = None,
        rng: np.random.Generator | None = None,
        options: MeasureOptions | None = None,
        processes: Processes | None = None,
    ) -> None:
        self._target, self._options = Target(target), options or MeasureOptions()
        self._on_gpu = self._target.kind != LLVM
        if self._target.sim or codegen.TARGETS[self._target.kind].bench is None:
            why = "programs are measured in other processes, as machine code"
            fix = "target llvm, or cuda; tune.SimulatedGpu for a simulated GPU"
            raise ArgumentError(f"measuring for target {str(self._target)!r}", why, fix)
        if not self._on_gpu and (why := runtime.not_runnable(self._target)):
            raise ArgumentError(f"measuring for {self._target}", why, "target llvm")
        if self._options.cold and not reference.constants:
            why, fix = "the program has no constants", "te.placeholder(..., constant=True)"
            raise ArgumentError("MeasureOptions(cold=True)", why, fix)
        if processes is not None and repr(processes.target) != repr(self._target):
            why = f"the given processes build for {processes.target}"
            raise ArgumentError(f"measuring for {self._target}", why)
        self._arguments = arguments(reference, inputs)
        self._inputs = None if inputs is None else checked(inputs, self._arguments)
        self._drawn = self._inputs or draw(self._arguments, rng or np.random.default_rng(0))
        self._func = reference
        self._tolerance = tolerance(reference) if self._options.check else None
        self._threads = self._target.num_cores
        self._own = processes is None
        self._processes = processes or Processes(self._target, self._options.memory)
        self._given: tuple[bytes, ...] = ()  # the arguments, encoded for the runner
        self._reference: Built | None = None
        self._reference_seconds, self._best = 0.0, math.inf
        self._count = 0

    @property
    def reference_cost(self) -> float:
        """Return the seconds of one call of the reference, measured when first needed.

        Raises MeasureError if the reference cannot be measured.
        """
        self._started()
        return self._reference_seconds

    def measure(self, programs: Iterable[Program]) -> Iterator[Result]:
        """Yield the result of each program, in order; a failure is a result too.

        Another thread of this process calls each program to lower it, a few programs ahead of the
        results. If such a call raises an error other than TVMError, this method raises it.
        """
        builder, _ = self._started()
        ahead = builder.ahead(programs, self._options.compile_seconds, self._threads > 1)
        with closing(ahead):
            for n, built in enumerate(ahead, self._count + 1):
                self._count = n
                yield named(n, self.run(built))

    def build(self, program: Program, patient: bool = False) -> Built | Result:
        """Lower and compile a program; with `patient`, for as long as the reference may take."""
        seconds = PATIENCE if patient else self._options.compile_seconds
        return self._processes.builder.build(program, seconds)

    def run(self, built: Built | Result, best: float = math.inf) -> Result:
        """Run a program that is built; return the failure of one that could not be built.

        best   the seconds of the fastest program that others have measured
        """
        _, runner = self._started()
        self._best = min(self._best, best)
        return self._run(runner, built)

    def remeasure(self, programs: Sequence[Program], rounds: int = ROUNDS) -> list[Result]:
        """Measure a few programs and the reference alternately, by wall time.

        Returns a result for each program, then the result of the reference; for `seconds`, see
        at_one_speed. Programs much slower than the fastest are dropped early. Where a program and
        its data lie in memory changes its speed, so the arguments move every few rounds.
        """
        builder, _ = self._started()
        with closing(builder.ahead(programs, PATIENCE, False)) as ahead:
            return self.race([*ahead], rounds)

    def race(self, built: Sequence[Built | Result], rounds: int = ROUNDS) -> list[Result]:
        """Do as remeasure() does, with programs that are built."""
        _, runner = self._started()
        assert self._reference is not None
        candidates = [*built, self._reference]
        results = [
            b if isinstance(b, Result) else Result((), "", "", b.seconds) for b in candidates
        ]
        racers = [n for n, b in enumerate(candidates) if isinstance(b, Built)]
        for n in range(rounds):
            if n % MOVED == MOVED - 1:
                self._processes.forget()
                self._prepare()
            first = n % max(1, len(racers))  # a new order in each round
            for at in (*racers[first:], *racers[:first]):
                result = self._run(runner, candidates[at], first=n == 0, race=True)
                results[at] = _joined(results[at], result)
            limit = HOPELESS * min((results[at].best for at in racers), default=math.inf)
            racers = [
                at
                for at in racers
                if not results[at].error
                and (results[at].best <= limit or candidates[at] is self._reference)
            ]
        reference = results[-1].seconds
        return [
            replace(result, seconds=at_one_speed(result.seconds, reference)) for result in results
        ]

    def using(self, processes: Processes) -> Measurer:
        """Return a measurer of the same programs that shares `processes`, as on another machine."""
        other = copy.copy(self)
        other._processes, other._own, other._reference = processes, False, None
        other._best = math.inf
        return other

    def close(self) -> None:
        """End the processes that this measurer started; the next measurement starts them again."""
        if self._own:
            self._processes.close()
            self._reference = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- processes -------------------------------------------------------------------------------

    def _started(self) -> tuple[Builder, workers.Worker]:
        """Start and return the builder and the runner; measure the reference in the first call."""
        builder, runner = self._processes.builder, self._processes.runner
        if self._reference is None:
            self._measure_reference(builder, runner)
        self._prepare()
        return builder, runner

    def _prepare(self) -> None:
        """Send the arguments of this measurer to the runner, unless it has them already."""
        value = {
            "arguments": [asdict(a) for a in self._arguments],
            "threads": self._threads,
            "device": self._on_gpu,
        }
        self._processes.prepare(self._given, value, self._given)

    def _measure_reference(self, builder: Builder, runner: workers.Worker) -> None:
        """Run the reference once to get the expected outputs, and measure it."""
        built = builder.build(lambda: self._func, PATIENCE)
        if isinstance(built, Result):
            raise MeasureError("the reference program", built.detail)
        inputs, outputs, limits = expected_of(
            lambda arrays: self._expected(runner, built, arrays),
            self._drawn,
            self._tolerance,
            drawn=self._inputs is None,
        )
        self._give([*inputs, *outputs, *limits])
        result = self._run(runner, built, seconds=PATIENCE)
        if result.error:
            raise MeasureError("the reference program", result.detail)
        self._reference = built
        self._reference_seconds = self._best = result.best

    def _expected(
        self, runner: workers.Worker, built: Built, inputs: Sequence[Array]
    ) -> list[Array]:
        """Return the outputs that the reference computes from `inputs`."""
        self._give(inputs)
        job = replace(built.job, outputs=True, best=0.0, early_stop=1.0, seconds=0.0)
        reply = runner.ask(asdict(job), built.objects, seconds=PATIENCE)
        if isinstance(reply, workers.Failure):
            raise MeasureError("the reference program", _told(reply))
        if reply.value["error"]:
            raise MeasureError("the reference program", reply.value["detail"])
        outputs = [a for a in self._arguments if a.kind == "output"]
        return [
            np.frombuffer(data, dtype(a.dtype).numpy).reshape(a.shape)
            for a, data in zip(outputs, reply.blobs, strict=True)
        ]

    def _give(self, arrays: Sequence[Array]) -> None:
        """Set the arguments of this measurer: the inputs, and the expected outputs if known."""
        self._given = tuple(a.tobytes() for a in arrays)
        self._prepare()

    # --- one program -----------------------------------------------------------------------------

    def _run(
        self,
        runner: workers.Worker,
        built: Built | Result,
        *,
        seconds: float | None = None,
        race: bool = False,
        first: bool = True,
    ) -> Result:
        """Run a built program. With `race`, run it only briefly, and measure wall time."""
        if isinstance(built, Result):
            return built
        if _signature(built.func) != _signature(self._func):
            why = f"its parameters are {_signature(built.func)}, not {_signature(self._func)}"
            return Result((), "lower", why, built.seconds)
        o, start = self._options, time.perf_counter()
        job = replace(
            built.job,
            check=first and self._tolerance is not None,
            cpu_clock=self._threads == 1 and not race,
            best=self._best,
            early_stop=math.inf if race or self._reference is None else o.early_stop,
            number=o.number,
            seconds=(ROUND_MS if race else o.min_repeat_ms) / 1e3,
            repeat=1 if race else o.repeat,
            cold=min(self._target.l3, LARGEST) if o.cold and not self._on_gpu else 0,
        )
        default_limit = max(o.run_seconds, SLOWER * self._reference_seconds)
        default_limit += SLOWDOWN * o.compile_seconds if self._on_gpu else 0
        limit = default_limit if seconds is None else seconds
        reply = runner.ask(asdict(job), built.objects, seconds=limit)
        result = _result(reply, built.seconds, time.perf_counter() - start)
        if not race:
            self._best = min(self._best, result.best)
        return result


def named(number: int, result: Result) -> Result:
    """Return the result of a program whose message, after a failure, says which program failed."""
    if not result.error:
        return result
    return replace(result, detail=f"program {number}: {result.detail}")


def processors(threads: int) -> Cpus:
    """Return the CPUs for builders and for the runner; None for all.

    A program of one thread is measured on a CPU of its own if this process may use two CPUs.
    Programs of several threads use all CPUs, and nothing is built at the same time.
    """
    if threads > 1 or not hasattr(os, "sched_getaffinity"):
        return None, None
    *others, last = sorted(os.sched_getaffinity(0))
    return (others, [last]) if others else (None, None)


def _signature(func: tir.PrimFunc) -> list[str]:
    """Return the dtypes and shapes of the parameters."""
    return [
        f"{p.dtype}[{', '.join(map(tir.text, p.shape))}]" if isinstance(p, tir.Buffer) else "int"
        for p in func.params
    ]


def _result(reply: workers.Message | workers.Failure, build: float, run: float) -> Result:
    """Return the result of a run from the reply of the runner."""
    if isinstance(reply, workers.Failure):
        return Result((), KINDS[reply.kind], _told(reply), build, run)
    match reply.value:
        case {"error": "", "seconds": [*seconds]} if all(map(_is_time, seconds)):
            return Result(tuple(seconds), "", "", build, run)
        case {"error": str(error), "detail": str(detail)} if error in OUTCOMES:
            return Result((), OUTCOMES[error], detail, build, run)
        case other:  # machine code may have overwritten the reply
            return Result((), "garbage", f"the process sent {other!r}", build, run)


def _is_time(seconds: Any) -> bool:
    return isinstance(seconds, float) and 0 < seconds < math.inf


def _told(failure: workers.Failure) -> str:
    return "\n".join([str(failure), *failure.stderr])


def at_one_speed(times: Sequence[float], reference: Sequence[float]) -> tuple[float, ...]:
    """Return the times of rounds as if the machine had always been equally fast.

    The speed of a machine changes within seconds. A time is compared with the reference's in the
    same round and scaled to the median of the reference.
    """
    if not reference:
        return tuple(times)
    middle = statistics.median(reference)
    return tuple(t * middle / r for t, r in zip(times, reference, strict=False))


def _joined(sum_: Result, one: Result) -> Result:
    """Add the round `one` to the result `sum_` of earlier rounds; return `one` if it failed."""
    if one.error:
        return one
    seconds = (*sum_.seconds, *one.seconds)
    return Result(seconds, "", "", sum_.build_seconds, sum_.run_seconds + one.run_seconds)
