"""What the workers of these tests run."""

import contextlib
import ctypes
import os
import signal
import sys
import tempfile
import threading
import time

from minitvm.workers import Message, serve

REMEMBERED: list[object] = []
COUNTED = [0]


def count() -> None:
    while True:
        COUNTED[0] += 1


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
        case ["block", float(seconds)]:  # in native code, which no signal handler interrupts
            ctypes.CDLL(None).sleep(int(seconds))
        case ["allocate", int(size)]:
            bytearray(size)
        case ["raise", str(message)]:
            raise ValueError(message)
        case "pid":
            return Message(os.getpid())
        case ["lose the main thread", int(exit_thread)]:  # as when a process is being killed
            signal.signal(signal.SIGALRM, lambda *_: ctypes.CDLL(None).syscall(exit_thread, 0))
            threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGALRM)).start()
        case ["environment", str(name)]:
            return Message(os.environ.get(name))
        case "folder":
            tempfile.mkstemp()
            return Message([os.getcwd(), tempfile.gettempdir()])
        case "leave a process":
            pid = os.fork()
            if not pid:
                os.setsid()
                time.sleep(600)
            return Message(pid)
        case "count":
            return Message(COUNTED)
        case "keep counting":
            threading.Thread(target=count, daemon=True).start()
        case "garbage":  # as machine code may that writes anywhere
            for pipe in range(3, 32):
                with contextlib.suppress(OSError):
                    os.write(pipe, b"nonsense" * 8)
            time.sleep(60)
        case "spin":
            while True:
                pass
        case ["remember", value]:
            REMEMBERED.append(value)
        case "recall":
            return Message(REMEMBERED)
        case "processors":
            return Message(sorted(os.sched_getaffinity(0)))
        case _:
            pass
    return request


if __name__ == "__main__":
    serve(answer)
