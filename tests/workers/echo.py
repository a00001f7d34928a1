"""What the workers of these tests run."""

import os
import signal
import sys
import time

from minitvm.workers import Message, serve


def answer(request: Message) -> Message:
    match request.value:
        case ["die", str(last_words)]:
            print(last_words)
            sys.stdout.flush()
            os.kill(os.getpid(), signal.SIGABRT)
        case ["exit", int(code)]:
            sys.exit(code)
        case ["sleep", float(seconds)]:
            time.sleep(seconds)
        case ["allocate", int(size)]:
            bytearray(size)
        case ["raise", str(message)]:
            raise ValueError(message)
        case "pid":
            return Message(os.getpid())
        case _:
            pass
    return request


if __name__ == "__main__":
    serve(answer)
