"""What the machine says about itself, and what we assume where it says nothing."""

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minitvm.base import host
from minitvm.base.host import (
    fill_caches,
    parse_size,
    quota,
    reported_features,
    sys_caches,
    sysctl_caches,
    vector_unit,
)

X86 = platform.machine() in ("x86_64", "AMD64")


def test_this_machine_has_a_name_caches_and_cores() -> None:
    here = host()
    assert here.cpu
    assert here.system
    assert 8 << 10 <= here.l1 <= here.l2 <= here.l3 <= 4 << 30
    assert 1 <= here.cores <= (os.cpu_count() or 1)


def test_the_facts_are_found_out_once() -> None:
    assert host() is host()


def test_the_environment_replaces_the_name_and_the_features_of_the_cpu() -> None:
    code = "from minitvm.base import host as h; print(h().cpu, h().features, h().vector_bytes)"
    environment = os.environ | {"MINITVM_CPU": "haswell avx2"}
    said = subprocess.check_output([sys.executable, "-c", code], env=environment, text=True)
    assert said == "haswell frozenset({'avx2'}) 32\n"


@pytest.mark.parametrize(
    ("cpu", "why"),
    [("apple-m4" if X86 else "haswell", "which this CPU .* does not have"), ("z80", "LLVM says")],
)
def test_the_suite_cannot_run_as_any_cpu(cpu: str, why: str) -> None:
    command = [sys.executable, "-m", "pytest", "--as-cpu", cpu, "--collect-only", __file__]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == pytest.ExitCode.USAGE_ERROR
    assert re.search(f"--as-cpu {cpu}: .*{why}", ran.stderr)


@pytest.mark.parametrize(
    ("features", "machine", "unit"),
    [
        ({"avx512f", "avx2", "fma"}, "x86_64", (64, 32)),
        ({"avx2", "fma"}, "AMD64", (32, 16)),
        ({"sse4.2"}, "x86_64", (16, 16)),
        ({"neon"}, "arm64", (16, 32)),
        (set[str](), "aarch64", (16, 32)),
    ],
)
def test_the_vector_unit_follows_from_the_features(
    features: set[str], machine: str, unit: tuple[int, int]
) -> None:
    assert vector_unit(frozenset(features), machine) == unit


def test_macos_tells_the_features_of_an_arm_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    present = {"hw.optional.arm.FEAT_DotProd": 1, "hw.optional.arm.FEAT_FP16": 1}
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(
        subprocess, "check_output", lambda command, **_: f"{present.get(command[-1], 0)}\n"
    )
    features = reported_features.__wrapped__()
    assert [features[name] for name in ("neon", "dotprod", "fullfp16", "i8mm")] == [1, 1, 1, 0]


@pytest.mark.parametrize(
    ("text", "size"), [("48K", 49152), ("1M", 1 << 20), ("2G", 2 << 30), ("512", 512)]
)
def test_sizes_are_read_as_linux_writes_them(text: str, size: int) -> None:
    assert parse_size(text) == size


def describe_cache(root: Path, index: int, level: str, kind: str, size: str) -> None:
    folder = root / "cpu3" / "cache" / f"index{index}"
    folder.mkdir(parents=True)
    for name, text in (("level", level), ("type", kind), ("size", size)):
        (folder / name).write_text(text + "\n")


def test_instruction_caches_do_not_count(tmp_path: Path) -> None:
    describe_cache(tmp_path, 0, "1", "Data", "48K")
    describe_cache(tmp_path, 1, "1", "Instruction", "32K")
    describe_cache(tmp_path, 2, "2", "Unified", "1024K")
    assert sys_caches(tmp_path) == {1: 48 << 10, 2: 1 << 20}


def test_an_unreadable_cache_is_left_out(tmp_path: Path) -> None:
    describe_cache(tmp_path, 0, "1", "Data", "")
    assert sys_caches(tmp_path) == {}


SLOWEST_CORES = {"hw.l1dcachesize": 64 << 10, "hw.l2cachesize": 4 << 20}
FASTEST_CORES = {"hw.perflevel0.l1dcachesize": 128 << 10, "hw.perflevel0.l2cachesize": 12 << 20}
INTEL = {"hw.l1dcachesize": 32 << 10, "hw.l2cachesize": 256 << 10, "hw.l3cachesize": 6 << 20}


@pytest.mark.skipif(os.name == "nt", reason="the fake sysctl is a shell script")
@pytest.mark.parametrize(
    ("reported", "sizes"),
    [
        (SLOWEST_CORES | FASTEST_CORES, {1: 128 << 10, 2: 12 << 20, 3: 0}),
        (INTEL, {1: 32 << 10, 2: 256 << 10, 3: 6 << 20}),
    ],
    ids=["Apple", "Intel"],
)
def test_caches_on_macos_are_those_of_the_performance_cores(
    reported: dict[str, int],
    sizes: dict[int, int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    cases = "".join(f"{name}) echo {size};;\n" for name, size in reported.items())
    fake = tmp_path / "sysctl"
    fake.write_text(f'#!/bin/sh\ncase "$2" in\n{cases}*) echo unknown $2 >&2; exit 1;;\nesac\n')
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert sysctl_caches() == sizes
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("found", "sizes"),
    [
        ({}, (32 << 10, 512 << 10, 8 << 20)),
        ({1: 64 << 10, 2: 4 << 20}, (64 << 10, 4 << 20, 4 << 20)),
        ({1: 48 << 10, 2: 1 << 20, 3: 32 << 20}, (48 << 10, 1 << 20, 32 << 20)),
    ],
)
def test_unknown_caches_are_assumed_modest_and_no_l3_means_l2_is_last(
    found: dict[int, int], sizes: tuple[int, int, int]
) -> None:
    assert fill_caches(found) == sizes


@pytest.mark.parametrize(
    ("text", "cpus"), [("250000 100000\n", 2), ("50000 100000", 1), ("max 100000", 0), ("", 0)]
)
def test_a_container_limits_the_cores_in_whole_cpus(tmp_path: Path, text: str, cpus: int) -> None:
    (tmp_path / "cpu.max").write_text(text)
    assert quota(tmp_path / "cpu.max") == cpus


def test_without_a_container_there_is_no_limit(tmp_path: Path) -> None:
    assert quota(tmp_path / "missing") == 0
