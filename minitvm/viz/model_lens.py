"""ModelLens: a cost model beside measured speeds, knob by knob, and the pairs it orders wrongly."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple, cast

import numpy as np

from minitvm.base import ArgumentError, check_text, is_count

from .boxes import Box, aligned, column, framed, legend, row, sized, text
from .chart import short
from .controls import Layout, Slider, index_in
from .figure import WIDTH, Figure
from .marks import Bar, Dot, Mark, Name, Note, Path, Rule
from .numbers import finite
from .plot import Axis, plot
from .reads import Array
from .scene import clipped

LEFT, RIGHT, HEIGHT = 430, 334, 360  # pixels: widths of both halves, height of the scatter plot
MOST = 2000  # recorded configurations: all pairs of them are compared
PAIRS = 5  # listed pairs
FEATURES = 10  # drawn features
LINES = 16  # knobs below each other
EXAMPLE = 'viz.ModelLens({"tile": [1, 2, 4]}, [[0], [2]], [0.4, 1.0], predict)'


class Pair(NamedTuple):
    """Two configurations, by number, that a model orders wrongly."""

    faster: int
    slower: int


class Choice(NamedTuple):
    """A configuration with what is known about it; `number` is None if it was not recorded."""

    options: tuple[int, ...]
    number: int | None
    score: float
    features: Mapping[str, float]


class ModelLens(Figure):
    """Compare a cost model with measured speeds, and ask it about configurations of your own.

    knobs      the options of each knob by name, in the order of the columns of `rows`
    rows       int[configurations, knobs]: the numbers of the chosen options, from 0
    measured   float[configurations]: shares of the best speed, 0 to 1; 0 for a failure
    predict    a function from rows to a score for each; a higher score should mean a faster one
    features   a function from one row to named features, which are drawn as bars
    number     the number of the configuration shown first

    Each dot of the plot is a recorded configuration. A slider per knob chooses another one, and so
    does a click on a dot. Below are the share of pairs with different speeds that the scores order
    correctly (equal scores count half), and the worst pairs: those in the wrong order whose speeds
    differ most, each configuration once.
    """

    def __init__(
        self,
        knobs: Mapping[str, Sequence[object]],
        rows: Any,
        measured: Any,
        predict: Callable[[Any], Any],
        features: Callable[[Any], Mapping[str, float]] | None = None,
        *,
        title: str = "",
        number: int = 0,
    ) -> None:
        self._knobs = _checked_knobs(knobs)
        self._rows = _checked_rows(rows, self._knobs)
        count = len(self._rows)
        self._measured = finite("measured", measured, count).tolist()
        if not all(0 <= share <= 1 for share in self._measured):
            raise ArgumentError("measured", "not shares of the best speed", "speeds / max(speeds)")
        for name, f in (("predict", predict), ("features", features)):
            if not (callable(f) or (f is None and name == "features")):
                raise ArgumentError(f"ModelLens: {name}={f!r}", "not a function", EXAMPLE)
        self._predict, self._features = predict, features
        self._scores = finite("predict(rows)", predict(self._rows.copy()), count).tolist()
        options: list[list[int]] = self._rows.tolist()
        self._number_of = {tuple(r): n for n, r in reversed([*enumerate(options)])}
        self.accuracy, self.pairs, self.worst = compared(self._measured, self._scores)
        if not is_count(number, 0) or number >= count:
            why = f"the configurations are 0 to {count - 1}"
            raise ArgumentError(f"number={number!r}", why, "number=0")
        self._title = check_text("title", title, 'title="conv2d"')
        fastest = max(range(count), key=self._measured.__getitem__)
        self._reference = self._named_features(self._rows[fastest])
        self._show(int(number))
        super().__init__()

    # --- the chosen configuration ---

    def _show(self, number: int) -> None:
        """Choose a recorded configuration."""
        options = tuple(self._rows[number].tolist())
        self.now = Choice(
            options, number, self._scores[number], self._named_features(self._rows[number])
        )
        self.selected = f"row:{number}"

    def _choose(self, options: tuple[int, ...]) -> None:
        """Choose any configuration; the model is asked about those that are not recorded."""
        number = self._number_of.get(options)
        if number is not None:
            self._show(number)
            return
        rows = np.array([options], self._rows.dtype)
        score = float(finite("predict(rows)", self._predict(rows), 1)[0])
        self.now = Choice(options, None, score, self._named_features(rows[0]))
        self.selected = ""

    def _named_features(self, options: Array) -> dict[str, float]:
        if self._features is None:
            return {}
        features = dict(self._features(options.copy()))
        values = finite("features(row)", [*features.values()], len(features))
        return dict(zip(map(str, features), values.tolist(), strict=True))

    def layout(self) -> Layout:
        """Return a slider for each knob that has a choice, and what lights up together."""
        sliders = (
            Slider(f"knob{k}", short(name, 24), 0, len(self._knobs[name]) - 1, self.now.options[k])
            for k, name in enumerate(self._knobs)
            if len(self._knobs[name]) > 1
        )
        links = {f"pair:{k}": tuple(f"row:{n}" for n in p) for k, p in enumerate(self.worst)}
        links |= {row: (pair,) for pair, rows in links.items() for row in rows}
        return Layout(tuple(sliders), links=links, selectable="row:")

    def on(self, name: str, value: Any) -> str | None:
        """Move a knob, or choose the configuration of a dot."""
        if name == "click":
            number = index_in(value, "row", len(self._rows))
            if number is not None:
                self._show(number)
            return super().on(name, value)
        knob = int(name.removeprefix("knob"))
        options = self.now.options
        self._choose((*options[:knob], value, *options[knob + 1 :]))
        return None

    # --- what is shown ---

    def title(self) -> str:
        return self._title or f"a cost model and {len(self._rows)} measured configurations"

    def _verdict(self) -> str:
        if self.accuracy is None:
            return "there are no two configurations with different speeds"
        return f"pairs in the right order: {self.accuracy:.1%} of {self.pairs:,}; guessing has 50%"

    def _heading(self) -> str:
        n = self.now.number
        return "a configuration of your own" if n is None else f"configuration {n}"

    def _speed(self) -> str:
        n = self.now.number
        speed = "not recorded" if n is None else f"{self._measured[n]:.1%} of the best speed"
        return f"measured: {speed}"

    def body(self) -> Box:
        right = column(
            text(self._heading(), size=13, bold=True),
            self._knobs_box(),
            column(text(f"predicted: {self.now.score:.4g}", bold=True), text(self._speed()), gap=1),
            self._features_box(),
        )
        shares = Axis(0, 1, "measured: share of the best speed", label="{:.0%}".format)
        scores = Axis.around([*self._scores, self.now.score], "predicted score")
        samples = {"sky dot": "recorded", "line ring": "chosen"}
        samples |= {"removed line": "a pair in the wrong order"} if self.worst else {}
        return column(
            text(self.title(), size=13, bold=True, width=WIDTH),
            row(
                column(
                    plot(shares, scores, self._marks(), LEFT, HEIGHT),
                    legend(samples, LEFT),
                ),
                sized(right, RIGHT),
                gap=WIDTH - LEFT - RIGHT,
            ),
            text(self._verdict(), bold=True),
            self._pairs_box(),
        )

    def _marks(self) -> Iterator[Mark]:
        """Draw lines between the worst pairs, all recorded configurations, and the chosen one."""
        points = [*zip(self._measured, self._scores, strict=True)]
        for k, pair in enumerate(self.worst):
            yield Path([points[n] for n in pair], "removed", f"line:{k}")
            yield Name(*points[pair.faster], str(k + 1), aside=9)
        for n, (share, score) in enumerate(points):
            tip = f"configuration {n}: measured {share:.1%}, predicted {score:.4g}"
            yield Dot(share, score, "sky", f"row:{n}", tip, 3)
        if self.now.number is None:
            yield Rule(y=self.now.score, text="predicted, not recorded", key="chosen")
        else:
            yield Dot(*points[self.now.number], "line", "chosen", radius=7)

    def _knobs_box(self) -> Box:
        """Return the option of each knob, in as many columns as there are knobs for."""
        blocks = -(-len(self._knobs) // LINES)
        high, wide = -(-len(self._knobs) // blocks), RIGHT / blocks / 2 - 10
        lines = [
            (text(name, "soft", width=wide), text(option, mono=True, width=wide))
            for name, option in self._options().items()
        ]
        parts = (lines[n : n + high] for n in range(0, len(lines), high))
        return row(*(column(*aligned(part, (0, 0), 10), gap=1) for part in parts), gap=10)

    def _options(self) -> dict[str, str]:
        """Return the chosen option of each knob."""
        return {
            name: str(self._knobs[name][option])
            for name, option in zip(self._knobs, self.now.options, strict=True)
        }

    def _features_box(self) -> Box | None:
        """Draw each feature of the chosen configuration above that of the fastest recorded one."""
        names = [*self.now.features][:FEATURES]
        if not names:
            return None
        marks, low = list[Mark](), 0.0
        for n, name in enumerate(names):
            here, best = self.now.features[name], self._reference.get(name, 0.0)
            most = max(abs(here), abs(best)) or 1.0
            low = min(low, here / most, best / most)
            tip = f"{name}: {here:,.6g}; of the fastest recorded one: {best:,.6g}"
            marks += [
                Bar(0, n + 0.1, here / most, n + 0.5, "blue", f"feature:{name}", tip),
                Bar(0, n + 0.5, best / most, n + 0.9, "grey", tip=tip),
                Note(max(here, best, 0) / most, n + 0.5, f"{here:,.6g}"),
            ]
        axis = Axis(names=[clipped(name, RIGHT / 2, 12) for name in names])
        more = len(self.now.features) - len(names)
        return column(
            legend({"blue bar": "its features", "grey bar": "of the fastest recorded one"}, RIGHT),
            plot(Axis(low, 1, hidden=True), axis, marks, RIGHT, 24 * len(names) + 6),
            text(f"{more} more features", "soft") if more else None,
            gap=4,
        )

    def _pairs_box(self) -> Box | None:
        """Return the table of the worst pairs, which a click selects."""
        if not self.worst:
            return None
        head = ("", "faster one", "measured", "predicted", "slower one", "measured", "predicted")
        lines = [[text(words, "soft", anchor="end") for words in head]]
        for k, pair in enumerate(self.worst):
            cells = [
                words
                for n in pair
                for words in (f"{n}", f"{self._measured[n]:.1%}", f"{self._scores[n]:.4g}")
            ]
            lines.append([text(f"{k + 1}", bold=True), *(text(c, anchor="end") for c in cells)])
        first, *others = aligned(lines, (0, *[1] * 6), 24)
        keyed = (framed(box, "paper", f"pair:{k}", inset=2) for k, box in enumerate(others))
        heading = "the worst pairs: the model prefers the slower one"
        return column(text(heading), framed(first, "paper", inset=2), *keyed, gap=1)

    def ascii(self) -> str:
        """Return the verdict, the chosen configuration and the worst pairs as text."""
        knobs = ", ".join(f"{name} = {option}" for name, option in self._options().items())
        lines = [self.title(), self._verdict()]
        lines += [f"{self._heading()}: predicted {self.now.score:.4g}, {self._speed()}"]
        lines += [f"  {line}" for line in wrap(knobs, 96)[:5]]
        lines += [f"  {n}: {x:,.6g}" for n, x in [*self.now.features.items()][:FEATURES]]
        lines += ["the worst pairs: the model prefers the slower one"] if self.worst else []
        for pair in self.worst:
            ends = (f"{self._measured[n]:.1%} with score {self._scores[n]:.4g}" for n in pair)
            lines.append(f"  {pair.faster} and {pair.slower}: {' and '.join(ends)}")
        return "\n".join(lines)


def compared(
    measured: Sequence[float], scores: Sequence[float]
) -> tuple[float | None, int, list[Pair]]:
    """Return the share of pairs in the right order, the number of pairs, and the worst pairs.

    Pairs with equal speeds do not count, and equal scores count half. The share is None without
    pairs. The worst pairs are in the wrong order; of these, the speeds differ most. No
    configuration is in two of them.
    """
    speed, score = np.array(measured), np.array(scores)
    gaps = speed[:, None] - speed  # [n, m] > 0: n is faster than m
    agree = np.sign(score[:, None] - score)
    differ = gaps > 0
    pairs = int(differ.sum())
    share = float(np.mean(0.5 + 0.5 * agree[differ])) if pairs else None
    wrong: Array = np.where(differ & (agree < 0), gaps, 0.0)
    worst = list[Pair]()
    while len(worst) < PAIRS and wrong.any():
        n, m = divmod(int(wrong.argmax()), len(speed))
        worst.append(Pair(n, m))
        wrong[[n, m]] = wrong[:, [n, m]] = 0.0
    return share, pairs, worst


# --- checks --------------------------------------------------------------------------------------


def _checked_knobs(knobs: Any) -> dict[str, tuple[object, ...]]:
    """Return the knobs; raise ArgumentError unless each has a name and an option."""
    if not isinstance(knobs, Mapping) or not knobs:
        why = "not a mapping of names to options, or no knob"
        raise ArgumentError("ModelLens: knobs", why, EXAMPLE)
    options = cast("Mapping[Any, Any]", knobs)
    for name, values in options.items():
        listed = isinstance(values, Sequence) and not isinstance(values, str)
        if not isinstance(name, str) or not listed or not values:
            raise ArgumentError(f"knob {name!r}", "no name, or no list of options", EXAMPLE)
    return {name: tuple(values) for name, values in options.items()}


def _checked_rows(rows: Any, knobs: Mapping[str, Sequence[object]]) -> Array:
    """Return the configurations as an array of numbers of options."""
    try:
        numbers: Array = np.array(rows)
    except ValueError:
        raise ArgumentError("rows", "they differ in length", EXAMPLE) from None
    if numbers.ndim != 2 or numbers.shape[1] != len(knobs) or numbers.dtype.kind not in "iu":
        shape = f"{numbers.dtype}[{', '.join(map(str, numbers.shape))}]"
        why = f"not int[configurations, {len(knobs)}], with a column for each knob"
        raise ArgumentError(f"rows: {shape}", why, EXAMPLE)
    if not 1 <= len(numbers) <= MOST:
        why = f"1 to {MOST} can be compared pair by pair"
        raise ArgumentError(f"{len(numbers)} configurations", why, f"rows[:{MOST}]")
    for (name, options), values in zip(knobs.items(), numbers.T, strict=True):
        if values.min() < 0 or values.max() >= len(options):
            why = f"the numbers of its options are 0 to {len(options) - 1}"
            raise ArgumentError(f"rows: {values.min()} to {values.max()} for {name}", why)
    return numbers
