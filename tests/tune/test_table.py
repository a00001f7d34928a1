# pyright: basic

"""Frozen tables: what is stored is what is read, and a search on a table measures nothing."""

import math
from pathlib import Path

import numpy as np
import pytest

from minitvm import autotvm, te, tune
from minitvm.base import ArgumentError, Target

ABOUT = {
    "what": "a sum of two arrays",
    "flops": 64.0,
    "target": "llvm -num-cores=1",
    "machine": {"vector_bytes": 32, "vector_registers": 16, "l1": 1024, "l2": 4096, "l3": 8192},
    "peak": 10.0,
    "default": 5e-4,
}


def example() -> tune.Table:
    """Twelve candidates: two may not be measured, one failed."""
    knobs = (tune.sizes_knob("tile", [(-1, 1), (-1, 2), (-1, 4)]), tune.choice_knob("kind", "abcd"))
    seconds = np.linspace(12e-3, 1e-3, 12, dtype=np.float32)
    seconds[[1, 5]] = np.nan
    seconds[7] = np.inf
    return tune.Table("sum", knobs, seconds, ABOUT)


@autotvm.template("table/sum")
def added(n: int):
    A, B = (te.placeholder((n,), name=name) for name in "AB")
    C = te.compute((n,), lambda i: A[i] + B[i], name="C")
    s = te.create_schedule(C.op)
    cfg = autotvm.get_config()
    cfg.define_split("tile", C.op.axis[0], num_outputs=2, max_factor=4)
    cfg.define_knob("kind", list("abcd"))
    cfg["tile"].apply(s, C, C.op.axis[0])
    return s, [A, B, C]


def test_a_table_is_read_as_it_was_saved(tmp_path: Path) -> None:
    table = example()
    table.save(tmp_path / "sum.npz")
    again = tune.load_table(tmp_path / "sum.npz")
    assert np.array_equal(again.seconds, table.seconds, equal_nan=True)
    assert [(g.name, g.options) for g in again.knobs] == [(g.name, g.options) for g in table.knobs]
    assert (again.name, again.about) == (table.name, table.about)


def test_a_table_allows_what_was_measured() -> None:
    table = example()
    assert len(table.rows) == len(table.measured) == 10
    assert table.space.legal(np.array([[0, 0], [1, 0], [2, 1]], np.int32)).tolist() == [
        True, False, False,
    ]  # fmt: skip
    assert table.best == pytest.approx(1e-3)
    assert table.share_within(0.5) == pytest.approx(0.2)  # 1 and 2 ms, of ten


def test_its_target_has_the_facts_of_its_machine() -> None:
    target = example().target
    assert (target.vector_registers, target.l1, str(target)) == (16, 1024, "llvm -num-cores=1")
    assert Target(target) == target
    with pytest.raises(ArgumentError, match="no such fact"):
        target.on(l4=1)
    with pytest.raises(ArgumentError, match="num_cores=0"):
        target.on(num_cores=0)


def test_candidates_of_a_task_are_found_in_a_table() -> None:
    table = example()
    task = autotvm.task.create("table/sum", (8,), table.target)
    measurer = tune.TableMeasurer(table, task)
    allowed = [r for r in table.rows.tolist() if not math.isnan(table.of(np.array([r]))[0])]
    candidates = [task.derived.candidate(tuple(row)) for row in allowed]
    times = [measurer.result(c) for c in candidates]
    assert [r.best for r in times] == pytest.approx(table.measured.tolist())
    assert [r.error for r in times if r.error] == ["crash"]
    programs = [tune.CandidateProgram(task, c) for c in candidates[:2]]
    *_, default = measurer.remeasure(programs)
    assert default.seconds == (5e-4,)


def test_what_a_table_does_not_have_is_refused() -> None:
    table = example()
    task = autotvm.task.create("table/sum", (8,), table.target)
    with pytest.raises(ArgumentError, match="does not allow"):
        tune.TableMeasurer(table, task).result(task.derived.candidate((1, 0)))
    other = tune.Table(
        "sum", (*table.knobs[:1], tune.choice_knob("kind", "abc")), table.seconds, ABOUT
    )
    with pytest.raises(ArgumentError, match="has no option"):
        tune.TableMeasurer(other, task)
    with pytest.raises(ArgumentError, match="no such table"):
        tune.load_table("nothing")


@pytest.mark.parametrize("name", ["matmul", "conv2d", "depthwise"])
def test_stored_tables_are_complete(name: str) -> None:
    table = tune.load_table(name)
    assert 1000 <= len(table.measured) <= 3000
    assert np.isfinite(table.measured).all()
    assert 0 < table.share_within(0.05) < 0.02
