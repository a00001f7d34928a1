"""Run the compiled programs of students in a process of their own, behind the wall.

The grader lowers a schedule to LLVM IR, which is data; only the process compiles and runs it. The
process knows no answer and no other student, and a crash of it is a wrong answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from typing import Any, TypeAlias

import numpy as np

from minitvm import codegen, driver, runtime, te, tensor, workers
from minitvm.base import BuildError, Target

from .item import AnswerError, StartError
from .sandbox import PACKAGE, ROOT, USUAL_LIMITS, tier, wall_around
from .student import end_of

Array: TypeAlias = np.ndarray[Any, Any]
JOB = "minitvm.edu.code_job"
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
        to = Target(target)
        bench = codegen.TARGETS[to.kind].bench
        assert bench is not None
        job, (text,) = bench(driver.lower(s, tensors, target=to), to)
        kinds = ["input" if t in inputs else "output" for t in tensors]
        outputs = [t for t in tensors if t not in inputs]
        arguments = [
            {"kind": kind, "name": t.name, "dtype": str(t.dtype), "shape": t.shape}
            for kind, t in zip(kinds, tensors, strict=True)
        ]
        request = {"options": runtime.options_of(to), "job": asdict(job), "arguments": arguments}
        arrays = [np.ascontiguousarray(inputs[t]).tobytes() for t in tensors if t in inputs]
        reply = self._asked(request, [text.encode(), *arrays])
        return [
            np.frombuffer(data, t.dtype.numpy).reshape(t.shape)
            for t, data in zip(outputs, reply.blobs, strict=True)
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
            worker = workers.Worker(JOB, apart=True, wall=wall_around(hidden))
            rules = {"hidden": hidden, "rules": tier() != "fence"}
            lost = worker.prepare({"limits": asdict(USUAL_LIMITS), **rules})
            if lost is not None:
                raise StartError("\n".join([str(lost), *lost.stderr]))
            self._worker = worker
        return self._worker


@cache
def code_process(whose: str) -> CodeProcess:
    """Return the process for programs of "the student", or of "the reference"."""
    return CodeProcess()


def end_code_processes() -> None:
    """End these processes, so that the next notebook gets new ones."""
    for whose in ("the student", "the reference"):
        code_process(whose).close()
