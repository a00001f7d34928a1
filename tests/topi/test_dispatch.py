"""topi.dispatch: a tuned schedule in place of the default one of topi.schedule."""

import pytest

from minitvm import te, topi
from minitvm.base import ArgumentError, Target
from minitvm.topi import dispatch


def doubled(n: int = 64) -> te.Tensor:
    A = te.placeholder((n,), name="A")
    return te.compute((n,), lambda i: A[i] * 2.0, name="C")


def plain(outputs: list[te.Tensor], target: Target) -> te.Schedule | None:
    """A dispatcher for workloads of 64 elements on one core."""
    if outputs[0].shape != (64,) or target.num_cores != 1:
        return None
    return te.create_schedule([t.op for t in outputs])


def test_a_dispatcher_replaces_the_schedules_that_it_knows() -> None:
    one = "llvm -num-cores=1"
    with dispatch.using(plain):
        assert not topi.schedule(doubled(), one).steps
        assert topi.schedule(doubled(32), one).steps
        assert topi.schedule(doubled(), "llvm -num-cores=2").steps
    assert topi.schedule(doubled(), one).steps


def test_the_innermost_dispatcher_is_asked_alone_and_errors_end_it() -> None:
    def never(outputs: list[te.Tensor], target: Target) -> None:
        raise RuntimeError(f"{len(outputs)} for {target.kind}")

    assert dispatch.get() is None
    with dispatch.using(plain):
        with dispatch.using(never):
            assert dispatch.get() is never
            with pytest.raises(RuntimeError, match="1 for llvm"):
                topi.schedule(doubled())
            assert dispatch.get() is never
        with pytest.raises(ValueError, match="out"), dispatch.using(never):
            raise ValueError("out")
        assert dispatch.get() is plain
    assert dispatch.get() is None


def test_a_dispatcher_may_change_the_default_schedule() -> None:
    def unrolled(outputs: list[te.Tensor], target: Target) -> te.Schedule:
        s = topi.schedule(outputs, target)
        s[outputs[0]].pragma(s[outputs[0]].leaf_iter_vars[0], "auto_unroll_max_step", 16)
        return s

    with dispatch.using(unrolled):
        found = topi.schedule(doubled())
    assert len(found.steps) == len(topi.schedule(doubled()).steps) + 1


def test_a_dispatcher_is_a_function() -> None:
    refused = pytest.raises(ArgumentError, match="dispatcher 3: it is not a function")
    with refused, dispatch.using(3):  # type: ignore[arg-type]
        pass
