"""Parts for the accelerator: right to the last bit, nothing found by the verifier, few bytes."""

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te, vta
from minitvm.edu import at_most, bytes_moved, on_machine, problem, runs_on_accelerator
from minitvm.edu.item import AnswerError
from minitvm.edu.live import call_in_process

from .course import module

EX08 = module("ex08")
TINY = vta.Config(name="tiny", acc_bytes=1 << 10)  # 16 sums


def blocks(rng):
    """32 rows, 2 blocks of columns, 2 of the depth: 64 sums."""
    return (problem(EX08.packed_product, 32, 2, 2),)


def all_in_one(A, B, A_buf, B_buf, C_buf, C, gemm):
    return EX08.scheduled(A_buf, B_buf, C_buf, C, gemm, 32, 2)


def in_tiles(A, B, A_buf, B_buf, C_buf, C, gemm):
    return EX08.scheduled(A_buf, B_buf, C_buf, C, gemm, 8, 2)


def untouched(A, B, A_buf, B_buf, C_buf, C, gemm):
    return te.create_schedule(C.op)


def nothing_fetched(A, B, A_buf, B_buf, C_buf, C, gemm):
    """The transfers of A and B are there, and left out."""
    s = all_in_one(A, B, A_buf, B_buf, C_buf, C, gemm)
    for stage in (A_buf, B_buf):
        s[stage].pragma(s[stage].op.axis[0], vta.get_env().skip_dma_copy)
    return s


def some_stored(A, B, A_buf, B_buf, C_buf, C, gemm):
    """A legal schedule that stores half of the tiles."""
    s = in_tiles(A, B, A_buf, B_buf, C_buf, C, gemm)
    s[C].set_store_predicate(s[C].leaf_iter_vars[0] < 2)
    return s


def sum_inside(A, B, A_buf, B_buf, C_buf, C, gemm):
    """The terms of one sum follow each other."""
    env, s = vta.get_env(), te.create_schedule(C.op)
    for stage, scope in ((A_buf, env.inp_scope), (B_buf, env.wgt_scope), (C_buf, env.acc_scope)):
        s[stage].set_scope(scope)
    for stage in (A_buf, B_buf, C):
        s[stage].pragma(s[stage].op.axis[0], env.dma_copy)
    (y, x, yi, xi), (ko, ki) = C_buf.op.axis, C_buf.op.reduce_axis
    s[C_buf].reorder(y, x, ko, yi, xi, ki)
    s[C_buf].tensorize(yi, gemm)
    return s


def fetched_after_a_store(A, B, A_buf, B_buf, C_buf, C, gemm):
    """All that a tile needs is fetched right after the tile before was stored."""
    s = in_tiles(A, B, A_buf, B_buf, C_buf, C, gemm)
    for stage in (A_buf, B_buf):
        s[stage].compute_at(s[C], s[C].leaf_iter_vars[1])
    return s


def outcome(part, answer):
    return part.check(lambda *args: call_in_process(answer, args), np.random.default_rng(0))


def message(part, answer) -> str:
    """The message id that a part gives; "" if it passes."""
    try:
        return outcome(part, answer).message
    except AnswerError as e:
        return e.args[0]


RUNS = runs_on_accelerator(blocks)
FEW = at_most(bytes_moved, all_in_one, blocks, target="vta", message="too-many-bytes")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (all_in_one, ""),
        (in_tiles, ""),
        (untouched, "refused"),
        (nothing_fetched, "wrong-value"),
        (some_stored, "wrong-value"),
        (sum_inside, "hazard"),
        (lambda *tensors: tensors[0], "wrong-type"),
    ],
)
def test_a_schedule_runs_on_the_accelerator_or_the_message_says_why(answer, found) -> None:
    assert message(RUNS, answer) == found


def test_what_does_not_fit_is_reported_with_memory_need_and_capacity() -> None:
    assert message(runs_on_accelerator(blocks, TINY), in_tiles) == ""
    told = outcome(runs_on_accelerator(blocks, TINY, why="too large"), all_in_one)
    assert told.message == "refused"
    assert "64 elements of ACC are needed (C_buf 64), tiny has 16" in told.got
    assert told.case == "packed_product(32, 2, 2)"
    assert told.why == "too large"


def test_a_load_right_after_a_store_is_explained_by_the_missing_queue() -> None:
    told = outcome(RUNS, fetched_after_a_store)
    assert told.message == "refused"
    assert told.why.startswith("no queue connects load and store")


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        (all_in_one, ""),
        (in_tiles, "too-many-bytes"),
        (nothing_fetched, "wrong-value"),
        (some_stored, "wrong-value"),
    ],
)
def test_few_bytes_count_only_if_the_result_is_right(answer, found) -> None:
    assert message(FEW, answer) == found


def test_all_bytes_count_also_those_of_micro_operations() -> None:
    A, B, *copies, C, gemm = EX08.packed_product(32, 2, 2)
    s = EX08.scheduled(*copies, C, gemm, 32, 2)
    uops = vta.build(s, [A, B, C]).run().counters.uop_load_nbytes
    assert uops > 0
    assert bytes_moved(s, [A, B, C]) == 32 * 32 * 2 + 32 * 32 + uops


def test_a_part_on_a_machine_builds_for_that_machine() -> None:
    with pytest.raises(tvm.LoweringError, match="tiny has 16"):
        outcome(on_machine(TINY, FEW), all_in_one)
    tiled = at_most(bytes_moved, in_tiles, blocks, target="vta")
    assert message(on_machine(TINY, tiled), in_tiles) == ""


def test_an_answer_on_a_machine_sees_the_usual_environment_as_in_grading() -> None:
    seen = []

    def curious(*tensors):
        seen.append(vta.get_env().config.name)
        return in_tiles(*tensors)

    part = at_most(bytes_moved, in_tiles, blocks, target="vta")
    assert message(on_machine(TINY, part), curious) == ""
    assert seen == [vta.vta_pynq.name]
