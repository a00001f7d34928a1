"""Questions about searches: the size of a space, sketches of a formula, and the next round."""

from __future__ import annotations

import math

from minitvm import auto_scheduler, autotvm, tensor
from minitvm.base import Target

from ..item import Rng
from .question import Question, joined, pick, run

TARGET = Target("llvm -num-cores=1").on(  # described: the same sketches on any machine
    vector_bytes=64, vector_registers=32, l1=32 << 10, l2=1 << 20, l3=32 << 20
)
SIZES = (16, 24, 32, 36, 48, 60, 64, 96)
STAGES = {  # the formula of element [i, j], or of [i] for a sum; x is the stage before
    "product": ("te.sum(x[i, k] * W[k, j], axis=k)",),
    "cheap": ("te.max(x[i, j], 0.0)", "x[i, j] * 2.0", "x[i, j] + 1.0"),
    "exp": ("te.exp(x[i, j])",),
    "sum": ("te.sum(x[i, k], axis=k)",),
}
KINDS = ("product", "product", "cheap", "cheap", "exp", "sum")
WINDOW = 3


# --- a configuration space -----------------------------------------------------------------------


def configurations(rng: Rng) -> Question:
    """Ask for the size of a configuration space, and for the options of one configuration."""
    height, width = pick(rng, SIZES), pick(rng, (8, 16, 32, 64))
    most, loops = pick(rng, (4, 8, 12, 16)), pick(rng, (2, 3))
    knob = pick(rng, ("[0, 16, 64]", "[0, 16, 64, 512]", "[4, 8, 16]"))
    code = f"""\
cfg = autotvm.ConfigSpace()
cfg.define_split("tile_y", cfg.axis({height}), num_outputs=2, max_factor={most})
cfg.define_split("tile_x", cfg.axis({width}), num_outputs=3)
cfg.define_reorder("order", {list(range(loops))}, "all")
cfg.define_knob("unroll", {knob})"""
    cfg: autotvm.ConfigSpace = run(code, autotvm=autotvm)["cfg"]
    counts = [len(knob) for knob in cfg.space.knobs]
    number = int(rng.integers(cfg.range_length // 4, cfg.range_length))
    row = cfg.space.row(number)
    return Question(
        "A configuration space",
        "A template defines these knobs. The factors of a split are those that divide the axis;"
        " `max_factor` bounds the inner loop of `tile_y`. From one configuration to the next, the"
        " first knob changes fastest. Configuration 0 has option 0 of each knob.",
        code,
        ("How many options has each knob, in the order of the program?",
         "How many configurations are there?",
         f"Which option of each knob has configuration {number}?"),
        (", ".join(map(str, counts)), str(cfg.range_length), ", ".join(map(str, row))),
        f"{joined(counts)} = {cfg.range_length}; {number} ="
        + "".join(f" {option} +" if not n else f" {option} * {math.prod(counts[:n])} +"
                  for n, option in enumerate(row)).removesuffix(" +") + ".",
        "notebook 11, section 1",
        4,
    )  # fmt: skip


# --- sketches ------------------------------------------------------------------------------------


def sketches(rng: Rng) -> Question:
    """Ask which stages of a formula are inlined, and how many sketches it has."""
    while True:
        kinds = [pick(rng, KINDS) for _ in range(pick(rng, (3, 4, 5)))]
        sums = sum(kind in ("product", "sum") for kind in kinds)
        if 1 <= sums <= 2 and "product" in kinds and "sum" not in kinds[:-1]:
            break
    dag = auto_scheduler.ComputeDAG(_chain(rng, kinds))
    sketches = auto_scheduler.derived(dag.initial, TARGET)
    names = [name for name, kind in zip("CDEFG", kinds[:-1], strict=False) if kind == "cheap"]
    fused = sum("tile and fuse" in state.rules for state in sketches)
    return Question(
        "Sketches",
        "The rules of the course derive sketches of this formula for one core. Products read"
        " matrices of 64 x 64.",
        str(dag).strip(),
        ("Which stages are inlined in every sketch?",
         "How many sketches are there?",
         "In how many of them is some product computed inside the tiles of another stage?"),
        (", ".join(names) or "none", str(len(sketches)), str(fused)),
        "A product is computed inside of level 1 or 2 of its consumer's tiles, or before it; a sum"
        " of rows is split by rfactor in two ways, or not. The choices of stages multiply.",
        "notebook 14, section 2",
        4,
    )  # fmt: skip


def _chain(rng: Rng, kinds: list[str]) -> list[tensor.Tensor]:
    """Return the inputs and the output of a chain of stages, named C, D, E, ..."""
    (x,) = tensors = [run('A = te.placeholder((64, 64), name="A")')["A"]]
    for name, kind in zip("CDEFG", kinds, strict=False):
        shape, axes = ("(64,)", "i") if kind == "sum" else ("(64, 64)", "i, j")
        scope = run(
            f"""\
W = te.placeholder((64, 64), name="W{name}")
k = te.reduce_axis((0, 64), name="k")
stage = te.compute({shape}, lambda {axes}: {pick(rng, STAGES[kind])}, name="{name}")""",
            x=x,
        )
        x = scope["stage"]
        tensors += [scope["W"]] if kind == "product" else []
    return [*tensors, x]


# --- the next round ------------------------------------------------------------------------------


def gradients(rng: Rng) -> Question:
    """Ask for the gradients of three tasks, and which one gets the next round."""
    while True:
        weights = [int(n) for n in rng.integers(1, 5, 3)]
        tasks = [_progress(rng, flops) for flops in (100e6, pick(rng, (80e6, 120e6)), 400e6)]
        slopes = auto_scheduler.objectives.slopes(tasks, [[1], [0], []], window=WINDOW)
        weighted = [1e6 * w * slope for w, slope in zip(weights, slopes, strict=True)]
        first, second = sorted(weighted)[:2]
        if first < 1.05 * second and len({round(g) for g in weighted}) == len(weighted):
            break
    rows = [
        f"{name:4}  {w:6}  {1e6 * t.latency:10.0f}  {t.rounds:6.0f}"
        f"  {1e6 * (t.before or 0):14.0f}  {t.flops / 1e6:10.0f}"
        for name, w, t in zip("ABC", weights, tasks, strict=True)
    ]
    backward = (f"{1e6 * (t.latency - (t.before or 0)) / WINDOW:.0f}" for t in tasks)
    hopes = (f"{-1e6 * t.latency / t.rounds:.0f}" for t in tasks)
    return Question(
        "The gradient of a task",
        "A task scheduler minimises the latency of one network. Latencies are in microseconds,"
        " operations in millions. Tasks A and B are similar, and C has no similar task. alpha is"
        " .2, beta is 2 and D is 3 rounds.",
        "\n".join(["task  weight     latency  rounds  3 rounds ago  operations", *rows]),
        ("What is the gradient of each task, in microseconds per round, rounded to integers?",
         "Which task gets the next round?"),
        (", ".join(f"{name} {g:.0f}" for name, g in zip("ABC", weighted, strict=True)),
         "ABC"[weighted.index(first)]),
        f"Backward: {', '.join(backward)}. The latency divided by the rounds: {', '.join(hopes)}."
        " A and B should take at most twice as long as at the speed of the faster of the two.",
        "notebook 15, section 2",
        5,
    )  # fmt: skip


def _progress(rng: Rng, flops: float) -> auto_scheduler.objectives.Progress:
    """Draw a task whose gradient is easy to compute by hand."""
    latency = 600 * int(rng.integers(1, 8))
    gained = pick(rng, (0, 0, 150, 300, 600))
    rounds = pick(rng, (4, 5, 6, 10, 12))
    return auto_scheduler.objectives.Progress(
        latency / 1e6, rounds, (latency + gained) / 1e6, flops
    )
