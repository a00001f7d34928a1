"""Calls of target "cuda", with numba's simulator as the GPU: no GPU has run them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import minitvm as tvm
from minitvm.base import BuildError

from .programs import ragged

CALLS = """
import numpy as np
import minitvm as tvm
from minitvm import te
from minitvm.base import BuildError, MeasureError
from tests.codegen.gpu.programs import PROGRAMS, bind

for name in ("ragged", "two kernels", "halo", "directly"):
    program = PROGRAMS[name]()
    f = tvm.build(program.schedule, program.args, target="cuda")
    arrays = program.arrays()
    for a in arrays:
        a.flags.writeable = False
    expected = program.meaning(*arrays)
    out = np.full(expected.shape, np.nan, np.float32)
    f(*arrays, out)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    out[:] = np.nan
    try:
        f.time_evaluator(number=2)(*arrays, out)
    except MeasureError as e:
        assert "numba's simulator has no clock" in str(e)
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    try:
        f.source("ptx")
    except BuildError as e:
        assert "numba's simulator is on" in str(e)
    print(name)

n = te.var("n")
A = te.placeholder((n,), name="A")
B = te.compute((n,), lambda i: A[i] * 2, name="B")
s = te.create_schedule(B.op)
outer, inner = s[B].split(B.op.axis[0], 32)
bind(s, B, bx=outer, tx=inner)
f = tvm.build(s, [A, B], target="cuda")
for size in (0, 1, 77):
    a, b = np.arange(size, dtype=np.float32), np.zeros(size, np.float32)
    f(a, b)
    np.testing.assert_array_equal(b, 2 * a)
print("symbolic")
"""


def test_a_call_copies_arrays_to_the_device_and_back() -> None:
    run = subprocess.run(
        [sys.executable, "-c", CALLS],
        env=os.environ | {"NUMBA_ENABLE_CUDASIM": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout.splitlines() == ["ragged", "two kernels", "halo", "directly", "symbolic"]


def test_without_a_gpu_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("minitvm.runtime.gpu.has_device", lambda: False)
    program = ragged()
    f = tvm.build(program.schedule, program.args, target="cuda")
    arrays = [*program.arrays(), *program.arrays()]
    with pytest.raises(BuildError, match="this machine has no GPU that minitvm can use"):
        f.time_evaluator()(*arrays)
