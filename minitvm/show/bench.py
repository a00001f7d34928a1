"""Time a program beside numpy."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from minitvm import driver, tensor, testing, tir, topi
from minitvm.base import MeasureError

from .stages import Request

ROUNDS, REPEAT = 9, 5
PAUSE = 0.02  # seconds; threads wait for their next work in a loop, for a shorter time
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def bench(r: Request) -> str:
    """Return a table with the times of a program and of numpy, and the ratio of paired rounds."""
    if r.target.unit == "cycles":
        what, fix = f"--bench on {r.target}", "--target llvm"
        raise MeasureError(what, "a simulation has no times that mean something", fix)
    rng, tensors = np.random.default_rng(0), r.program.tensors
    arrays = [_random(t, rng) for t in tensors]
    f = driver.build(r.schedule, tensors, target=r.target)
    name, peer = _peer(r.program.output, dict(zip(tensors, arrays[:-1], strict=False)))
    runs: dict[str, Callable[[], object]] = {"minitvm": lambda: f(*arrays), name: peer}
    rounds = [{program: _seconds(run) for program, run in runs.items()} for _ in range(ROUNDS)]
    ratios = [times[name] / times["minitvm"] for times in rounds]
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    work = topi.flops([r.program.output])
    lines = list[str]()
    for program in runs:
        seconds = statistics.median(times[program] for times in rounds)
        lines.append(f"{program:16}{seconds * 1e3:10.4f} ms{work / seconds / 1e9:10.2f} GFLOP/s")
    threads = r.target.num_cores
    lines.append(f"{middle:.2f} x numpy (middle half of {ROUNDS} rounds: {low:.2f} to {high:.2f})")
    lines.append(
        f"minitvm: {threads} thread{'s' if threads > 1 else ''}; numpy: as many as its library uses"
    )
    return "\n".join(lines)


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
