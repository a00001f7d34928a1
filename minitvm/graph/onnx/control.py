"""ONNX operators with subgraphs, where constants or shapes decide what is computed."""

from __future__ import annotations

import math

import numpy as np

from .place import Place, Value, shape_of


def if_(at: Place, condition: Value) -> tuple[Value, ...]:
    """If: the branch that a constant condition selects."""
    is_true = bool(at.constant(condition, "condition").item())
    return at.run(at.attrs["then_branch" if is_true else "else_branch"], ())


def loop(
    at: Place, count: Value | None, go: Value | None = None, *state: Value
) -> tuple[Value, ...]:
    """Loop, unrolled; a constant count and constant conditions decide how often it runs."""
    body = at.attrs["body"]
    most = math.inf if count is None else at.constant(count, "count").item()
    values, rows = list(state), list[list[Value]]()
    while len(rows) < most and (go is None or at.constant(go, "condition").any()):
        condition = np.asarray(True) if go is None else go
        go, *results = at.run(body, (np.asarray(len(rows), np.int64), condition, *values))
        values = results[: len(state)]
        rows.append(results[len(state) :])
    if not rows and len(body.outputs) > len(state) + 1:
        raise at.refusal("it never runs, so that some of its outputs are empty")
    return (*values, *(_stacked(at, column, 0) for column in zip(*rows, strict=True)))


def scan(at: Place, *inputs: Value) -> tuple[Value, ...]:
    """Scan, unrolled: its body runs once for each slice of the last inputs."""
    body, count = at.attrs["body"], at.attrs["num_scan_inputs"]
    state, sequences = list(inputs[: len(inputs) - count]), inputs[len(inputs) - count :]
    outputs = len(body.outputs) - len(state)
    axes, ways, out_axes, out_ways = (
        at.attrs.get(f"scan_{key}", (0,) * n)
        for key, n in (
            ("input_axes", count),
            ("input_directions", count),
            ("output_axes", outputs),
            ("output_directions", outputs),
        )
    )
    axes = [at.axis(d, len(shape_of(x))) for d, x in zip(axes, sequences, strict=True)]
    lengths = {shape_of(x)[d] for d, x in zip(axes, sequences, strict=True)}
    if len(lengths) != 1:
        raise at.refusal(f"its sequences have {sorted(lengths)} elements")
    rows: list[list[Value]] = []
    for k in range(lengths.pop()):
        slices = [
            _slice(at, x, d, -1 - k if back else k)
            for x, d, back in zip(sequences, axes, ways, strict=True)
        ]
        results = list(at.run(body, (*state, *slices)))
        state = results[: len(state)]
        rows.append(results[len(state) :])
    columns = zip(zip(*rows, strict=True), out_axes, out_ways, strict=True)
    return (*state, *(_stacked(at, c[::-1] if back else c, d) for c, d, back in columns))


def _slice(at: Place, x: Value, axis: int, k: int) -> Value:
    """Return element k of an axis, which may count from the end."""
    shape = shape_of(x)
    k %= shape[axis]
    begin = [k if d == axis else 0 for d in range(len(shape))]
    end = [k + 1 if d == axis else n for d, n in enumerate(shape)]
    row = at.make("strided_slice", x, begin=begin, end=end, strides=[1] * len(shape))
    return at.reshape(row, (*shape[:axis], *shape[axis + 1 :]))


def _stacked(at: Place, values: tuple[Value, ...], axis: int) -> Value:
    """Join values along a new axis."""
    rank = len(shape_of(values[0])) + 1
    axis = at.axis(axis, rank)
    rows = [at.reshape(v, (*shape_of(v)[:axis], 1, *shape_of(v)[axis:])) for v in values]
    return rows[0] if len(rows) == 1 else at.make("concatenate", *rows, axis=axis)
