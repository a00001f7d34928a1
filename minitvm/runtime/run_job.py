"""The program that the measuring process runs: it runs and times machine code on request."""

from __future__ import annotations

from dataclasses import asdict, replace

from minitvm import workers

from .bench import Argument, Bench, Job
from .gpu_bench import DeviceBench
from .pool import parallel_launch_address, set_num_threads

_benches: list[Bench] = []


def answer(request: workers.Message) -> workers.Message:
    """Store arguments for later jobs, or run a job; return its Outcome, with outputs as blobs."""
    options = dict(request.value)
    if "arguments" in options:
        set_threads(options["threads"])
        arguments = [Argument(**a) for a in options["arguments"]]
        bench = DeviceBench if options["device"] else Bench
        _benches[:] = [bench(arguments, request.blobs)]
        return workers.Message(None)
    outcome = _benches[0].run(Job(**options), request.blobs)
    return workers.Message(asdict(replace(outcome, outputs=())), outcome.outputs)


def set_threads(n: int) -> None:
    """Run parallel loops on `n` threads; compile the thread pool's code now, before a fork."""
    if n > 1:
        set_num_threads(n)
        parallel_launch_address()


if __name__ == "__main__":
    workers.serve(answer)
