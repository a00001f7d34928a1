"""EvolutionView: the population of a search, generation by generation, in a map."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from minitvm import tune
from minitvm.base import ArgumentError

from .boxes import Box, column, legend, text
from .controls import CodeLine, Layout, Panel, Select, Slider, index_in
from .figure import Figure
from .marks import Dot, Mark, Path
from .plot import Axis, plot

WIDTH, HEIGHT = 640, 380  # pixels
CHILDREN = 60  # drawn children of a generation: half of them the best, half evenly spaced
EARLIER = 240  # drawn rows of earlier generations
MAPS = ("score", "features")
QUANTILES = (0.25, 0.5, 0.75, 0.95)  # of all scores: they separate the classes of dots
CLASSES = (  # kind and radius of a dot, and which scores it stands for
    ("grey", 2.5, "lowest quarter of all scores"),
    ("pale_sky", 3.0, "second quarter"),
    ("sky", 3.5, "third quarter"),
    ("blue", 4.0, "up to 95 %"),
    ("orange", 5.0, "best 5 %"),
)


@dataclass(frozen=True, slots=True)
class Member:
    """A candidate of the population.

    born     the generation that it was born in; 0 for the start
    parent   the number of its first parent; None for the start
    """

    candidate: tune.Candidate
    score: float
    born: int
    parent: int | None


class EvolutionView(Figure):
    """Show the candidates of each generation of a search, and lines from parents to children.

    task          the task that the search tunes
    generations   the arguments of all calls of tune.GuidedPolicy's `watch`; the last round is shown
    trials        measured candidates; they are drawn with a ring
    columns       the features of candidates; by default the features in the cost model
    generation    the number of the generation shown first; by default the last one
    The first axis is the first principal component of the features. The second is the score, or the
    second component. A click on a dot shows the knobs, and marks those that differ from its parent.
    """

    def __init__(
        self,
        task: tune.Task,
        generations: Iterable[tune.Generation],
        trials: Iterable[tune.Trial] = (),
        *,
        columns: tune.Columns | None = None,
        generation: int | None = None,
    ) -> None:
        generations = list(generations)
        starts = [n for n, g in enumerate(generations) if g.number == 0]
        if not starts:
            fix = "tune.GuidedPolicy(task, rng, watch=generations.append)"
            raise ArgumentError("EvolutionView", "there is no first generation", fix)
        self._task, self._generations = task, generations[starts[-1] :]
        self._tried = {t.candidate: t for t in trials}
        self.members = members(self._generations)
        scores = np.array([m.score for m in self.members], np.float32)
        limits = np.quantile(scores, QUANTILES)
        self._ranks: list[int] = np.searchsorted(limits, scores, side="right").tolist()
        table = columns or tune.columns_of(task)
        columns_used = [n for n in range(len(table.names)) if n != table.analytic]
        features = table.of_candidates([m.candidate for m in self.members])[:, columns_used]
        self._places, self._shares = components(features, 2)
        last = len(self._generations) - 1
        slider = Slider("generation", "generation", 0, last, last)
        self.generation = last if generation is None else slider.accept(generation)
        self.map = MAPS[0]
        super().__init__()

    # --- what is shown ---

    def _on_axes(self, n: int) -> tuple[float, float]:
        across, down = self._places[n].tolist()
        return across, down if self.map == "features" else self.members[n].score

    def _shown(self) -> tuple[list[int], list[int]]:
        """Return some rows of earlier generations, and some children of the chosen generation."""
        best_first = sorted(range(len(self.members)), key=lambda n: -self.members[n].score)
        earlier = [n for n in best_first if self.members[n].born < max(1, self.generation)]
        born = [n for n in best_first if self.members[n].born == self.generation > 0]
        half = CHILDREN // 2
        children = [*born[:half], *_evenly(born[half:], CHILDREN - half)]
        parents = [p for n in children if (p := self.members[n].parent) is not None]
        tried_members = [n for n in (*earlier, *born) if self.members[n].candidate in self._tried]
        others = {*_evenly(earlier, EARLIER), *parents, *tried_members} - {*children}
        return sorted(others), children

    def _marks(self, others: Sequence[int], children: Sequence[int]) -> Iterator[Mark]:
        """Draw the lines from parents, and then the dots: children, and high scores, on top."""
        for n in children:
            parent = self.members[n].parent
            if parent is not None:
                yield Path([self._on_axes(parent), self._on_axes(n)], "way")
        for rows in (others, children):
            for n in sorted(rows, key=self._ranks.__getitem__):
                kind, radius, _ = CLASSES[self._ranks[n]]
                at, tip = self._on_axes(n), self._words(n)
                yield Dot(*at, kind, f"row:{n}", tip, radius)
                if self.members[n].candidate in self._tried:
                    yield Dot(*at, "line", tip=tip, radius=radius + 3)

    def _words(self, n: int) -> str:
        """Describe a row, such as "sketch 2: score 11.6, generation 1"."""
        m = self.members[n]
        name = self._task.sketches[m.candidate.sketch].name
        born = f"generation {m.born}" if m.born else "the start"
        trial = self._tried.get(m.candidate)
        if trial is None:
            return f"{name}: score {m.score:.4g}, {born}"
        speed = f"{tune.rate(self._task, trial.cost):.4g} {tune.rate_unit(self._task)}"
        return f"{name}: score {m.score:.4g}, {born}, measured: {trial.result.error or speed}"

    def title(self) -> str:
        others, children = self._shown()
        born = sum(m.born == self.generation for m in self.members)
        what = f"{born} children" if self.generation else f"the start, {born} rows"
        drawn = f"{len(others) + len(children)} rows of {len(self.members)} are drawn"
        return f"generation {self.generation}: {what}; {drawn}"

    def body(self) -> Box:
        first, second = (f"{100 * s:.0f} % of the variance" for s in self._shares)
        points = [self._on_axes(n) for n in range(len(self.members))]
        x = Axis.around(
            (x for x, _ in points), f"first principal component of the features, {first}"
        )
        title = "score" if self.map == "score" else f"second component, {second}"
        y = Axis.around((y for _, y in points), title)
        others, children = self._shown()
        samples = {f"{kind} dot": words for kind, _, words in CLASSES}
        samples["way line"] = "from a parent to its child"
        if any(self.members[n].candidate in self._tried for n in (*others, *children)):
            samples["line ring"] = "measured"
        return column(
            text(self.title(), size=13, bold=True),
            plot(x, y, self._marks(others, children), WIDTH, HEIGHT),
            legend(samples, WIDTH),
        )

    def ascii(self) -> str:
        """Return a line of text per generation: children, how many beat their parent, scores."""
        lines = [f"{'generation':>10}{'new rows':>10}{'above parent':>14}{'median':>9}{'best':>9}"]
        for g in range(len(self._generations)):
            born = [m for m in self.members if m.born == g]
            pairs = [(m, self.members[m.parent]) for m in born if m.parent is not None]
            above = sum(m.score > p.score for m, p in pairs) / max(1, len(pairs))
            scores = [m.score for m in born]
            median, best = (f"{np.median(scores):.2f}", f"{max(scores):.3f}") if born else "--"
            better = f"{above:.0%}" if g else "-"
            lines.append(f"{g:>10}{len(born):>10}{better:>14}{median:>9}{best:>9}")
        return "\n".join(lines[:25])

    def layout(self) -> Layout:
        last = len(self._generations) - 1
        n = index_in(self.selected, "row", len(self.members))
        return Layout(
            controls=(
                Slider("generation", "generation", 0, last, self.generation),
                Select("map", "second axis", MAPS, self.map),
            ),
            panels=() if n is None else (Panel(self._words(n), self._knobs(n)),),
            selectable="row:",
        )

    def _knobs(self, n: int) -> tuple[CodeLine, ...]:
        """Return the knobs of a row; "+" marks each knob that differs from the parent's."""
        m = self.members[n]
        texts = self._options(m.candidate)
        before = texts if m.parent is None else self._options(self.members[m.parent].candidate)
        return tuple(
            CodeLine(f"  {text}") if text in before else CodeLine(f"+ {text}", note="added")
            for text in texts
        )

    def _options(self, candidate: tune.Candidate) -> list[str]:
        sketch = self._task.sketches[candidate.sketch]
        return [f"sketch: {sketch.name}", *sketch.space.text(candidate.row).split(", ")]


def _evenly(numbers: Sequence[int], most: int) -> list[int]:
    """Return at most `most` of the numbers, evenly spaced."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[n] for n in np.linspace(0, len(numbers) - 1, most).astype(int).tolist()]


def members(generations: Sequence[tune.Generation]) -> list[Member]:
    """Return all rows of a round of search by generation, each with its score and first parent."""
    lineage, number_of = list[Member](), dict[tune.Candidate, int]()
    known = [0] * len(generations[0].populations)  # rows of each sketch in the generation before
    for g in generations:
        parents = dict[tune.Candidate, tune.Candidate]()
        for offspring in g.offspring:
            rows = zip(offspring.parents.tolist(), offspring.children.tolist(), strict=True)
            for where, (parent, child) in zip(offspring.where.tolist(), rows, strict=True):
                first_parent = tune.Candidate(offspring.sketch, tuple(parent))
                parents.setdefault(tune.Candidate(where, tuple(child)), first_parent)
        for n, population in enumerate(g.populations):
            rows, scores = population.rows[known[n] :], population.scores[known[n] :]
            new = zip(rows.tolist(), scores.tolist(), strict=True)
            for row, score in new:
                candidate = tune.Candidate(n, tuple(row))
                parent = parents.get(candidate)
                number_of[candidate] = len(lineage)
                before = None if parent is None else number_of[parent]
                lineage.append(Member(candidate, score, g.number, before))
            known[n] = len(population.rows)
    return lineage


def components(table: tune.Floats, count: int) -> tuple[tune.Floats, list[float]]:
    """Return each row's first `count` principal components, and each one's share of the variance.

    Columns are standardised. The coefficients of a component have a sum of at least 0.
    """
    spread = table.std(axis=0, dtype=np.float64)
    varies = spread > 1e-6
    table, spread = table[:, varies], spread[varies]
    normalized = (table - table.mean(axis=0, dtype=np.float64)) / spread
    normalized = np.pad(normalized, ((0, 0), (0, max(0, count - normalized.shape[1]))))
    variances, vectors = np.linalg.eigh(normalized.T @ normalized / len(normalized))
    best = vectors[:, ::-1][:, :count]
    best = best * np.where(best.sum(axis=0) < 0, -1, 1)
    shares = variances[::-1][:count] / max(float(variances.sum()), 1e-12)
    return (normalized @ best).astype(np.float32), shares.tolist()
