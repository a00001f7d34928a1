"""ex08.1: an intrinsic leaves the notebook as formula and loops, and each of them is judged."""

import numpy as np
import pytest

from minitvm import te, tir
from minitvm.edu.course import item_of
from minitvm.edu.live import call_in_process
from minitvm.edu.score import mark

from .course import CHECKS

ITEM = item_of("ex08.1", CHECKS)


def gemm8x8(
    clear=(True, True, False),
    add=(True, False, True),
    parts=3,
    dtype="int8",
    terms=8,
    strides=lambda t: None,
    rule_term=lambda w, x, i, j, k: w[i, k].astype("int32") * x[j, k].astype("int32"),
    builder=tir.ir_builder.create,
):
    """The answer; clear and add say what compute, reset and update do."""
    w, x = (te.placeholder((8, 8), dtype, name=name) for name in "wx")
    k = te.reduce_axis((0, terms), name="k")

    def term(ww, xx, i, j, k):
        return ww(i, k).astype("int32") * xx(j, k).astype("int32")

    z = te.compute((8, 8), lambda i, j: te.sum(term(w, x, i, j, k % 8), axis=k), name="z")

    def loops(buffers, clear, add):
        ib = builder()
        ww, xx, zz = (ib.buffer_ptr(b) for b in buffers)
        with ib.for_range(0, 8, name="i") as i, ib.for_range(0, 8, name="j") as j:
            if clear:
                zz[i, j] = 0
            if add:
                with ib.for_range(0, 8, name="k") as n:
                    zz[i, j] = zz[i, j] + rule_term(ww, xx, i, j, n)
        return ib.get()

    def rule(ins, outs):
        return tuple(loops((*ins, *outs), c, a) for c, a in zip(clear, add, strict=True))[:parts]

    binds = {t: tir.decl_buffer((8, 8), str(t.dtype), strides=strides(t)) for t in (w, x, z)}
    return te.decl_tensor_intrin(z.op, rule, binds=binds, name="gemm8x8")


def marked(answer):
    return mark(ITEM, lambda *args: call_in_process(answer, args))


def test_the_right_loops_get_all_points() -> None:
    assert marked(gemm8x8).points == 5


def test_rows_may_be_apart_by_variables_but_not_by_constants() -> None:
    assert marked(lambda: gemm8x8(strides=lambda t: [te.var(f"of_{t.name}"), 1])).points == 5
    assert marked(lambda: gemm8x8(strides=lambda t: [8, 1])).messages == ("refused",)


@pytest.mark.parametrize(
    ("changes", "messages", "points"),
    [
        ({"clear": (False, True, False)}, ("wrong-compute", "wrong-value"), 3),
        ({"add": (True, True, True)}, ("wrong-reset", "refused"), 3),
        ({"clear": (True, True, True)}, ("wrong-update", "wrong-value"), 3),
        ({"parts": 1}, ("missing", "missing", "missing"), 2),
        ({"parts": 2}, ("missing", "missing"), 3),
        ({"dtype": "int16"}, ("wrong-shape",), 0),
        ({"terms": 16}, ("wrong-value",), 0),
        ({"terms": 8 * 10**8}, ("too-large",), 0),
    ],
    ids=str,
)
def test_feedback_says_which_part_is_wrong(changes, messages, points) -> None:
    found = marked(lambda: gemm8x8(**changes))
    assert found.messages == messages
    assert found.points == points


def swapped(w, x, i, j, k):
    return w[i, k].astype("int32") * x[k, j].astype("int32")


@pytest.mark.parametrize(
    ("term", "says"),
    [
        (lambda w, x, i, j, k: w[i, k] * x[j, k], "convert both factors to int32 in the rule"),
        (lambda w, x, i, j, k: (w[i, k] * x[j, k]).astype("int32"), "convert both factors"),
        (swapped, "w[i, k] * x[j, k]"),
    ],
    ids=["narrow", "converted too late", "swapped"],
)
def test_a_rule_that_overflows_or_swaps_indices_is_told_so(term, says: str) -> None:
    found = marked(lambda: gemm8x8(rule_term=term))
    assert found.messages == ("wrong-compute", "wrong-update", "wrong-value")
    assert all(says in found.parts[n].outcome.why for n in (1, 3))


@pytest.mark.parametrize(
    ("changes", "part", "says"),
    [
        ({"clear": (False, True, False)}, 1, "it adds to what z held before"),
        ({"clear": (True, True, True)}, 3, "it starts over"),
    ],
    ids=["compute", "update"],
)
def test_a_sum_that_begins_wrongly_is_told_so(changes, part: int, says: str) -> None:
    assert says in marked(lambda: gemm8x8(**changes)).parts[part].outcome.why


def test_one_builder_for_all_statements_is_recognised() -> None:
    def answer():
        shared = tir.ir_builder.create()
        return gemm8x8(builder=lambda: shared)

    found = marked(answer)
    assert found.messages == ("wrong-update", "refused")
    assert all("tir.ir_builder.create() for each" in found.parts[n].outcome.why for n in (3, 4))


@pytest.mark.parametrize(
    ("value", "found"), [(None, "wrong-type"), (lambda: 0, "wrong-type"), (3, "wrong-type")]
)
def test_what_is_no_intrinsic_gets_nothing(value, found) -> None:
    assert marked(lambda: value).messages == (found,)


def test_calls_by_name_are_no_answer() -> None:
    tir.register_func("test_declared_fill", lambda z: np.copyto(z, 0), override=True)

    def by_name():
        w, x = (te.placeholder((8, 8), "int8", name=name) for name in "wx")
        k = te.reduce_axis((0, 8), name="k")

        def product(i, j):
            return te.sum(w(i, k).astype("int32") * x(j, k).astype("int32"), axis=k)

        z = te.compute((8, 8), product, name="z")
        call = "test_declared_fill"
        return te.decl_tensor_intrin(
            z.op,
            lambda ins, outs: [te.hardware_intrinsic(call, outs[0].access_ptr("w"))] * 3,
            name="by_name",
        )

    assert marked(by_name).messages == ("calls",)
