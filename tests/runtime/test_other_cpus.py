"""Code for a CPU that this machine is not: it is compiled, printed and stored, but never runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph, te, tune
from minitvm.base import ArgumentError, BuildError, host
from minitvm.runtime import isolated

pytestmark = pytest.mark.skipif("sse2" not in host().features, reason="about x86")
WIDE = "llvm -num-cores=1 -mcpu=skylake-avx512"
SAYS = r"it may use .*avx512f.*, which this CPU \(haswell\) does not have"


@pytest.fixture(autouse=True)
def haswell(as_cpu: Callable[[str], None]) -> None:
    """Make this machine a CPU without AVX-512."""
    as_cpu("haswell")


def double(target: str, isolate: bool = False) -> tvm.runtime.Function:
    """Return a function that doubles 64 numbers."""
    A = te.placeholder((64,), name="A")
    B = te.compute((64,), lambda i: A[i] * 2.0, name="B")
    s = te.create_schedule(B.op)
    s[B].vectorize(s[B].split(B.op.axis[0], factor=16)[1])
    return tvm.build(s, [A, B], target, isolate=isolate)


def network() -> graph.Graph:
    """Return a layer with weights, which are packed when they are set."""
    b = graph.Builder("layer")
    x, w = b.input("x", (8, 32)), b.param("w", np.ones((48, 32), "float32"))
    return b.graph(b.relu(b.dense(x, w)))


a, b = np.ones((2, 64), "float32")


@pytest.mark.parametrize("target", ["llvm", "llvm -mcpu=x86-64", "llvm -mcpu=haswell", "python"])
def test_code_for_features_of_this_machine_runs(target: str) -> None:
    double(target)(a, b)
    assert (b == 2).all()


@pytest.mark.parametrize("isolate", [False, True])
def test_code_for_this_machine_has_no_other_features_wherever_it_is_compiled(isolate: bool) -> None:
    isolated.clear()  # a process that is compiling already has the facts of the real CPU
    text = double("llvm", isolate).source("asm")
    assert "ymm" in text
    assert "zmm" not in text


@pytest.mark.parametrize(
    "run", [lambda f: f(a, b), lambda f: f.time_evaluator(number=1)(a, b)], ids=["call", "time"]
)
@pytest.mark.parametrize("target", [WIDE, "llvm -mcpu=haswell -mattr=+avx512f"])
def test_code_for_features_that_are_missing_is_printed_but_not_run(
    target: str, run: Callable[[tvm.runtime.Function], Any]
) -> None:
    f = double(target)
    assert "mm" in f.source("asm")
    with pytest.raises(BuildError, match=SAYS):
        run(f)


def test_it_is_stored_but_not_loaded(tmp_path: Path) -> None:
    double(WIDE).export(tmp_path / "f.mtvm")
    with pytest.raises(BuildError, match=SAYS):
        tvm.load(tmp_path / "f.mtvm")


def test_a_network_is_compiled_but_not_run() -> None:
    module = graph.compile(network(), WIDE)
    x = np.ones((8, 32), "float32")
    for run in (module, module.profile):
        with pytest.raises(BuildError, match=SAYS):
            run(x)


def test_it_is_not_measured() -> None:
    f = double(WIDE)
    with pytest.raises(ArgumentError, match=SAYS):
        tune.Measurer(f.func, WIDE)
