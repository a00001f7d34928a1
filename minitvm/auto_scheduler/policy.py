"""The search policy and its parts, under TVM's names: cost models, and callbacks at the start."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from minitvm import tune
from minitvm.base import ArgumentError, Target

from .checks import file_at, listed, log_at
from .loop_state import LoopState
from .rules import Branch, Rule
from .state import State
from .task import SearchTask


@dataclass(slots=True)
class XGBModel:
    """Boosted trees that learn from measurements.

    seed   the seed of the trees
    logs   logs; the search learns from their measurements of the task at the start
    base   trees of an earlier search, whose predictions are corrected; a task that has only the
           columns of its knobs cannot use them
    """

    seed: int | None = None
    logs: list[Path] = field(default_factory=list[Path])
    base: tune.Trees | None = None
    search: tune.GuidedPolicy | None = None  # the last policy that uses this model

    def policy(self, task: tune.Task, rng: np.random.Generator) -> tune.GuidedPolicy:
        """Return a policy that uses this model."""
        columns, model = tune.columns_of(task), None
        column = columns.analytic
        if self.base is not None and column is not None and tune.parts_in(columns.names):
            bases, loops = (tune.AnalyticModel(column), self.base), tune.loops_in(columns.names)
            model = tune.ResidualModel(bases, only=loops, seed=self.seed or 0)
        elif self.seed is not None:
            model = tune.model_for(columns.names, self.seed)
        self.search = tune.GuidedPolicy(task, rng, model=model, columns=columns)
        return self.search

    def save(self, file_name: str | Path) -> None:
        """Train trees on the trials of the last search, and write them to a file."""
        search = self.search
        if search is None or not search.trials:
            fix = "task.tune(options, SketchPolicy(task, model)) first"
            raise ArgumentError("XGBModel.save", "no search has trained it", fix)
        if search.columns.analytic is None or not tune.parts_in(search.columns.names):
            why = "it was trained without the columns of a CPU's analytic model, which tasks share"
            fix = "the log of the search, which init_search_callbacks reads"
            raise ArgumentError("XGBModel.save", why, fix)
        parts = tune.parts_in(search.columns.names)
        trees = tune.Trees(seed=self.seed or 0, prior=search.columns.analytic, only=parts)
        trees.fit(*search.samples())
        tune.save_trees(trees, file_name)

    def load(self, file_name: str | Path) -> None:
        """Start from the trees in a file; a search stops using them if they predict badly."""
        self.base = tune.load_trees(file_at("model", file_name))

    def update_from_file(self, file_name: str | Path, n_lines: int | None = None) -> None:
        """Learn from the measurements in a log, ignoring other tasks.

        n_lines   accepted as in TVM: all lines are read
        """
        del n_lines
        self.logs.append(log_at(file_name).path)


@dataclass(frozen=True, slots=True)
class RandomModel:
    """Use no cost model: draw candidates uniformly."""


CostModel: TypeAlias = XGBModel | RandomModel


@dataclass(frozen=True, slots=True)
class PreloadMeasuredStates:
    """Let a search learn from a log, whose measurements do not count as trials of the search."""

    filename: str | Path = "auto_scheduler_tuning.json"


@dataclass(frozen=True, slots=True)
class PreloadCustomSketchRule:
    """Derive sketches with a rule of the user, applied before the built-in rules.

    meet_condition_func   meet_condition_func(policy, state, stage_id) returns PASS, APPLY, or
                          APPLY_AND_SKIP_REST to skip all later rules
    apply_func            apply_func(policy, state, stage_id) returns the new states, each with the
                          number of the stage to visit next: [[state, stage_id - 1], ...]
    """

    PASS: ClassVar[int] = 0
    APPLY: ClassVar[int] = 1
    APPLY_AND_SKIP_REST: ClassVar[int] = 2

    meet_condition_func: Callable[[Any, LoopState, int], int]
    apply_func: Callable[[Any, LoopState, int], Sequence[Sequence[Any]]]
    rule_name: str = "custom rule"

    def rules(self, policy: SketchPolicy) -> tuple[Rule, Rule]:
        """Return two rules: one for APPLY_AND_SKIP_REST, which is exclusive, and one for APPLY."""

        def meets(value: int) -> Callable[[State, str, Target], bool]:
            def check(state: State, stage: str, target: Target) -> bool:
                n = state.stages.index(stage)
                return self.meet_condition_func(policy, LoopState(state), n) == value

            return check

        def apply(state: State, stage: str, target: Target) -> Iterator[Branch]:
            branches = self.apply_func(policy, LoopState(state), state.stages.index(stage))
            for branch in branches if isinstance(branches, list | tuple) else [branches]:  # pyright: ignore[reportUnnecessaryIsInstance]
                match branch:
                    case [LoopState(new) | (State() as new), int(after)] if after in range(
                        -1, len(new.stages)
                    ):
                        yield new, after
                    case _:
                        why = f"apply_func returned {branch!r}"
                        fix = "[[s0.state_object, stage_id - 1]]"
                        raise ArgumentError(f"sketch rule {self.rule_name!r}", why, fix)

        return (
            Rule(self.rule_name, meets(self.APPLY_AND_SKIP_REST), apply, exclusive=True),
            Rule(self.rule_name, meets(self.APPLY), apply),
        )


SearchCallback: TypeAlias = PreloadMeasuredStates | PreloadCustomSketchRule


class SketchPolicy:
    """A search strategy: evolution of the candidates of a task, guided by a cost model.

    search_task   the task, with the rules of the callbacks
    """

    def __init__(
        self,
        task: SearchTask,
        program_cost_model: CostModel | None = None,
        *,
        seed: int | None = None,
        verbose: int = 1,
        init_search_callbacks: Sequence[SearchCallback] = (),
    ) -> None:
        """Set the cost model, by default XGBModel(), and the callbacks to run before the search."""
        model = XGBModel() if program_cost_model is None else program_cost_model
        callbacks = listed("init_search_callbacks", init_search_callbacks, "a list")
        for kind, objects in ((CostModel, [model]), (SearchCallback, callbacks)):
            for entry in objects:
                if not isinstance(entry, kind):
                    names = " or ".join(k.__name__ for k in kind.__args__)
                    raise ArgumentError(f"SketchPolicy: {entry!r}", f"expected {names}")
        self.search_task = task
        self.model, self.seed, self.verbose = model, seed, verbose
        self.logs = [Path(c.filename) for c in callbacks if isinstance(c, PreloadMeasuredStates)]
        added_rules = [
            rule
            for c in callbacks
            if isinstance(c, PreloadCustomSketchRule)
            for rule in c.rules(self)
        ]
        if added_rules:
            self.search_task = task.with_rules((*added_rules, *task.rules))

    def policy(self, log: str | Path | None) -> tuple[tune.Policy, np.random.Generator, int]:
        """Return the policy of a search, its random generator, and how many trials do not count.

        log   the log that the search itself reads; its trials do not count if it was preloaded too
        """
        task, rng = self.search_task, np.random.default_rng(self.seed)
        if isinstance(self.model, RandomModel):
            policy: tune.Policy = tune.RandomPolicy(task, rng)
            logs = self.logs
        else:
            policy = self.model.policy(task, rng)
            logs = [*self.logs, *self.model.logs]
        search_log = None if log is None else Path(log).absolute()
        others = {path.absolute() for path in logs} - {search_log}
        trials = [t for path in sorted(others) for t in tune.Log(path).read(task).trials]
        if trials:
            policy.learn(trials)
        preloaded_log = (
            search_log if search_log in {path.absolute() for path in self.logs} else None
        )
        return policy, rng, len(tune.Log(preloaded_log).read(task).trials) if preloaded_log else 0
