"""Lower programs in this process and compile them in others, ahead of their measurements."""

from __future__ import annotations

import contextvars
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias, TypeVar

from minitvm import codegen, runtime, tir, workers
from minitvm.base import BuildError, ScheduleError, Target, TVMError

from .trial import ErrorKind, Result

Program: TypeAlias = Callable[[], tir.PrimFunc]  # lowers a candidate for the target
Answer = TypeVar("Answer")
JOB = "minitvm.runtime.compile_job"
LIFETIME = 1000  # builds per process: LLVM does not free a quarter of a megabyte after each
LLVM = "llvm"
SLOWDOWN = 20  # how much longer than its CPU time a compilation may take, on a busy machine
AHEAD = 3  # programs of each process that are built or compiled before they are needed
BATCH = 8  # programs of each process that are built one after the other in a batch


def lowered(program: Program) -> tir.PrimFunc | Result:
    """Lower a program; return the failed result of an illegal one."""
    start = time.perf_counter()
    try:
        return program()
    except TVMError as e:
        error: ErrorKind = "schedule" if isinstance(e, ScheduleError) else "lower"
        return Result((), error, str(e), time.perf_counter() - start)


@dataclass(frozen=True, slots=True)
class Built:
    """A compiled program: the object file of `func`, and that of `func.prepack` if it has one.

    For a GPU, it is printed source instead.

    job   what a bench must know about the code; the Measurer adds how to measure it
    """

    func: tir.PrimFunc
    objects: tuple[bytes, ...]
    job: runtime.Job
    seconds: float


class Builder:
    """Worker processes that compile programs for `target`; each compiles one program at a time.

    Kernels for a GPU are only printed here: numba compiles them in the process that runs them.
    """

    def __init__(
        self, target: Target, processes: int, memory: int, cpus: Sequence[int] | None
    ) -> None:
        code_of = codegen.TARGETS[target.kind].bench
        assert code_of is not None
        self._target, self._code_of = target, code_of
        count = processes if target.kind == LLVM else 0
        self._pool = workers.Pool(JOB, count, memory=memory, cpus=cpus, renew=LIFETIME)

    def build(
        self, program: Program, seconds: float, stopped: threading.Event | None = None
    ) -> Built | Result:
        """Lower a program and compile it within `seconds` of CPU time; threads may call this.

        If `stopped` is set, the program is not compiled, and CancelledError is raised.
        """
        start = time.perf_counter()

        def failed(error: ErrorKind, detail: str) -> Result:
            return Result((), error, detail, time.perf_counter() - start)

        func = lowered(program)
        if isinstance(func, Result):
            return func
        try:
            job, texts = self._code_of(func, self._target)
        except TVMError as e:
            return failed("compile", str(e))
        sources, wall = [t.encode() for t in texts], SLOWDOWN * seconds
        if self._target.kind != LLVM:
            return Built(func, tuple(sources), job, time.perf_counter() - start)
        if stopped is not None and stopped.is_set():
            raise CancelledError
        with self._pool.idle() as worker:
            options = {"form": "object", **runtime.options_of(self._target)}
            reply = worker.ask(options, sources, seconds=wall, cpu_seconds=seconds)
        if isinstance(reply, workers.Failure):
            return failed(_kind(reply), "\n".join([f"LLVM: {reply}", *reply.stderr]))
        if "refused" in reply.value:
            return failed("compile", str(BuildError(*reply.value["refused"])))
        return Built(func, reply.blobs, job, time.perf_counter() - start)

    def ahead(
        self, programs: Iterable[Program], seconds: float, alternate: bool
    ) -> Generator[Built | Result]:
        """Yield built programs in order; build the next few while the caller uses one.

        alternate   build nothing while the caller uses a program: build all programs of a batch
                    first, and yield them afterwards
        If this generator is closed before its end, the builds under way are given up.
        """
        stop = threading.Event()

        def build(program: Program) -> Built | Result:
            return self.build(program, seconds, stop)

        def give_up() -> None:
            stop.set()
            self._pool.kill()

        return in_order(programs, build, max(1, len(self._pool)), give_up, alternate)

    def close(self) -> None:
        """End the processes."""
        self._pool.close()


def in_order(
    programs: Iterable[Program],
    work: Callable[[Program], Answer],
    count: int,
    give_up: Callable[[], None],
    alternate: bool = False,
) -> Generator[Answer]:
    """Yield work(program) of each program, in order, with `count` threads that work ahead.

    give_up     called if this generator is closed before its end: makes `work` return soon
    alternate   whether no thread works while the caller uses an answer
    """
    todo, is_done = iter(programs), False
    threads = ThreadPoolExecutor(count, "minitvm-build")

    def started(most: int) -> Iterator[Future[Answer]]:
        for program in islice(todo, most):
            context = contextvars.copy_context()  # has, for example, the best schedules
            yield threads.submit(context.run, work, program)

    queue: deque[Future[Answer]] = deque()
    try:
        while True:
            if not alternate:
                queue.extend(started(AHEAD * count - len(queue)))
            elif not queue:
                queue.extend(started(BATCH * count))
                wait(queue)
            if not queue:
                is_done = True
                return
            yield queue.popleft().result()
    finally:
        if not is_done:
            give_up()
        threads.shutdown(cancel_futures=True)


def _kind(failure: workers.Failure) -> ErrorKind:
    """Return the kind of error for the failure of a compiler process."""
    if failure.kind == "timed out":
        return "compile time-out"
    if failure.kind == "garbage":
        return "garbage"
    said = " ".join(failure.stderr).lower()
    no_memory = any(words in said for words in ("memoryerror", "bad_alloc", "out of memory"))
    return "memory" if no_memory else "compile"
