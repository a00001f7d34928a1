"""Temporary arrays as parameters of a kernel."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import codegen, driver, te, tir
from minitvm.base import Target

ONE, TWO = Target("llvm -num-cores=1"), Target("llvm -num-cores=2")


def program(n: int, target: Target, schedule: Any = lambda s, t, y: None) -> tir.PrimFunc:
    """y = (x + 1) * 2, where x + 1 has a memory of its own."""
    x = te.placeholder((4, n), name="x")
    t = te.compute((4, n), lambda i, j: x[i, j] + 1.0, name="t")
    y = te.compute((4, n), lambda i, j: t[i, j] * 2.0, name="y")
    s = te.create_schedule(y.op)
    schedule(s, t, y)
    return driver.lower(s, [x, y], target=target)


def in_parallel(s: Any, t: Any, y: Any) -> None:
    i = s[y].op.axis[0]
    s[y].parallel(i)
    s[t].compute_at(s[y], i)


def test_an_array_on_the_heap_becomes_a_parameter() -> None:
    func = codegen.lifted(program(4096, ONE), ONE)
    assert str(func).splitlines()[0] == (
        "def main(x: float32[4, 4096], y: float32[4, 4096], t: float32[4, 4096]):"
    )
    assert "allocate" not in str(func)
    assert [b.name for b in func.scratch] == ["t"]
    assert func.outputs == (*func.params[1:],)
    tir.verify(func)


def test_an_array_on_the_stack_stays() -> None:
    func = program(16, ONE)
    assert codegen.lifted(func, ONE) is func


def test_an_array_of_each_thread_stays() -> None:
    func = program(1 << 15, TWO, in_parallel)
    assert codegen.lifted(func, TWO) is func
    assert [b.name for b in codegen.lifted(func, ONE).scratch] == ["t"]


@pytest.mark.parametrize("target", ["numba", "python"])
def test_other_targets_allocate_their_arrays(target: str) -> None:
    func = program(4096, Target(target))
    assert codegen.lifted(func, Target(target)) is func


def test_an_array_of_symbolic_size_stays() -> None:
    n = te.var("n")
    x = te.placeholder((n,), name="x")
    t = te.compute((n,), lambda i: x[i] + 1.0, name="t")
    y = te.compute((n,), lambda i: t[i] * 2.0, name="y")
    func = driver.lower(te.create_schedule(y.op), [x, y], target=ONE)
    assert codegen.lifted(func, ONE) is func


def summed(x: te.Tensor, n: int) -> te.Tensor:
    """The sum of a temporary array of n elements."""
    k = te.reduce_axis((0, n), name="k")
    t = te.compute((n,), lambda i: x[i % 16], name=f"t{n}")
    return te.compute((1,), lambda i: te.sum(t[k], axis=k), name=f"s{n}")


@pytest.mark.parametrize("sizes", [(4096, 5000), (16, 9000), (7000, 2000, 2000, 9000)])
def test_what_is_lifted_is_what_emit_would_malloc(sizes: tuple[int, ...]) -> None:
    x = te.placeholder((16,), name="x")
    sums = [summed(x, n) for n in sizes]
    y = te.compute((1,), lambda i: sum((s[i] for s in sums[1:]), sums[0][i]), name="y")
    func = driver.lower(te.create_schedule(y.op), [x, y], target=ONE)
    mallocs = codegen.emit_llvm(func).count("call ptr @malloc")
    lifted = codegen.lifted(func, ONE)
    assert len(lifted.scratch) == mallocs > 0
    assert "malloc" not in codegen.emit_llvm(lifted)


def test_the_caller_provides_the_memory() -> None:
    f = driver.build(codegen.lifted(program(4096, ONE), ONE), (), ONE)
    x, y, t = (np.zeros((4, 4096), "float32") for _ in range(3))
    f(x, y, t)
    assert (y == 2).all()
    assert (t == 1).all()
    with pytest.raises(tvm.TVMError, match="takes 3 arguments, 2 given"):
        f(x, y)


def test_an_array_with_gaps_between_its_rows_is_passed_as_one_row() -> None:
    def aligned(s: Any, t: Any, y: Any) -> None:
        s[t].storage_align(t.op.axis[0], 64, 16)

    f = driver.build(codegen.lifted(program(4096, ONE, aligned), ONE), target=ONE)
    x, y = np.random.default_rng(0).random((4, 4096), np.float32), np.empty((4, 4096), "float32")
    with pytest.raises(tvm.ArgumentError, match=r"argument t: has shape .4, 4096., not .16432,."):
        f(x, y, np.empty((4, 4096), "float32"))
    f(x, y, np.empty(16432, "float32"))
    np.testing.assert_array_equal(y, (x + 1) * 2)
