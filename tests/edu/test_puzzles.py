"""Puzzles: your turn, not yet, solved; a picture and a cost; a hang does not end the notebook."""

import numpy as np
import pytest

from minitvm import edu, te, viz
from minitvm.base import ArgumentError
from minitvm.edu import puzzles
from minitvm.edu.course import item_of, puzzle_of
from minitvm.edu.puzzles import tried
from minitvm.edu.ungraded import puzzle_faults

from .course import CHECKS, EXERCISES, ROOT

COLUMNS = puzzle_of("04.columns", CHECKS)
PADDED = puzzle_of("04.padding", CHECKS)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is displayed, as text."""
    texts: list[str] = []
    monkeypatch.setattr(viz, "show_in_notebook", lambda data, raw: texts.append(data["text/plain"]))
    return texts


def stub(s, B): ...  # one line: your turn


def down(s, B):
    s[B].reorder(s[B].op.axis[0], s[B].op.reduce_axis[0])


def along(s, B):
    s[B].reorder(s[B].op.reduce_axis[0], s[B].op.axis[0])


def test_a_stub_shows_what_to_reach() -> None:
    attempt = tried(COLUMNS, stub)
    assert attempt.state == "your turn"
    assert attempt.mark.parts[0].title == "to reach: 132 cache misses, as in the picture"
    assert attempt.picture is not None
    assert "128" in attempt.picture.ascii()


def test_a_wrong_line_shows_what_it_does() -> None:
    attempt = tried(COLUMNS, down)
    assert attempt.state == "not yet"
    assert attempt.mark.messages == ("too-many-misses",)
    shown = "the picture shows what your function does for the arguments (column_sums(32, 64))"
    rows = [part.title for part in attempt.mark.parts[-2:]]
    assert rows == ["2,052 cache misses; to reach: 132", shown]
    assert attempt.picture is not None
    assert "2,048" in attempt.picture.ascii()


def test_the_right_line_solves_it(shown: list[str]) -> None:
    edu.puzzle("04.columns", along)
    assert shown[0].startswith("04.columns one miss a line: solved")
    assert "132 cache misses; best known: 132" in shown[0]
    assert shown[1].startswith("misses of each tensor, 132 in all")


@pytest.mark.parametrize(("name", "row"), [("04.padding", "64 cache misses"), ("11.rows", "12 op")])
def test_a_puzzle_with_one_right_answer_names_no_best_known_value(name: str, row: str) -> None:
    puzzle = puzzle_of(name, CHECKS)
    last = tried(puzzle, puzzle.reference).mark.parts[-1].title
    assert puzzle.has_one_answer
    assert last.startswith(row)
    assert "best known" not in last


def test_a_puzzle_that_counts_a_cost_may_have_several_right_answers() -> None:
    assert not COLUMNS.has_one_answer
    assert not puzzle_of("09.needless", CHECKS).has_one_answer


def test_two_calls_show_the_same(shown: list[str]) -> None:
    edu.puzzle("04.columns", down)
    edu.puzzle("04.columns", down)
    assert shown[:2] == shown[2:]


def test_an_ellipsis_in_an_index_is_no_stub() -> None:
    assert not puzzles.unfinished(lambda array: array[..., 0])
    assert puzzles.unfinished(stub)


def test_a_right_answer_that_keeps_its_ellipsis_is_solved() -> None:
    def both(s, B):
        s[B].reorder(s[B].op.reduce_axis[0], s[B].op.axis[0])
        ...

    assert tried(COLUMNS, both).state == "solved"


def test_a_line_that_never_ends_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(puzzles, "SECONDS", 1)

    def endless(s, B):
        while True:
            pass

    attempt = tried(COLUMNS, endless)
    assert attempt.mark.messages == ("timeout",)
    assert attempt.picture is None


def test_an_unknown_puzzle_is_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    edu.puzzle("04.rows", along)
    assert "there is no such puzzle\n  try: one of 04.columns" in capsys.readouterr().out


def test_a_parameter_that_is_no_tensor_is_named() -> None:
    attempt = tried(COLUMNS, lambda s, X: None)
    assert "one of A, B, s" in attempt.mark.parts[0].outcome.got


def test_an_answer_that_is_right_for_the_example_is_drawn_where_it_is_wrong() -> None:
    attempt = tried(PADDED, lambda columns: 16 * (-(-columns // 16) + 1))  # right for 64
    assert attempt.state == "not yet"
    assert attempt.mark.parts[-2].title == "1,024 cache misses; to reach: 64"
    assert attempt.mark.parts[-1].title.endswith("for the arguments (40)")
    assert attempt.picture is not None
    assert "1,024" in attempt.picture.ascii()


def test_a_wrong_line_with_the_least_cost_gets_no_score() -> None:
    widest = tried(PADDED, lambda columns: 16 * (-(-columns // 16) // 2 * 2 + 3))
    assert widest.state == "not yet"
    assert not any("cache misses" in part.title for part in widest.mark.parts)


@pytest.mark.parametrize(
    ("cost", "row"),
    [
        (67.2664, "67.2664 cache misses; to reach: 67.2667"),
        (67.1, "67.1 cache misses; to reach: 67.27"),
    ],
)
def test_a_wrong_number_never_reads_as_the_goal(cost: float, row: str) -> None:
    drawn = puzzles.Instance((), None, None, cost, 67.2667)
    assert [part.title for part in puzzles.cost_rows(PADDED, "not yet", drawn, None)] == [row]


def test_numbers_are_told_from_names_and_nothing() -> None:
    numbers = (3, 0.5, np.float32(1), np.bool_(True), np.zeros(2), [1, (2, 3.0)])
    others = ("a", [], np.str_("a"), np.array(["a"]), [1, "a"])
    assert all(map(puzzles.is_numeric, numbers))
    assert not any(map(puzzles.is_numeric, others))


def test_a_puzzle_about_an_order_names_no_cost() -> None:
    attempt = tried(puzzle_of("03.two-rows", CHECKS), stub)
    assert len(attempt.mark.parts) == 1
    assert attempt.picture is not None
    assert attempt.picture.ascii().startswith("the visits to B")


def test_a_stub_of_a_puzzle_about_a_number_shows_nothing_that_gives_it_away() -> None:
    attempt = tried(PADDED, lambda columns: ...)
    turn = "replace the ... in your function, and run the cell again"
    assert [part.title for part in attempt.mark.parts] == [turn]
    assert attempt.picture is None
    assert tried(puzzle_of("01.symmetric", CHECKS), lambda X: ...).picture is not None


def test_an_error_gets_the_reason_of_its_part() -> None:
    def past_the_end(X):
        n = X.shape[0]
        return te.compute((n,), lambda i: (X[i] + X[n - i]) / 2, name="Y")

    outcome = tried(puzzle_of("01.symmetric", CHECKS), past_the_end).mark.parts[0].outcome
    assert outcome.message == "raises"
    assert outcome.why == "the mirror image of the first element is the last one, X[n - 1]"


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.puzzles], ids=lambda e: e.id)
def test_the_goal_of_every_puzzle_is_drawn_if_it_has_a_picture(exercise) -> None:
    for puzzle in exercise.puzzles:
        example = puzzles.instance_of(puzzle, puzzle.reference, puzzles.example_of(puzzle))
        drawn = puzzles.picture_of(puzzle, example.value)
        assert (drawn is None) == (puzzle.picture is None), puzzle.id
        assert (example.least is None) == (puzzle.cost is None), puzzle.id


def test_a_puzzle_about_a_value_gets_the_arguments() -> None:
    assert tried(PADDED, lambda columns: columns).state == "not yet"


def test_a_puzzle_has_hints_and_no_points(capsys: pytest.CaptureFixture[str]) -> None:
    edu.hint("04.padding", 2)
    assert "hint 2 of 2" in capsys.readouterr().out
    assert item_of("04.padding", CHECKS).points == 0
    with pytest.raises(ArgumentError, match=r"edu\.puzzle"):
        edu.check("04.columns", along)


@pytest.mark.parametrize("exercise", [e for e in EXERCISES if e.puzzles], ids=lambda e: e.id)
def test_solutions_solve_and_wrong_answers_do_not(exercise) -> None:
    assert puzzle_faults(ROOT, exercise) == []
