"""The stages of a program, from its formula to machine code, each as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from minitvm import driver, te, tensor, tir
from minitvm.base import Target

from .programs import Program, schedule_of


@dataclass(frozen=True, slots=True)
class Request:
    """A program, the target and the choice of a schedule for it: "default", "none", or a file."""

    program: Program
    target: Target
    choice: str

    @property
    def schedule(self) -> te.Schedule:
        """A new schedule of the program for the target."""
        return schedule_of(self.program, self.choice, self.target)

    def on(self, kind: str, target: str) -> Request:
        """Return the same request for `target`, unless it already has a target of this kind."""
        return (
            self if self.target.kind == kind else Request(self.program, Target(target), self.choice)
        )


@dataclass(frozen=True, slots=True)
class Stage:
    """One form of a program: what it is, the language that it is printed in, and its printer."""

    about: str
    language: str
    text: Callable[[Request], str]


def _formula(r: Request) -> str:
    lines: list[str] = []
    for op in te.create_schedule(r.program.output.op).stages:
        extern = op.op
        if isinstance(extern, tensor.ComputeOp):
            axes = ", ".join(a.name for a in extern.axis)
            bodies = [tir.text(b) for b in extern.body]
            lines.append(f"{extern.name}[{axes}] = {', '.join(bodies)}")
    heads = [f"{t.op.name}: {t.dtype}{list(t.shape)}" for t in r.program.tensors]
    return "\n".join([*heads, "", *lines])


def _loops(r: Request) -> str:
    return str(driver.lower(r.schedule, r.program.tensors, target=r.target, until="nest"))


def _source(form: str, kind: str, target: str) -> Callable[[Request], str]:
    def text(r: Request) -> str:
        to = r.on(kind, target) if kind else r
        return driver.build(to.schedule, to.program.tensors, target=to.target).source(form)

    return text


STAGES: dict[str, Stage] = {
    "te": Stage("the formula", "python", _formula),
    "schedule": Stage("the schedule, as Python", "python", lambda r: r.schedule.python()),
    "loops": Stage("the loops, before all passes", "python", _loops),
    "tir": Stage("the loops, after all passes", "python", _source("tir", "", "")),
    "llvm": Stage("LLVM IR, optimised", "llvm", _source("ll", "llvm", "llvm")),
    "asm": Stage("machine code", "gas", _source("asm", "llvm", "llvm")),
    "python": Stage("Python", "python", _source("python", "python", "python")),
    "numba": Stage("Python for numba", "python", _source("python", "numba", "numba")),
    "cuda": Stage("kernels for a GPU", "python", _source("cuda", "cuda", "cuda -sim")),
    "vta": Stage("instructions of the accelerator", "text", _source("vta", "vta", "vta")),
}
