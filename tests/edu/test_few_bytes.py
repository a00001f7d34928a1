"""The reference of ex08.3 moves the fewest bytes of all tiles that nearly fill the accumulators."""

from itertools import product

import pytest

from minitvm import vta
from minitvm.base import LoweringError
from minitvm.edu.accelerated import bytes_moved
from minitvm.edu.course import item_of
from minitvm.edu.live import call_in_process
from minitvm.edu.score import mark

from .course import CHECKS, module

EX08 = module("ex08")
MATRIX = 128 * 128  # bytes of A, of B, and of C


def cost(*choice) -> float:
    """Bytes of a tiling on the small machine; infinite if it does not fit."""
    A, B, *copies, C, gemm = EX08.packed_product(128, 8, 8)
    try:
        return bytes_moved(EX08.scheduled(*copies, C, gemm, *choice), [A, B, C])
    except LoweringError:
        return float("inf")


def test_no_other_tiles_move_fewer_bytes() -> None:
    rows_and_columns = [(128 // n << more, n) for n in (1, 2, 4, 8) for more in (0, 1)]
    tiles = [t for t in rows_and_columns if t[0] <= 128]
    choices = list(product(tiles, ("rows", "columns"), ("", "A", "B")))
    with vta.Environment(EX08.SMALL):
        A, B, *copies, C, gemm = EX08.packed_product(128, 8, 8)
        best = bytes_moved(EX08.keep_weights(A, B, *copies, C, gemm), [A, B, C])
        costs = {(*tile, *how): cost(*tile, *how) for tile, *how in choices}
    assert min(costs.values()) == pytest.approx(best, rel=0.001)  # micro-operations differ
    fit = [c for c in costs.values() if c < float("inf")]
    assert len(fit) > 10
    assert sum(c <= 1.1 * best for c in fit) < len(fit) / 4  # not just any tiles pass


@pytest.mark.parametrize(
    ("choice", "points"),
    [
        ((64, 4, "columns", "B"), 4.0),
        ((64, 4), 1.6),  # both twice
        ((32, 8), 0.4),  # B four times: points begin below
        ((16, 8), 0.4),
    ],
)
def test_only_weights_that_stay_bring_most_of_the_points(choice, points: float) -> None:
    def answer(A, B, A_buf, B_buf, C_buf, C, gemm):
        return EX08.scheduled(A_buf, B_buf, C_buf, C, gemm, *choice)

    found = mark(item_of("ex08.3", CHECKS), lambda *args: call_in_process(answer, args))
    assert found.points == points


def test_the_best_tiles_fetch_a_twice_and_the_weights_once() -> None:
    with vta.Environment(EX08.SMALL):
        A, B, *copies, C, gemm = EX08.packed_product(128, 8, 8)
        f = vta.build(EX08.keep_weights(A, B, *copies, C, gemm), [A, B, C])
    counters = f.run().counters
    assert counters.inp_load_nbytes == 2 * MATRIX
    assert counters.wgt_load_nbytes == MATRIX
    assert counters.out_store_nbytes == MATRIX
