"""Time a program beside numpy, and a network beside torch."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from minitvm import driver, graph, tensor, testing, tir, topi
from minitvm.base import MeasureError, Target

from .stages import Request

ROUNDS, REPEAT = 9, 5
PAUSE = 0.02  # seconds; threads wait for their next work in a loop, for a shorter time
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def bench(r: Request) -> str:
    """Return a table with the times of a program and of numpy, and the ratio of paired rounds."""
    check_timed(r.target)
    rng, tensors = np.random.default_rng(0), r.program.tensors
    arrays = [_random(t, rng) for t in tensors]
    f = driver.build(r.schedule, tensors, target=r.target)
    name, peer = _peer(r.program.output, dict(zip(tensors, arrays[:-1], strict=False)))
    threads = _threads(r.target.num_cores)
    note = f"minitvm: {threads}; numpy: as many as its library uses"
    work = topi.flops([r.program.output])
    return f"{compared({'minitvm': lambda: f(*arrays), name: peer}, work)}\n{note}"


def check_timed(target: Target) -> None:
    """Raise MeasureError if a target is simulated."""
    if target.unit == "cycles":
        what, fix = f"--bench on {target}", "--target llvm"
        raise MeasureError(what, "a simulation has no times that mean something", fix)


def bench_module(module: Any, net: graph.Graph, target: Target) -> str:
    """Return a table with the times of a network and of the torch module that it was read from."""
    check_timed(target)
    torch, f = graph.torch.imported("--bench"), graph.compile(net, target)
    arrays = graph.random_inputs(f)
    tensors = [torch.from_numpy(x) for x in arrays]
    before = torch.get_num_threads()
    torch.set_num_threads(target.num_cores)
    try:
        with torch.inference_mode():
            peer = torch.utils._pytree.tree_leaves(module(*tensors))[0].numpy()
            runs = {"minitvm": lambda: f(*arrays), "torch": lambda: module(*tensors)}
            table = compared(runs, sum(t.count * t.operations for t in graph.extract_tasks(net)))
    finally:
        torch.set_num_threads(before)
    outputs = f(*arrays)
    difference = np.abs((outputs[0] if isinstance(outputs, tuple) else outputs) - peer).max()
    error = (
        f"largest difference: {difference / (np.abs(peer).max() or 1):.1e} of the largest output"
    )
    return f"{table}\n{error}\nminitvm and torch: {_threads(target.num_cores)} each"


def _threads(count: int) -> str:
    return f"{count} thread{'s' if count > 1 else ''}"


def compared(runs: Mapping[str, Callable[[], object]], work: float) -> str:
    """Return the times of two programs, ours first, and the ratio of paired rounds.

    work   the arithmetic operations of a run
    """
    rounds = [{program: _seconds(run) for program, run in runs.items()} for _ in range(ROUNDS)]
    ours, peer = runs
    ratios = [times[peer] / times[ours] for times in rounds]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    lines = list[str]()
    for program in runs:
        seconds = statistics.median(times[program] for times in rounds)
        lines.append(f"{program:16}{seconds * 1e3:10.4f} ms{work / seconds / 1e9:10.2f} GFLOP/s")
    package = peer.partition(".")[0]
    spread = f"(middle half of {ROUNDS} rounds: {low:.2f} to {high:.2f})"
    return "\n".join([*lines, f"{middle:.2f} x {package} {spread}"])


def _seconds(run: Callable[[], object]) -> float:
    """Return the shortest of REPEAT calls, when the threads of the other program have gone idle."""
    time.sleep(PAUSE)
    run()
    return testing.interleaved({"run": run}, REPEAT)["run"]


def _random(t: tensor.Tensor, rng: np.random.Generator) -> Any:
    shape = tuple(int(n) for n in t.shape if isinstance(n, int))
    numbers = rng.uniform(-1, 1, shape) if t.dtype.is_float else rng.integers(0, 8, shape)
    return numbers.astype(t.dtype.numpy)


def _peer(
    output: tensor.Tensor, inputs: dict[tensor.Tensor, Any]
) -> tuple[str, Callable[[], object]]:
    """Return a name and a call that computes `output` with numpy, by einsum if that can do it."""
    if (words := einsum(output)) is not None:
        text, operands = words
        arrays = [inputs[t] for t in operands]
        return "numpy.einsum", lambda: np.einsum(text, *arrays, optimize=True)
    return "numpy", lambda: tensor.evaluate([output], inputs)


def einsum(output: tensor.Tensor) -> tuple[str, list[tensor.Tensor]] | None:
    """Return the arguments of numpy.einsum for a sum of products of elements of inputs.

    C[i, j] = sum(A[i, k] * B[k, j], axis=[k])  ->  "ab,bc->ac", [A, B]; None for other formulas
    """
    op = output.op
    if not isinstance(op, tensor.ComputeOp) or len(op.body) != 1:
        return None
    body = op.body[0]
    if not isinstance(body, tensor.Reduce) or body.reducer is not tensor.SUM:
        return None
    letters: dict[tir.Expr, str] = {}
    words, operands = list[str](), list[tensor.Tensor]()
    for factor in _factors(body.sources[0]):
        if not isinstance(factor, tir.Load) or not isinstance(factor.buffer, tensor.Tensor):
            return None
        axes = [i for i in factor.indices if isinstance(i, tensor.Axis)]
        if len(axes) < len(factor.indices) or not isinstance(
            factor.buffer.op, tensor.PlaceholderOp
        ):
            return None
        words.append("".join(letters.setdefault(a, LETTERS[len(letters)]) for a in axes))
        operands.append(factor.buffer)
    if any(a not in letters for a in op.axis):
        return None
    return f"{','.join(words)}->{''.join(letters[a] for a in op.axis)}", operands


def _factors(e: tir.Expr) -> Sequence[tir.Expr]:
    if isinstance(e, tir.Binary) and e.op == "mul":
        return [*_factors(e.a), *_factors(e.b)]
    return [e]
