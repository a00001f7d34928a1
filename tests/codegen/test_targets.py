"""Every kind of target has its record, and the records say what the targets can do."""

import pytest

import minitvm as tvm
from minitvm import te, tir, vta
from minitvm.base import INT8, ArgumentError, BuildError, Target, target
from minitvm.driver import TARGETS


def test_every_kind_that_a_target_may_name_has_a_record() -> None:
    assert TARGETS.keys() == target.KINDS.keys()


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_only_the_accelerator_has_memories_of_its_own(kind: str) -> None:
    A = tir.Buffer("A", (16,), INT8, scope=vta.get_env().inp_scope)
    func = tir.PrimFunc("main", (), tir.Allocate(A, tir.NOTHING))
    if kind != "vta":
        with pytest.raises(BuildError, match=f"A in 'local.inp_buffer' for target '{kind}'"):
            TARGETS[kind].check(func, Target(kind))
    else:
        TARGETS[kind].check(func, Target(kind))


@pytest.mark.parametrize("kind", sorted(k for k, t in TARGETS.items() if not t.isolates))
def test_targets_that_compile_here_refuse_another_process(kind: str) -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i] + 1.0, name="B")
    with pytest.raises(ArgumentError, match=f"isolate=True for target '{kind}'"):
        tvm.build(te.create_schedule(B.op), [A, B], kind, isolate=True)


@pytest.mark.parametrize("kind", sorted(TARGETS))
def test_passes_of_a_record_are_those_that_lower_runs(kind: str) -> None:
    A = te.placeholder((0,), name="A")
    B = te.compute((0,), lambda i: A[i], name="B")
    seen: list[str] = []
    s = te.create_schedule(B.op)
    if kind == "vta":
        s[B].pragma(s[B].op.axis[0], "skip_dma_copy")
    tvm.lower(s, [A, B], target=kind, watch=lambda name, f: seen.append(name))
    assert seen[1:] == [p.__name__ for p in TARGETS[kind].passes]
