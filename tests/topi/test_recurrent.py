"""Recurrent layers: what they compute and refuse, and the loops of their default schedule."""

from collections.abc import Callable

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, topi
from minitvm.base import ExprError
from minitvm.graph import OPERATORS


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


GATES = {"lstm": (4, 2), "gru": (3, 1), "rnn": (1, 1)}  # and states


def operands(op: str, T: int, B: int, H: int, rng) -> list[np.ndarray]:
    gates, states = GATES[op]
    shapes = [(T, B, gates * H), (gates * H, H), (states, B, H), *([(H,)] if op == "gru" else [])]
    arrays = [rng.standard_normal(shape, np.float32) for shape in shapes]
    arrays[1] /= H**0.5
    return arrays


def check(op: str, arrays: list[np.ndarray], target: str = "llvm", **options) -> None:
    inputs = [
        te.placeholder(x.shape, x.dtype.name, name=f"x{k}", constant=k == 1)
        for k, x in enumerate(arrays)
    ]
    out = OPERATORS[op].formula(*inputs, **options)
    found = np.zeros(out.shape, "float32")
    tvm.build(topi.schedule(out, target), [*inputs, out], target)(*arrays, found)
    np.testing.assert_allclose(found, OPERATORS[op].reference(*arrays, **options), 1e-5, 1e-5)


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=haswell -num-cores=1", "python"])
@pytest.mark.parametrize("op", GATES)
def test_a_layer_computes_what_numpy_does(op: str, target: str, rng) -> None:
    check(op, operands(op, 3, 5, 19, rng), target)


@pytest.mark.parametrize(("threads", "units"), [(2, 160), (3, 208), (64, 160)])
@pytest.mark.parametrize("op", GATES)
def test_each_thread_computes_a_part_of_the_units(op: str, threads: int, units: int, rng) -> None:
    check(op, operands(op, 3, 3, units, rng), f"llvm -num-cores={threads}", reverse=True)


@pytest.mark.parametrize(("units", "loops"), [(96, 0), (128, 1)])
def test_threads_share_only_steps_that_are_long_enough(units: int, loops: int) -> None:
    shapes = (8, 1, 4 * units), (4 * units, units), (2, 1, units)
    inputs = [te.placeholder(s, name=f"x{k}", constant=k == 1) for k, s in enumerate(shapes)]
    out, target = topi.lstm(*inputs), "llvm -mcpu=haswell -num-cores=2"
    text = str(tvm.lower(topi.schedule(out, target), [*inputs, out], target=target))
    assert text.count("in parallel(2)") == loops, text


@pytest.mark.parametrize("op", GATES)
def test_sequences_may_begin_at_the_end_and_end_early(op: str, rng) -> None:
    lengths = np.array([4, 0, 2], "int32")
    check(op, [*operands(op, 4, 3, 32, rng), lengths], reverse=True, clip=0.5)


def test_an_lstm_may_have_peepholes(rng) -> None:
    arrays = operands("lstm", 4, 2, 16, rng)
    check("lstm", [*arrays, np.full(2, 4, "int32"), rng.standard_normal(48, np.float32)])


@pytest.mark.parametrize("units", [16, 40])
def test_the_reset_gate_of_a_gru_may_be_applied_after_the_product(units: int, rng) -> None:
    check("gru", operands("gru", 3, 7, units, rng), linear_before_reset=True)


@pytest.mark.parametrize("activation", ["relu", "sigmoid"])
def test_a_plain_layer_has_a_choice_of_activations(activation: str, rng) -> None:
    check("rnn", operands("rnn", 3, 1, 64, rng), activation=activation)


def test_all_gates_of_some_units_are_computed_in_one_tile(golden: Callable[[str], None]) -> None:
    shapes = (1000, 1, 64), (64, 16), (2, 1, 16)
    inputs = [te.placeholder(s, name=f"x{k}", constant=k == 1) for k, s in enumerate(shapes)]
    out = topi.lstm(*inputs)
    s = topi.schedule(out, "llvm -mcpu=skylake-avx512 -num-cores=1")
    golden(str(tvm.lower(s, [*inputs, out], target="llvm -mcpu=skylake-avx512 -num-cores=1")))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        (((3, 2, 64), (64, 8), (2, 2, 8)), "there are 64 columns of the gates, not 32"),
        (((3, 2, 32), (32, 8), (1, 2, 8)), "there are 1 states, not 2"),
        (((3, 2, 32), (32, 8), (2, 3, 8)), "there are 3 sequences in the states, not 2"),
        (((2, 32), (32, 8), (2, 2, 8)), "its gates x0 are not floats of 3 dimensions, of one type"),
    ],
)
def test_operands_that_do_not_fit_are_refused(shapes, message: str) -> None:
    with pytest.raises(ExprError) as caught:
        topi.lstm(*(te.placeholder(s, name=f"x{k}") for k, s in enumerate(shapes)))
    assert str(caught.value) == f"topi.lstm: {message}"


def test_an_unknown_activation_is_refused() -> None:
    inputs = [te.placeholder(s, name="x") for s in ((3, 2, 8), (8, 8), (1, 2, 8))]
    with pytest.raises(ExprError, match="rnn: activation 'sin': it is unknown"):
        topi.rnn(*inputs, activation="sin")
