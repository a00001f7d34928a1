"""What students hand back is compiled and run behind the wall, in a process without answers."""

import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.edu import apart
from minitvm.edu.apart import CodeProcess, code_process, end_code_processes
from minitvm.edu.item import AnswerError
from minitvm.edu.sandbox import tier
from minitvm.edu.schedules import CORE, random_inputs, results_of


@pytest.fixture
def process():
    p = CodeProcess()
    yield p
    p.close()


def doubled(n: int = 8) -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((n,), name="A")
    B = te.compute((n,), lambda i: A[i] * 2.0, name="B")
    return te.create_schedule(B.op), [A, B]


def endless() -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((1,), name="A")
    k, m = (te.reduce_axis((0, 1 << 24), name=name) for name in "km")
    B = te.compute((1,), lambda i: te.sum(te.sin(A[i] + k + m), axis=(k, m)), name="B")
    return te.create_schedule(B.op), [A, B]


def run(process: CodeProcess, s: te.Schedule, tensors: list[te.Tensor]) -> np.ndarray:
    inputs = random_inputs(tensors, np.random.default_rng(0))
    (result,) = process.run(s, tensors, inputs, CORE)
    return result


def machine(process: CodeProcess, ir: str, outputs: str = "int64") -> int:
    """Run hand-written IR in the process, as if a mistake in our compiler had let it through."""
    argument = {"kind": "output", "name": "B", "dtype": outputs, "shape": [1]}
    request = {
        "options": {"cpu": "", "features": "", "unroll": True},
        "job": {"entry": "f"},
        "arguments": [argument],
    }
    reply = process._asked(request, [ir.encode()])
    return int(np.frombuffer(reply.blobs[0], outputs)[0])


def test_a_schedule_is_run_and_timed(process: CodeProcess) -> None:
    s, (A, B) = doubled(1000)
    a = np.arange(1000, dtype="float32")
    (b,) = process.run(s, [A, B], {A: a}, CORE)
    np.testing.assert_array_equal(b, 2 * a)
    assert 0 < process.seconds(3) < 1


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_elements_that_are_not_stored_are_wrong(process: CodeProcess, dtype: str) -> None:
    A = te.placeholder((8,), dtype, name="A")
    B = te.compute((8,), lambda i: A[i] * 0, name="B")
    s = te.create_schedule(B.op)
    s[B].set_store_predicate(s[B].op.axis[0] < 4)
    result = run(process, s, [A, B])
    assert (result == 0).tolist() == [True] * 4 + [False] * 4


def test_a_crash_is_the_answers_and_another_process_goes_on(process: CodeProcess) -> None:
    trap = (
        "declare void @llvm.trap()\ndefine i32 @f(i8* %b) {\ncall void @llvm.trap()\nret i32 0\n}"
    )
    with pytest.raises(AnswerError, match=r"crash.*the compiled program: it was ended by signal"):
        machine(process, trap)
    assert run(process, *doubled()).shape == (8,)


def test_a_program_that_does_not_end_is_ended(
    process: CodeProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(process, *doubled())
    monkeypatch.setattr(apart, "SECONDS", 1.0)
    with pytest.raises(AnswerError, match=r"timeout.*no end after 1 s"):
        run(process, *endless())


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_machine_code_is_behind_the_wall(process: CodeProcess) -> None:
    if tier() == "fence":
        pytest.skip("this machine has no kernel rules")
    run(process, *doubled())
    worker = process._worker
    assert worker is not None
    assert worker._process is not None
    around = psutil.Process(worker._process._popen.pid)
    inside = [around, *around.children(recursive=True)][-1]
    lines = Path(f"/proc/{inside.pid}/status").read_text().splitlines()
    status = {name: value.split() for name, _, value in (line.partition(":") for line in lines)}
    assert status["Seccomp"] == ["2"]
    assert status["NoNewPrivs"] == ["1"]
    if tier() == "namespaces":
        assert status["Uid"][0] != "0"
        assert not int(status["CapEff"][0], 16)


def test_the_grader_loads_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(*args: object, **options: object) -> None:
        raise AssertionError("compiled code of a student was loaded here")

    monkeypatch.setattr(tvm.runtime.loading, "load_native", loaded)
    monkeypatch.setattr(tvm.runtime.jit, "load_object", loaded)
    s, tensors = doubled()
    inputs = random_inputs(tensors, np.random.default_rng(0))
    (b,) = results_of(s, tensors, inputs, CORE)
    np.testing.assert_array_equal(b, 2 * inputs[tensors[0]])
    process = code_process()
    assert process._worker is not None
    end_code_processes()
    assert process._worker is None
