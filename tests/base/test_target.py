"""Targets: what their text says about vectors."""

import re
import threading
from dataclasses import replace

import pytest

from minitvm.base import BuildError, Target, TVMError, processor, target


def test_the_type_of_lanes_may_be_given_by_its_name() -> None:
    assert Target("llvm -mattr=+avx2,-avx512f").lanes("float32") == 8


def test_a_vector_unit_that_is_removed_takes_the_wider_ones_with_it() -> None:
    assert target._changed(frozenset({"avx", "avx2", "avx512f"}), "-avx") == set()
    assert target._changed(frozenset({"avx", "avx2", "avx512f"}), "-avx2") == {"avx"}


@pytest.mark.parametrize(
    ("cpu", "width", "registers", "dot4"),
    [
        ("x86-64", 16, 16, ()),
        ("nehalem", 16, 16, ()),
        ("sandybridge", 16, 16, ()),  # its AVX has no integers
        ("haswell", 32, 16, ()),
        ("znver3", 32, 16, ()),
        ("alderlake", 32, 16, ("vpdpbusd.256", "vpdpbusd.128")),
        ("skylake-avx512", 64, 32, ()),
        ("znver4", 64, 32, ("vpdpbusd.512", "vpdpbusd.256", "vpdpbusd.128")),
        ("cortex-a72", 16, 32, ()),
        ("cortex-a76", 16, 32, ("sdot", "udot")),
        ("neoverse-n1", 16, 32, ("sdot", "udot")),
        ("neoverse-v1", 16, 32, ("sdot", "udot", "usdot")),
        ("apple-m1", 16, 32, ("sdot", "udot")),
        ("apple-m4", 16, 32, ("sdot", "udot", "usdot")),
    ],
)
def test_a_named_cpu_has_its_own_vector_unit(
    cpu: str, width: int, registers: int, dot4: tuple[str, ...]
) -> None:
    t = Target(f"llvm -mcpu={cpu}")
    names = [re.sub(r"llvm\.(x86\.avx512|aarch64\.neon)\.|\.v.*", "", d.intrinsic) for d in t.dot4]
    assert (t.vector_bytes, t.vector_registers, *names) == (width, registers, *dot4)


def test_llvm_is_not_asked_about_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_asked", None)
    for text in ("llvm", "llvm -mattr=-avx512f", "numba -mcpu=haswell"):
        assert Target(text).dot4 is not None


@pytest.mark.parametrize(
    ("cpu", "why"),
    [
        ("foo", "code for -mcpu=foo: LLVM says 'foo' is not a recognized processor"),
        ("help", "code for -mcpu=help: 'help' is not a CPU"),
    ],
)
def test_an_unknown_cpu_is_refused(cpu: str, why: str) -> None:
    with pytest.raises(BuildError, match=why):
        Target(f"llvm -mcpu={cpu}")


def test_a_type_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TVMError, match="float33"):
        Target().lanes("float33")


@pytest.mark.parametrize("text", ["cuda", "cuda -sim", "cuda -arch=sm_90", "cuda -sim -arch=sm_80"])
def test_a_gpu_may_be_simulated_and_have_an_architecture(text: str) -> None:
    t = Target(text)
    assert str(t) == text
    assert target.cuda(*text.split()[1:]) == t
    assert t.sim is ("-sim" in text)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("cuda -sim=2", "it takes no value"),
        ("cuda -arch=90", "not an architecture, such as sm_90"),
        ("cuda -mcpu=znver4", "the target cuda has no such option"),
        ("llvm -sim", "the target llvm has no such option"),
        ("numba -unroll=0", "the target numba has no such option"),
    ],
)
def test_each_kind_of_target_has_its_own_options(text: str, why: str) -> None:
    with pytest.raises(TVMError, match=why):
        Target(text)


@pytest.mark.parametrize(("text", "unroll"), [("llvm", True), ("llvm -unroll=1", True),
                                              ("llvm -unroll=0", False)])  # fmt: skip
def test_a_target_says_whether_llvm_unrolls(text: str, unroll: bool) -> None:
    t = Target(text)
    assert t.unroll is unroll
    assert ("-unroll" in str(t)) is not unroll
    assert Target(str(t)) == t


def test_the_current_target_is_the_innermost_one() -> None:
    assert Target.current() == Target(None) == Target("llvm")
    with Target("python") as outer:
        with pytest.raises(TVMError), Target("llvm -unroll=0") as inner:
            Target(str(Target(None)) + " -O3")
        assert not inner.unroll
        with outer:
            pass
        assert Target(None) == Target.current() == outer
        assert Target() == Target("llvm")
    assert Target.current() == Target("llvm")


def test_another_thread_has_a_current_target_of_its_own() -> None:
    found: list[Target] = []
    with Target("python"):
        thread = threading.Thread(target=lambda: found.append(Target.current()))
        thread.start()
        thread.join()
    assert found == [Target("llvm")]


@pytest.mark.parametrize("kind", ["llvm", "numba"])
def test_a_described_machine_is_the_same_on_every_host(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = {"num_cores": 1, "vector_bytes": 64, "vector_registers": 32}
    caches = {"l1": 32 << 10, "l2": 1 << 20, "l3": 8 << 20}
    here = Target(kind).on(**facts, **caches)
    other = replace(
        target.this_machine(), cpu="nehalem", features=frozenset(), vector_bytes=16,
        vector_registers=8, fma=False, l1=1, l2=2, l3=3, cores=7,
    )  # fmt: skip
    monkeypatch.setattr(target, "this_machine", lambda: other)
    there = Target(kind).on(**facts, **caches)
    assert (repr(there), str(there)) == (repr(here), str(here))


@pytest.mark.parametrize(
    ("width", "registers", "rows"), [(64, 32, 9), (32, 16, 4), (16, 32, 8), (16, 16, 3)]
)
def test_a_tile_leaves_registers_for_its_operands(width: int, registers: int, rows: int) -> None:
    t = Target().on(vector_bytes=width, vector_registers=registers)
    assert [t.tile_rows(vectors) for vectors in (3, 40)] == [rows, 0]
