"""Start a worker process: set its limits, then run its module.

python -c BOOT '{"module": ..., "path": [...], "parent": ..., "memory": ..., "cpus": ...}'
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import runpy
import sys

from . import wall
from .zygote import die_with_parent

try:
    import resource
except ImportError:  # Windows has none
    resource = None


def main() -> None:
    """Run the module named on the command line, within its limits."""
    options = json.loads(sys.argv[1])
    if options["memory"] is not None:
        limit_memory(options["memory"])
    no_core_dumps()
    if options["cpus"] is not None:
        pin(options["cpus"])
    if options["wall"] is not None and resource is not None:
        wall.settle(options["wall"], os.getcwd())
        limit(resource.RLIMIT_NPROC, wall.MAX_PROCESSES)
    elif options["apart"] and sys.platform == "linux":
        die_with_parent(options["parent"])
    if options["apart"]:
        leave_package_empty(options["module"])
    runpy.run_module(options["module"], run_name="__main__")


def leave_package_empty(module: str) -> None:
    """Let `module` run without the code of its package: "a.b.c" runs without a/b/__init__.py."""
    name = module.rpartition(".")[0]
    parent, _, last = name.rpartition(".")
    if parent and (spec := importlib.util.find_spec(name)) is not None:
        package = importlib.util.module_from_spec(spec)
        sys.modules[name] = package
        setattr(sys.modules[parent], last, package)


def limit_memory(most: int) -> None:
    """Make allocations fail once this process has `most` bytes, if the system supports that.

    Linux counts private writable memory; other systems count the whole address space.
    """
    if resource is not None:
        limit(resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS, most)


def limit(kind: int, most: int, *, final: bool = False) -> None:
    """Set one of the limits of this process; `final`: it cannot raise it again.

    macOS refuses some of them, and Windows has none.
    """
    if resource is not None:
        hard = resource.getrlimit(kind)[1]
        soft = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(kind, (soft, soft if final else hard))


def no_core_dumps() -> None:
    """Prevent a crash from writing a core dump file."""
    if resource is not None:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def pin(cpus: list[int]) -> None:
    """Run only on `cpus`, if the system supports that and they exist."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.sched_setaffinity(0, cpus)
