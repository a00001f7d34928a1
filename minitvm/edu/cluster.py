"""Grade on the workers of a Dask cluster, each notebook behind a wall of its own.

Dask decides which worker grades which notebook, and sends it to another worker if the first one
dies. A Dask worker grades as many notebooks at a time as it has threads.
"""

from __future__ import annotations

import os
import platform
import secrets
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from tqdm import tqdm

from minitvm import dist, workers
from minitvm.base import ArgumentError, MeasureError, TVMError

from .course import exercise_named
from .grader import JOB, Graded, Submission, Task, failed_here, graded_or_failed
from .sandbox import Limits, about_tier, tier
from .score import Seeds

GradeAll: TypeAlias = Callable[[Sequence[Task], int], Iterator[tuple[int, Graded]]]
RETRIES = 2  # times that Dask repeats a notebook whose worker could not grade it
PURPOSE = "grading on a cluster"
DIED = "the Dask workers that graded it died"


@dataclass(frozen=True, slots=True)
class Run:
    """What a Dask worker must know about one run of `grade`.

    code     the version of minitvm that it must have
    strict   whether it may grade behind namespaces only
    checks   the content of each file of the checks
    """

    name: str
    code: str
    strict: bool
    checks: dict[str, bytes]


# --- the machine that hands out the notebooks ----------------------------------------------------


@contextmanager
def cluster_grader(where: str | int, checks: Path, *, strict: bool) -> Generator[GradeAll]:
    """Connect to a Dask cluster, and yield a function that does there what grade_all does here.

    where    the address of a scheduler, or how many worker processes to start on this machine
    strict   whether to grade behind namespaces only
    Raises ArgumentError if there is no such cluster, or if one of its workers must not grade.
    """
    files = {path.name: path.read_bytes() for path in sorted(checks.glob("ex*.*"))}
    run = Run(secrets.token_hex(8), dist.code_version(), strict, files)
    with dist.connected(where, PURPOSE) as client:
        cluster = _Cluster(dist.distributed(PURPOSE), client, run)
        try:
            yield cluster.grade_all
        finally:
            cluster.end()


class _Cluster:
    """A Dask cluster whose workers may grade."""

    def __init__(self, dask: Any, client: Any, run: Run) -> None:
        self._dask, self._client = dask, client
        self._walls: set[str] = set()
        self._futures: dict[Any, int] = {}  # of the notebooks under way -> the index of the task
        for wall in dist.ask_workers(client, _admitted, run.code, run.strict).values():
            self._show(wall)
        # a task, not data: Dask sends its result to a worker once, and repeats it if that is lost
        self._run = client.submit(Run, run.name, run.code, run.strict, run.checks, pure=False)
        self._name = run.name

    def end(self) -> None:
        """End what is under way, if anything, and delete what the run left on the workers."""
        with suppress(Exception):  # a cluster that is gone has nothing to end
            self._client.cancel(list(self._futures))
            self._client.run(_end, self._name)

    def _show(self, wall: str) -> None:
        """Print about_tier() of a worker, unless another worker's was the same."""
        if wall not in self._walls:
            self._walls.add(wall)
            tqdm.write(f"Dask workers: {wall}", file=sys.stderr)

    def grade_all(self, tasks: Sequence[Task], jobs: int) -> Iterator[tuple[int, Graded]]:
        """Do as grader.grade_all does, with one notebook at a time or, if jobs > 1, with all."""
        size = len(tasks) if jobs > 1 else 1
        for start in range(0, len(tasks), max(1, size)):
            numbers = range(start, min(start + size, len(tasks)))
            self._futures = {self._submitted(tasks[n]): n for n in numbers}
            for future in self._dask.as_completed(self._futures, loop=self._client.loop):
                n = self._futures.pop(future)
                graded = self._result(future, tasks[n])
                future.release()  # or Dask would grade it again if its worker dies later
                yield n, graded

    def _submitted(self, task: Task) -> Any:
        exercise = task.exercise.id if task.exercise else ""
        arguments = (task.submission, exercise, task.seeds, task.limits, self._run)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # a notebook with pictures
            return self._client.submit(_graded_there, *arguments, pure=False, retries=RETRIES)

    def _result(self, future: Any, task: Task) -> Graded:
        try:
            graded, wall = future.result()
        except self._dask.KilledWorker:
            return failed_here(task, DIED)
        except self._dask.CancelledError as e:
            what = f"grading on {self._client.scheduler.address}"
            raise MeasureError(what, "the Dask scheduler is gone", "run it again") from e
        except TVMError:
            raise  # this worker must not or cannot grade
        except Exception as e:  # whatever it is, the others are graded
            return failed_here(task, f"{type(e).__name__}: {e}")
        self._show(wall)
        return graded


# --- a Dask worker -------------------------------------------------------------------------------


class _RunState:
    """What a Dask worker process keeps during a run: the checks, and a process for each thread.

    The folder of the checks is private, and hidden from notebooks as on the instructor's machine.
    """

    def __init__(self, run: Run) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix=f"{workers.FOLDER}-{os.getpid()}-")
        self.checks = Path(self._folder.name).resolve()
        for name, data in run.checks.items():
            (self.checks / name).write_bytes(data)
        self.pool = workers.Pool(JOB, dist.distributed(PURPOSE).get_worker().state.nthreads)

    def close(self) -> None:
        """End the processes, also those that grade, and delete the folder."""
        self.pool.retire()
        self.pool.close()
        self._folder.cleanup()


_states: dict[str, _RunState] = {}  # by the names of the runs that use this Dask worker
_lock = threading.Lock()


def _state(run: Run) -> _RunState:
    with _lock:
        if run.name not in _states:
            _states[run.name] = _RunState(run)
        return _states[run.name]


def _end(name: str) -> None:
    """End what a run left on this Dask worker."""
    with _lock:
        if state := _states.pop(name, None):
            state.close()


def _admitted(code: str, strict: bool) -> str:
    """Return about_tier() of this Dask worker; raise ArgumentError if it must not grade."""
    dist.check_code(code)
    if strict and tier() != "namespaces":
        why = f"{dist.here()} has only: {tier()}"
        raise ArgumentError("--strict", why, "install bubblewrap there")
    return about_tier()


def _graded_there(
    submission: Submission, exercise: str, seeds: Seeds, limits: Limits, run: Run
) -> tuple[Graded, str]:
    """Grade one notebook on this Dask worker, which may have joined late; return its wall, too."""
    wall, state = _admitted(run.code, run.strict), _state(run)
    known = exercise_named(exercise, state.checks) if exercise else None
    task = Task(submission, state.checks, known, seeds, limits)
    try:
        with state.pool.idle() as worker:
            return graded_or_failed(task, worker), wall
    except MeasureError as e:
        what, why, fix = e.args
        raise MeasureError(f"{what} on {platform.node()}", why, fix) from None
