"""What the processes of isolated.py run: LLVM IR in, an object file or text out."""

from __future__ import annotations

from minitvm.base import BuildError
from minitvm.workers import Frame, serve

from .jit import Source


def answer(request: Frame) -> Frame:
    """Compile the text of one request."""
    options = dict(request.value)
    form = options.pop("form")
    try:
        return Frame({}, (Source(request.blobs[0].decode(), **options).made(form),))
    except BuildError as e:
        return Frame({"refused": e.args})


if __name__ == "__main__":
    serve(answer)
