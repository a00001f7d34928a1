"""The command line of tuning: a short search, continued, reported, and its log maintained."""

import json
import re
from pathlib import Path

import pytest

from minitvm import __main__ as command_line
from minitvm import driver, tune, tuning
from minitvm.base import ArgumentError

SEARCH = ("matmul", "--shape", "64,64,64", "--target", "llvm -num-cores=1")


def said(*words: str) -> str:
    lines = list[str]()
    tuning.main(words, lines.append)
    return "\n".join(lines)


@pytest.fixture(scope="module")
def log(tmp_path_factory) -> Path:
    """A log of six trials of a 64 x 64 x 64 product."""
    path = tmp_path_factory.mktemp("tuning") / "log.jsonl"
    text = said(*SEARCH, "--trials", "6", "--log", str(path))
    assert "6 trials in" in text
    assert "the default (" in text
    return path


def test_a_search_writes_a_log_that_can_be_replayed(log: Path) -> None:
    records = tune.Log(log).records()
    trials = [record for record in records if not record.final]
    assert len(trials) == 6
    good = [record for record in trials if not record.result.error]
    assert len(good) >= 4
    assert all(0 < record.seconds < 0.1 for record in good)
    task = tuning.task_of_key(good[0].task, good[0].target)
    for record in good[:2]:
        candidate = tune.candidate_of(record, task)
        args = task.sketches[candidate.sketch].args
        again = driver.lower(tune.replay(record, task), args, target=task.target)
        assert str(again) == str(task.lowered(candidate))


def test_the_same_command_continues(log: Path) -> None:
    text = said(*SEARCH, "--trials", "8", "--log", str(log))
    assert "continuing after 6 trials" in text
    assert "2 trials in" in text
    assert re.search(r": [\d,.]+( [mb]illion)? candidates", text)
    assert "0 trials in" in said("resume", str(log), "--trials", "8")
    trials = [record for record in tune.Log(log).records() if not record.final]
    assert len({(r.sketch, str(r.values)) for r in trials}) == len(trials) == 8


def test_batch_products_are_tuned_resumed_and_reported(tmp_path: Path) -> None:
    """By sketches: the command line reads the logs of the auto-scheduler."""
    path = tmp_path / "log.jsonl"
    batch = ("batch_matmul", "--shape", "2,16,16,16", "--target", "llvm -num-cores=1")
    assert "2 trials in" in said(*batch, "--trials", "2", "--log", str(path))
    assert "1 trials in" in said("resume", str(path), "--trials", "3")
    assert "te.create_schedule" in said("log", "best", str(path))
    page = tmp_path / "page.html"
    said("report", str(path), "-o", str(page))
    assert "Tuning of GMM(2, 16, 16, 16)" in page.read_text(encoding="utf-8")


def test_a_report_is_one_page(log: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert said("report", str(log), "-o", str(page)) == f"wrote {page}"
    text = page.read_text(encoding="utf-8")
    assert text.count("<svg") == 3
    assert not re.search(r'(src|href)="?http', text)
    for part in (
        "Tuning of matmul(64, 64, 64, float32)",
        "Machine",
        "GFLOP/s",
        "te.create_schedule",
        "level:default schedule",
        "Trained on every second trial only",
    ):
        assert part in text


def test_a_log_is_shown_and_maintained(log: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.jsonl"
    copy.write_bytes(log.read_bytes() + b"broken\n")
    shown = said("log", "show", str(copy))
    assert re.search(r"\d trials, \d failed, best [\d.]+ GFLOP/s", shown)
    assert "1 broken lines" in shown
    best = said("log", "best", str(copy))
    assert "  columns = " in best
    assert "te.create_schedule" in best
    said("log", "prune", str(copy), "--keep", "1")
    assert len({json.loads(line)["sketch"] for line in copy.read_text().splitlines()}) == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("matmul", "--shape", "64,64", "--trials", "1"), "it must be m, n, k"),
        (("matmul", "--shape", "sixty", "--trials", "1"), "not a list of numbers"),
        (("matmul", "--shape", "-4,8,8", "--trials", "1"), "not a list of numbers without signs"),
        (("matmul", "--shape", "0,8,8", "--trials", "1"), "at least 1"),
        (("batch_matmul", "--shape", "0,8,8,8", "--trials", "1"), "at least 1"),
        (("batch_matmul", "--shape", "8,8,8", "--trials", "1"), "it must be batch, m, n, k"),
        ((*SEARCH, "--trials", "0"), "trials is 0"),
        ((*SEARCH, "--seconds", "-1"), "seconds is -1"),
        (("matmul", "--shape", "8,8,8", "--target", "z80", "--trials", "1"), "no such kind"),
        (("matmul", "--shape", "8,8,8", "--target", "python", "--trials", "1"), "target"),
        (("resume", "nothing.jsonl"), "there is no such file"),
        (("report", "nothing.jsonl"), "there is no such file"),
        (("log", "best", "nothing.jsonl"), "there is no such file"),
        (("log", "prune", "nothing.jsonl"), "there is no such file"),
    ],
)
def test_mistakes_are_explained(words, message, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert command_line.main(["tune", *words]) == 1
    assert message in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_the_help_says_how_budgets_work_together(capsys) -> None:
    with pytest.raises(SystemExit):
        tuning.main(["matmul", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "the search ends at whatever limit it reaches first" in text
    assert "60 if neither --seconds nor --trials is given" in text


def test_an_unknown_operator_is_refused(capsys) -> None:
    with pytest.raises(SystemExit) as e:
        command_line.main(["tune", "matmull", "--shape", "8,8,8"])
    assert e.value.code == 2
    assert "'matmul'" in capsys.readouterr().err


def test_a_log_of_an_unknown_operator_is_refused(log: Path, tmp_path: Path) -> None:
    strange = tmp_path / "strange.jsonl"
    line = json.loads(log.read_text().splitlines()[0])
    strange.write_text(json.dumps(line | {"task": '["convolve", 1, 2]'}) + "\n")
    with pytest.raises(ArgumentError, match="no operator of minitvm makes this task"):
        said("resume", str(strange))
    assert "no template" not in said("log", "show", str(strange))
