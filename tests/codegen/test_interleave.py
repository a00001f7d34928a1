"""Stores that fill a row together become one."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minitvm.base import INT8
from minitvm.codegen import emit_llvm
from minitvm.tir import Buffer, Expr, PrimFunc, Store, add, binary, lane, load, mul, seq, value

LANES = 16
A, C = Buffer("A", (8 * LANES,), INT8), Buffer("C", (8 * LANES,), INT8)


def columns(n: int, order: list[int], source: Callable[[int], Any] | None = None) -> PrimFunc:
    """C[k : : n] = A[k*16 : k*16 + 16] for k in order, or what `source` makes for k."""
    make = source or (lambda k: load(A, add(lane(LANES), LANES * k)))
    stores = [Store(C, (add(mul(lane(LANES), n), k),), value(make(k), INT8)) for k in order]
    return PrimFunc("f", (A, C), seq(*stores), (C,))


def run(machine: Any, f: PrimFunc) -> np.ndarray[Any, Any]:
    a, c = np.arange(8 * LANES, dtype="int8"), np.zeros(8 * LANES, "int8")
    assert machine(f, a, c) == 0
    return c


@pytest.mark.parametrize("n", [2, 3, 4, 8])
def test_columns_that_fill_a_row_are_stored_at_once(machine: Any, n: int) -> None:
    f = columns(n, list(range(n)))
    assert emit_llvm(f).count("store") == 1
    want = np.arange(n * LANES, dtype="int8").reshape(n, LANES).T.reshape(-1)
    np.testing.assert_array_equal(run(machine, f)[: n * LANES], want)


@pytest.mark.parametrize("order", [[0, 1, 3], [0, 2, 1, 3], [1, 2, 3, 0]], ids=str)
def test_columns_with_a_gap_or_in_another_order_are_stored_one_by_one(
    machine: Any, order: list[int]
) -> None:
    f = columns(4, order)
    assert emit_llvm(f).count("call void @llvm.masked.scatter") == len(order)
    want = np.zeros((LANES, 4), "int8")
    for k in order:
        want[:, k] = np.arange(LANES * k, LANES * (k + 1))
    np.testing.assert_array_equal(run(machine, f)[: 4 * LANES], want.reshape(-1))


def test_a_column_that_reads_the_one_before_waits_for_it(machine: Any) -> None:
    def source(k: int) -> Expr | int:
        before = load(C, mul(lane(LANES), 2))
        return binary("add", before, 1) if k else load(A, lane(LANES))

    want = np.repeat(np.arange(LANES, dtype="int8"), 2) + np.tile([0, 1], LANES)
    np.testing.assert_array_equal(run(machine, columns(2, [0, 1], source))[: 2 * LANES], want)


def test_one_number_fills_its_column(machine: Any) -> None:
    want = np.tile([0, 1, 2, 3], LANES)
    np.testing.assert_array_equal(
        run(machine, columns(4, [0, 1, 2, 3], lambda k: k))[: 4 * LANES], want
    )
