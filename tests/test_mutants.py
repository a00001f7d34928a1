"""The mutants of a file: one change each, where the program runs."""

from pathlib import Path

import pytest

from .mutants import changes, mutants_of


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("a + b", ["a - b"]),
        ("x = a and (b or c)", ["x = (a or (b or c))", "x = a and ((b and c))"]),
        ("a < b", ["a <= b", "a >= b", "a < b - 1"]),
        ("max(a, b)", ["min(a, b)"]),
        ("def f(a: Literal[1] = 2): pass", ["def f(a: Literal[1] = 3): pass"]),
        ("raise ValueError(a + b)", []),
        ("f'{a + b}'", []),
        ("zip(a, b, strict=True)", []),
    ],
)
def test_each_mutant_has_one_change(text: str, changed: list[str]) -> None:
    lines = [m.line for m in mutants_of(changes(Path("file.py"), text))]
    assert lines[: len(changed)] == changed
    assert bool(lines) == bool(changed)


def test_a_mutant_names_its_line_before_and_after() -> None:
    _, _, third, *_ = mutants_of(changes(Path("file.py"), "x = 1\ny = x - 2"))
    assert str(third) == "file.py:2\n      y = x - 2\n   -> y = x + 2"
