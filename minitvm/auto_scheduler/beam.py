"""Beam search, as in Halide's auto-scheduler: build programs decision by decision.

policy = BeamPolicy(task, rng, beam=32)
tune.run(task, policy, trials=64)
print(policy.searches[-1])                   which prefixes were kept and pruned, with their scores
policy.pruned(best)                          where each search pruned the prefix of a candidate

A cost model scores prefixes: programs whose first decisions alone are known. It has learned only
from complete programs, so its scores of prefixes can be wrong. The best program is lost as soon as
one of its prefixes is pruned (Adams et al., "Learning to Optimize Halide with Tree Search and
Random Programs", 2019; Zheng et al., 2020, section 7.2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minitvm import tune

MIN_PROGRAMS = 8  # measured programs that are needed to train the model
SHOWN = 3  # prefixes of a decision that are printed


class Node(NamedTuple):
    """A prefix of a program: a sketch, the options of its first knobs, and the prefix's score."""

    sketch: int
    options: tuple[int, ...]
    score: float = 0.0

    def begins(self, candidate: tune.Candidate) -> bool:
        """Return whether this prefix is a prefix of the candidate."""
        same_options = self.options == candidate.row[: len(self.options)]
        return self.sketch == candidate.sketch and same_options


@dataclass(frozen=True, slots=True)
class Decision:
    """All prefixes after one decision, best first.

    known   the number of knobs that the prefixes fill; a sketch with fewer knobs is complete
    """

    known: int
    kept: tuple[Node, ...]
    pruned: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class BeamTrace:
    """A search for the best complete programs, decision by decision."""

    task: tune.Task
    decisions: tuple[Decision, ...]

    def pruned_at(self, candidate: tune.Candidate) -> int | None:
        """Return how many knobs were known when the prefix of a candidate was pruned or not drawn.

        Returns None if the search kept the candidate to the end.
        """
        for decision in self.decisions:
            if not any(node.begins(candidate) for node in decision.kept):
                return decision.known
        return None

    def __str__(self) -> str:
        lines = list[str]()
        for decision in self.decisions:
            kept, pruned = decision.kept, decision.pruned
            title = "sketches" if decision.known == 0 else f"{decision.known} knobs known"
            lines.append(f"{title}: {len(kept)} kept, {len(pruned)} pruned")
            for what, nodes in (("kept  ", kept), ("pruned", pruned)):
                lines += [f"  {what} {n.score:8.3f}  {self._text(n)}" for n in nodes[:SHOWN]]
        return "\n".join(lines)

    def _text(self, node: Node) -> str:
        """Format a prefix for people: "sketch 0, level 1: tile_i 8x4x4x4"."""
        sketch = self.task.sketches[node.sketch]
        known = tune.Space(sketch.space.knobs[: len(node.options)])
        return f"{sketch.name}: {known.text(node.options)}".removesuffix(": ")


class BeamPolicy:
    """Proposes the complete programs that a beam search with a cost model finds.

    model    learns from the complete programs that were measured; by default trees that correct the
             analytic model. Until enough are measured, the analytic model gives the scores
    columns  the features that the model sees; by default those of tune.columns_of. Without the
             analytic model's estimate, the scores are random until enough programs are measured
    beam     the number of prefixes to keep after each decision
    branch   the most options of a knob to try; if a knob has more options, random ones are tried
    draws    0: score a prefix with all other knobs at their first options, which split no loop;
             n: score a prefix by the mean of n programs that complete it at random
    If all found programs are known already, a random program is proposed.
    """

    def __init__(
        self,
        task: tune.Task,
        rng: np.random.Generator,
        *,
        model: tune.Model | None = None,
        columns: tune.Columns | None = None,
        beam: int = 32,
        branch: int = 64,
        draws: int = 0,
    ) -> None:
        self.task, self.rng = task, rng
        self.beam, self.branch, self.draws = beam, branch, draws
        self.columns = columns or tune.columns_of(task)
        self.prior = self.columns.analytic
        seed, loops = int(rng.integers(1 << 31)), tune.loops_in(self.columns.names)
        self.model = model or tune.Trees(seed=seed, prior=self.prior, only=loops)
        self.spaces = tune.spaces_of(task)
        self.seen = tune.Seen(self.spaces)
        self.random = tune.RandomPolicy(task, rng, self.seen)
        self.trials = list[tune.Trial]()
        self.features = list[tune.Floats]()
        self.fitted = False
        self.searches = list[BeamTrace]()

    def propose(self, count: int) -> list[tune.Candidate]:
        """Return up to `count` programs, highest score first."""
        self.searches.append(self.search())
        last = self.searches[-1].decisions[-1]
        candidates = list[tune.Candidate]()
        for node in (*last.kept, *last.pruned):
            row = np.array([node.options], np.int32)
            fresh = len(self.seen.fresh(node.sketch, row)) > 0
            if len(candidates) < count and fresh and self.spaces[node.sketch].legal(row)[0]:
                candidates.append(tune.Candidate(node.sketch, node.options))
        self.seen.add(candidates)
        return candidates or self.random.propose(1)

    def search(self) -> BeamTrace:
        """Build programs decision by decision, and keep the best prefixes after each decision."""
        knobs = [sketch.space.knobs for sketch in self.task.sketches]
        nodes = [Node(n, ()) for n in range(len(knobs))]
        decisions = [self._decided(0, nodes)]
        for known in range(1, max(map(len, knobs)) + 1):
            nodes = [new for node in decisions[-1].kept for new in self._longer(node, known)]
            decisions.append(self._decided(known, nodes))
        return BeamTrace(self.task, tuple(decisions))

    def _longer(self, node: Node, known: int) -> Iterator[Node]:
        """Yield the prefixes that extend a node by one knob; a complete node yields itself."""
        knobs = self.task.sketches[node.sketch].space.knobs
        if known > len(knobs):
            yield node
            return
        count = len(knobs[known - 1])
        chosen: list[int] = self.rng.permutation(count)[: self.branch].tolist()
        for option in sorted(chosen):
            yield Node(node.sketch, (*node.options, option))

    def _decided(self, known: int, nodes: Sequence[Node]) -> Decision:
        """Score prefixes, and mark the best of them as kept."""
        scores = self.scores(nodes)
        scored = [n._replace(score=s) for n, s in zip(nodes, scores.tolist(), strict=True)]
        scored.sort(key=lambda node: -node.score)
        return Decision(known, tuple(scored[: self.beam]), tuple(scored[self.beam :]))

    def scores(self, nodes: Sequence[Node]) -> tune.Floats:
        """Return the score of each prefix."""
        scores = np.zeros(len(nodes))
        for n in {node.sketch for node in nodes}:
            at = [k for k, node in enumerate(nodes) if node.sketch == n]
            rows = np.repeat(completed(self.task, [nodes[k] for k in at]), max(1, self.draws), 0)
            if self.draws:
                counts = [len(nodes[k].options) for k in at]
                known: tune.Ints = np.array(counts, np.int64).repeat(self.draws)
                knobs = self.task.sketches[n].space.knobs
                drawn = tune.Space(knobs).sample(self.rng, len(rows))
                numbers: tune.Ints = np.arange(len(knobs), dtype=np.int64)
                rows = np.where(np.less(numbers, known[:, None]), rows, drawn)
            scores[at] = self._predict(self.columns.of(n, rows)).reshape(len(at), -1).mean(axis=1)
        return scores

    def _predict(self, features: tune.Floats) -> tune.Floats:
        if self.fitted:
            return self.model.predict(features)
        if self.prior is not None:
            return tune.AnalyticModel(self.prior).predict(features)
        return self.rng.random(len(features), np.float32)

    def learn(self, trials: Sequence[tune.Trial]) -> float | None:
        """Train the model on all trials; return how accurately it had predicted the new ones."""
        if not trials:
            return None
        new = self.columns.of_candidates([trial.candidate for trial in trials])
        scores = self._predict(new) if self.fitted else None
        self.trials += trials
        self.features.append(new)
        self.seen.add([trial.candidate for trial in trials])
        labels = tune.labels_of(self.trials)
        self.fitted = len(labels) >= MIN_PROGRAMS and bool(labels.any())
        if self.fitted:
            self.model.fit(np.concatenate(self.features), labels)
        return None if scores is None else tune.pairwise_accuracy(scores, labels[-len(new) :])

    def pruned(self, candidate: tune.Candidate) -> list[int | None]:
        """Return for each search how many knobs were known when it dropped a candidate's prefix."""
        return [trace.pruned_at(candidate) for trace in self.searches]


def completed(task: tune.Task, nodes: Sequence[Node]) -> tune.Rows:
    """Complete prefixes of one sketch to rows: set all other knobs to their first options."""
    rows = np.zeros((len(nodes), len(task.sketches[nodes[0].sketch].space.knobs)), np.int32)
    for row, node in zip(rows, nodes, strict=True):
        row[: len(node.options)] = node.options
    return rows


def accuracy_by_completeness(
    task: tune.Task,
    model: tune.Model,
    trials: Sequence[tune.Trial],
    shares: Sequence[float] = (0, 0.25, 0.5, 0.75, 1),
) -> list[tuple[float, float | None]]:
    """Return how well a model orders trials when it knows only a share of their knobs.

    The first knobs are known; the others are set to their first options. Each entry is a share and
    the pairwise accuracy; guessing has accuracy 0.5.
    """
    columns, labels = tune.columns_of(task), tune.labels_of(trials)
    accuracies = list[tuple[float, float | None]]()
    for share in shares:
        cut = list[tune.Candidate]()
        for candidate in (trial.candidate for trial in trials):
            known = round(share * len(candidate.row))
            rest = (0,) * (len(candidate.row) - known)
            cut.append(tune.Candidate(candidate.sketch, candidate.row[:known] + rest))
        scores = model.predict(columns.of_candidates(cut))
        accuracies.append((share, tune.pairwise_accuracy(scores, labels)))
    return accuracies
