"""The command line: the demo tells its story, the doctor reports, wrong commands are refused."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from minitvm import __main__, demo, doctor, lower
from minitvm.base import Target

SIZE = 32
NAMES = [chapter.name for chapter in demo.STORY]


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict]:
    """What the demo prints for small matrices, and the JSON it stores."""
    lines: list[str] = []
    file = tmp_path_factory.mktemp("demo") / "run.json"
    demo.run(SIZE, lines.append, str(file))
    return "\n".join(lines), json.loads(file.read_text(encoding="utf-8"))


def test_the_demo_ends_with_a_table_of_all_schedules_numpy_and_the_peak(told) -> None:
    table = told[0].split("\nschedule ", 1)[1].splitlines()[1:]
    rows = [re.match(r"(.+?)  +\d+ +[\d.]+  #+$", line) for line in table]
    names = [row[1] for row in rows if row]
    assert names[: len(NAMES) + 1] == [*NAMES, "numpy"]
    assert set(names[len(NAMES) + 1 :]) == {"fma peak"}


def test_the_demo_prints_the_loops_of_each_schedule(told) -> None:
    assert told[0].count("def main(A: float32[32, 32]") == len(NAMES)


def test_the_demo_stores_one_row_a_schedule(told) -> None:
    rows = told[1]["rows"]
    assert [row["case"] for row in rows] == [f"32x32x32 {name}" for name in NAMES]
    assert {row["unit"] for row in rows} == {"GFLOP/s"}
    assert all(row["peers"]["fma_peak"] > 0 for row in rows)


@pytest.mark.parametrize("size", [1, 7, 100])
def test_the_demo_takes_any_size(size: int) -> None:
    p = demo.product(size)
    a = np.random.default_rng(0).standard_normal((size, size), dtype="float32")
    for chapter in demo.STORY:
        assert demo.tell(chapter, p, a, a, lambda line: None)[1] > 0


@pytest.mark.parametrize("attributes", ["+avx2,-avx512f", "+avx512f", "-avx2,-avx512f"])
def test_the_register_tile_fits_every_vector_unit(attributes: str) -> None:
    target = Target(f"llvm -mattr={attributes}")
    p = demo.product(1024, target)
    vectors = demo.ROWS * p.columns // target.lanes(p.C.dtype)
    assert 0 < vectors <= target.vector_registers // 2
    assert "C_local" in str(lower(demo.packed(p), p.args, until="nest"))


def test_no_demo_without_a_matrix(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["demo", "--size", "0"]) == 1
    assert "at least one row" in capsys.readouterr().err


def test_the_environment_limits_the_threads_of_numpy() -> None:
    assert demo.numpy_threads({}, 4) == 4
    assert demo.numpy_threads({"OPENBLAS_NUM_THREADS": "1"}, 4) == 1
    assert demo.numpy_threads({"OMP_NUM_THREADS": "16"}, 4) == 4


def test_the_demo_says_when_numpy_is_held_back() -> None:
    assert demo.held_back({}) == []
    assert "OPENBLAS_CORETYPE=Haswell" in demo.held_back({"OPENBLAS_CORETYPE": "Haswell"})[0]


def test_the_doctor_finds_the_core_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    assert __main__.main(["doctor"]) == 0
    report = capsys.readouterr().out
    assert re.search(r"^  numpy +\d", report, re.M)
    assert re.search(r"^  llvm +works", report, re.M)
    assert re.search(r"^  python +works", report, re.M)
    assert re.search(r"^  cuda -sim +works", report, re.M)
    for part in ("cuda, PTX", "cuda, SASS"):
        assert re.search(
            rf"^  {part} +(works|does not.*try: pip install 'minitvm\[cuda\]')", report, re.M
        )
    assert re.search(r"^  cuda +(works|does not work: .* no GPU)", report, re.M)


def test_the_doctor_says_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "fault", lambda kind, code="": f"does not work: no {kind}{code}")
    monkeypatch.setattr(doctor, "import_fault", lambda name: "")
    lines: list[str] = []
    assert not doctor.run(lines.append)
    assert any("does not work: no llvm" in line for line in lines)
    assert any("does not work: no cudaptx" in line for line in lines)


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise OSError('no\\nlibomp')", "OSError: no libomp (exit status 1)"),
        ("raise SystemExit(0)", "SystemExit: 0 (exit status 1)"),
        ("import os; os._exit(7)", "(exit status 7)"),
    ],
    ids=["raises", "exits", "dies"],
)
def test_an_import_fails_in_a_process_of_its_own(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "xgboost.py").write_text(code)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    fix = "try: on macOS: brew install libomp, or pip install --force-reinstall xgboost"
    assert doctor.import_fault("xgboost") == f"cannot be imported: {why}; {fix}"


def test_an_import_that_takes_forever_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tqdm.py").write_text("import time; time.sleep(600)")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(doctor, "SECONDS", 0.5)
    assert "no answer within 0.5 seconds" in doctor.import_fault("tqdm")


@pytest.mark.parametrize(
    ("name", "works", "end"),
    [
        ("xgboost", True, "the core works, but not xgboost: see above"),
        ("torch", True, "the core works, but not torch: see above"),
        ("numpy", False, "the core does not work: see above"),
    ],
)
def test_the_core_works_without_the_packages_of_the_notebooks(
    name: str, works: bool, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: "1.0")
    monkeypatch.setattr(doctor, "import_fault", lambda tried: "broken" * (tried == name))
    lines: list[str] = []
    assert doctor.run(lines.append) == works
    assert any(re.match(rf"  {name} +1\.0 broken$", line) for line in lines)
    assert lines[-1] == f"\n{end}"


def test_an_optional_package_may_be_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "installed", lambda name: "" if name in doctor.OPTIONAL else "1.0")
    monkeypatch.setattr(doctor, "import_fault", lambda name: "absent" * (name in doctor.OPTIONAL))
    lines: list[str] = []
    assert doctor.run(lines.append)
    assert lines[-1] == "\neverything works: make lab"


def test_a_package_that_is_not_there_has_no_version() -> None:
    assert doctor.installed("no-such-package-anywhere") == ""


def test_an_unknown_target_is_a_fault_not_a_crash() -> None:
    assert "no such kind of target" in doctor.fault("abacus")


@pytest.mark.parametrize("arguments", [[], ["dance"], ["demo", "--size", "big"]])
def test_unknown_commands_are_refused(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        __main__.main(arguments)
    assert stop.value.code == 2


def test_help_names_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        __main__.main(["--help"])
    assert stop.value.code == 0
    words = {"demo", "doctor", "tune", "net", "minitvm.edu"}
    assert words <= set(capsys.readouterr().out.split())


def test_the_story_has_no_path_of_a_machine(told) -> None:
    assert str(Path.home()) not in told[0]
