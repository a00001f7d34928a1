"""Compile in another process, so that a crash of LLVM becomes an error in this one.

A process takes a second to start, so idle processes are kept for the next build.
"""

from __future__ import annotations

import contextlib
import os

from minitvm import workers
from minitvm.base import BuildError

from .jit import Form, LLVMSource

JOB = "minitvm.runtime.compile_job"
SECONDS = 600.0  # time limit of one compilation
SHOWN = 3  # last lines of LLVM's output in an error
_idle: list[workers.Worker] = []


class IsolatedSource(LLVMSource):
    """LLVM IR and compiler options, compiled in another process; this process loads the result.

    Raises BuildError also if LLVM aborts or takes longer than ten minutes. Ctrl-C ends the other
    process.
    """

    def made(self, form: Form) -> bytes:
        options = {"cpu": self.cpu, "features": self.features, "opt": self.opt}
        request = {"form": form, **options, "unroll": self.unroll}
        reply = _asked(request, self.text.encode())
        if isinstance(reply, workers.Failure):
            fix = 'another schedule, such as one that unrolls less; or target="python"'
            raise BuildError("LLVM failed", "\n".join([str(reply), *reply.stderr[-SHOWN:]]), fix)
        if "refused" in reply.value:
            raise BuildError(*reply.value["refused"])
        return reply.blobs[0]


def clear() -> None:
    """End the idle compiler processes."""
    while worker := _idle_worker():
        worker.close()


def _asked(options: object, text: bytes) -> workers.Message | workers.Failure:
    """Send a request to an idle compiler process, or to a new one, and return its answer."""
    worker = _idle_worker() or workers.Worker(JOB)
    reply = worker.ask(options, (text,), seconds=SECONDS)
    if not isinstance(reply, workers.Failure):
        _idle.append(worker)
    return reply


def _idle_worker() -> workers.Worker | None:
    """Return an idle process that is alive, or None; safe in several threads."""
    with contextlib.suppress(IndexError):
        while True:
            worker = _idle.pop()
            if worker.alive:
                return worker
            worker.close()
    return None


if hasattr(os, "register_at_fork"):  # Windows cannot fork; a child must not use its parent's
    os.register_at_fork(after_in_child=_idle.clear)
