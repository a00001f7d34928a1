"""The leaderboard: ranks and ties; wrong answers and stored tables score 0; runs can be resumed."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import pytest

from minitvm.base import ArgumentError
from minitvm.edu import leaderboard as board
from minitvm.edu.__main__ import main
from minitvm.edu.build import solution, with_holes
from minitvm.edu.challenges import known_values
from minitvm.edu.course import exercise_named
from minitvm.edu.grader import Graded
from minitvm.edu.leaderboard import Board, Entry, csv_text, entry_of, markdown
from minitvm.edu.notebook import stored
from minitvm.edu.score import random_for
from minitvm.edu.trials import definitions, with_last

from .course import CHECKS, ROOT, module

SEED = "words that students do not know"
EX04, EX11 = exercise_named("ex04", CHECKS), exercise_named("ex11", CHECKS)
RAISES = "def product(A, B, C):\n    raise ValueError('a|b')"


def stored_table() -> str:
    """A search that knows the fastest rows of the tables that notebooks show."""
    rng, best = random_for("11.challenge", 0, None), {}
    for _ in range(6):
        sizes, times = module("ex11").drawn_table(rng)
        best[repr(sizes)] = [list(row) for row in sorted(times, key=times.get)[:8]]
        rng.integers(1000)
    return f"""
BEST = {best!r}


def search(sizes, tried, seconds, count, seed):
    rows = [r for r in BEST.get(repr(sizes), []) if r not in tried][:count]
    while len(rows) < count:
        row = [random.randrange(n) for n in sizes]
        rows += [row] if row not in tried and row not in rows else []
    return rows
"""


def hand_in(folder: Path, student: str, exercise, notebook) -> None:
    path = folder / student / f"{exercise.stem}.ipynb"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(stored(notebook), encoding="utf-8")


def rows_of(path: Path) -> dict[str, dict[str, str]]:
    with open(path, encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def run(folder: Path, out: Path) -> int:
    return main(["leaderboard", str(folder), "--out", str(out), "--seed", SEED])


def test_a_class_is_ranked_and_ranked_again(tmp_path: Path, capsys) -> None:
    solved = definitions(solution(ROOT, EX04))
    stub = with_holes(solved, EX04)
    hand_in(tmp_path / "in", "ann", EX04, solved)
    hand_in(tmp_path / "in", "bob", EX04, solved)
    hand_in(tmp_path / "in", "cem", EX04, stub)
    hand_in(tmp_path / "in", "dee", EX04, with_last(solved, RAISES))
    notes = {**stub, "metadata": {}}
    (tmp_path / "in" / "eve").mkdir()
    (tmp_path / "in" / "eve" / "notes.ipynb").write_text(stored(notes), encoding="utf-8")
    out = tmp_path / "board.md"
    assert run(tmp_path / "in", out) == 0
    found = rows_of(tmp_path / "board.csv")
    assert {name: found[name]["rank"] for name in found} == {
        "ann": "1", "bob": "1", "cem": "3", "dee": "",
    }  # fmt: skip
    assert float(found["ann"]["score"]) > 100
    assert [found[name]["score"] for name in ("cem", "dee")] == ["0.0", "0.0"]
    assert found["dee"]["status"] == "wrong"
    assert "a\\|b" in out.read_text(encoding="utf-8")
    assert "eve: no challenge" in capsys.readouterr().err
    first = out.read_bytes()
    hand_in(tmp_path / "in", "bob", EX04, stub)
    assert run(tmp_path / "in", out) == 0
    assert rows_of(tmp_path / "board.csv")["bob"]["rank"] == "2"
    hand_in(tmp_path / "in", "bob", EX04, solved)
    assert run(tmp_path / "in", out) == 0
    assert out.read_bytes() == first


def test_results_are_kept_until_something_changes(tmp_path: Path, monkeypatch) -> None:
    hand_in(tmp_path / "in", "ann", EX04, with_holes(definitions(solution(ROOT, EX04)), EX04))
    out, graded = tmp_path / "board.md", []
    grade_all = board.grade_all

    def counted(tasks, jobs):
        graded.append(len(tasks))
        return grade_all(tasks, jobs)

    monkeypatch.setattr(board, "grade_all", counted)
    assert run(tmp_path / "in", out) == run(tmp_path / "in", out) == 0
    assert [n for n in graded if n] == [1]
    (kept,) = (tmp_path / "board.results").rglob("*.json")
    kept.write_text("{", encoding="utf-8")
    assert run(tmp_path / "in", out) == 0
    assert [n for n in graded if n] == [1, 1]
    assert json.loads(kept.read_text(encoding="utf-8"))["status"] == "right"


def test_a_stored_table_scores_0(tmp_path: Path) -> None:
    solved = definitions(solution(ROOT, EX11))
    hand_in(tmp_path / "in", "ann", EX11, solved)
    hand_in(tmp_path / "in", "mal", EX11, with_last(solved, stored_table()))
    assert run(tmp_path / "in", tmp_path / "board.md") == 0
    found = rows_of(tmp_path / "board.csv")
    assert float(found["ann"]["score"]) > 50
    assert found["mal"]["score"] == "0.0"


def test_what_the_machine_could_not_run_has_no_rank() -> None:
    graded = Graded("ann", "x.ipynb", "0", "ex04", problem="no memory", again=True)
    assert EX04.challenge is not None
    entry = entry_of(graded, EX04.challenge, "key")
    assert (entry.status, entry.key) == ("inconclusive", "")
    one = Board(EX04.challenge, 200.0, 100.0, (entry,))
    assert one.rank(entry) is None
    assert one.score(entry) is None
    assert "inconclusive: no memory" in markdown([one])


def test_ties_share_a_rank_and_more_can_be_better() -> None:
    assert EX04.challenge is not None
    more = replace(EX04.challenge, lower_is_better=False)
    entries = tuple(
        Entry("04.challenge", name, "", "right", value, "", "")
        for name, value in (("a", 40.0), ("b", 20.0), ("c", 20.0), ("d", 10.0))
    )
    table = Board(more, 10.0, 20.0, entries)
    assert [table.rank(e) for e in entries] == [1, 2, 2, 4]
    assert [table.score(e) for e in entries] == [200.0, 100.0, 100.0, 0.0]


def test_a_name_is_no_formula_of_a_spreadsheet() -> None:
    assert EX04.challenge is not None
    entry = Entry("04.challenge", "=1+1", "", "wrong", None, "@x", "")
    text = csv_text([Board(EX04.challenge, 2.0, 1.0, (entry,))])
    assert "'=1+1" in text
    assert "'@x" in text


def test_the_instance_of_a_board_is_not_that_of_notebooks() -> None:
    assert EX11.challenge is not None
    assert known_values(EX11.challenge) != known_values(EX11.challenge, 7)


def test_checks_among_the_notebooks_are_refused(tmp_path: Path, capsys) -> None:
    assert run(ROOT / "exercises", tmp_path / "board.md") == 1
    assert "where students may have changed them" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match="there are no notebooks"):
        board.submissions(tmp_path, CHECKS)
