"""Questions about the accelerator: which tokens a stream of instructions lacks."""

from __future__ import annotations

from dataclasses import replace

from minitvm import accel

from ..item import Rng
from .question import Question, pick

SHORT = {accel.Unit.LOAD: "ld", accel.Unit.COMPUTE: "ex", accel.Unit.STORE: "st"}
AREAS = ("area A inp 8", "area W wgt 1", "area C out 2")


def tokens(rng: Rng) -> Question:
    """Ask whether a stream deadlocks, leaks a token, has a race, or is right."""
    while True:
        steps, threads, stores = pick(rng, ((3, 1, False), (2, 1, True), (2, 2, False)))
        uops = [f"uop {t} {t} 0" for t in range(threads)]
        lines, change = _changed(rng, _stream(steps, threads, stores))
        program = accel.parse("\n".join([*AREAS, *uops, *lines]))
        verdict = accel.verify(program)
        if not (verdict.hazards or verdict.uninitialised):
            break
    program_text = "\n".join([*uops, "", *(f"{n:2}  {line}" for n, line in enumerate(lines))])
    return Question(
        "Tokens",
        "A program of the accelerator, with the numbers of its instructions. `uop d s w` means"
        " acc[d] += inp[s] * wgt[w], and `gemm u[t:t+1]` runs micro-operation t. All queues are"
        " empty at first. When the processor reads C after `finish`, this is a read, too.",
        program_text,
        ("Is the program right? If not, say what is wrong: the instructions at which units wait"
         " for ever (a deadlock), or else the queue with tokens that are left over (a leak) and a"
         " pair of instructions that share an element and that nothing orders (a race).",),
        (_said(verdict),),
        change + _why(program, verdict),
        "notebook 09, sections 1 and 4",
        5,
    )  # fmt: skip


def _stream(steps: int, threads: int, stores: bool) -> list[str]:
    """Return the stream of notebook 09: each thread loads a piece and adds it up, step by step."""
    lines = [f"ex  uop[0] = uops[0] x={threads}", f"ex  reset u[0:{threads}]"]
    lines += ["ld  wgt[0] = W[0] x=1", *["ex  nop   push ld"] * threads]
    for k in range(steps):
        loads = (f"ld  inp[{t}] = A[{k * threads + t}] x=1" for t in range(threads))
        lines += [f"{load}   pop ex   push ex" for load in loads]
        lines += [f"ex  gemm u[{t}:{t + 1}]   pop ld   push ld" for t in range(threads)]
    lines += ["ld  nop   pop ex"] * threads
    if stores:
        lines += ["ex  nop   push st", f"st  C[0] = acc[0] x={threads}   pop ex   push ex"]
        lines += ["ex  nop   pop st"]
    return [*lines, "ex  finish"]


def _changed(rng: Rng, lines: list[str]) -> tuple[list[str], str]:
    """Return the lines without a push, a pop, both or neither, and a sentence that says so."""
    queues = [(a, b) for a, b in (("ld", "ex"), ("ex", "ld"), ("ex", "st"), ("st", "ex"))
              if any(line.startswith(a) and f"push {b}" in line for line in lines)]  # fmt: skip
    source, target = pick(rng, queues)
    pushes, pops = (
        [n for n, line in enumerate(lines) if line.startswith(unit) and word in line]
        for unit, word in ((source, f"push {target}"), (target, f"pop {source}"))
    )
    token = int(rng.integers(len(pushes)))
    kind = pick(rng, ("nothing", "the push", "the pop", "the token", "the token"))
    changed = list(lines)
    if kind in ("the push", "the token"):
        changed[pushes[token]] = changed[pushes[token]].replace(f"   push {target}", "")
    if kind in ("the pop", "the token"):
        changed[pops[token]] = changed[pops[token]].replace(f"   pop {source}", "")
    names = {"the push": f"the push of {pushes[token]} to {target}",
             "the pop": f"the pop of {pops[token]} from {source}",
             "the token": f"the token from {pushes[token]} to {pops[token]}"}  # fmt: skip
    if kind == "nothing":
        return lines, "Each push has its pop. "
    return changed, f"Taken away: {names[kind]}. "


def _said(verdict: accel.Verdict) -> str:
    """Return the verdict in few words."""
    if verdict.deadlock:
        blocked_text = ", ".join(f"{SHORT[b.unit]} at {b.index}" for b in verdict.deadlock)
        return f"deadlock: {blocked_text}"
    words = [f"leak: {count} in {queue.value}" for queue, count in verdict.leaks]
    words += [f"race: for example {r.first} and {r.second}" for r in verdict.races[:1]]
    return "; ".join(words) or "right"


def _why(program: accel.Program, verdict: accel.Verdict) -> str:
    """Return the reason for the verdict in a sentence."""
    if verdict.ok:
        return "The tokens order each pair of instructions that share an element."
    said = accel.explain(program, replace(verdict, races=verdict.races[:1], stale=()))
    return said.replace("\n", "; ") + "."
