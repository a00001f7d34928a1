"""Find the parameters of a loop program, and check the arguments of lower()."""

from __future__ import annotations

from minitvm import schedule, tensor, tir
from minitvm.base import ArgumentError, LoweringError


def current_tensor(state: schedule.State, plain: schedule.State, t: tensor.Tensor) -> tensor.Tensor:
    """Return the tensor of `plain` that corresponds to `t`, whose op steps may have replaced.

    plain: `state` without inlined stages. Raises ArgumentError if `t` is inlined or not in `state`.
    """
    for s in state.stages:
        if s.origin is t.op or s.op is t.op:
            for p in plain.stages:
                if p.name == s.name:
                    return tensor.tensor_of(p.op, t.value_index)
            raise ArgumentError(f"argument {t.name}", "it is inlined, so it is never stored")
    if isinstance(t.op, tensor.PlaceholderOp):  # folding may have removed the last read of an input
        return t
    raise ArgumentError(f"argument {t.name}", "it is not part of this schedule")


def check_complete(
    plain: schedule.State,
    args: tuple[tensor.Tensor | tir.Var, ...],
    buffers: dict[tensor.Tensor, tir.Buffer],
) -> None:
    """Raise ArgumentError unless the arguments are exactly the inputs and outputs, each once.

    If an operation has several outputs, one of them is enough: the others are then temporaries.
    """
    if len(set(args)) < len(args):
        raise ArgumentError("args", "the same argument is given twice")
    states = tensor.states_of([s.op for s in plain.stages])
    ops = [
        s.op
        for s in plain.stages
        if s.is_output
        or (isinstance(s.op, tensor.PlaceholderOp) and tensor.tensor_of(s.op, 0) not in states)
    ]
    needed_tensors = [tensor.tensor_of(op, i) for op in ops for i in range(len(op.dtypes))]
    missing = [op.output(0).name for op in ops if not any(g.op is op for g in buffers)]
    fix = f"args = [{', '.join(t.name for t in needed_tensors)}]"
    if missing:
        why = "all inputs and outputs of the schedule are arguments"
        raise ArgumentError(f"args: {', '.join(missing)} missing", why, fix)
    for t in buffers:
        if t in states:
            why = "it is the state of a scan, which is stored in the result of that scan"
            raise ArgumentError(f"argument {t.name}", why, fix)
        if t not in needed_tensors and not isinstance(t.op, tensor.PlaceholderOp):
            raise ArgumentError(
                f"argument {t.name}",
                "it is an intermediate result, which is not necessarily stored as a whole",
                f"te.create_schedule([..., {t.name}.op]) makes it an output",
            )


def sizes(params: tuple[tir.Buffer | tir.Var, ...]) -> tuple[tir.Var, ...]:
    """Return the symbolic sizes whose values a call reads from the shapes of its arguments."""
    sizes = [
        n for p in params if isinstance(p, tir.Buffer) for n in p.shape if isinstance(n, tir.Var)
    ]
    return tuple(v for v in dict.fromkeys(sizes) if not any(v is p for p in params))


def needs(state: schedule.State) -> tuple[tir.Index, ...]:
    """Return expressions over the symbolic sizes that a call must check to be >= 0.

    If all of them are >= 0, every read is in bounds and every split size is at least 1.
    """
    ops = [s.origin for s in state.stages]
    reads = [n for op in ops if isinstance(op, tensor.ComputeOp) for n in op.needs]
    splits = [tir.sub(n, 1) for n in schedule.part_sizes(state)]
    conditions: list[tir.Index] = []
    for n in (*reads, *splits):
        if not tir.prove_nonnegative(n) and not any(
            tir.prove_equal(n, condition) for condition in conditions
        ):
            conditions.append(n)
    return tuple(conditions)


def check_indices(func: tir.PrimFunc) -> None:
    """Raise an error if an index can exceed 64 bits or a variable has no value."""
    bound = {id(v) for v in (*func.params, *func.sizes)}
    used: dict[int, tir.Var] = {}
    for n in tir.walk(func.body):
        if isinstance(n, tir.For):
            bound.add(id(n.var))
        elif isinstance(n, tir.Var):
            used[id(n)] = n
        elif tir.overflows(n):
            what = f"{func.name}: the index {tir.text(n)}"
            why = f"computing it may reach {tir.largest_sum(n)}, and indices have 64 bits"
            raise LoweringError(what, why, "smaller extents or split factors")
    for v in used.values():
        if id(v) not in bound:
            why = "it has no value: it is neither an argument nor in the shape of one"
            raise ArgumentError(f"variable {v.name!r}", why, "add it to args")
