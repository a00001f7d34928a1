"""Run one test case: a random program and schedule, whose results on all targets must agree."""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from minitvm import driver, lowering, runtime, simt, te, tensor, tir
from minitvm.base import BuildError, DType, LoweringError
from minitvm.schedule import Bind, is_virtual
from minitvm.testing import difference
from tests.codegen.gpu.programs import barriers, without

from .gpu import random_gpu_schedule
from .make import EXTENTS, random_program
from .program import Array, RandomProgram
from .schedules import Tally, random_schedule
from .values import Rng, chance

Verdict: TypeAlias = Literal["ok", "refused", "mismatch", "error", "crash"]
USUAL = ("interpreter", "python", "llvm")  # targets that build within milliseconds
GPU = "cuda -sim"  # its cases have schedules of their own
TARGETS = (*USUAL, "numba", "exported", GPU)
THREADED = 0.06  # share of schedules that bind loops to hardware threads
PATIENCE = 30_000  # the most stores for targets that execute about 100,000 per second
CANARY, MARGIN = 0xA5, 256  # a byte, and how many of them lie on each side of an argument


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The result of one case.

    verdict   "refused": a LoweringError; "mismatch": a wrong result; "error": any other exception;
              "crash": the process died or hung
    headline  one line: what went wrong, and where
    report    a full description of a failure
    tally     the steps of the schedule; they count as run if the program ran with right results
    ran       the targets on which the program ran with right results
    refusing  the targets that refused the program for its hardware threads, as they must
    certain   whether results were compared; see Case
    barriers  how many barriers of the program for a GPU were removed in turn, and `spare` how many
              of these the simulated GPU did not miss
    """

    seed: int
    verdict: Verdict = "ok"
    headline: str = ""
    report: str = ""
    tally: Tally = field(default_factory=Tally)
    ran: tuple[str, ...] = ()
    refusing: tuple[str, ...] = ()
    certain: bool = True
    barriers: int = 0
    spare: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A program, a schedule for it, inputs, and the expected results.

    certain   False if results are rounded and numbers infinite or NaN, so that results are not
              compared: whether infinity is multiplied by 0 or by a tiny number depends on rounding
    """

    seed: int
    program: RandomProgram
    schedule: te.Schedule
    inputs: dict[tensor.Tensor, Array]
    wanted: list[Array]
    tolerance: float
    certain: bool


class _WrongResultError(Exception):
    """Raised when a program or schedule behaves wrongly, such as by computing a wrong result."""


def run_case(
    seed: int,
    targets: Sequence[str] = USUAL,
    passes: tuple[lowering.Pass, ...] = lowering.PASSES["llvm"],
) -> CaseResult:
    """Make the case of `seed`, run it on `targets` and compare the results.

    passes   the lowering passes for the interpreter; a test of this function uses a wrong pass
    With the target GPU, the case has a schedule for a GPU, and only the simulated GPU runs it.
    """
    tally, gpu = Tally(), GPU in targets
    try:
        rng = np.random.default_rng(seed)
        case = make_case(seed, rng, tally, gpu=gpu)
        _replays(case)
        if gpu:
            return _on_gpu(case, tally)
        ran, refusing = _on_targets(case, targets, rng, passes)
    except LoweringError as e:
        return CaseResult(seed, "refused", _first_line(e), "", tally)
    except (_WrongResultError, simt.KernelError) as e:
        return CaseResult(seed, "mismatch", _first_line(e), describe(seed, str(e), gpu=gpu), tally)
    except Exception as e:  # anything else goes into the report
        report = describe(seed, traceback.format_exc(), gpu=gpu)
        return CaseResult(seed, "error", f"{type(e).__name__}: {_first_line(e)}", report, tally)
    if ran:
        tally.ran = tally.taken.copy()
    return CaseResult(seed, "ok", "", "", tally, ran, refusing, case.certain)


def _on_targets(
    case: Case, targets: Sequence[str], rng: Rng, passes: tuple[lowering.Pass, ...]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Run the case; return (targets that ran it, targets that refused its hardware threads).

    Slow targets skip programs with many stores.
    """
    refusing = tuple(t for t in targets if t != "interpreter" and _has_threads(case, t))
    for target in refusing:
        _refuses(case, target)
    quick = stores(case) <= PATIENCE
    slow = () if quick else ("interpreter", "python")
    ran = tuple(t for t in targets if t not in refusing and t not in slow)
    for target in ran:
        _RUNS[target](case, rng, passes)
    return ran, refusing


def _first_line(e: Exception) -> str:
    return str(e).partition("\n")[0]


def describe(seed: int, what: str, *, gpu: bool = False) -> str:
    """Describe the fault `what` and its case: the program, schedule and loops that can be built."""
    parts = [f"seed {seed}"]
    try:
        rng = np.random.default_rng(seed)
        program = random_program(rng)
        parts.append(str(program))
        schedule = _schedule(program, rng, Tally(), gpu=gpu)
        parts.append(schedule.python())
        parts.append(str(driver.lower(schedule, program.args, until="nest")))
    except Exception as e:  # whatever failed may fail here too
        parts.append(f"({type(e).__name__}: {_first_line(e)})")
    again = f"again: python -m tests.fuzz {'--gpu ' * gpu}--only {seed}"
    return "\n\n".join([*parts, what, again])


def _schedule(program: RandomProgram, rng: Rng, tally: Tally, *, gpu: bool) -> te.Schedule:
    if gpu:
        return random_gpu_schedule(program.ops, rng, tally)
    return random_schedule(program.ops, rng, tally, threads=chance(rng, THREADED))


def make_case(seed: int, rng: Rng, tally: Tally, *, gpu: bool = False) -> Case:
    """Draw a case from `rng`, and compute its expected results.

    The tolerance for rounded results is 64 times an estimate: epsilon times the largest number, for
    each point of the longest reduction and for 8 other operations. The factor 64 is generous,
    because a product of rounded numbers has the errors of both.
    """
    program = random_program(rng)
    schedule = _schedule(program, rng, tally, gpu=gpu)
    inputs = program.arrays(rng)
    read = [
        t for op in tensor.producers_first(program.ops) for t in getattr(op, "input_tensors", ())
    ]
    every = [*(op.output(0) for op in program.ops), *read]
    values = tensor.evaluate([*program.outputs, *every], {**inputs, **program.sizes})
    wanted = values[: len(program.outputs)]
    finite = [np.abs(v[np.isfinite(v)]) for v in values if v.dtype.kind == "f"]
    peak = max((float(v.max()) for v in finite if v.size), default=1.0)
    tolerance = 64 * program.epsilon * (8 + program.longest) * max(1.0, peak)
    strange = [*inputs.values(), *values[len(wanted) :]]
    certain = all(program.exact) or all(bool(np.isfinite(v).all()) for v in strange)
    return Case(seed, program, schedule, inputs, wanted, tolerance, certain)


def _replays(case: Case) -> None:
    """Check that the schedule can be restored from its JSON and its Python text."""
    s, ops = case.schedule, case.program.ops
    intrins = s.state.intrins
    again = [te.Schedule.from_json(s.to_json(), ops, intrins)]
    if len({op.name for op in ops}) == len(ops):
        scope: dict[str, Any] = {op.name: op.output(0) for op in tensor.producers_first(ops)}
        scope |= {"te": te, **{i.name: i for i in intrins}}
        exec(s.python(), scope)
        again.append(scope["s"])
    for other in again:
        if other.steps != s.steps:
            raise _WrongResultError(f"the schedule was restored with other steps: {other.steps}")


# --- running -------------------------------------------------------------------------------------


def stores(case: Case) -> int:
    """Return how many stores the loops execute; compute_at may repeat a stage many times."""
    return _stores(
        driver.lower(case.schedule, case.program.args, until="nest").body, case.program.sizes
    )


def _stores(s: tir.Stmt, sizes: dict[tir.Var, int], *, threads_at_once: bool = False) -> int:
    """Return how many stores `s` executes.

    threads_at_once   count a store by all threads as one, as the simulated GPU executes it
    """
    inside = [c for c in tir.children(s) if isinstance(c, tir.Stmt)]
    total = sum(_stores(c, sizes, threads_at_once=threads_at_once) for c in inside)
    total += isinstance(s, tir.Store)
    if not isinstance(s, tir.For) or (threads_at_once and _is_thread(s)):
        return total
    extent = tir.substitute(s.extent, sizes)
    return total * (extent if isinstance(extent, int) else max(EXTENTS))


def _interpreter(case: Case, rng: Rng, passes: tuple[lowering.Pass, ...]) -> None:
    """Interpret the program after three stages of lowering, with parallel loops in any order."""
    for until in ("nest", "flatten", ""):
        made = driver.lower(case.schedule, case.program.args, passes=passes, until=until)
        func = _in_any_order(made)
        flat = until != "nest"
        _run(
            case,
            f"interpreter after {until or 'all passes'}",
            lambda *args: tir.interpret(func, *args, rng=rng, flat=flat),  # noqa: B023  runs at once
        )


def _in_any_order(func: tir.PrimFunc) -> tir.PrimFunc:
    """Turn hardware threads into parallel loops, which the interpreter runs in random order."""
    prepack = None if func.prepack is None else _in_any_order(func.prepack)
    return replace(func, body=tir.rewrite(func.body, _as_parallel), prepack=prepack)


def _as_parallel(s: tir.Stmt) -> tir.Stmt:
    if isinstance(s, tir.For) and _is_thread(s):
        return tir.For(s.var, s.extent, s.body, "parallel")
    return s


def _is_thread(s: object) -> bool:
    return isinstance(s, tir.For) and s.kind == "bind" and not is_virtual(s.thread)


def _has_threads(case: Case, target: str) -> bool:
    """Return whether the program lowered for `target` has a loop bound to a hardware thread."""
    bound = (s.thread for s in case.schedule.steps if isinstance(s, Bind))
    if all(map(is_virtual, bound)):
        return False
    func = driver.lower(case.schedule, case.program.args, target=_compiler(target))
    return any(map(_is_thread, _nodes(func)))


def _compiler(target: str) -> str:
    return "llvm" if target == "exported" else target


def _refuses(case: Case, target: str) -> None:
    """Check that the target refuses hardware threads, because a CPU has none."""
    try:
        driver.build(case.schedule, case.program.args, target=_compiler(target))
    except BuildError:
        return
    raise _WrongResultError(f"{target}: built a loop that is bound to a hardware thread")


def _python(case: Case, rng: Rng, passes: tuple[lowering.Pass, ...]) -> None:
    del rng, passes
    _run(case, "python", driver.build(case.schedule, case.program.args, target="python"))


def _llvm(case: Case, rng: Rng, passes: tuple[lowering.Pass, ...]) -> None:
    """Run machine code on one core and, if a loop is parallel, on two; also bind the constants."""
    del rng, passes
    func = driver.lower(case.schedule, case.program.args)
    for cores in (1, 2) if _parallel(func) else (1,):
        f = driver.build(func, target=f"llvm -num-cores={cores}")
        _run(case, f"llvm on {cores} core(s)", f)
        if func.constants:
            _run(case, f"llvm on {cores} core(s), constants bound", partial(_bound, f))


def _bound(f: runtime.Function, *args: Any) -> None:
    """Bind the constants among `args` to the function, and call it with the other arguments."""
    named = list(zip(f.func.params, args, strict=True))
    g = f.bind(**{p.name: a for p, a in named if f.func.is_constant(p)})
    g(*(a for p, a in named if not f.func.is_constant(p)))


def _numba(case: Case, rng: Rng, passes: tuple[lowering.Pass, ...]) -> None:
    """Build the program for numba and run it on two cores."""
    del rng, passes
    _run(case, "numba", driver.build(case.schedule, case.program.args, target="numba -num-cores=2"))


def _exported(case: Case, rng: Rng, passes: tuple[lowering.Pass, ...]) -> None:
    """Export a function as machine code or Python source, load it again and run it."""
    del passes
    target = "llvm -num-cores=2" if chance(rng, 0.5) else "python"
    func = driver.build(case.schedule, case.program.args, target=target)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "case.tvm"
        func.export(path)
        _run(case, f"{target}, exported and loaded", runtime.load(path))


def _parallel(func: tir.PrimFunc) -> bool:
    return any(isinstance(n, tir.For) and n.kind == "parallel" for n in _nodes(func))


def _nodes(func: tir.PrimFunc) -> Iterator[object]:
    """Yield all nodes of a program and of the program that packs its constants."""
    yield from tir.walk(func.body)
    if func.prepack is not None:
        yield from _nodes(func.prepack)


_RUNS: dict[str, Callable[[Case, Rng, tuple[lowering.Pass, ...]], None]] = {
    "interpreter": _interpreter,
    "python": _python,
    "llvm": _llvm,
    "numba": _numba,
    "exported": _exported,
}


def _on_gpu(case: Case, tally: Tally) -> CaseResult:
    """Run the case on the simulated GPU; then remove each barrier in turn, which it must report."""
    function = driver.build(case.schedule, case.program.args, target=GPU)
    cost = _stores(function.func.body, case.program.sizes, threads_at_once=True)
    if cost > PATIENCE:
        return CaseResult(case.seed, "ok", "", "", tally)
    _run(case, GPU, function)
    tally.ran = tally.taken.copy()
    count = min(barriers(function.func), PATIENCE // max(cost, 1))  # one run for each
    spare = sum(not _misses(case, without(function.func, n)) for n in range(count))
    return CaseResult(
        case.seed, "ok", "", "", tally, (GPU,), certain=case.certain, barriers=count, spare=spare
    )


def _misses(case: Case, func: tir.PrimFunc) -> bool:
    """Return whether the simulated GPU reports that `func`, which lacks a barrier, is wrong."""
    program = case.program
    outputs = [np.zeros(w.shape, w.dtype) for w in case.wanted]
    args = [
        *map(np.asarray, case.inputs.values()),
        *outputs,
        *(program.sizes[v] for v in program.scalars),
    ]
    return not simt.run(func, args, counters=False).ok


def _run(case: Case, what: str, call: Callable[..., Any]) -> None:
    """Call the program, check its outputs, and check that it wrote nothing else."""
    program = case.program
    arenas = [_Arena.of(program.shape(t), t.dtype, case.inputs.get(t)) for t in program.tensors]
    call(*(a.array for a in arenas), *(program.sizes[v] for v in program.scalars))
    for t, arena in zip(program.tensors, arenas, strict=True):
        if not arena.intact():
            raise _WrongResultError(f"{what}: wrote outside {t.name}")
    for t, arena in zip(program.inputs, arenas, strict=False):
        if difference(arena.array, case.inputs[t]):
            raise _WrongResultError(f"{what}: wrote to the input {t.name}")
    results = [a.array for a in arenas[len(program.inputs) :]]
    for t, got, want, exact in zip(
        program.outputs, results, case.wanted, program.exact, strict=True
    ):
        found = difference(got, want, 0.0, 0.0 if exact else case.tolerance)
        if found and case.certain:
            raise _WrongResultError(f"{what}: {t.name}{found}")


@dataclass(frozen=True, slots=True, eq=False)
class _Arena:
    """An array argument, and margins of known bytes around it that no program may overwrite."""

    memory: Array
    array: Array

    @classmethod
    def of(cls, shape: tuple[int, ...], dtype: DType, contents: Array | None) -> _Arena:
        """Make an argument that contains `contents` or, for an output, arbitrary values."""
        size = int(np.prod(shape, dtype=np.int64)) * dtype.numpy.itemsize
        memory = np.full(size + 2 * MARGIN, CANARY, np.uint8)
        inside = memory[MARGIN : MARGIN + size]
        if dtype == "bool":
            inside[:] = 1
        array = inside.view(dtype.numpy).reshape(shape)
        if contents is not None:
            array[...] = contents
        return cls(memory, array)

    def intact(self) -> bool:
        margins = (self.memory[:MARGIN], self.memory[len(self.memory) - MARGIN :])
        return all(bool((m == CANARY).all()) for m in margins)
