"""The program that kernels.py runs in other processes: it compiles kernels to files."""

from __future__ import annotations

from pathlib import Path

from minitvm import te, workers
from minitvm.base import Target, TVMError

from . import cache
from .kernels import built, tensors
from .parse import parse


def answer(request: workers.Message) -> workers.Message:
    """Compile the kernel in `request` and write its file; write no file if that fails."""
    job = request.value
    try:
        body = parse(job["body"])
        inputs, output = tensors(body)
        schedule = te.Schedule.from_json(job["steps"], output.op) if job["steps"] else None
        kernel = built(body, Target(job["target"]), [*inputs, output], schedule)
    except TVMError:  # the parent compiles it again, and shows why that fails
        return workers.Message({})
    cache.write(Path(job["path"]), kernel)
    return workers.Message({})


if __name__ == "__main__":
    workers.serve(answer)
