"""GPU thread indices that loops are bound to, and store predicates that may contain them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from minitvm import lowering, schedule, tensor, tir
from minitvm.base import ScheduleError, as_tuple, check_text


@dataclass(frozen=True, slots=True, eq=False)
class ThreadAxis:
    """A thread index that a loop can be bound to.

    thread_tag   the name of the hardware index, such as "threadIdx.x"
    extent       the number of threads; None for the extent of the loop that is bound to it
    var          the value of the index, for use in conditions
    """

    thread_tag: str
    extent: int | None
    name: str
    var: tir.Var

    def __repr__(self) -> str:
        n = "" if self.extent is None else f"(0, {self.extent}), "
        return f"thread_axis({n}{self.thread_tag!r})"


def thread_axis(dom: Any = None, tag: str = "", name: str = "") -> ThreadAxis:
    """Return a thread index: thread_axis("threadIdx.x"), or thread_axis((0, 32), "threadIdx.x").

    dom     the number of threads, n or (0, n); None for the extent of the loop; or the tag
    tag     blockIdx.x .y .z, threadIdx.x .y .z, or a virtual thread (vthread, cthread), to which
            several loops may be bound
    name    accepted as in TVM; it does not change the program

    Its `var` is the index of the loop bound to it: s[C].set_store_predicate(tx.var == 0).
    """
    if isinstance(dom, str):
        dom, tag = None, dom
    schedule.check_tag(check_text("thread_axis: tag", tag, '"threadIdx.x"'))
    name = check_text("thread_axis: name", name, 'name="tx"') or tag
    return ThreadAxis(tag, _extent(dom, tag), name, tir.Var(tag, 0))


def _extent(dom: Any, tag: str) -> int | None:
    if dom is None:
        return None
    numbers = as_tuple(dom)
    ends = numbers if len(numbers) == 2 else (0, *numbers)
    first, stop = (tir.index(n) for n in ends) if len(ends) == 2 else (None, None)
    if not (isinstance(first, int) and first == 0 and isinstance(stop, int) and stop > 0):
        why = "the range starts at 0 and ends at a constant"
        raise ScheduleError(f"thread_axis({dom!r}, {tag!r})", why, "thread_axis((0, 32), ...)")
    return stop


def predicate(stage: schedule.Stage, cond: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Convert the condition of a store predicate to the fields of SetStorePredicate.

    Return (axis names, conditions as text). A thread index in `cond` is replaced by the loop that
    is bound to it. Raises ScheduleError if `cond` uses anything but axes of `stage`.
    """
    what, names = f"set_store_predicate of {stage.name}", stage.names
    conds = lowering.conjuncts(cond)
    if not all(isinstance(c, tir.Expr) for c in conds):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ScheduleError(what, f"{cond!r} is not made of comparisons", "te.all(i < 4, j >= 1)")
    bound = {stage.note(a).thread: a for a in stage.leaves if stage.note(a).thread}
    axis_of: dict[Any, tensor.Axis] = {}
    for v in {id(v): v for c in conds for v in tir.variables(c)}.values():
        a = v if isinstance(v, tensor.Axis) else bound.get(v.name)
        if a is None or a not in names:
            why = f"{v.name!r} is not one of its axes"
            raise ScheduleError(what, why, f"one of {', '.join(names.values())}")
        axis_of[v] = a
    plain = {v: tir.Var(names[a].replace(".", "_"), 0) for v, a in axis_of.items()}
    texts = tuple(tir.text(tir.substitute(c, plain)) for c in conds)
    return tuple(dict.fromkeys(names[a] for a in axis_of.values())), texts
