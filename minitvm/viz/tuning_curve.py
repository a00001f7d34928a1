"""TuningCurve: every trial of a search while it runs, the best so far, failures, a Stop button."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import NamedTuple

from minitvm import tune
from minitvm.base import ArgumentError

from .boxes import Box, column, legend, paragraph, spread, text
from .figure import WIDTH
from .live import Live
from .marks import Bar, Dot, Mark, Path, Rule
from .plot import Axis, plot

BATCH = 16  # trials per batch if the batches are not given
MAX_TRIALS = 1200  # most drawn trials; if there are more, every second, third, ... is drawn
BLOCKS = " ▁▂▃▄▅▆▇█"


class Trial(NamedTuple):
    """One trial.

    speed   in the unit of tune.rate_unit; 0 if the trial failed
    batch   the number of the batch it was measured in, from 0
    error   the kind of the failure; "" if the trial succeeded
    about   the text shown at the mouse pointer: the candidate, after the message of a failure
    """

    speed: float
    batch: int
    error: str
    about: str


class TuningCurve(Live):
    """Watch a search: each trial's speed, the best so far, the batches, and what failed.

    search   a tune.Search; the Start button starts it, Stop ends it after the current batch
    levels   name -> speed of lines to compare with: {"FMA peak": 150.0}

    The search runs in a thread of its own, so the notebook's cell returns at once; search.wait()
    waits for its end. A saved notebook shows no live search, because it differs from run to run;
    it does show TuningCurve.from_trials(task, trials).
    """

    def __init__(self, search: tune.Search, levels: Mapping[str, float] | None = None) -> None:
        self._prepare(search.task, levels)
        self._search = search
        super().__init__()
        search.listen(self._hear)

    def _prepare(self, task: tune.Task, levels: Mapping[str, float] | None) -> None:
        for name, value in (levels or {}).items():
            if not value > 0:
                why = f"not a speed in {tune.rate_unit(task)}"
                raise ArgumentError(f"level {name!r}: {value!r}", why, "150.0")
        self._unit = tune.rate_unit(task)
        self._task, self._levels, self._trials = task, dict(levels or {}), list[Trial]()
        self._batch, self._planned, self._status = 0, 0, "not started"
        self._ended = False

    @classmethod
    def from_trials(
        cls,
        task: tune.Task,
        trials: Iterable[tune.Trial],
        levels: Mapping[str, float] | None = None,
        batches: Sequence[int] | None = None,
    ) -> TuningCurve:
        """Return a widget that shows recorded trials, given in the order of measuring.

        batches   the number of the batch of each trial; by default a batch has 16 trials
        Final measurements among the trials say which is the best, and are drawn as a level.
        """
        curve = cls.__new__(cls)
        curve._prepare(task, levels)
        curve.recorded = True
        trial_list = list(trials)
        for n, trial in enumerate(trial for trial in trial_list if not trial.final):
            curve._trials.append(_trial(task, trial, n // BATCH if batches is None else batches[n]))
        best = tune.best_trial(trial_list)
        speed = 0.0 if best is None else tune.rate(task, best.cost)
        curve._status = f"{len(curve._trials)} trials, best {speed:.4g} {tune.rate_unit(task)}"
        curve._judge(best)
        Live.__init__(curve)
        return curve

    # --- events of the search ---

    def _hear(self, event: tune.Event) -> None:
        """Record an event and redraw."""
        match event:
            case tune.Started(earlier=earlier, trials=trials):
                self._trials = [_trial(self._task, t, 0) for t in earlier]
                self._batch, self._planned = int(bool(earlier)), trials or 0
                self._status, self.running = "measuring", True
            case tune.Round(number=number):
                self._batch = number
                return
            case tune.Measured(trial=trial):
                self._trials.append(_trial(self._task, trial, self._batch))
                self._status = self._progress(event)
            case tune.Finished(outcome=outcome):
                self._status = str(outcome).split(": ", 1)[1]
                self.running, self._ended = False, True
                self._judge(outcome.found)
        self.show_soon(at_once=not isinstance(event, tune.Measured))

    def _judge(self, best: tune.Trial | None) -> None:
        """Draw the speeds of the best candidate and of the default as levels."""
        if best is not None and best.final:
            self._levels["best, measured again"] = tune.rate(self._task, best.cost)
            if best.default is not None:
                self._levels["default schedule"] = tune.rate(self._task, best.default)

    def _progress(self, event: tune.Measured) -> str:
        """Return the number of trials, the best speed, and the time taken or left, as text."""
        best = f"best {self._best()[-1]:.4g} {self._unit}"
        if not self._planned:
            return f"{event.number} trials, {best}, {event.elapsed:.0f} s"
        left = event.elapsed / event.number * (self._planned - event.number)
        return f"{event.number} of {self._planned} trials, {best}, about {left:.0f} s left"

    def can_start(self) -> bool | None:
        return None if self.recorded else not self.running and not self._ended

    def start(self) -> None:
        self._search.start()

    def stop(self) -> None:
        self._search.stop()

    # --- what is shown ---

    def _best(self) -> list[float]:
        """Return the highest speed up to each trial, after a first 0."""
        return list(accumulate((t.speed for t in self._trials), max, initial=0.0))

    def _failures(self) -> str:
        """Return how many trials failed and why: "5 failed: 3 crash, 2 memory"; "" if none did."""
        kinds = Counter(t.error for t in self._trials if t.error)
        kind_counts = ", ".join(f"{n} {kind}" for kind, n in kinds.most_common())
        return f"{kinds.total()} failed: {kind_counts}" if kinds else ""

    def title(self) -> str:
        return " ".join(["tuning of", self._task.name, *map(str, self._task.arguments)])

    def plan(self) -> list[str]:
        return [
            self.title(),
            "a live search: its trials appear here while it runs, and Stop ends it",
            "viz.TuningCurve.from_trials(task, trials) shows recorded trials",
        ]

    def body(self) -> Box:
        top = 1.08 * (max([*self._levels.values(), *self._best()]) or 1)
        trials = Axis(0, max(self._planned, len(self._trials), 1), "trials", ticks=8, whole=True)
        speeds = Axis(0, top, self._unit, ticks=5, grid=True)
        samples = {"sky dot": "a trial", "blue line": "the best so far"}
        samples |= {"red bar": "a failed trial"} if self._failures() else {}
        status = text(self._status, "soft", anchor="end")
        return column(
            spread(text(self.title(), size=13, bold=True), status, WIDTH),
            plot(trials, speeds, self._marks(top), WIDTH, 290),
            legend({**samples, "faint": "every second batch"}, WIDTH),
            paragraph(self._failures(), WIDTH),
        )

    def _marks(self, top: float) -> Iterator[Mark]:
        start, best = 0, self._best()
        for batch, group in groupby(self._trials, lambda t: t.batch):
            end = start + len(list(group))
            if batch % 2:
                yield Bar(start, None, end, None, "faint")
            start = end
        for n in range(0, len(self._trials), -(-len(self._trials) // MAX_TRIALS) or 1):
            t, key = self._trials[n], f"trial:{n}"
            tip = f"trial {n + 1}: {t.error or f'{t.speed:.4g} {self._unit}'}"
            tip = ", ".join(filter(None, [tip, t.about]))
            if t.error:
                yield Path([(n + 1, 0), (n + 1, top / 27)], "red", key, tip)
            else:
                yield Dot(n + 1, t.speed, "sky", key, tip)
        rises = [(n, s) for n, (before, s) in enumerate(pairwise(best), 1) if s > before]
        if rises:
            yield Path([*rises, (len(self._trials), best[-1])], "blue", "best", steps=True)
        for name, value in self._levels.items():
            yield Rule(y=value, text=f"{name}: {value:.3g}", key=f"level:{name}")

    def lines(self) -> list[str]:
        """Return the run as text: a bar for the best speed after each batch, and the failures."""
        lines = [f"{self.title()}: {self._status}"]
        lines += [f"{name}: {value:.3g} {self._unit}" for name, value in self._levels.items()]
        if most := self._best()[-1]:
            batches = zip((t.batch for t in self._trials), self._best()[1:], strict=True)
            ends = [[*group][-1][1] for _, group in groupby(batches, lambda pair: pair[0])]
            bars = "".join(BLOCKS[round(8 * s / most)] for s in ends[-60:])
            lines.append(f"best after each batch  |{bars}|  {most:.3g} {self._unit}")
        return [*lines, *filter(None, [self._failures()])]


def _trial(task: tune.Task, trial: tune.Trial, batch: int) -> Trial:
    n, row = trial.candidate
    about = task.sketches[n].space.text(row)
    if trial.result.error:
        detail = trial.result.detail.strip().splitlines()
        return Trial(0.0, batch, trial.result.error, "; ".join([*detail[:1], about]))
    return Trial(tune.rate(task, trial.cost), batch, "", about)
