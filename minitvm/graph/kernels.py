"""Compile the kernels of a network: each distinct body once, and only if it is not stored yet.

Kernels are kept in memory and in files (cache.py). Text, target, CPU and version identify a kernel.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from minitvm import codegen, driver, runtime, te, tir, topi, vta, workers
from minitvm.base import BuildError, Target, host

from . import cache, passes
from .node import PARAM, Graph, Node
from .operators import OPERATORS
from .pipeline import cpu_of

JOB = "minitvm.graph.kernel_job"
SECONDS = 600.0  # the time limit of one kernel
MAX_HERE = 3  # for up to this many kernels, workers are not worth the second they take to start
MAX_KERNELS = 1000  # kernels in memory
Pick: TypeAlias = Callable[[list[te.Tensor], Target], te.Schedule | None]
Watch: TypeAlias = Callable[[str, int, int], None]  # (kernel name, its number, number of kernels)
_known: OrderedDict[str, runtime.Function] = OrderedDict()  # the last one used is at the end


def tensors(
    body: Graph, size: Callable[[Any], Any] = lambda value: value
) -> tuple[list[te.Tensor], te.Tensor]:
    """Return a kernel's inputs as placeholders (constant for parameters), and its result.

    size   is applied to shapes and to arguments of operators; by default the identity
    """
    values: dict[Node, te.Tensor] = {
        leaf: te.placeholder(
            size(leaf.type.shape), leaf.type.dtype, name=leaf.name, constant=leaf.op == PARAM
        )
        for leaf in body.inputs
    }
    inputs = list(values.values())
    for node in body.calls:
        operands = [values[n] for n in node.inputs]
        values[node] = OPERATORS[node.op].formula(
            *operands, **{key: size(value) for key, value in node.attrs.items()}
        )
    return inputs, values[body.outputs[0]]


def compiled(
    bodies: Iterable[Graph],
    target: str | Target | None = None,
    pick: Pick | None = None,
    watch: Watch | None = None,
) -> list[runtime.Function]:
    """Return the functions of kernels, f(p0, p1, ..., result); compile each distinct kernel once.

    pick    may choose schedules, as a dispatcher of topi.schedule; default: the current dispatcher
    watch   is called with (name, number, number of kernels) after each kernel is compiled
    """
    to = Target(target)
    jobs = [_job(body, to, pick) for body in bodies]
    missing: dict[str, Job] = {}
    for job in jobs:
        if job.key not in _known and job.key not in missing and not _take(job):
            missing[job.key] = job
    for number, job in enumerate(_compiled_jobs(list(missing.values())), 1):
        if watch is not None:
            watch(job.body.name, number, len(missing))
    functions = [_known[job.key] for job in jobs]
    for job in jobs:
        _known.move_to_end(job.key)
    while len(_known) > MAX_KERNELS:
        _known.popitem(last=False)
    if missing:
        cache.trim()
    return functions


def clear() -> None:
    """Forget the kernels in memory, and remove the files of all kernels."""
    _known.clear()
    cache.trim(0)


# --- jobs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A kernel to be compiled.

    args      its inputs and its result as tensor expressions; () if no dispatcher was asked
    schedule  the schedule of `args`; None for the default schedule
    path      the file for the code; None if it is not stored
    """

    body: Graph
    target: Target
    args: tuple[te.Tensor, ...]
    schedule: te.Schedule | None
    key: str
    path: Path | None

    @property
    def steps(self) -> str:
        """The steps of the schedule as JSON; "" for the default schedule."""
        return "" if self.schedule is None else self.schedule.to_json()

    @property
    def is_local(self) -> bool:
        """Whether no worker can compile it: it has no file, or text cannot describe all of it."""
        intrins = self.schedule is not None and self.schedule.state.intrins
        return (
            self.path is None
            or bool(intrins)
            or repr(Target(str(self.target))) != repr(self.target)
        )

    def build(self) -> None:
        """Compile the kernel in this process."""
        _known[self.key] = built(self.body, self.target, self.args, self.schedule)


def _job(body: Graph, target: Target, pick: Pick | None) -> Job:
    if target.kind == "vta" and body.calls[0].op == "vta_conv2d":
        return _accelerator_job(body, target)
    target = cpu_of(target)
    schedule, args = None, tuple[te.Tensor, ...]()
    if pick is not None or topi.dispatch.get() is not None:
        inputs, output = tensors(body)
        args = (*inputs, output)
        schedule = (pick or topi.dispatch.dispatched)([output], target)
    key = cache.key_of(str(body), target, "" if schedule is None else schedule.to_json())
    path = cache.path_of(key) if codegen.TARGETS[target.kind].isolates else None
    return Job(body, target, args, schedule, key, path)


def _accelerator_job(body: Graph, target: Target) -> Job:
    """Return the job of a convolution on the current accelerator."""
    config, (inputs, output) = vta.get_env().config, tensors(body)
    schedule = vta.top.schedule(output, passes.tiling_of(body.calls[0], config))
    key = cache.key_of(f"{body} on {config}", target, "")
    return Job(body, target, (*inputs, output), schedule, key, None)


def built(
    body: Graph, target: Target, args: Sequence[te.Tensor | tir.Var], schedule: te.Schedule | None
) -> runtime.Function:
    """Compile a kernel in this process; the caller passes its temporary arrays, too.

    schedule   a schedule of `args`; None for the default schedule, without `args`
    """
    if schedule is None:
        args, schedule = default_schedule(body, target)
    func = driver.lower(schedule, args, body.name, target=target)
    return driver.build(codegen.lifted(func, target), target=target)


def default_schedule(body: Graph, target: Target) -> tuple[list[te.Tensor], te.Schedule]:
    """Return a kernel's inputs and result, and the schedule that it has without tuning."""
    inputs, output = tensors(body)
    with topi.dispatch.using(lambda outputs, to: None):  # turns off the caller's dispatcher
        return [*inputs, output], topi.schedule(output, target)


def _take(job: Job) -> bool:
    """Load a kernel from its file into memory; return whether that succeeded."""
    function = None if job.path is None else cache.read(job.path, job.target)
    if function is not None:
        _known[job.key] = function
    return function is not None


def _compiled_jobs(jobs: Sequence[Job]) -> Iterator[Job]:
    """Compile kernels, and yield each job when it is done."""
    shared = [job for job in jobs if not job.is_local]
    if min(host().cores, len(shared)) > 1 and len(shared) > MAX_HERE:
        for job in _compiled_by_workers(shared):
            if not _take(job):  # it cannot be compiled, or its file has been removed
                job.build()
            yield job
    for job in jobs:
        if job.key not in _known:
            job.build()
            if job.path is not None:
                cache.write(job.path, _known[job.key])
            yield job


def _compiled_by_workers(jobs: Sequence[Job]) -> Iterator[Job]:
    """Compile kernels in worker processes, and yield each job when its worker has answered.

    A kernel that cannot be compiled has no file. Raises BuildError if a worker does not answer.
    """

    def ask(worker: workers.Worker, job: Job) -> Job:
        form = {"body": str(job.body), "target": str(job.target), "steps": job.steps}
        reply = worker.ask({**form, "path": str(job.path)}, seconds=SECONDS)
        if isinstance(reply, workers.Failure):
            why = "\n".join([str(reply), *reply.stderr[-3:]])
            raise BuildError(f"kernel {job.body.name}", why, "another schedule, or another target")
        return job

    with workers.Pool(JOB, min(host().cores, len(jobs))) as pool:
        yield from pool.map(ask, jobs)
