"""Recurrent layers: lstm, gru and rnn, each one kernel with a loop over time (te.scan).

The input part of the gates of all times is one matrix product, which the caller computes before:
gates[t] = x[t] @ W.T + bias. A step multiplies the hidden state by the recurrent weights and
applies the activations. The orders of gates and the formulas are those of ONNX.

The result of all three has the states after every step: result[t + 1, 0] is the hidden state after
step t, and result[t + 1, 1] the cell state of an LSTM; result[0] has the first states.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

from minitvm import te, tir
from minitvm.base import ExprError, Reason, check_kind, raise_first

from .operands import check_vector, checks_arguments

__all__ = ["gru", "lstm", "rnn"]

RECURRENT = "recurrent"  # the tag of the stage that computes the states after a step
CELL = "cell"  # the tag of stages between the gates and the states
PRODUCT = "recurrent_product"  # the tag of products with the recurrent weights
Element: TypeAlias = Callable[[Any, Any, Any], Any]  # of the row t, the batch and the unit
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "relu": lambda x: te.max(x, 0),
    "sigmoid": te.sigmoid,
    "tanh": te.tanh,
}


@dataclass(frozen=True, slots=True)
class _Layer:
    """The operands of a recurrent layer, and the placeholder of the states computed so far.

    Row t of the states is the one after step t - 1. That step reads the gates of time t - 1, or
    with `reverse` those of the same time counted from the end.
    """

    gates: te.Tensor
    weight: te.Tensor
    first: te.Tensor
    rows: te.Tensor
    lengths: te.Tensor | None
    reverse: bool
    clip: float

    def time(self, t: Any) -> Any:
        """Return the time of the step that computes row t; for row 0, any time in bounds."""
        steps = self.gates.shape[0]
        return te.min(steps - t, steps - 1) if self.reverse else te.max(t - 1, 0)

    def past(self, state: int) -> Element:
        """Return the elements of a state before the step."""
        return lambda t, b, j: self.rows[t - 1, state, b, j]

    def product(self, gates: range, read: Element) -> te.Tensor:
        """Multiply `read`, the hidden state or a stage, by the weights of some of the gates."""
        length, _, batch, units = self.rows.shape
        k = te.reduce_axis((0, units), "k")

        def body(t: Any, b: Any, q: Any, j: Any) -> Any:
            weight = self.weight[(q + gates.start) * units + j, k]
            return te.sum(read(t, b, k) * weight, axis=k)

        shape = length, batch, len(gates), units
        return te.compute(shape, body, name="T_product", tag=PRODUCT)

    def input(self, gate: int) -> Element:
        """Return the input part of a gate."""
        units = self.rows.shape[-1]
        return lambda t, b, j: self.gates[self.time(t), b, gate * units + j]

    def clipped(self, x: Any) -> Any:
        """Limit the argument of a gate's activation to -clip .. clip."""
        return te.min(te.max(x, -self.clip), self.clip) if self.clip else x

    def stage(self, element: Element) -> te.Tensor:
        """Return a stage between the gates and the states."""
        length, _, batch, units = self.rows.shape
        return te.compute((length, batch, units), element, name="T_cell", tag=CELL)

    def states(self, *new: Element) -> te.Tensor:
        """Return all states; `new` are those after a step, unless a sequence has ended."""

        def body(t: Any, s: Any, b: Any, j: Any) -> Any:
            value = new[-1](t, b, j)
            for n, element in enumerate(new[:-1]):
                value = te.if_then_else(s == n, element(t, b, j), value)
            if self.lengths is None:
                return value
            return te.if_then_else(self.time(t) < self.lengths[b], value, self.rows[t - 1, s, b, j])

        def first_row(t: Any, s: Any, b: Any, j: Any) -> Any:
            del t
            return self.first[s, b, j]

        shape = self.rows.shape
        first = te.compute((1, *shape[1:]), first_row, name="T_first")
        update = te.compute(shape, body, name="T_states", tag=RECURRENT)
        return te.scan(first, update, self.rows, name="T_recurrent")


def _layer(
    name: str,
    operands: tuple[te.Tensor, te.Tensor, te.Tensor, te.Tensor | None],
    counts: tuple[int, int],
    reverse: bool,
    clip: float,
) -> _Layer:
    """Return a layer; raise ExprError unless its operands fit (number of gates, of states)."""
    gates, weight, first, lengths = operands
    what = f"topi.{name}"
    check_kind(f"{what}: clip", clip, Real, fix="clip=0.0")
    raise_first(ExprError, what, _about_operands(gates, weight, first, counts))
    if lengths is not None:
        check_vector(what, lengths, first.shape[1])
    rows = te.scan_state((gates.shape[0] + 1, *first.shape), str(gates.dtype), "T_state")
    return _Layer(gates, weight, first, rows, lengths, reverse, float(clip))


def _about_operands(
    gates: te.Tensor, weight: te.Tensor, first: te.Tensor, counts: tuple[int, int]
) -> Sequence[Reason]:
    """Return the reason why shapes or types of operands do not fit; [] if they do."""
    columns, states = counts
    units = weight.shape[-1] if weight.ndim == 2 else 0
    shapes = (gates, 3, "gates"), (weight, 2, "weight"), (first, 3, "states")
    for t, rank, role in shapes:
        if t.ndim != rank or not t.dtype.is_float or t.dtype is not gates.dtype:
            return [(f"its {role} {t.name} are not floats of {rank} dimensions, of one type",)]
    wanted = (
        (gates.shape[2], tir.mul(units, columns), "columns of the gates"),
        (weight.shape[0], tir.mul(units, columns), "rows of the weight"),
        (first.shape[0], states, "states"),
        (first.shape[1], gates.shape[1], "sequences in the states"),
        (first.shape[2], units, "units in the states"),
    )
    return [
        (f"there are {tir.text(size)} {role}, not {tir.text(expected)}",)
        for size, expected, role in wanted
        if not tir.prove_equal(size, expected)
    ]


@checks_arguments
def lstm(
    gates: te.Tensor,
    weight: te.Tensor,
    states: te.Tensor,
    lengths: te.Tensor | None = None,
    peephole: te.Tensor | None = None,
    reverse: bool = False,
    clip: float = 0.0,
) -> te.Tensor:
    """Compute a layer of long short-term memory (Hochreiter and Schmidhuber 1997).

    gates     [T, B, 4 * H]: x @ W.T + bias for the gates input, output, forget and cell
    weight    [4 * H, H]: the recurrent weights of the same gates
    states    [2, B, H]: the hidden and the cell state before the first step
    lengths   int[B]: the length of each sequence; its states do not change at later times
    peephole  [3 * H]: weights of the cell state in the gates input, output and forget
    reverse   whether the last time is the first step
    clip      limits the arguments of the gates' activations to -clip .. clip; 0 for no limit

    Returns the states [T + 1, 2, B, H].
    """
    layer = _layer("lstm", (gates, weight, states, lengths), (4, 2), reverse, clip)
    units = weight.shape[1]
    if peephole is not None:
        check_vector("topi.lstm", peephole, tir.mul(units, 3))
    product, past = layer.product(range(4), layer.past(0)), layer.past(1)

    def gate(n: int, t: Any, b: Any, j: Any, seen: Element | None = None) -> Any:
        x = product(t, b, n, j) + layer.input(n)(t, b, j)
        if peephole is not None and seen is not None:
            x = x + peephole(n * units + j) * seen(t, b, j)
        return layer.clipped(x)

    def new_cell(t: Any, b: Any, j: Any) -> Any:
        keep, take = te.sigmoid(gate(2, t, b, j, past)), te.sigmoid(gate(0, t, b, j, past))
        return keep * past(t, b, j) + take * te.tanh(gate(3, t, b, j))

    cell = layer.stage(new_cell)

    def hidden(t: Any, b: Any, j: Any) -> Any:
        return te.sigmoid(gate(1, t, b, j, cell)) * te.tanh(cell(t, b, j))

    return layer.states(hidden, cell)


@checks_arguments
def gru(
    gates: te.Tensor,
    weight: te.Tensor,
    states: te.Tensor,
    bias: te.Tensor,
    lengths: te.Tensor | None = None,
    linear_before_reset: bool = False,
    reverse: bool = False,
    clip: float = 0.0,
) -> te.Tensor:
    """Compute a layer of gated recurrent units (Cho et al. 2014).

    gates    [T, B, 3 * H]: x @ W.T + bias for the gates update, reset and hidden
    weight   [3 * H, H]: the recurrent weights of the same gates
    states   [1, B, H]: the hidden state before the first step
    bias     [H]: the bias of the recurrent part of the hidden gate
    linear_before_reset
             whether the reset gate is applied after the product with the recurrent weights, as in
             torch and cuDNN, or to the state before it

    The other arguments are those of `lstm`. Returns the states [T + 1, 1, B, H].
    """
    layer = _layer("gru", (gates, weight, states, lengths), (3, 1), reverse, clip)
    check_vector("topi.gru", bias, weight.shape[1])
    past, wide = layer.past(0), 3 if linear_before_reset else 1
    first = layer.product(range(wide), past)
    second = first if linear_before_reset else layer.product(range(1, 2), past)

    def gate(n: int, t: Any, b: Any, j: Any) -> Any:
        product = first(t, b, n, j) if n < wide else second(t, b, n - 1, j)
        return te.sigmoid(layer.clipped(product + layer.input(n)(t, b, j)))

    def reset(t: Any, b: Any, j: Any) -> Any:
        return gate(1, t, b, j) * past(t, b, j)

    third = None if linear_before_reset else layer.product(range(2, 3), layer.stage(reset))

    def hidden(t: Any, b: Any, j: Any) -> Any:
        if third is None:
            inner = gate(1, t, b, j) * (first(t, b, 2, j) + bias(j))
        else:
            inner = third(t, b, 0, j) + bias(j)
        new = te.tanh(layer.clipped(inner + layer.input(2)(t, b, j)))
        update = gate(0, t, b, j)
        return (1 - update) * new + update * past(t, b, j)

    return layer.states(hidden)


@checks_arguments
def rnn(
    gates: te.Tensor,
    weight: te.Tensor,
    states: te.Tensor,
    lengths: te.Tensor | None = None,
    activation: str = "tanh",
    reverse: bool = False,
    clip: float = 0.0,
) -> te.Tensor:
    """Compute a plain recurrent layer (Elman 1990): h = activation(gates + h @ weight.T).

    gates    [T, B, H]: x @ W.T + bias
    weight   [H, H]: the recurrent weights
    states   [1, B, H]: the hidden state before the first step
    activation
             "tanh", "sigmoid" or "relu"

    The other arguments are those of `lstm`. Returns the states [T + 1, 1, B, H].
    """
    layer = _layer("rnn", (gates, weight, states, lengths), (1, 1), reverse, clip)
    if activation not in ACTIVATIONS:
        raise ExprError(
            f"topi.rnn: activation {activation!r}", "it is unknown", str([*ACTIVATIONS])
        )
    product = layer.product(range(1), layer.past(0))

    def hidden(t: Any, b: Any, j: Any) -> Any:
        return ACTIVATIONS[activation](layer.clipped(product(t, b, 0, j) + layer.input(0)(t, b, j)))

    return layer.states(hidden)
