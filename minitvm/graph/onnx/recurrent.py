"""ONNX operators that are recurrent layers: LSTM, GRU and RNN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .place import Array, Place, Value, dtype_of, shape_of
from .shapes import concat_along, cut

GATES: Mapping[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
DEFAULT: Mapping[str, tuple[str, ...]] = {  # the activations of a direction
    "LSTM": ("sigmoid", "tanh", "tanh"),
    "GRU": ("sigmoid", "tanh"),
    "RNN": ("tanh",),
}
REVERSE: Mapping[str, tuple[bool, ...]] = {  # whether each direction begins at the last time
    "forward": (False,),
    "reverse": (True,),
    "bidirectional": (False, True),
}


def layer(
    at: Place,
    x: Value,
    weight: Value,
    recurrence: Value,
    bias: Value | None = None,
    lengths: Value | None = None,
    hidden: Value | None = None,
    cell: Value | None = None,
    peephole: Value | None = None,
) -> tuple[Value, ...]:
    """Return the hidden states of all times, and the last states, of one or two directions."""
    at.only(activation_alpha=(), activation_beta=(), input_forget=0)
    batch_first, op = at.flag("layout"), at.call.op
    if batch_first:
        x = at.make("transpose", x, axes=(1, 0, 2))
    directions = REVERSE[at.attrs.get("direction", "forward")]
    steps, batch, units = _sizes(at, x, weight, recurrence, len(directions))
    lengths = None if _all_equal(lengths, steps) else lengths
    if peephole is not None and lengths is None:  # the lengths come before it
        lengths = np.full(batch, steps, np.int32)
    zeros = np.zeros((len(directions), batch, units), dtype_of(x).numpy)
    firsts = [_first(at, v, zeros, batch_first) for v in (hidden, cell)[: 1 + (op == "LSTM")]]
    rows, last = list[Value](), list[Value]()
    for d, reverse in enumerate(directions):
        first = concat_along(at, 0, [cut(at, v, {0: (d, d + 1, 1)}) for v in firsts])
        weights = [_part(at, v, d) for v in (weight, recurrence, bias, peephole)]
        inputs, attrs = _operands(at, x, weights, first, lengths, d)
        attrs |= {"reverse": True} if reverse else {}
        attrs |= {"clip": at.attrs["clip"]} if "clip" in at.attrs else {}
        states = at.make(op.lower(), *inputs, **attrs)
        rows.append(_rows(at, states, lengths, reverse))
        last.append(cut(at, states, {0: (steps, steps + 1, 1)}))
    results = [concat_along(at, 1, rows)]
    for s in range(len(firsts)):
        parts = [at.reshape(cut(at, v, {1: (s, s + 1, 1)}), (1, batch, units)) for v in last]
        results.append(concat_along(at, 0, parts))
    if batch_first:
        orders = (2, 0, 1, 3), *[(1, 0, 2)] * len(firsts)
        pairs = zip(results, orders, strict=True)
        results = [at.make("transpose", v, axes=order) for v, order in pairs]
    return tuple(results)


def _sizes(
    at: Place, x: Value, weight: Value, recurrence: Value, directions: int
) -> tuple[int, int, int]:
    """Return the numbers of steps, sequences and units; GraphError if shapes do not fit."""
    steps, batch, inputs = shape_of(x)
    units = at.attrs.get("hidden_size", shape_of(recurrence)[-1])
    wide = GATES[at.call.op] * units
    for value, columns in ((weight, inputs), (recurrence, units)):
        if shape_of(value) != (directions, wide, columns):
            expected = [directions, wide, columns]
            raise at.refusal(f"its weights are {list(shape_of(value))}, not {expected}")
    return steps, batch, units


def _all_equal(lengths: Value | None, steps: int) -> bool:
    return isinstance(lengths, np.ndarray) and bool((lengths == steps).all())


def _first(at: Place, state: Value | None, zeros: Array, batch_first: bool) -> Value:
    """Return an initial state [directions, batch, units]: `zeros` if the model gives none."""
    if state is None:
        return zeros
    return at.make("transpose", state, axes=(1, 0, 2)) if batch_first else state


def _part(at: Place, value: Value | None, d: int) -> Value | None:
    """Return the part of a weight for direction d."""
    if value is None:
        return None
    return at.reshape(cut(at, value, {0: (d, d + 1, 1)}), shape_of(value)[1:])


def _operands(
    at: Place,
    x: Value,
    weights: Sequence[Value | None],
    first: Value,
    lengths: Value | None,
    d: int,
) -> tuple[list[Value], dict[str, Any]]:
    """Return the inputs and attributes of the operator for direction d.

    weights   of the input, of the hidden state, the biases of both, and the peepholes
    """
    weight, recurrence, bias, peephole = weights
    assert weight is not None
    assert recurrence is not None
    op, (wide, units) = at.call.op, shape_of(recurrence)
    bias = np.zeros(2 * wide, dtype_of(x).numpy) if bias is None else bias
    outer, inner = cut(at, bias, {0: (0, wide, 1)}), cut(at, bias, {0: (wide, 2 * wide, 1)})
    operands = [recurrence, first]
    if op == "GRU":  # the reset gate is applied to a part of the inner bias
        operands.append(cut(at, inner, {0: (2 * units, wide, 1)}))
        zeros = np.zeros(units, dtype_of(x).numpy)
        inner = concat_along(at, 0, [cut(at, inner, {0: (0, 2 * units, 1)}), zeros])
    steps, batch, inputs = shape_of(x)
    flat = at.reshape(x, (steps * batch, inputs))
    gates = at.make("dense", flat, weight, at.make("add", outer, inner))
    operands = [at.reshape(gates, (steps, batch, wide)), *operands]
    operands += [v for v in (lengths, peephole) if v is not None]
    attrs = dict[str, Any]()
    names = _activations(at, d)
    if op == "GRU" and at.flag("linear_before_reset"):
        attrs["linear_before_reset"] = True
    if op == "RNN" and names != DEFAULT[op]:
        attrs["activation"] = names[0]
    elif names != DEFAULT[op]:
        raise at.refusal(f"its activations {', '.join(names)} are not {', '.join(DEFAULT[op])}")
    return operands, attrs


def _activations(at: Place, d: int) -> tuple[str, ...]:
    """Return the names of the activations of direction d."""
    count = len(DEFAULT[at.call.op])
    names = tuple(name.lower() for name in at.attrs.get("activations", ()))
    return names[d * count :][:count] or DEFAULT[at.call.op]


def _rows(at: Place, states: Value, lengths: Value | None, reverse: bool) -> Value:
    """Return the hidden states in the order of time, [steps, 1, batch, units].

    They are zero at times after the end of a sequence.
    """
    steps = shape_of(states)[0] - 1
    order = (steps, 0, -1) if reverse else (1, steps + 1, 1)
    rows = cut(at, states, {0: order, 1: (0, 1, 1)})
    if lengths is None:
        return rows
    times = np.arange(steps, dtype=np.int32).reshape(-1, 1, 1, 1)
    alive = at.make("less", times, at.reshape(lengths, (*shape_of(lengths), 1)))
    return at.make("where", alive, rows, np.zeros((), dtype_of(rows).numpy))
