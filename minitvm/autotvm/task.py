"""Tasks made from templates: `autotvm.task.create("lesson/matmul", (512,), "llvm")`."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from minitvm import driver, te, tir, topi, tune
from minitvm.base import ArgumentError, Target

from .fallback import FallbackConfigEntity
from .space import Config, ConfigEntity, ConfigSpace, InstantiationError
from .templates import Template, args_to_workload, find_template


@dataclass(frozen=True, slots=True, eq=False)
class Task(tune.Task):
    """A template with arguments, to be tuned for a target.

    workload       as in TVM, the name of the template before its arguments: what `query` takes
    template       the function that makes schedules
    config_space   its knobs; candidates of the task are configurations of this space
    """

    template: Template
    config_space: ConfigSpace
    derived: tune.Derived

    @property
    def arguments(self) -> tuple[Any, ...]:
        return self.workload[1:]

    @property
    def flop(self) -> float:
        """Return the operations of one call; `flop` is TVM's name for `flops`."""
        return self.flops

    def instantiate(self, config: Config) -> tuple[te.Schedule, list[te.Tensor]]:
        """Return the schedule and the arguments that the template makes from a configuration.

        Raises InstantiationError if the template rejects it.
        """
        return instance(self.template, config, self.arguments, self.target)

    def candidate(self, config: Config) -> tune.Candidate:
        """Return a configuration as a candidate of the task's sketches."""
        return self.derived.candidate(self.config_space.row(config))

    def config(self, candidate: tune.Candidate) -> ConfigEntity:
        """Return the configuration of a candidate."""
        return self.config_space.entity(self.derived.row(candidate))

    def restricted(self, allowed: Callable[[tune.Rows], tune.Mask]) -> Task:
        """Return the same task with fewer candidates: only rows for which allowed(rows) is true.

        allowed   takes rows of the configuration space and returns a mask of them
        """
        space, derived = self.config_space.restricted(allowed), self.derived

        def part(n: int, sketch: tune.Sketch) -> tune.Sketch:
            def legal(rows: tune.Rows) -> tune.Mask:
                return sketch.space.legal(rows) & allowed(derived.rows(n, rows))

            return replace(sketch, space=replace(sketch.space, allowed=legal))

        sketches = tuple(part(n, sketch) for n, sketch in enumerate(derived.sketches))
        fewer = replace(derived, sketches=sketches)
        return replace(self, sketches=sketches, config_space=space, derived=fewer)

    def lowered(self, candidate: tune.Candidate) -> tir.PrimFunc:
        sketch = self.sketches[candidate.sketch]
        if not isinstance(sketch, tune.CalledSketch):  # all candidates have the same tensors
            return driver.lower(sketch.scheduled(candidate.row), sketch.args, target=self.target)
        instance = sketch.make(candidate.row)
        return driver.lower(instance.taken, instance.args, target=self.target)

    def default(self) -> tir.PrimFunc:
        """Return the reference program: topi's schedule, or the template's on the accelerator.

        topi has no schedules for the accelerator. The template makes one from the configuration of
        a workload that has not been tuned.
        """
        if self.target.kind != "vta":
            return tune.Task.default(self)
        s, args = self.instantiate(FallbackConfigEntity())
        return driver.lower(s, args, target=self.target)


def create(
    task_name: str,
    args: Sequence[Any],
    target: str | Target = "llvm",
    *,
    rng: np.random.Generator | None = None,
) -> Task:
    """Create the task of tuning a template for these arguments.

    rng   draws the configurations that are compared to find the sketches of the template
    """
    template, to = find_template(task_name), Target(target)
    workload = args_to_workload(args)
    space, first = collected(template, workload, to)
    for tensor in first.args:
        if 0 in tensor.shape:
            why = f"{tensor.name} has no elements"
            raise ArgumentError(f"template {task_name!r}", why, "sizes of at least 1")

    def make(row: tuple[int, ...]) -> tune.Made:
        s, tensors = instance(template, space.entity(row), workload, to)
        return tune.Made(s, tuple(tensors))

    draw = np.random.default_rng(0) if rng is None else rng
    if not len(space.space.sample(draw, 1)):
        raise ArgumentError(f"template {task_name!r}", "its filter rejects all configurations")
    name = f"{task_name}@{template.code_hash}"
    if to.kind == "vta":  # its models see knobs only, so there is no need to know the steps
        derived = tune.called(name, space.space, first, make)
    else:
        derived = tune.derive(name, space.space, first, make, draw)
    outputs = [t for t in first.args if not isinstance(t.op, te.PlaceholderOp)]
    flops = space.flop or topi.flops(outputs)
    return Task(
        task_name,
        (task_name, *workload),
        to,
        first.args,
        flops,
        derived.sketches,
        template,
        space,
        derived,
    )


def extract_from_program(program: Any) -> list[Task]:
    """Return the distinct tasks of the kernels of a network that have a template.

    program   the kernels: graph.extract_tasks(net, target)
    """
    if not callable(getattr(program, "tasks", None)):
        what = f"extract_from_program({reprlib.repr(program)})"
        raise ArgumentError(what, "it has no method tasks()", "graph.extract_tasks(net, target)")
    tasks = [kernel.task for kernel in program.tasks()]
    return list({task.key: task for task in tasks if task is not None}.values())


def collected(
    template: Template, workload: Sequence[Any], target: Target
) -> tuple[ConfigSpace, tune.Made]:
    """Call a template to collect its knobs; return the knobs, and what the template made."""
    space = ConfigSpace()
    with target:
        s, tensors = template.instantiate(space, workload)
    space.code_hash = template.code_hash
    if not space.space_map:
        why = f"for target {target.kind}, it defines no knob, so there is nothing to tune"
        fix = "get_config().define_split(...), or target llvm"
        raise ArgumentError(f"template {template.name!r}", why, fix)
    return space, tune.Made(s, tuple(tensors))


def instance(
    template: Template, config: Config, args: Sequence[Any], target: Target
) -> tuple[te.Schedule, list[te.Tensor]]:
    """Call a template for a target; raise InstantiationError if it rejects the configuration."""
    if isinstance(config, ConfigEntity) and config.code_hash not in (None, template.code_hash):
        why = f"it was made for another version of the template {template.name!r}"
        raise ArgumentError("configuration", why, "tune again")
    config.errors.clear()
    with target:
        new = template.instantiate(config, args)
    if not config.valid():
        raise InstantiationError(f"template {template.name!r}", "; ".join(config.errors))
    return new
