"""Write a page about a search as one HTML file, which loads no other files."""

from __future__ import annotations

import time
from collections.abc import Sequence
from html import escape
from itertools import islice

import numpy as np

from minitvm import tune, viz
from minitvm.base import ArgumentError

TOP = 10  # candidates in the table
MIN_TRIALS = 8  # trials that are needed to state the accuracy of a model
BARS = 12  # feature columns shown in each chart
EFFECTS = "what each column adds to the predicted speed of the best (fastest trial: 1)"


def report(task: tune.Task, log: tune.Log) -> str:
    """Return an HTML page about all trials of `task` in `log`; raise ArgumentError without any."""
    reading = log.read(task)
    if not reading.trials:
        skipped = "; ".join(f"{n} {reason}" for reason, n in reading.skipped.items())
        why = f"it has no trial of this task on this machine ({skipped or 'it is empty'})"
        raise ArgumentError(f"report on log {str(log.path)!r}", why)
    best = tune.best_trial((*reading.trials, *reading.final))
    title = f"Tuning of {tune.shown(task)}"
    parts = [_summary(task, reading, best), _curve(task, reading)]
    parts += ["<h2>Failures</h2>", _failures(reading.trials)]
    if best is not None:
        parts += ["<h2>The fastest candidates</h2>", _fastest(task, reading)]
        parts += ["<h2>The best schedule</h2>", *_schedule(task, best)]
        parts += ["<h2>What decides the speed</h2>", *_model(task, reading.trials, best)]
    parts += ["<h2>Machine</h2>", _machine(task)]
    return viz.page(title, parts)


def _curve(task: tune.Task, reading: tune.Reading) -> str:
    """Draw all trials, the batches, and the speed of the default schedule."""
    levels = dict[str, float]()
    if reading.default is not None:
        levels["default schedule"] = tune.rate(task, reading.default)
    trials = *reading.trials, *reading.final
    return viz.TuningCurve.from_trials(task, trials, levels, reading.batches).svg()


def _summary(task: tune.Task, reading: tune.Reading, best: tune.Trial | None) -> str:
    trials = reading.trials
    failed = sum(bool(t.result.error) for t in trials)
    build = sum(t.result.build_seconds for t in trials) / len(trials)
    run = sum(t.result.run_seconds for t in trials) / len(trials)
    speed = "every candidate failed"
    if best is not None:
        rate = f"{tune.rate(task, best.cost):.1f} {tune.rate_unit(task)}"
        speed = f"best {rate}, {tune.cost_text(task, best.cost)} a call"
    gain = tune.gain_of(best)
    speed += f", {gain}" if gain else ""
    first, last = (
        time.strftime("%Y-%m-%d %H:%M", time.localtime(t.time)) for t in (trials[0], trials[-1])
    )
    text = (
        f"{len(trials)} trials ({failed} failed) from {first} to {last}; {speed}. "
        f"A trial took {build * 1e3:.0f} ms to build and {run * 1e3:.0f} ms to run on average. "
        f"The space has {tune.counted(task.size)} candidates in {len(task.sketches)} sketches."
    )
    skipped = "".join(f" The log also has {n} {reason}." for reason, n in reading.skipped.items())
    return f"<p>{escape(text + skipped)}</p>"


def _failures(trials: Sequence[tune.Trial]) -> str:
    text = tune.failures_text(trials)
    return f"<pre>{escape(text)}</pre>" if text else "<p>None.</p>"


def _fastest(task: tune.Task, reading: tune.Reading) -> str:
    """Return a table of the fastest candidates; use final measurements where there are any."""
    rows = [
        (
            tune.rate(task, t.cost),
            tune.cost_text(task, t.cost),
            str(tune.gain_of(t) or ""),
            _values(task, t.candidate),
        )
        for t in tune.best_trials((*reading.trials, *reading.final))[:TOP]
    ]
    return viz.table(rows, (tune.rate_unit(task), "a call", "measured again", "candidate"))


def _values(task: tune.Task, candidate: tune.Candidate) -> str:
    sketch = task.sketches[candidate.sketch]
    knobs = zip(sketch.space.knobs, candidate.row, strict=True)
    return ", ".join([sketch.name, *(f"{k.name} = {k.options[n]}" for k, n in knobs)])


def _schedule(task: tune.Task, best: tune.Trial) -> list[str]:
    source = tune.replay(tune.record_of(task, best), task).python()
    loops = str(task.lowered(best.candidate))
    return [
        f"<p>{escape(_values(task, best.candidate))}</p>",
        f"<h3>As Python</h3><pre>{escape(source)}</pre>",
        f"<details><summary>As loops</summary><pre>{escape(loops)}</pre></details>",
    ]


def _model(task: tune.Task, trials: Sequence[tune.Trial], best: tune.Trial) -> list[str]:
    """Train boosted trees on all trials, and draw how much each feature contributes to them."""
    columns, model = tune.columns_of(task), tune.Trees()
    rows = [np.array([t.candidate.row], np.int32) for t in (*trials, best)]
    sketches = [t.candidate.sketch for t in (*trials, best)]
    features = np.concatenate([columns.of(n, row) for n, row in zip(sketches, rows, strict=True)])
    labels = tune.labels_of(trials)
    accuracy = _accuracy(features[:-1], labels)
    model.fit(features[:-1], labels)
    shares = dict(islice(model.importance(columns.names).items(), BARS))
    effects = dict(islice(model.explain(features[-1:], columns.names).items(), BARS))
    text = f"What boosted trees, trained on the {len(trials)} trials of this log, look at."
    if accuracy is not None:
        text += (
            f" Trained on every second trial only, they order {accuracy:.0%} of the pairs of the "
            "other trials correctly; guessing would give 50%."
        )
    return [
        f"<p>{escape(text)}</p>",
        viz.svg(viz.shares_scene(shares, "share of the gain of all splits (all columns: 1)")),
        viz.svg(viz.shares_scene(effects, EFFECTS)),
    ]


def _accuracy(features: tune.Floats, labels: tune.Floats) -> float | None:
    """Train a model on half of the trials; return its pairwise accuracy on the other half."""
    if len(labels) < MIN_TRIALS:
        return None
    model = tune.Trees()
    model.fit(features[::2], labels[::2])
    return tune.pairwise_accuracy(model.predict(features[1::2]), labels[1::2])


def _machine(task: tune.Task) -> str:
    facts = {"target": str(task.target), **tune.machine_facts(task.target)}
    return viz.table(facts.items())
