"""Recurrent layers in numpy, step by step: references for topi.lstm, topi.gru and topi.rnn."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..node import Array

Step = Callable[[Array, Array], Array]  # of the gates' input part and the states [S, B, H]
ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "relu": lambda x: np.maximum(x, 0),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "tanh": np.tanh,
}
_sigmoid = ACTIVATIONS["sigmoid"]


def _steps(gates: Array, states: Array, lengths: Array | None, reverse: bool, step: Step) -> Array:
    """Return the states after each step, the given ones first."""
    rows = [states]
    for t in reversed(range(len(gates))) if reverse else range(len(gates)):
        new = step(gates[t], rows[-1])
        if lengths is not None:
            new = np.where((t < lengths)[:, None], new, rows[-1])
        rows.append(new.astype(states.dtype))
    return np.stack(rows)


def _clipped(x: Array, clip: float) -> Array:
    return np.clip(x, -clip, clip) if clip else x


def lstm(
    gates: Array,
    weight: Array,
    states: Array,
    lengths: Array | None = None,
    peephole: Array | None = None,
    reverse: bool = False,
    clip: float = 0.0,
) -> Array:
    """Do what topi.lstm does."""
    seen = np.zeros((3, 1)) if peephole is None else peephole.reshape(3, -1)

    def step(x: Array, past: Array) -> Array:
        hidden, cell = past
        take, give, keep, new = np.split(x + hidden @ weight.T, 4, -1)
        take, keep = (_clipped(v + p * cell, clip) for v, p in ((take, seen[0]), (keep, seen[2])))
        cell = _sigmoid(keep) * cell + _sigmoid(take) * np.tanh(_clipped(new, clip))
        give = _sigmoid(_clipped(give + seen[1] * cell, clip))
        return np.stack([give * np.tanh(cell), cell])

    return _steps(gates, states, lengths, reverse, step)


def gru(
    gates: Array,
    weight: Array,
    states: Array,
    bias: Array,
    lengths: Array | None = None,
    linear_before_reset: bool = False,
    reverse: bool = False,
    clip: float = 0.0,
) -> Array:
    """Do what topi.gru does."""
    update_weight, reset_weight, hidden_weight = np.split(weight, 3)

    def step(x: Array, past: Array) -> Array:
        (hidden,) = past
        x_update, x_reset, x_hidden = np.split(x, 3, -1)
        update = _sigmoid(_clipped(x_update + hidden @ update_weight.T, clip))
        reset = _sigmoid(_clipped(x_reset + hidden @ reset_weight.T, clip))
        if linear_before_reset:
            inner = reset * (hidden @ hidden_weight.T + bias)
        else:
            inner = (reset * hidden) @ hidden_weight.T + bias
        new = np.tanh(_clipped(x_hidden + inner, clip))
        return ((1 - update) * new + update * hidden)[None]

    return _steps(gates, states, lengths, reverse, step)


def rnn(
    gates: Array,
    weight: Array,
    states: Array,
    lengths: Array | None = None,
    activation: str = "tanh",
    reverse: bool = False,
    clip: float = 0.0,
) -> Array:
    """Do what topi.rnn does."""

    def step(x: Array, past: Array) -> Array:
        return ACTIVATIONS[activation](_clipped(x + past @ weight.T, clip))

    return _steps(gates, states, lengths, reverse, step)
