"""Compile in another process, so that a crash of LLVM becomes an error in this process.

A worker takes a second to start, so it is kept for the next build.
"""

from __future__ import annotations

import os

from minitvm import workers
from minitvm.base import BuildError

from .jit import Form, LLVMSource

JOB = "minitvm.runtime.compile_job"
SECONDS = 600.0  # time limit of one compilation
LIFETIME = 1000  # builds per process: LLVM does not free a quarter of a megabyte after each
SHOWN = 3  # how many of the last lines of LLVM's output an error shows
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
    """End the compiler processes."""
    while _idle:
        _idle.pop().close()


def _asked(options: object, text: bytes) -> workers.Message | workers.Failure:
    """Send a request to an idle worker, or to a new one, and return its answer."""
    try:
        worker = _idle.pop()  # safe in several threads
    except IndexError:
        worker = workers.Worker(JOB, renew=LIFETIME)
    try:
        return worker.ask(options, (text,), seconds=SECONDS)
    finally:
        _idle.append(worker)


if hasattr(os, "register_at_fork"):  # Windows cannot fork; a child must not use its parent's
    os.register_at_fork(after_in_child=_idle.clear)
