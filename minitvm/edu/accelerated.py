"""Make parts of items that check accelerator schedules: their results, hazards and bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from minitvm import accel, te, tensor, vta
from minitvm.base import TVMError

from .checkers import Arguments, describe, random_inputs
from .item import PASSED, Answer, Kind, Outcome, Part, Rng, failed
from .schedules import run_function, schedule_of, wrong_results
from .streams import stream_fault

HAZARD = (
    "the matrix unit adds to the same accumulator again before the previous sum is stored. Update"
    " other accumulators in between: put no reduce loop directly around the instruction"
)
NO_QUEUE = (
    "no queue connects load and store. Where a load directly follows a store, put compute between"
    " them: s[C].pragma(axis, env.coproc_sync) on the loop with the dma_copy of C (notebook 08,"
    " section 6). A loop over steps of the sum does so by itself"
)
LOST = "some numbers are not fetched, not computed or not stored: each stage needs its instruction"


def runs_on_accelerator(
    arguments: Arguments,
    config: accel.Config = accel.vta_pynq,
    *,
    title: str = "the right result on the accelerator, to the last bit",
    kind: Kind = "correctness",
    weight: float = 1.0,
    why: str = "",
) -> Part:
    """Make a part that builds a schedule for `config`, simulates it, and verifies the program.

    Message ids besides "wrong-type" and "wrong-value": "refused" if the schedule cannot be built (a
    memory is too small, or no instruction covers some loop), and what the verifier finds:
    "deadlock", "leak", "race", "uninitialised", "hazard".
    why   the usual reason why schedules are refused
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        args = arguments(rng)
        s, tensors = schedule_of(answer, args)
        inputs, case = random_inputs(tensors, rng), ", ".join(map(describe, args))
        try:
            with vta.Environment(config):
                f = vta.build(s, tensors)
        except TVMError as e:
            reason = NO_QUEUE if "coproc_sync" in str(e) else why
            return failed("refused", f"a program for {config.name}", str(e), case=case, why=reason)
        results = run_function(f, tensors, inputs)
        if wrong := wrong_results(results, tensors, inputs, 0, 0, f"{case}: ", LOST):
            return wrong
        message, text, reason = stream_fault(f.program, config)
        if message:
            reason = HAZARD if message == "hazard" else reason
            return failed(message, "ok", text, case=case, why=reason)
        return PASSED

    return Part(kind, title, weight, check)


def bytes_moved(s: te.Schedule, tensors: Sequence[tensor.Tensor]) -> float:
    """Return how many bytes move between main memory and the accelerator: a cost for at_most().

    Every load and store of the program counts, micro-operations included.
    """
    counters: Any = vta.build(s, tensors).run().counters
    return float(sum(getattr(counters, f.name) for f in fields(counters) if "nbytes" in f.name))


def on_machine(config: accel.Config, part: Part) -> Part:
    """Return a copy of `part` whose check uses the machine `config` for target "vta".

    The student's function still sees the current vta.Environment, because grading calls it in
    another process, which does not know `config`.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        before = vta.get_env()

        def outside(*arguments: Any) -> Any:
            with before:
                return answer(*arguments)

        with vta.Environment(config):
            return part.check(outside, rng)

    return replace(part, check=check)
