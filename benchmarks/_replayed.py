"""The figures of searches on the recorded tables of minitvm.papers: nothing is measured.

A claim holds if the medians over all tables of a figure say so. papers.json stores 20 seeds of each
search.
"""

from __future__ import annotations

import hashlib
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from _figures import Claim, Curve, Drawn
from tqdm import tqdm

from minitvm import papers, tune

FILE = Path(__file__).with_name("papers.json")
TRIALS = 250
GOAL = 0.95  # of the best speed
RECORDED_SEEDS = 20
TABLES = tuple(name for name in papers.LAYERS if (tune.FOLDER / f"{name}.npz").exists())
FEW = ("C2", "C6", "C9")  # for searchers that take ten seconds
TARGETS = ("C7", "C8", "C9")
RELATION, LOOPS = "context relation", "flattened loops"
KNOWN = {"TreeGRU": papers.SOURCES}  # tables that a searcher has learned from: not searched


def _history(sources: tuple[str, ...], encoding: papers.Encoding) -> papers.Searcher:
    """Return a searcher with a history, which is trained when the searcher is first used."""

    def policy(records: papers.Recorded, rng: np.random.Generator) -> tune.Policy:
        past = papers.history(sources, encoding)
        return papers.with_history(past, encoding).policy(records, rng)

    return papers.Searcher(policy)


def _misled(records: papers.Recorded, rng: np.random.Generator) -> tune.Policy:
    past = papers.inverted(papers.SOURCES, LOOPS)
    return papers.with_history(past, LOOPS).policy(records, rng)


SEARCHERS = {
    **papers.SEARCHERS,
    "history of C1-C6, configuration": _history(papers.SOURCES, "configuration"),
    "history of C1-C6, flattened loops": _history(papers.SOURCES, LOOPS),
    "history of C1-C6, context relation": _history(papers.SOURCES, RELATION),
    "history of the product": _history(("matmul-512",), LOOPS),
    "history of C7 with AVX-512": _history(("C7-avx512",), LOOPS),
    "history of C9 with AVX-512": _history(("C9-avx512",), LOOPS),
    "history of C1-C6, inverted": papers.Searcher(_misled),
}


@dataclass(frozen=True)
class Figure:
    """Searchers that are compared on tables, and a claim about their median trials."""

    title: str
    tables: tuple[str, ...]
    searchers: tuple[str, ...]
    claim: Callable[[Medians], Claim]
    goal: float = GOAL

    def tables_of(self, searcher: str) -> list[str]:
        """Return the tables that a searcher does not know."""
        return [table for table in self.tables if table not in KNOWN.get(searcher, ())]


Medians = dict[str, float]  # searcher -> geometric mean over tables of the median trials


Cell = tuple[str, str, int]  # a table, a searcher, and the seed of one search
SPEEDS = dict[Cell, np.ndarray]()


def searched(cell: Cell) -> np.ndarray:
    """Run one search; return the best speed after each trial."""
    table, searcher, seed = cell
    return papers.search(papers.recorded(table), SEARCHERS[searcher], TRIALS, seed)


def speeds_of(table: str, searcher: str, seed: int) -> np.ndarray:
    """Return the best speed after each trial of one search, which runs only once."""
    cell = table, searcher, seed
    if cell not in SPEEDS:
        SPEEDS[cell] = searched(cell)
    return SPEEDS[cell]


def run_ahead(cells: Iterable[Cell], jobs: int) -> None:
    """Run searches in `jobs` processes, so that speeds_of() knows them."""
    left = [cell for cell in dict.fromkeys(cells) if cell not in SPEEDS]
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        results = pool.map(searched, left, chunksize=4)
        SPEEDS.update(zip(left, tqdm(results, total=len(left), unit="search"), strict=True))


def trials(table: str, searcher: str, seeds: int, goal: float) -> float:
    """Return the median number of trials to a share of the best speed."""
    curves = (speeds_of(table, searcher, seed) for seed in range(seeds))
    return statistics.median(papers.trials_to(curve, goal) for curve in curves)


def _at_most(name: str, other: str, ratio: float, paper: str) -> Callable[[Medians], Claim]:
    """Return a claim: `name` needs at most `ratio` times as many trials as `other`."""

    def claim(medians: Medians) -> Claim:
        here = medians[name] / medians[other]
        text = f"{name} needs {here:.2f} times the trials of {other} (bar: at most {ratio})"
        return Claim(paper, text, here <= ratio)

    return claim


def _alike(names: Sequence[str], base: str, paper: str) -> Callable[[Medians], Claim]:
    """Return a claim: none of `names` needs fewer than .8 times the trials of `base`."""

    def claim(medians: Medians) -> Claim:
        ratios = {name: medians[name] / medians[base] for name in names}
        text = ", ".join(f"{name} {ratio:.2f}" for name, ratio in ratios.items())
        return Claim(paper, f"times the trials of {base}: {text}", min(ratios.values()) > 0.8)

    return claim


TREES = "trees, rank loss"
FIGURES = {
    "figure4": Figure(
        "Figure 4: a cost model against black boxes",
        TABLES,
        (
            "random",
            "random, twice the trials",
            "genetic",
            "genetic, twice the trials",
            TREES,
            "TreeGRU",
        ),
        _at_most(TREES, "random", 0.5, "the model finds operators 2x as fast as random search's"),
    ),
    "templates2": Figure(
        "Figure 4, for other templates: products, and Winograd's formula (PT)",
        (*papers.PRODUCTS, *(n for n in papers.WINOGRAD if (tune.FOLDER / f"{n}.npz").exists())),
        ("random", "genetic", TREES),
        _at_most(TREES, "random", 0.5, "the model finds operators 2x as fast as random search's"),
    ),
    "treegru": Figure(
        "Figure 4: TreeGRU, which was trained on C1-C6, on layers that it has not seen",
        TARGETS,
        ("random", "genetic", "TreeGRU", "history of C1-C6, flattened loops", TREES),
        _at_most("TreeGRU", "random", 0.5, "TreeGRU finds operators 2x as fast as random search's"),
    ),
    "tc": Figure(
        "Baseline: the genetic algorithm of Tensor Comprehensions",
        TABLES,
        ("genetic, Tensor Comprehensions", TREES),
        _at_most(TREES, "genetic, Tensor Comprehensions", 1.0, "faster operators than TC's"),
    ),
    "smac": Figure(
        "Baseline: a random forest on configurations, as in SMAC",
        TABLES,
        ("random forest, configuration (SMAC)", TREES),
        _at_most(
            TREES, "random forest, configuration (SMAC)", 1.0, "features of programs beat knobs"
        ),
    ),
    "figure5": Figure(
        "Figure 5: rank loss against squared error",
        TABLES,
        ("trees, squared error", TREES),
        _at_most(TREES, "trees, squared error", 1.1, "rank loss is as good or slightly better"),
    ),
    "figure6": Figure(
        "Figure 6: diversity (equation 3)",
        TABLES,
        ("trees, diversity 1", "trees, diversity 2", "trees, diversity 4"),
        _at_most("trees, diversity 4", "trees, diversity 1", 1.1, "diversity does no harm"),
    ),
    "figure7": Figure(
        "Figure 7: uncertainty, five bootstrapped models",
        TABLES,
        (
            "five models, mean",
            "five models, expected improvement",
            "five models, upper confidence bound",
        ),
        _alike(
            ("five models, expected improvement", "five models, upper confidence bound"),
            "five models, mean",
            "uncertainty gives no gain",
        ),
    ),
    "figure8": Figure(
        "Figure 8: transfer from C1-C6",
        TARGETS,
        ("history of C1-C6, flattened loops", TREES),
        _at_most("history of C1-C6, flattened loops", TREES, 0.5, "transfer is 2x to 10x faster"),
        0.9,
    ),
    "figure9a": Figure(
        "Figure 9: encodings, C1-C6 to another convolution",
        ("C7",),
        (
            "history of C1-C6, configuration",
            "history of C1-C6, flattened loops",
            "history of C1-C6, context relation",
            TREES,
        ),
        _at_most("history of C1-C6, context relation", TREES, 1.0, "all encodings transfer"),
        0.9,
    ),
    "figure9b": Figure(
        "Figure 9: encodings, convolutions C1-C6 to a product of matrices",
        ("matmul-512",),
        (
            "history of C1-C6, flattened loops",
            "history of C1-C6, context relation",
            "TreeGRU",
            TREES,
        ),
        _at_most(
            "history of C1-C6, context relation",
            "history of C1-C6, flattened loops",
            1.0,
            "context relations transfer between operators, flattened loops do not",
        ),
        0.9,
    ),
    "figure9d": Figure(
        "Figure 9: from one device to another",
        ("C9",),
        ("history of C9 with AVX-512", "history of C7 with AVX-512", TREES),
        _at_most("history of C9 with AVX-512", TREES, 1.0, "another device's data help"),
        0.9,
    ),
    "misleading": Figure(
        "A history that misleads: inverted ranks, and another operator",
        TARGETS,
        ("history of C1-C6, inverted", "history of the product", TREES),
        _at_most("history of C1-C6, inverted", TREES, 2.0, "(ours) a bad history is dropped"),
        0.9,
    ),
    "statements": Figure(
        "Ansor: a score for each statement, and beam search",
        FEW,
        ("statement model", "beam search", TREES),
        _at_most("statement model", "beam search", 1.0, "beam search loses to whole programs"),
    ),
    "product": Figure(
        "minitvm's own search: an analytic estimate, and trees that come with it",
        FEW,
        ("product", TREES),
        _at_most("product", TREES, 1.0, "(ours) an estimate replaces most of the learning"),
    ),
}


def drawn(name: str, seeds: int) -> Drawn:
    """Return a figure: the median trials of each searcher on each table, and the curves."""
    figure, rows, medians = FIGURES[name], dict[str, dict[str, float]](), Medians()
    for searcher in figure.searchers:
        tables = figure.tables_of(searcher)
        rows[searcher] = {t: trials(t, searcher, seeds, figure.goal) for t in tables}
        medians[searcher] = statistics.geometric_mean(rows[searcher].values())
        rows[searcher]["mean"] = medians[searcher]
    unit = f"median trials to {figure.goal:.0%} of the best, {seeds} seeds"
    panels = {table: curves(figure, table, seeds) for table in figure.tables}
    axes = "trials", "share of the best speed"
    return Drawn(figure.title, unit, rows, figure.claim(medians), panels, axes, figure.goal)


def curves(figure: Figure, table: str, seeds: int) -> dict[str, Curve]:
    """Return medians and quartiles of the best speed after each trial on one table."""
    found, steps = dict[str, Curve](), np.arange(1, TRIALS + 1)
    for searcher in figure.searchers:
        if table in figure.tables_of(searcher):
            speeds = np.stack([speeds_of(table, searcher, seed) for seed in range(seeds)])
            low, middle, high = np.quantile(speeds, (0.25, 0.5, 0.75), axis=0)
            found[searcher] = Curve(steps, middle, low, high)
    return found


def cells_of(names: Iterable[str], seeds: int) -> list[Cell]:
    """Return the searches of figures, each once."""
    figures = [FIGURES[name] for name in names]
    pairs = ((t, s) for f in figures for s in f.searchers for t in f.tables_of(s))
    return [(t, s, seed) for t, s in dict.fromkeys(pairs) for seed in range(seeds)]


def digest(table: str, searcher: str, seed: int) -> str:
    """Return a hash of one search: of the speeds after each trial."""
    return hashlib.sha256(speeds_of(table, searcher, seed).tobytes()).hexdigest()[:16]


def record(jobs: int) -> None:
    """Store quartiles of RECORDED_SEEDS searches of each table and searcher; resume."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    for table, searcher in dict.fromkeys((t, s) for t, s, _ in cells_of(FIGURES, 1)):
        if (key := f"{table}: {searcher}") in stored:
            continue
        run_ahead(((table, searcher, n) for n in range(RECORDED_SEEDS)), jobs)
        curves = np.stack([speeds_of(table, searcher, seed) for seed in range(RECORDED_SEEDS)])
        marks = [16, 32, 64, 128, TRIALS]
        quartiles = np.quantile(curves, (0.25, 0.5, 0.75), axis=0)[:, [n - 1 for n in marks]]
        stored[key] = {
            "speed": {
                str(n): [round(float(q), 4) for q in quartiles[:, k]] for k, n in enumerate(marks)
            },
            "trials": {
                str(goal): [papers.trials_to(curve, goal) for curve in curves]
                for goal in (0.9, GOAL)
            },
            "hashes": [digest(table, searcher, seed) for seed in range(RECORDED_SEEDS)],
        }
        lines = [f"{json.dumps(key)}: {json.dumps(cell)}" for key, cell in stored.items()]
        FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        print(
            f"{key}: median trials {statistics.median(stored[key]['trials'][str(GOAL)])}",
            flush=True,
        )


def check(count: int, seed: int) -> bool:
    """Run stored searches again that are drawn at random; return whether all agree."""
    stored = json.loads(FILE.read_text())
    rng, same = np.random.default_rng(seed), True
    for number in rng.choice(len(stored), min(count, len(stored)), replace=False).tolist():
        key, run = [*stored][number], int(rng.integers(RECORDED_SEEDS))
        table, searcher = key.split(": ", 1)
        agrees = digest(table, searcher, run) == stored[key]["hashes"][run]
        print(f"{key}, seed {run}: {'agrees' if agrees else 'DIFFERS'}", flush=True)
        same &= agrees
    return same
