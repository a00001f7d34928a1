"""The program of the processes of isolated.py: LLVM IR in, an object file or text out."""

from __future__ import annotations

from minitvm import workers
from minitvm.base import BuildError

from .jit import LLVMSource


def answer(request: workers.Message) -> workers.Message:
    """Compile the IR of one request."""
    options = dict(request.value)
    form = options.pop("form")
    try:
        return workers.Message({}, (LLVMSource(request.blobs[0].decode(), **options).made(form),))
    except BuildError as e:
        return workers.Message({"refused": e.args})


if __name__ == "__main__":
    workers.serve(answer)
