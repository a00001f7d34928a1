"""The process behind the wall that compiles and runs what students hand back; it has no answers.

The grader lowers a schedule and sends LLVM IR. A mistake in a compiler that a student finds, or
code that writes past its arrays, harms this process only.
"""

from __future__ import annotations

import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from minitvm import runtime, workers
from minitvm.base import BuildError

from .sandbox import Limits, confine


class Programs:
    """The one program of this process that runs, and its arguments."""

    def __init__(self) -> None:
        self._bench: runtime.Bench | None = None
        self._objects: list[bytes] = []
        self._job = runtime.Job(entry="")

    def answer(self, request: workers.Message) -> workers.Message:
        """Answer a request of the grader.

        {"limits": ..., "hidden", "rules"}       -> None, after confining this process
        {"options": ..., "job", "arguments"}     -> the Outcome of one run, after compiling the IR
                                                    that comes first in the blobs
        {"seconds": number of calls}             -> an Outcome with the seconds of the shortest one
        """
        match request.value:
            case {"limits": limits, "hidden": hidden, "rules": bool(rules)}:
                folder = Path(os.getcwd())
                confine(Limits(**limits), folder, [Path(p) for p in hidden], rules=rules)
                return workers.Message(None)
            case {"options": options, "job": job, "arguments": arguments}:
                return self._run(options, job, arguments, request.blobs)
            case {"seconds": int(calls)}:
                assert self._bench is not None
                timed_job = replace(self._job, number=calls, seconds=float("inf"))
                return _reply(self._bench.run(timed_job, self._objects))
            case other:
                raise ValueError(f"an unknown request: {other!r}")

    def _run(
        self, options: dict[str, Any], job: dict[str, Any], arguments: list[Any], blobs: Any
    ) -> workers.Message:
        try:
            source = runtime.LLVMSource(blobs[0].decode(), **options)
            self._objects = [source.made("object")]
        except BuildError as e:
            return _reply(runtime.Outcome(error="compile", detail=str(e)))
        self._job = runtime.Job(**job)
        self._bench = runtime.Bench([runtime.Argument(**a) for a in arguments], blobs[1:])
        one_run = replace(self._job, outputs=True, best=0.0, early_stop=1.0)
        return _reply(self._bench.run(one_run, self._objects))


def _reply(outcome: runtime.Outcome) -> workers.Message:
    return workers.Message(asdict(replace(outcome, outputs=())), outcome.outputs)


if __name__ == "__main__":
    workers.serve(Programs().answer)
