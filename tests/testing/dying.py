"""A child process that prints something and aborts, as LLVM does when an assertion fails."""

import os
import sys

from minitvm.workers import Message, serve


def answer(request: Message) -> Message:
    print("the last words of LLVM", file=sys.stderr, flush=True)
    os.abort()


if __name__ == "__main__":
    serve(answer)
