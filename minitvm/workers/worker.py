"""The parent's side of a worker: send requests with a time limit, and report why one failed."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from .process import Process
from .wall import Wall
from .wire import ClosedError, Message, WireError
from .zygote import FORKS

START_SECONDS = 120.0  # seconds until a process must be ready, and until it must be prepared
GRACE_SECONDS = 5.0  # seconds that a process may take to end itself at its time limit, where it can
Limits: TypeAlias = Mapping[str, float | None]
FailureKind: TypeAlias = Literal["crashed", "exited", "timed out", "garbage"]


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why a worker did not answer; returned, not raised, so that a search can continue.

    kind     "crashed": killed by a signal; "exited": ended by itself; "timed out": killed at the
             time limit; "garbage": killed because it sent bytes that are not a reply
    detail   the number of the signal, the exit code, or the time limit in seconds
    stderr   the last lines that the process printed
    """

    kind: FailureKind
    detail: float = 0
    stderr: tuple[str, ...] = ()

    def __str__(self) -> str:
        match self.kind:
            case "crashed":
                return f"the process was ended by {_signal_name(int(self.detail))}"
            case "exited":
                return f"the process ended with exit code {self.detail:g}"
            case "timed out":
                return f"no answer within {self.detail:g} s"
            case "garbage":
                return "the process sent bytes that are not a reply"


class Worker:
    """A Python process that runs `module` and is replaced when it ends; `module` calls serve().

    memory   the limit of its memory in bytes; None for no limit
    cpus     the CPUs on which it runs, if the system supports that; None for all
    renew    the number of requests after which it is replaced; None for no limit
    forks    whether a process that has imported `module` forks children that answer, so that a
             replacement takes milliseconds instead of a second. False where a fork is not safe.
    apart    whether `module` runs untrusted code. Its process then has a temporary folder, no fork
             and one thread, so that it can confine itself; it gets neither our environment
             variables, our sys.path nor the package of `module`, and is stopped between requests
    wall     what an untrusted process can read behind a wall; wall_fault() says whether one can be
             built. None for no wall

    All processes end when this process ends. Use a worker from one thread at a time, and close()
    it.
    """

    def __init__(
        self,
        module: str,
        *,
        memory: int | None = None,
        cpus: Iterable[int] | None = None,
        renew: int | None = None,
        forks: bool = FORKS,
        apart: bool = False,
        wall: Wall | None = None,
    ) -> None:
        forks = forks and not apart and wall is None
        self._given = {
            "module": module,
            "memory": memory,
            "cpus": None if cpus is None else sorted(cpus),
            "renew": renew,
            "forks": forks,
            "apart": apart or wall is not None,
        }
        self._wall = wall
        self._renew = None if forks else renew  # a process that forks replaces its child itself
        self._preparation: tuple[Any, Sequence[bytes]] | None = None
        self._process: Process | None = None
        self._retired = False
        self._start()

    def ask(
        self,
        value: Any,
        blobs: Sequence[bytes] = (),
        *,
        seconds: float,
        cpu_seconds: float | None = None,
    ) -> Message | Failure:
        """Send a request and wait for its answer.

        seconds       the time limit for this request, not including the start of a process
        cpu_seconds   the limit of its CPU time, if the system supports that; None for no limit
        After a Failure or Ctrl-C, the next request gets a new process.
        """
        try:
            process = self._started()
            if isinstance(process, Failure):
                return process
            self._answered += 1
            return self._asked(process, (value, blobs), seconds, cpu_seconds)
        except BaseException:
            self.close()
            raise

    def prepare(self, value: Any, blobs: Sequence[bytes] = ()) -> Failure | None:
        """Send a request whose effects this process and all later ones get; wait until it is done.

        The answer is discarded. Only the last such request is sent to later processes.
        """
        self._preparation, self._prepared = (value, blobs), False
        try:
            process = self._started()
            return process if isinstance(process, Failure) else None
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the process and all processes that it started; the next request starts a new one."""
        if self._process is not None:
            self._process.end()
            self._process = None

    def kill(self) -> None:
        """Make a request that waits in another thread fail; the next one starts a new process."""
        self._killed = True  # until the system has ended it, the process looks alive
        if (process := self._process) is not None:
            process.kill()

    def retire(self) -> None:
        """Make a request that waits in another thread fail, and later requests raise ClosedError.

        Call close(), too, once that thread has ended.
        """
        self._retired = True
        self.kill()

    def _start(self) -> Process:
        self._process = Process(self._given, self._wall)
        self._ready = self._prepared = self._killed = False
        self._answered = 0
        return self._process

    def _started(self) -> Process | Failure:
        """Return the process, ready and prepared; start one if none runs."""
        if self._retired:
            raise ClosedError("the worker has been retired")
        process = self._process
        stale = self._killed or self._answered == self._renew
        if process is None or stale or not process.alive:
            self.close()
            process = self._start()
        if not self._ready:
            first = process.reply(START_SECONDS)
            if not isinstance(first, Message):
                return self._failure(process, first, {"seconds": START_SECONDS})
            self._ready = True
        if self._preparation is not None and not self._prepared:
            reply = self._asked(process, self._preparation, START_SECONDS, None, prepare=True)
            if isinstance(reply, Failure):
                return reply
            self._prepared = True
        return process

    def _asked(
        self,
        process: Process,
        request: tuple[Any, Sequence[bytes]],
        seconds: float,
        cpu_seconds: float | None,
        prepare: bool = False,
    ) -> Message | Failure:
        value, blobs = request
        limits = {"seconds": seconds, "cpu_seconds": cpu_seconds}
        process.send({"value": value, "prepare": prepare, **limits}, blobs)
        reply = process.reply(seconds + (GRACE_SECONDS if hasattr(signal, "setitimer") else 0))
        if not isinstance(reply, Message):
            return self._failure(process, reply, limits)
        match reply.value:
            case {"answer": value}:
                return Message(value, reply.blobs)
            case {"ended": int(code)}:
                return _ended(code, limits, process.last_lines())
            case _:
                return self._failure(process, WireError("not a reply"), limits)

    def _failure(self, process: Process, error: WireError | None, limits: Limits) -> Failure:
        """End the process, and return why it sent no valid reply."""
        lines = process.last_lines()
        if error is None:
            failure = Failure("timed out", limits["seconds"] or 0, lines)
        elif isinstance(error, ClosedError):
            failure = _ended(process.code(), limits, process.last_lines())
        else:
            failure = Failure("garbage", 0, lines)
        self.close()
        return failure


def _ended(code: int, limits: Limits, stderr: tuple[str, ...]) -> Failure:
    """Return the Failure of a process with the exit code `code`; -n means signal n ended it."""
    if code >= 0:
        return Failure("exited", code, stderr)
    for signal_name, limit in (("SIGALRM", "seconds"), ("SIGPROF", "cpu_seconds")):
        if _signal_name(-code).endswith(f"({signal_name})"):
            return Failure("timed out", limits.get(limit) or 0, stderr)
    return Failure("crashed", -code, stderr)


def _signal_name(number: int) -> str:
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"
