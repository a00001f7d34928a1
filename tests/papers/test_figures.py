# pyright: basic

"""The papers' figures: drawn from stored measurements, with a claim each, the same in each run."""

import importlib
import json
import math
from pathlib import Path

import numpy as np
import pytest

from minitvm import papers

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
STORED = ("papers.json", "papers_measured.json")


@pytest.fixture
def module(monkeypatch):
    """Import a module of the benchmarks by its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)
    return importlib.import_module


def bars(figures):
    rows = {"C6": {"ours": 1.0, "torch": 0.5}, "DQN": {"ours": 12.34}}
    return figures.Drawn(
        "Figure 6", "speed", rows, figures.Claim("2x as fast", "2.0 times", holds=True)
    )


def curves(figures):
    line = figures.Curve(np.array([1, 2]), np.array([0.5, 1.0]))
    panels = {"C6": {"ours": line}, "C9": {"ours": line}}
    claim = figures.Claim("40x", "no FPGA", holds=None)
    return figures.Drawn("Figure 4", "trials", {"ours": {"C6": 2.0}}, claim, panels, line=0.95)


def test_a_figure_prints_its_table_and_its_claim(module):
    assert str(bars(module("_figures"))).splitlines() == [
        "Figure 6",
        "speed",
        "        ours    torch",
        "C6         1     0.50",
        "DQN     12.3",
        "paper: 2x as fast",
        "here:  2.0 times: holds",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(3.0, "3"), (0.256, "0.26"), (12.34, "12.3"), (math.nan, "")]
)
def test_numbers_have_about_three_digits(value, text, module):
    assert module("_figures").number(value) == text


@pytest.mark.parametrize("make", [bars, curves])
def test_a_picture_has_the_same_bytes_when_it_is_drawn_twice(make, module, tmp_path):
    pytest.importorskip("matplotlib")
    figures = module("_figures")
    for folder in ("a", "b"):
        figures.draw(make(figures), tmp_path / folder / "figure.svg")
    first, second = ((tmp_path / n / "figure.svg").read_bytes() for n in ("a", "b"))
    assert first == second
    assert b"</svg>" in first


def test_claims_replace_those_of_the_same_figures(module, tmp_path):
    figures, file = module("_figures"), tmp_path / "papers.md"
    old = "| `a` | p | old | yes |\n| `c` | r | j | yes |"
    file.write_text(f"before\n{figures.BEGIN}\n{old}\n{figures.END}\nafter\n")
    claims = {"a": figures.Claim("p", "h", holds=False), "b": figures.Claim("q", "i", holds=None)}
    figures.write_claims(claims, 3, file)
    assert file.read_text().splitlines() == [
        "before",
        figures.BEGIN,
        "| figure | the paper | here, 3 seeds | holds |",
        "| --- | --- | --- | --- |",
        "| `a` | p | h | **no** |",
        "| `c` | r | j | yes |",
        "| `b` | q | i | not run |",
        figures.END,
        "after",
    ]


def test_each_stored_figure_is_drawn_and_has_finite_numbers(module):
    measured = module("_measured")
    for make in (measured.AUTOTVM | measured.ANSOR | measured.TVM).values():
        figure = make()
        assert figure.rows
        assert all(x >= 0 for row in figure.rows.values() for x in row.values())
        assert str(figure).endswith(figure.claim.verdict)


def test_random_programs_are_judged_by_the_pairs_that_they_order(module, monkeypatch):
    measured = module("_measured")
    models = {"all": {"pairs": 0.8}, "more": {"pairs": 0.82}, "random": {"pairs": 0.7}}
    monkeypatch.setattr(measured, "stored", lambda: {"programs": {"models": models}})
    assert measured.programs().claim.verdict == "does not hold here"
    monkeypatch.setattr(measured, "stored", dict)
    assert measured.programs().claim.verdict == "not run"


def test_a_curve_of_steps_stays_until_the_next_point(module):
    curve = module("_measured").steps([(1.0, 10.0), (3.0, 20.0)], 5.0)
    np.testing.assert_array_equal(curve.x, [1, 3, 3, 5])
    np.testing.assert_array_equal(curve.y, [10, 10, 20, 20])


def test_a_ratio_is_taken_over_the_fastest_alternative_and_not_over_our_default(module):
    cases = {
        "a": {"minitvm": 6.0, "torch": 3.0, "onnxruntime": 4.0, "default": 8.0},
        "b": {"minitvm": 1.0, "torch": 2.0},
        "no peer": {"minitvm": 1.0, "default": 4.0},
    }
    figure = module("_measured").compared(
        "t", cases, "minitvm", ("torch", "onnxruntime"), "p", lambda ratios: min(ratios) >= 0.5
    )
    assert figure.rows["b"] == {"minitvm": 0.5, "torch": 1.0}
    assert figure.rows["no peer"] == {"minitvm": 0.25, "default": 1.0}
    assert figure.claim.here.startswith("0.50 (b) to 1.50 (a) times")
    assert figure.claim.holds


def test_table_1_is_that_of_the_paper(module):
    rows = module("_computed").convolutions(1).rows
    assert rows["C7"] | {"near best %": 0} == {
        "H, W": 28, "IC": 128, "OC": 256, "K": 3, "S": 2, "calls": 1, "recorded": 2000,
        "near best %": 0,
    }  # fmt: skip
    assert rows["C3"]["calls"] == 0  # the shortcut of the first block is the identity


def test_treegru_does_not_search_tables_that_it_has_learned_from(module):
    cells = module("_replayed").cells_of(["figure4"], 1)
    searched = {table for table, searcher, _ in cells if searcher == "TreeGRU"}
    assert searched == {*papers.LAYERS} - {*papers.SOURCES}


def test_groups_have_all_figures_once(module):
    run = module("papers")
    assert run.chosen(["tvm", "fusion", "figure4"]) == [*run.GROUPS["tvm"], "figure4"]
    assert sum(map(len, run.GROUPS.values())) == len(run.FIGURES) == len(run.chosen(["all"]))


@pytest.mark.parametrize("file", STORED)
def test_stored_files_are_small(file):
    text = (BENCHMARKS / file).read_text()
    assert len(text) < 150_000
    assert json.loads(text)
