"""Compile the kernels of a network: each distinct body once, and only if it is not stored yet.

Kernels are kept in memory and in files (cache.py). Text, target, CPU and version identify a kernel.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from minitvm import codegen, driver, runtime, te, topi, workers
from minitvm.base import BuildError, Target, host

from . import cache
from .node import PARAM, Graph, Node
from .operators import OPERATORS

JOB = "minitvm.graph.kernel_job"
SECONDS = 600.0  # the time limit of one kernel
FEW = 3  # up to this many kernels are compiled in this process: others take a second to start
KEPT = 1000  # kernels in memory
Pick: TypeAlias = Callable[[list[te.Tensor], Target], te.Schedule | None]
Watch: TypeAlias = Callable[[str, int, int], None]  # (kernel name, its number, number of kernels)
_known: OrderedDict[str, runtime.Function] = OrderedDict()  # the last one used is at the end


def tensors(body: Graph) -> tuple[list[te.Tensor], te.Tensor]:
    """Return a kernel's inputs as placeholders (constant for parameters), and its result."""
    values: dict[Node, te.Tensor] = {
        leaf: te.placeholder(
            leaf.type.shape, leaf.type.dtype, name=leaf.name, constant=leaf.op == PARAM
        )
        for leaf in body.inputs
    }
    inputs = list(values.values())
    for node in body.calls:
        operands = [values[n] for n in node.inputs]
        values[node] = OPERATORS[node.op].formula(*operands, **node.attrs)
    return inputs, values[body.outputs[0]]


def compiled(
    body: Graph, target: str | Target | None = None, pick: Pick | None = None
) -> runtime.Function:
    """Return a function that computes a kernel: f(p0, p1, ..., result)."""
    return compiled_all([body], target, pick)[0]


def compiled_all(
    bodies: Iterable[Graph],
    target: str | Target | None = None,
    pick: Pick | None = None,
    watch: Watch | None = None,
) -> list[runtime.Function]:
    """Return the functions of kernels; compile kernels that print the same only once.

    pick    may choose schedules, as a dispatcher of topi.schedule; default: the current dispatcher
    watch   is called with (name, number, number of kernels) after each kernel is compiled
    """
    to = Target(target)
    jobs = [_job(body, to, pick) for body in bodies]
    missing: dict[str, Job] = {}
    for job in jobs:
        if job.key not in _known and job.key not in missing and not _take(job):
            missing[job.key] = job
    for number, job in enumerate(_made(list(missing.values())), 1):
        if watch is not None:
            watch(job.body.name, number, len(missing))
    found = [_known[job.key] for job in jobs]
    for job in jobs:
        _known.move_to_end(job.key)
    while len(_known) > KEPT:
        _known.popitem(last=False)
    if missing:
        cache.trim()
    return found


def clear() -> None:
    """Forget the kernels in memory, and remove the files of all kernels."""
    _known.clear()
    cache.trim(0)


# --- jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to be compiled.

    steps   the steps of its schedule as JSON; "" for the default schedule
    path    the file for the code; None if it is not stored
    build   compiles it in this process
    alone   whether it must be compiled in this process
    """

    body: Graph
    target: Target
    steps: str
    key: str
    path: Path | None
    build: Callable[[], runtime.Function]
    alone: bool


def _job(body: Graph, target: Target, pick: Pick | None) -> Job:
    chosen, args = None, list[te.Tensor]()
    if pick is not None or topi.dispatch.get() is not None:
        inputs, out = tensors(body)
        args = [*inputs, out]
        ask = topi.dispatch.dispatched if pick is None else pick
        chosen = ask([out], target)
    steps = "" if chosen is None else chosen.to_json()
    key = cache.key_of(str(body), target, steps)
    path = cache.path_of(key) if codegen.TARGETS[target.kind].isolates else None
    alone = path is None or repr(Target(str(target))) != repr(target)
    if chosen is None:
        return Job(body, target, steps, key, path, lambda: built(body, target), alone)

    def build() -> runtime.Function:
        return _built(chosen, args, target, body.name)

    return Job(body, target, steps, key, path, build, alone or bool(chosen.state.intrins))


def built(body: Graph, target: Target, steps: str = "") -> runtime.Function:
    """Compile a kernel in this process, with the default schedule or these steps."""
    inputs, out = tensors(body)
    if steps:
        s = te.Schedule.from_json(steps, out.op)
    else:
        with topi.dispatch.using(lambda outputs, to: None):  # turns off the caller's dispatcher
            s = topi.schedule(out, target)
    return _built(s, [*inputs, out], target, body.name)


def _built(
    s: te.Schedule, args: Sequence[te.Tensor], target: Target, name: str
) -> runtime.Function:
    """Compile a kernel that allocates nothing: the caller passes temporary arrays to it."""
    func = driver.lower(s, args, name, target=target)
    return driver.build(codegen.lifted(func, target), target=target)


def _take(job: Job) -> bool:
    """Load a kernel from its file into memory; return whether that succeeded."""
    found = None if job.path is None else cache.read(job.path, job.target)
    if found is not None:
        _known[job.key] = found
    return found is not None


def _made(jobs: Sequence[Job]) -> Iterator[Job]:
    """Compile kernels, and yield each job when it is done."""
    shared = [job for job in jobs if not job.alone]
    count = min(host().cores, len(shared))
    if count < 2 or len(shared) <= FEW:
        shared = []
    for job in _made_by_workers(shared, count):
        if not _take(job):  # another process may have removed the file
            _known[job.key] = job.build()
        yield job
    for job in jobs:
        if job.key not in _known:
            _known[job.key] = job.build()
            if job.path is not None:
                cache.write(job.path, _known[job.key])
            yield job


def _made_by_workers(jobs: Sequence[Job], count: int) -> Iterator[Job]:
    """Compile kernels in `count` other processes, and yield each job when its file is written.

    Raises BuildError if a process crashes. A kernel that cannot be compiled has no file.
    """
    if not jobs:
        return

    def ask(worker: workers.Worker, job: Job) -> Job:
        form = {"body": str(job.body), "target": str(job.target), "steps": job.steps}
        reply = worker.ask({**form, "path": str(job.path)}, seconds=SECONDS)
        if isinstance(reply, workers.Failure):
            why = "\n".join([str(reply), *reply.stderr[-3:]])
            raise BuildError(f"kernel {job.body.name}", why, "another schedule, or another target")
        return job

    with workers.Pool(JOB, count) as pool:
        yield from pool.map(ask, jobs)
