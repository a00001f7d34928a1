"""The references of ex08.3 move the fewest bytes of all tiles that nearly fill the accumulators."""

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
ROOMS = {EX08.SMALL: (256, 32), EX08.OTHER: (512, 16)}  # elements of A, matrices of B
MACHINES = pytest.mark.parametrize("machine", ROOMS, ids=["small", "other"])


def cost(*choice) -> float:
    """Bytes of a tiling on the current machine; infinite if it does not fit."""
    A, B, *copies, C, gemm = EX08.packed_product(128, 8, 8)
    try:
        return bytes_moved(EX08.scheduled(*copies, C, gemm, *choice), [A, B, C])
    except LoweringError:
        return float("inf")


@MACHINES
def test_no_other_tiles_move_fewer_bytes(machine) -> None:
    rows_and_columns = [(128 // n << more, n) for n in (1, 2, 4, 8) for more in (0, 1)]
    tiles = [t for t in rows_and_columns if t[0] <= 128]
    choices = list(product(tiles, ("rows", "columns"), ("", "A", "B")))
    with vta.Environment(machine):
        A, B, *copies, C, gemm = EX08.packed_product(128, 8, 8)
        best = bytes_moved(EX08.keep_half(*ROOMS[machine], A, B, *copies, C, gemm), [A, B, C])
        costs = [cost(*tile, *how) for tile, *how in choices]
    assert min(costs) == pytest.approx(best, rel=0.001)  # micro-operations differ
    fit = [c for c in costs if c < float("inf")]
    assert len(fit) > 10
    assert sum(c <= 1.1 * best for c in fit) < len(fit) / 4  # not just any tiles pass


@pytest.mark.parametrize(
    ("choice", "points"),
    [
        ((64, 4, "columns", "B"), 2.0),  # does not fit into the other machine
        ((64, 4, "rows", "A"), 2.0),  # does not fit into the small one
        ((64, 4), 1.6),  # both twice
        ((32, 8), 0.4),  # B four times: points begin below
        ((16, 8), 0.4),
    ],
)
def test_what_stays_must_suit_both_machines(choice, points: float) -> None:
    def answer(inp, wgt, A, B, A_buf, B_buf, C_buf, C, gemm):
        return EX08.scheduled(A_buf, B_buf, C_buf, C, gemm, *choice)

    result = mark(item_of("ex08.3", CHECKS), lambda *args: call_in_process(answer, args))
    assert result.points == points


@MACHINES
def test_the_best_tiles_fetch_one_matrix_twice_and_the_other_once(machine) -> None:
    with vta.Environment(machine):
        A, B, *copies, C, gemm = EX08.packed_product(128, 8, 8)
        s = EX08.keep_half(*ROOMS[machine], A, B, *copies, C, gemm)
        counters = vta.build(s, [A, B, C]).run().counters
    loads = [counters.inp_load_nbytes, counters.wgt_load_nbytes]
    assert sorted(loads) == [MATRIX, 2 * MATRIX]
    assert counters.out_store_nbytes == MATRIX
