"""Keep the processors busy while a command runs: python -m tests.load 16 -- make nbval."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPIN = "import os\nwhile os.getppid() == {0}:\n    sum(range(100_000))"  # ends with its parent


@contextmanager
def load(count: int) -> Iterator[None]:
    """Run `count` processes that only compute; end them afterwards."""
    code = SPIN.format(os.getpid())
    busy = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(count)]
    try:
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


if __name__ == "__main__":
    number, _, *command = sys.argv[1:]
    with load(int(number)):
        status = subprocess.run(command, check=False).returncode
    sys.exit(status)
