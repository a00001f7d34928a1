"""The program that kernels.py runs in other processes: it compiles kernels to files."""

from __future__ import annotations

from pathlib import Path

from minitvm import workers
from minitvm.base import Target, TVMError

from . import cache
from .kernels import built
from .parse import parse


def answer(request: workers.Message) -> workers.Message:
    """Compile the kernel in `request` and write its file; write no file if that fails."""
    given = request.value
    try:
        kernel = built(parse(given["body"]), Target(given["target"]), given["steps"])
    except TVMError:  # the parent compiles it again, and shows why that fails
        return workers.Message({})
    cache.write(Path(given["path"]), kernel)
    return workers.Message({})


if __name__ == "__main__":
    workers.serve(answer)
