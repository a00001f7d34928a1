"""Run the compiled programs of students in a process of their own, behind the wall.

The grader lowers a schedule to LLVM IR, which is data; only the process compiles and runs it. The
process knows no answer and no other student, and a crash of it is a wrong answer.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from minitvm import accesses, codegen, driver, runtime, te, tensor, tir, workers
from minitvm.base import BuildError, Target

from .item import AnswerError
from .sandbox import PACKAGE, ROOT, USUAL_LIMITS
from .student import confined_worker, end_of

Array: TypeAlias = np.ndarray[Any, Any]
JOB = "minitvm.edu.code_job"
MAX_EVENTS = 10_000_000  # of a recording: 120 MB are sent
STUDENT, REFERENCE = "the student", "the reference"
_whose: ContextVar[str] = ContextVar("whose", default=STUDENT)
SECONDS = 60.0  # time limit of one request: compiling and running a program, or a round of calls


class CodeProcess:
    """A process that compiles and runs one program at a time; it starts when it is first needed."""

    def __init__(self) -> None:
        self._worker: workers.Worker | None = None

    def run(
        self,
        s: te.Schedule,
        tensors: Sequence[tensor.Tensor],
        inputs: dict[tensor.Tensor, Array],
        target: str,
    ) -> list[Array]:
        """Compile a schedule and run it once; return an array for each tensor not in `inputs`.

        Raises a TVMError if it cannot be built, AnswerError if it crashes or does not end.
        """
        arguments = [
            runtime.Argument(
                "input" if t in inputs else "output", t.op.name, str(t.dtype), _sizes(t.shape)
            )
            for t in tensors
        ]
        func = driver.lower(s, tensors, target=target)
        return self._run(func, target, arguments, [inputs[t] for t in tensors if t in inputs])

    def execute(self, func: tir.PrimFunc, inputs: list[Any], results: list[Array]) -> list[Array]:
        """Run a program on `inputs` and on zeros; return these, as accesses.record needs it."""
        arguments, arrays = list[runtime.Argument](), list[Array]()
        for p, value in zip(func.params, inputs, strict=False):
            if isinstance(p, tir.Buffer):
                is_output = any(p is b for b in func.outputs)
                kind = "output" if is_output else "input"
                arguments.append(runtime.Argument(kind, p.name, str(p.dtype), value.shape))
                arrays += [] if is_output else [value]
            else:
                arguments.append(runtime.Argument("scalar", p.name, value=int(value)))
        for n, a in enumerate(results):
            arguments.append(runtime.Argument("zeros", f"result {n}", str(a.dtype), a.shape))
        sizes = tir.sizes_of(func, (*inputs, *results))  # follow the arrays in machine code
        arguments += [runtime.Argument("scalar", v.name, value=int(sizes[v])) for v in func.sizes]
        return self._run(func, "llvm -num-cores=1", arguments, arrays)[-len(results) :]

    def _run(
        self,
        func: tir.PrimFunc,
        target: str,
        arguments: Sequence[runtime.Argument],
        arrays: Sequence[Array],
    ) -> list[Array]:
        """Compile a program, run it on the inputs `arrays`, and return its outputs."""
        to = Target(target)
        bench = codegen.TARGETS[to.kind].bench
        assert bench is not None
        job, (text,) = bench(func, to)
        request = {
            "options": runtime.options_of(to),
            "job": asdict(job),
            "arguments": [asdict(a) for a in arguments],
        }
        blobs = [text.encode(), *(np.ascontiguousarray(a).tobytes() for a in arrays)]
        reply = self._asked(request, blobs)
        outputs = [a for a in arguments if a.kind in ("output", "zeros")]
        return [
            np.frombuffer(data, a.dtype).reshape(a.shape)
            for a, data in zip(outputs, reply.blobs, strict=True)
        ]

    def seconds(self, calls: int) -> float:
        """Call the program that run() has compiled; return the CPU time of the shortest call."""
        (shortest,) = self._asked({"seconds": calls}).value["seconds"]
        return shortest

    def close(self) -> None:
        """End the process; the next program starts a new one."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    def _asked(self, request: dict[str, Any], blobs: Sequence[bytes] = ()) -> workers.Message:
        reply = self._started().ask(request, blobs, seconds=SECONDS)
        if isinstance(reply, workers.Failure):
            message = "timeout" if reply.kind == "timed out" else "crash"
            raise AnswerError(message, f"the compiled program: {end_of(reply)}")
        match reply.value:
            case {"error": ""}:
                return reply
            case {"error": "compile", "detail": str(detail)}:
                raise BuildError("the schedule", detail)
            case {"error": _, "detail": str(detail)}:
                raise AnswerError("crash", f"the compiled program: {detail}")
            case other:  # machine code may have overwritten the reply
                raise AnswerError("crash", f"the compiled program sent {other!r:.200}")

    def _started(self) -> workers.Worker:
        if self._worker is None:
            hidden = [str(PACKAGE), str(ROOT / "solutions")]
            self._worker = confined_worker(JOB, USUAL_LIMITS, hidden)
        return self._worker


@cache
def _process(whose: str) -> CodeProcess:
    return CodeProcess()


def code_process() -> CodeProcess:
    """Return the process for programs of the student or, inside for_reference(), of the answer."""
    return _process(_whose.get())


@contextmanager
def for_reference() -> Generator[None]:
    """In the `with` statement, let programs run in the process of the reference."""
    before = _whose.set(REFERENCE)
    try:
        yield
    finally:
        _whose.reset(before)


def end_code_processes() -> None:
    """End these processes, so that the next notebook gets new ones."""
    for whose in (STUDENT, REFERENCE):
        _process(whose).close()


def record(
    s: te.Schedule | tir.PrimFunc, tensors: Sequence[tensor.Tensor] | None = None
) -> accesses.AccessTrace:
    """Record the accesses of a program, as accesses.record does, in a process behind the wall."""
    return accesses.record(s, tensors, limit=MAX_EVENTS, execute=code_process().execute)


def _sizes(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(n) for n in shape)
