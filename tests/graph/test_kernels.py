"""Kernels: compiled once for each text, kept in memory and in files."""

import os
import time
import warnings
from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import graph, te, topi
from minitvm.base import BuildError
from minitvm.graph import cache, kernels

SCALE = """\
def scale(p0: float32[8, 6], p1: param[float32[6]]):
  y = multiply(p0, p1)
  z = add(y, b={})
  return z"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Start without any kernel."""
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setattr(kernels, "_known", kernels._known.__class__())
    return tmp_path


def scale(by: float = 1.0) -> graph.Graph:
    return graph.parse(SCALE.format(by))


def one(body: graph.Graph, *options: Any, **more: Any) -> tvm.runtime.Function:
    """The function of one kernel."""
    (function,) = kernels.compiled([body], *options, **more)
    return function


def ran(function: tvm.runtime.Function) -> np.ndarray:
    out = np.empty((8, 6), "float32")
    function(np.ones((8, 6), "float32"), np.full(6, 2, "float32"), out)
    return out


def test_parameters_of_a_kernel_are_constants() -> None:
    inputs, out = kernels.tensors(scale())
    assert [t.name for t in inputs] == ["p0", "p1"]
    assert out.shape == (8, 6)
    assert [b.name for b in one(scale()).func.constants] == ["p1"]


def test_a_kernel_computes_its_body(folder) -> None:
    f = one(scale(3.0))
    assert f.name == "scale"
    np.testing.assert_array_equal(ran(f), 5)


def test_kernels_that_print_the_same_are_compiled_once(folder) -> None:
    seen = []
    first, second, other = kernels.compiled(
        [scale(), scale(), scale(2.0)], watch=lambda *state: seen.append(state)
    )
    assert first is second
    assert first is not other
    assert seen == [("scale", 1, 2), ("scale", 2, 2)]
    assert one(scale()) is first


def test_another_target_is_another_kernel(folder) -> None:
    plain = one(scale(), "python")
    assert plain is not one(scale())
    np.testing.assert_array_equal(ran(plain), 3)
    assert len(list(folder.iterdir())) == 1  # only machine code is worth a file


def test_a_kernel_is_read_from_its_file(folder) -> None:
    one(scale())
    kernels._known.clear()
    seen = []
    again = kernels.compiled([scale()], watch=lambda *state: seen.append(state))
    np.testing.assert_array_equal(ran(again[0]), 3)
    assert not seen


def test_a_damaged_file_is_replaced(folder) -> None:
    one(scale())
    kernels._known.clear()
    (file,) = folder.iterdir()
    file.write_bytes(file.read_bytes()[:-9])
    np.testing.assert_array_equal(ran(one(scale())), 3)
    assert cache.read(file, tvm.target.Target("llvm")) is not None


def test_a_kernel_of_another_target_is_not_used(folder) -> None:
    one(scale())
    (file,) = folder.iterdir()
    one(scale(), "python").export(file)
    assert cache.read(file, tvm.target.Target("llvm")) is None
    assert cache.read(file, tvm.target.Target("python")) is not None


def test_a_file_that_others_can_write_is_skipped_with_one_warning(folder) -> None:
    bodies = [scale(), scale(2.0)]
    kernels.compiled(bodies)
    kernels._known.clear()
    for file in folder.iterdir():
        file.chmod(0o666)
    compiled = []
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("default")
        kernels.compiled(bodies, watch=lambda *state: compiled.append(state[0]))
    assert compiled == ["scale", "scale"]
    assert [str(w.message) for w in seen] == [
        f"{folder} has kernels that other users may have written; they are not used"
    ]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs two users")
def test_the_kernel_of_another_user_is_not_run(folder) -> None:
    one(scale())
    kernels._known.clear()
    (file,) = folder.iterdir()
    os.chown(file, 65534, 65534)
    with pytest.warns(UserWarning, match="other users"):
        np.testing.assert_array_equal(ran(one(scale())), 3)
    assert file.stat().st_uid == 0  # replaced by ours


@pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")
def test_a_new_folder_is_private(folder, monkeypatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, str(folder / "new"))
    one(scale())
    assert (folder / "new").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_written_is_no_error(folder, monkeypatch) -> None:
    (folder / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(folder / "file" / "inner"))
    np.testing.assert_array_equal(ran(one(scale())), 3)


def test_an_empty_variable_switches_files_off(folder, monkeypatch) -> None:
    monkeypatch.setenv(cache.VARIABLE, "")
    np.testing.assert_array_equal(ran(one(scale())), 3)
    assert not list(folder.iterdir())


def test_many_kernels_are_compiled_by_other_processes(folder) -> None:
    bodies = [scale(float(n)) for n in range(kernels.MAX_HERE + 2)]
    seen = []
    functions = kernels.compiled(bodies, watch=lambda *state: seen.append(state[1:]))
    assert [ran(f)[0, 0] for f in functions] == [2.0 + n for n in range(len(bodies))]
    assert seen == [(n + 1, len(bodies)) for n in range(len(bodies))]


def test_workers_also_take_a_chosen_schedule(folder) -> None:
    def pick(outputs: list[te.Tensor], target: tvm.target.Target) -> te.Schedule:
        s = te.create_schedule([t.op for t in outputs])
        s[outputs[0]].unroll(s[outputs[0]].op.axis[0])
        return s

    bodies = [scale(float(n)) for n in range(kernels.MAX_HERE + 2)]
    functions = kernels.compiled(bodies, pick=pick)
    assert [ran(f)[0, 0] for f in functions] == [2.0 + n for n in range(len(bodies))]
    assert functions[0] is not one(bodies[0])
    assert functions[0] is one(bodies[0], pick=pick)
    with topi.dispatch.using(pick):
        assert functions[0] is one(bodies[0])


def test_a_kernel_that_cannot_be_compiled_is_an_error(folder) -> None:
    wide = graph.parse("def f(p0: float32[8]):\n  y = cast(p0, dtype='float16')\n  return y")
    target = "llvm -mattr=-f16c,-avx512f,-avx512fp16"
    with pytest.raises(BuildError, match="float16"):
        kernels.compiled([wide, *(scale(float(n)) for n in range(8))], target)


def test_memory_keeps_the_kernels_used_last(folder, monkeypatch) -> None:
    monkeypatch.setattr(kernels, "MAX_KERNELS", 2)
    first = one(scale(0.0))
    one(scale(1.0))
    assert one(scale(0.0)) is first
    one(scale(2.0))
    assert one(scale(0.0)) is first
    assert len(kernels._known) == 2


def test_the_files_used_last_are_kept(folder) -> None:
    files = [
        folder / f"{cache.key_of(str(n), tvm.target.Target('llvm'), '')}.mtvm" for n in range(4)
    ]
    for n, file in enumerate([*files, folder / "thesis.mtvm"]):
        file.write_bytes(bytes(100))
        os.utime(file, (time.time(), time.time() - 10 * n))
    cache.trim(250)
    assert set(folder.iterdir()) == {*files[:2], folder / "thesis.mtvm"}


def test_clear_forgets_all_kernels(folder) -> None:
    first = one(scale())
    kernels.clear()
    assert not list(folder.iterdir())
    assert one(scale()) is not first
