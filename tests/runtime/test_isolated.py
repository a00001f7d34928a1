"""LLVM in a process of its own: the same code comes out, and aborts become errors."""

import sys
from collections.abc import Iterator

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ArgumentError, BuildError
from minitvm.runtime import isolated
from minitvm.runtime.isolated import IsolatedSource
from minitvm.runtime.jit import compile_ir

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals")
# llvmlite has no parser for assembly
ABORTS = 'define void @f() {\n call void asm "nonsense", ""()\n ret void\n}'


@pytest.fixture(scope="module", autouse=True)
def no_process_is_left() -> Iterator[None]:
    yield
    isolated.clear()


def twice() -> tuple[te.Schedule, list[te.Tensor]]:
    A = te.placeholder((8,), name="A")
    B = te.compute((8,), lambda i: A[i] * 2, name="B")
    s = te.create_schedule(B.op)
    s[B].parallel(s[B].op.axis[0])  # calls the thread pool of this process
    return s, [A, B]


def test_an_isolated_build_is_the_same_function() -> None:
    s, args = twice()
    f, g = tvm.build(s, args), tvm.build(s, args, isolate=True)
    a, b = np.arange(8, dtype="float32"), np.zeros(8, "float32")
    g(a, b)
    assert b.tolist() == (2 * a).tolist()
    assert f.source("asm") == g.source("asm")
    assert f.source("ll") == g.source("ll")


def test_an_isolated_build_can_be_exported(tmp_path: object) -> None:
    s, args = twice()
    tvm.build(s, args, isolate=True).export(f"{tmp_path}/f")
    a, b = np.ones(8, "float32"), np.zeros(8, "float32")
    tvm.load(f"{tmp_path}/f")(a, b)
    assert b.tolist() == [2.0] * 8


def test_an_abort_of_llvm_is_an_error_and_the_next_build_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    s, args = twice()
    with monkeypatch.context() as m:
        m.setattr("minitvm.codegen.llvm.target.emit_llvm", lambda *_, **__: ABORTS)
        with pytest.raises(BuildError, match="ended by signal 6") as caught:
            tvm.build(s, args, isolate=True)
    what, why, fix = caught.value.args
    assert what == "LLVM failed"
    assert "LLVM ERROR: Inline asm not supported" in why
    assert "another schedule" in fix
    tvm.build(s, args, isolate=True)


def test_a_refusal_is_the_one_of_a_build_in_this_process() -> None:
    with pytest.raises(BuildError) as here:
        compile_ir("nonsense")
    with pytest.raises(BuildError) as there:
        IsolatedSource("nonsense", "", "").loaded()
    assert there.value.args == here.value.args


def test_a_function_that_is_missing_is_found_before_linking() -> None:
    text = "declare void @missing()\ndefine void @f() {\n call void @missing()\n ret void\n}"
    with pytest.raises(BuildError, match="call of 'missing'"):
        IsolatedSource(text, "", "").loaded()


def test_what_takes_too_long_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolated, "SECONDS", 0.0)
    with pytest.raises(BuildError, match="no answer within 0 s"):
        IsolatedSource("define void @f() {\n ret void\n}", "", "").loaded()


@pytest.mark.parametrize("target", ["python", "numba", "vta"])
def test_only_llvm_works_in_another_process(target: str) -> None:
    s, args = twice()
    with pytest.raises(ArgumentError, match=f"isolate=True for target '{target}'"):
        tvm.build(s, args, target, isolate=True)
