"""Start a worker process: set its limits, then run its module.

python -c BOOT '{"module": ..., "path": [...], "memory": ..., "parent": ...}'
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import runpy
import signal
import sys

try:
    import resource
except ImportError:  # Windows has none
    resource = None

PR_SET_PDEATHSIG = 1


def main() -> None:
    """Run the module named on the command line, within its limits."""
    given = json.loads(sys.argv[1])
    if given["memory"] is not None:
        limit_memory(given["memory"])
    if given["parent"] is not None:
        die_with_parent(given["parent"])
    runpy.run_module(given["module"], run_name="__main__")


def limit_memory(most: int) -> None:
    """Limit the address space to `most` bytes, if the system supports that."""
    if resource is not None:
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):  # macOS refuses
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def die_with_parent(parent: int) -> None:
    """Make Linux kill this process when the thread that started it ends.

    On other systems the process ends when its pipe is closed: see serve().
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before prctl
            os._exit(0)
