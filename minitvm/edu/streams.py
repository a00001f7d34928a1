"""Explain what is wrong with the tokens of an accelerator program, as feedback for students."""

from __future__ import annotations

from dataclasses import replace

from minitvm import accel

LINES = 24  # the most lines of a listing in a message

STUCK = {
    "l2g": "`ld` pushes ex less often than `ex` pops ld: some gemm waits for a load that pushes"
    " no token when it is done",
    "g2l": "`ex` pushes ld less often than `ld` pops ex: some load waits for a free place; the"
    " first load into each place waits, too, if it pops",
    "g2s": "`ex` pushes st less often than `st` pops ex: the store waits for the results",
    "s2g": "`st` pushes ex less often than `ex` pops st: an instruction waits for the store",
    "": "each queue has a push for each pop, but some push comes only after the pop that waits for"
    " it: the order within the units is wrong",
}
LEFT = {
    "l2g": "the token that a load pushes has to be popped by its gemm, or by a final nop of ex",
    "g2l": "the tokens that the last gemms push have to be popped before the end, by nops of ld",
    "g2s": "a token that is pushed to st has to be popped by the store",
    "s2g": "the token that the store pushes has to be popped before the end, by a nop of ex",
}
WAITS = {
    ("INP", "RAW"): "a gemm has to wait for its load",
    ("INP", "WAR"): "a load has to wait for the gemm that reads the data it overwrites",
    ("WGT", "RAW"): "a gemm has to wait for its weights",
    ("WGT", "WAR"): "a load has to wait for the gemm that reads the data it overwrites",
    ("ACC", "RAW"): "the store has to wait for the last gemm",
    ("ACC", "WAR"): "what overwrites a result has to wait until it is stored",
    ("DRAM", "RAW"): "the end has to wait for the store: at `finish` the result is read",
}


def stream_fault(
    program: accel.Program, config: accel.Config, left_over: bool = True
) -> tuple[str, str, str]:
    """Return the verifier's first finding as (message id, text, why), or ("", "", "").

    The ids are deadlock, leak, race, uninitialised and hazard.
    left_over   False: ignore tokens that are still queued at the end
    """
    verdict = accel.verify(program, config)
    verdict = verdict if left_over else replace(verdict, leaks=())
    if verdict.ok:
        return "", "", ""
    message, why = _named(program, verdict)
    lines = [x for x in accel.explain(program, verdict).split("\n") if x.startswith(message)]
    return message, "\n".join(lines[:3]), why


def _named(program: accel.Program, verdict: accel.Verdict) -> tuple[str, str]:
    """Return the message id of the most serious finding, and the usual reason for that finding."""
    if verdict.deadlock:
        return "deadlock", STUCK[short_queue(program)]
    if verdict.leaks:
        return "leak", LEFT[verdict.leaks[0][0].value]
    if verdict.races:
        first = verdict.races[0]
        return "race", WAITS.get((first.space, first.kind), "one access must wait for the other")
    if verdict.uninitialised:
        return "uninitialised", "a load or a reset is missing: the memory still holds older data"
    return "hazard", "an accumulator is read before the previous sum is stored"


def short_queue(program: accel.Program) -> str:
    """Return the name of the first queue with fewer pushes than pops; "" if there is none."""
    for n, queue in enumerate(accel.Queue):
        pushes = sum(n in wire.pushes for wire in program.wires)
        if pushes < sum(n in wire.pops for wire in program.wires):
            return queue.value
    return ""


def flagged_tokens(program: accel.Program) -> set[tuple[int, str]]:
    """Return the token flags that are set, as (number of the instruction, name of the flag)."""
    return {
        (n, flag)
        for n, instruction in enumerate(program.instructions)
        for flag in ("pop_prev", "pop_next", "push_prev", "push_next")
        if getattr(instruction.flags, flag)
    }


def numbered_listing(program: accel.Program) -> str:
    """Return ":" and the listing of `program`, or " (30 instructions)" if the listing is long."""
    lines = [line for line in accel.listing(program).split("\n") if "  # " in line]
    return f" ({len(lines)} instructions)" if len(lines) > LINES else ":\n" + "\n".join(lines)
