"""The program that isolated.py runs in another process: it compiles LLVM IR on request."""

from __future__ import annotations

from minitvm import workers
from minitvm.base import BuildError

from .jit import LLVMSource


def answer(request: workers.Message) -> workers.Message:
    """Compile each IR in `request`; return the codes, or the parts of a BuildError."""
    options = dict(request.value)
    form = options.pop("form")
    try:
        sources = [LLVMSource(text.decode(), **options) for text in request.blobs]
        return workers.Message({}, tuple(source.made(form) for source in sources))
    except BuildError as e:
        return workers.Message({"refused": e.args})


if __name__ == "__main__":
    workers.serve(answer)
