"""What grading and measuring on a Dask cluster share: the connection, and one version everywhere.

Dask is an optional package, so it is imported where it is first used.
"""

from __future__ import annotations

import hashlib
import logging
import platform
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, cast

from minitvm.base import ArgumentError, TVMError, importing

PACKAGE = Path(__file__).resolve().parent
CONNECT_SECONDS = 5.0
START_CLUSTER = "start a scheduler and workers: docs/cluster.md"
SAME_VERSION = "install the same minitvm on all machines"
# what a local worker runs at its start: Ctrl-C in the terminal is for the main process
IGNORE_CTRL_C = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)"


def distributed(purpose: str) -> Any:
    """Return the module distributed; raise ArgumentError if it cannot be imported.

    purpose   what it is needed for: "grading on a cluster"
    """
    with importing("distributed", purpose, "pip install 'minitvm[dist]'"):
        import distributed as dask
    return cast("Any", dask)


@contextmanager
def connected(
    where: str | int, purpose: str, resources: Mapping[str, float] | None = None
) -> Generator[Any]:
    """Connect to a Dask cluster that has a worker, and yield the client.

    where       the address of a scheduler, or how many worker processes to start on this machine
    resources   of each worker that is started
    Raises ArgumentError if there is no such cluster.
    """
    dask = distributed(purpose)
    with ExitStack() as stack:
        if isinstance(where, int):
            started = stack.enter_context(_local_cluster(dask, where, resources))
            where = cast("str", started.scheduler_address)
        yield stack.enter_context(_client(dask, where))


def _local_cluster(dask: Any, count: int, resources: Mapping[str, float] | None) -> Any:
    """Start a scheduler and `count` worker processes on this machine.

    Dask does not limit their memory: notebooks and programs have limits of their own.
    """
    if count < 1:
        raise ArgumentError("a cluster on this machine", f"{count} processes", "at least 1")
    return dask.LocalCluster(
        n_workers=count, threads_per_worker=1, processes=True, memory_limit=0, resources=resources,
        dashboard_address="127.0.0.1:0", silence_logs=logging.CRITICAL, preload=IGNORE_CTRL_C,
    )  # fmt: skip


def _client(dask: Any, address: str) -> Any:
    """Return a client of the scheduler at `address`, which has a worker."""
    what = f"the Dask scheduler {address}"
    try:
        client = dask.Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as e:
        raise ArgumentError(what, f"it does not answer: {e}", START_CLUSTER) from e
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)
    except OSError as e:
        client.close()
        raise ArgumentError(what, "it has no workers", START_CLUSTER) from e
    return client


def ask_workers(
    client: Any,
    ask: Callable[..., Any],
    code: str,
    *args: Any,
    workers: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return what ask(code, *args) returns on each worker, by its address.

    code      the version that workers must have: `ask` calls check_code
    workers   the addresses of the workers to ask; None for all
    Raises the TVMError of a worker, or ArgumentError if a worker has a version without `ask`.
    """
    try:
        return client.run(ask, code, *args, workers=workers)
    except TVMError:
        raise
    except Exception as e:  # a version without this file: Python says what is missing
        known = client.get_versions(packages=["minitvm"])["workers"].values()
        versions = ", ".join(sorted({str(w["packages"]["minitvm"]) for w in known}))
        why = f"they have minitvm {versions}, this process {code}: {e}"
        raise ArgumentError("the Dask workers", why, SAME_VERSION) from e


@cache
def code_version() -> str:
    """Return the version of minitvm, with a hash that changes if a file of it is edited."""
    code = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        code.update(path.read_bytes())
    try:
        number = version("minitvm")
    except PackageNotFoundError:  # minitvm runs from a folder, without being installed
        number = "unknown"
    return f"{number} (code {code.hexdigest()[:12]})"


def check_code(code: str) -> None:
    """Raise ArgumentError unless this Dask worker has the version `code` of minitvm."""
    if code_version() != code:
        why = f"it has minitvm {code_version()}, the process that sends the work {code}"
        raise ArgumentError(here(), why, SAME_VERSION)


def here() -> str:
    """Return how errors name this Dask worker."""
    return f"the Dask worker on {platform.node()}"
