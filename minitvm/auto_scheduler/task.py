"""Search tasks: a computation to be tuned for a target, with the sketches that its rules derive."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np

from minitvm import driver, te, topi
from minitvm.base import ArgumentError, Reason, Target, check_kind, check_text, raise_first
from minitvm.tune import Outcome, Policy, ProgressLine, Task, replay, run
from minitvm.tune import measurer as make_measurer

from .checks import listed
from .dag import ComputeDAG
from .derive import is_other_formula, rules_for, states
from .history import load_best_record
from .options import HardwareParams, TuningOptions
from .rules import Rule
from .state import State
from .workload_registry import Workload, make_workload_key


class SearchPolicy(Protocol):
    """A way to search a task: SketchPolicy."""

    search_task: SearchTask
    verbose: int

    def policy(self, log: str | Path | None) -> tuple[Policy, np.random.Generator, int]:
        """Return a policy, its random generator, and how many trials of the log do not count."""
        ...


@dataclass(frozen=True, slots=True, eq=False, init=False)
class SearchTask(Task):
    """A computation to be tuned for a target.

        task = auto_scheduler.SearchTask(matmul, (512, 512, 512), target="llvm")
        callbacks = [auto_scheduler.RecordToFile("log.json")]
        task.tune(auto_scheduler.TuningOptions(64, measure_callbacks=callbacks))
        s, args = task.apply_best("log.json")

    compute_dag   the formulas
    formulas      other formulas for the same results, whose sketches are searched too
    rules         the rules that derived the sketches
    states        the states of the sketches; print(task.states[n]) shows sketch n, and
                  print(task.states[n].program(row)) a candidate of it
    inputs        arrays for measuring programs, by the name of the input
    tune.run(task) also works.
    """

    compute_dag: ComputeDAG
    formulas: tuple[ComputeDAG, ...]
    rules: tuple[Rule, ...]
    states: tuple[State, ...]
    inputs: Mapping[str, Any]

    def __init__(
        self,
        func: str | Workload | None = None,
        args: Sequence[Any] = (),
        *,
        compute_dag: ComputeDAG | None = None,
        workload_key: str | None = None,
        target: str | Target | None = None,
        hardware_params: HardwareParams | None = None,
        task_inputs: Mapping[str, Any] | None = None,
        rules: Sequence[Rule] | None = None,
        formulas: Sequence[ComputeDAG] = (),
    ) -> None:
        """Derive the sketches of a computation.

        func, args        a registered workload, or its name, and the arguments it is called with;
                          or else
        compute_dag       the formulas; or else
        workload_key      what make_workload_key returned
        target            by default the current target
        hardware_params   facts about the machine that replace the facts in the target
        task_inputs       arrays to measure with, by the name of the input; other inputs are random
        rules             the rules that derive sketches, tried in this order; by default RULES, or
                          for a GPU GPU_RULES
        formulas          other formulas for the same results: Winograd's for a convolution. Logs
                          refer to them by number, so pass them in the same order to resume
        """
        raise_first(ArgumentError, "SearchTask", _about(func, compute_dag, workload_key))
        if func is not None:
            workload_key = make_workload_key(func, args)
        dag = compute_dag or ComputeDAG(workload_key or "")
        name, *workload = json.loads(workload_key or dag.workload_key())
        machine = HardwareParams() if hardware_params is None else hardware_params
        to = check_kind("hardware_params", machine, HardwareParams, fix="").on(Target(target))
        inputs: Any = {} if task_inputs is None else task_inputs
        check_kind("task_inputs", inputs, dict, fix='{"indices": array}')
        rules = rules_for(to) if rules is None else rules
        for rule in listed("rules", rules, "(rule, *auto_scheduler.RULES)"):
            check_kind("rules", rule, Rule, fix="Rule(name, meets, apply)")
        for other in listed("formulas", formulas, "(auto_scheduler.ComputeDAG([A, B, C]),)"):
            check_kind("formulas", other, ComputeDAG, fix="auto_scheduler.ComputeDAG([A, B, C])")
        unknown = [n for n in inputs if n not in {t.name for t in dag.tensors}]
        if unknown:
            names = ", ".join(t.name for t in dag.tensors)
            raise ArgumentError(f"task_inputs {unknown[0]!r}", "there is no such input", names)
        self._set(name, tuple(workload), to, (dag, *formulas), tuple(rules), inputs)

    def _set(
        self,
        name: str,
        workload: tuple[Any, ...],
        target: Target,
        dags: tuple[ComputeDAG, ...],
        rules: tuple[Rule, ...],
        inputs: Mapping[str, Any],
    ) -> None:
        dag, *formulas = dags
        named_states = states(dags, target, rules)
        values = {
            "name": name,
            "workload": workload,
            "target": target,
            "args": dag.tensors,
            "flops": dag.flop_ct,
            "sketches": tuple(
                state.sketch(names, dag.tensors) for names, dag, state in named_states
            ),
            "compute_dag": dag,
            "formulas": tuple(formulas),
            "rules": rules,
            "states": tuple(state for *_, state in named_states),
            "inputs": inputs,
        }
        for field, value in values.items():
            object.__setattr__(self, field, value)

    @property
    def workload_key(self) -> str:
        """Return the key of the task; `workload_key` is TVM's name for `key`."""
        return self.key

    def with_rules(self, rules: Sequence[Rule]) -> SearchTask:
        """Return the same task with the sketches that `rules` derive."""
        new = object.__new__(SearchTask)
        dags = self.compute_dag, *self.formulas
        new._set(self.name, self.workload, self.target, dags, tuple(rules), self.inputs)
        return new

    def tune(
        self, tuning_options: TuningOptions, search_policy: SearchPolicy | None = None
    ) -> Outcome:
        """Search for the fastest program; return all trials and the best trial.

        search_policy   by default SketchPolicy(task)
        Calling it again with the same log in RecordToFile resumes. Programs in the log count as
        trials unless the policy loads this log by PreloadMeasuredStates.
        """
        task, policy, known, verbose = self, None, 0, tuning_options.verbose
        rng = np.random.default_rng()
        if search_policy is not None:
            task, verbose = search_policy.search_task, verbose and search_policy.verbose
            policy, rng, known = search_policy.policy(tuning_options.log)
        with ExitStack() as open_workers:
            measurer = None
            if self.inputs:
                processes = make_measurer(
                    self.default(),
                    self.target,
                    inputs=self._arrays(rng),
                    options=tuning_options.measure,
                )
                measurer = open_workers.enter_context(processes)
            return run(
                task,
                policy,
                trials=tuning_options.num_measure_trials + known,
                early_stopping=tuning_options.early_stopping,
                batch=tuning_options.num_measures_per_round,
                log=tuning_options.log,
                measure=tuning_options.measure,
                measurer=measurer,
                on=ProgressLine() if verbose else None,
                rng=rng,
            )

    def _arrays(self, rng: np.random.Generator) -> list[Any]:
        """Return the arrays to measure programs with: the given ones, and random ones."""
        inputs = [t for t in self.args if isinstance(t.op, te.PlaceholderOp)]
        return [
            np.asarray(self.inputs[t.name])
            if t.name in self.inputs
            else rng.uniform(0.125, 1, [int(n) for n in t.shape]).astype(str(t.dtype))  # pyright: ignore[reportArgumentType]
            for t in inputs
        ]

    def apply_best(
        self, log_file: str | Path, include_compatible: bool = False
    ) -> tuple[te.Schedule, list[te.Tensor]]:
        """Return the schedule and the arguments of the fastest program in a log.

        include_compatible   whether measurements on other machines count
        Returns the default schedule if that was faster when both were measured.
        """
        record = load_best_record(log_file, self.key, self.target, include_compatible)
        if record is None:
            why = f"it has no program of {self.key} for {self.target} on this machine"
            raise ArgumentError(f"log {str(log_file)!r}", why, "task.tune(...) with this log")
        if record.default_is_faster:
            return topi.schedule(self.outputs, self.target), list(self.args)
        args = {sketch.name: sketch.args for sketch in self.sketches}
        if record.sketch not in args and is_other_formula(record):
            why = f"its fastest program, {record.sketch}, computes a formula that the task lacks"
            fix = "SearchTask(..., formulas=...) as in the search"
            raise ArgumentError(f"log {str(log_file)!r}", why, fix)
        return replay(record, self), list(args.get(record.sketch, self.args))

    def print_best(
        self, log_file: str | Path, print_mode: Literal["schedule", "python", "cuda"] = "schedule"
    ) -> str:
        """Return the schedule steps of the fastest program in a log, as Python code.

        print_mode   "schedule", as in TVM, or "python"; "cuda" for the kernels of a GPU's program
        """
        modes = ("schedule", "python", *(("cuda",) if self.target.kind == "cuda" else ()))
        if check_text("print_mode", print_mode, "python") not in modes:
            why = f"programs for {self.target.kind} are not printed in this way"
            raise ArgumentError(f"print_mode {print_mode!r}", why, " or ".join(map(repr, modes)))
        s, args = self.apply_best(log_file)
        if print_mode == "cuda":
            return driver.build(s, args, target=self.target).source("cuda")
        return s.python()


def _about(
    func: object, compute_dag: ComputeDAG | None, workload_key: str | None
) -> Iterator[Reason]:
    fix = "SearchTask(func, args, target=target)"
    if sum(source is not None for source in (func, compute_dag, workload_key)) != 1:
        yield "either a function, a compute_dag or a workload_key says what is computed", fix
    if compute_dag is not None and not isinstance(compute_dag, ComputeDAG):  # pyright: ignore[reportUnnecessaryIsInstance]
        yield f"{compute_dag!r} is no ComputeDAG", "auto_scheduler.ComputeDAG([A, B, C])"
