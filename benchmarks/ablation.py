"""Measure what each part of the search is worth, by searches that leave parts out.

    python benchmarks/ablation.py [--quick] [--seeds 5] [--trials 64] [--seconds 60] [--log FOLDER]
                                  [--json FILE] [--svg FILE] [CURVE ...]

The operator is the last 3x3 convolution of ResNet-50, batch 1, one thread, constant weights. All
trials are kept in FOLDER; after --seconds, repeat the command to continue. The curves:

full             evolution under trees that correct the analytic model: the default policy
random           programs drawn uniformly, without a model
no fine-tuning   the model chooses among programs drawn uniformly, without evolution
beam             beam search over incomplete programs, with the same model
limited space    no second level of fusion, no packing, only tiles that divide the loops
no estimate      without the analytic model: the first programs are random; trees start from 0

The table has the best program so far, relative to the best of all curves: the median of the seeds.
"x default" is the speed of the best program relative to topi's schedule, measured again at the
end of each search: compare this column if the speed of the machine changes. Below it are how well
the model orders programs of which it knows only the first decisions, and where beam search prunes
the best program that any curve has found.

--quick   a convolution of 14 x 14 with 64 channels, 16 trials, one seed
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["MINITVM_NUM_THREADS"] = "1"

import matplotlib as mpl
import numpy as np
from pretrain import TARGET, conv

mpl.use("svg")
import matplotlib.pyplot as plt

from minitvm import auto_scheduler, te, tune

Curves = dict[str, list[tune.Outcome]]
EVERY = 1 << 18  # more options than any knob has, so that beam search tries all
SHOWN = (4, 8, 16, 32, 64, 128, 256)  # trials

# What Ansor's paper (section 7.1) and the talk say of 1,000 trials.
CLAIMS = {
    "random": "far below full",
    "no fine-tuning": "far below full",
    "beam": "far below full: early pruning discards good programs",
    "limited space": "the lowest: the space is the most important factor",
}


def task_of(size: int, channels: int, limited: bool) -> tune.Task:
    """Return the task of a convolution, with all sketches or those of a limited space."""
    out = conv(size, channels, channels, 3, 1, constant=not limited)  # constants are packed
    dag = auto_scheduler.ComputeDAG(te.create_schedule(out.op))
    found = auto_scheduler.sketches([dag], TARGET)
    if limited:
        found = tuple(narrow(sketch) for sketch in found if "level 2" not in sketch.name)
    name = f"conv {size} {channels}{' limited' if limited else ''}"
    return tune.Task(name, (), TARGET, dag.tensors, dag.flop_ct, found)


def narrow(sketch: tune.Sketch) -> tune.Sketch:
    """Return a sketch without packing, with only those tiles that divide the loops."""
    knobs = [
        tune.sizes_knob(g.name, [o for o in g.options if o[0] != -1])
        if g.kind == "split"
        else tune.choice_knob(g.name, ["no"])
        if g.name == "pack_inputs"
        else g
        for g in sketch.space.knobs
    ]
    return replace(sketch, space=replace(sketch.space, knobs=tuple(knobs)))


def without_estimate(task: tune.Task) -> tune.Columns:
    """Return the columns of a task without those of the analytic model, the last ones."""
    known, count = tune.columns_of(task), len(tune.NAMES)
    assert known.checked is not None
    checked = known.checked

    def legal(n: int, rows: tune.Rows) -> tuple[tune.Mask, tune.Floats]:
        mask, features = checked(n, rows)
        return mask, features[:, :count]

    return tune.Columns(lambda n, rows: known.of(n, rows)[:, :count], tune.NAMES, legal)


Policies = Mapping[str, Callable[[tune.Task, np.random.Generator], tune.Policy]]
POLICIES: Policies = {
    "full": tune.GuidedPolicy,
    "random": tune.RandomPolicy,
    "no fine-tuning": lambda task, rng: tune.GuidedPolicy(
        task, rng, evolution=tune.Evolution(generations=0)
    ),
    "beam": auto_scheduler.BeamPolicy,
    "limited space": tune.GuidedPolicy,
    "no estimate": lambda task, rng: tune.GuidedPolicy(task, rng, columns=without_estimate(task)),
}


def measured(
    tasks: Mapping[str, tune.Task], seeds: int, trials: int, seconds: float, folder: Path
) -> Curves | None:
    """Search with each policy and seed; return None if `seconds` did not suffice for all."""
    end, found = time.perf_counter() + seconds, Curves()
    first = next(iter(tasks.values()))
    with tune.Measurer(first.default(), TARGET) as measurer:
        for seed in range(seeds):
            for name, task in tasks.items():
                log = folder / f"{name.replace(' ', '-')}-{seed}.jsonl"
                rng = np.random.default_rng(seed)
                left = max(end - time.perf_counter(), 1e-3)  # enough to read the log
                outcome = tune.run(
                    task,
                    POLICIES[name](task, rng),
                    trials=trials,
                    seconds=left,
                    batch=8,
                    log=log,
                    measurer=measurer,
                    rng=rng,
                )
                if len(outcome.trials) < trials and outcome.ended == "seconds":
                    return None
                if outcome.earlier < len(outcome.trials):
                    print(f"{name}, seed {seed}: {outcome}", flush=True)
                found.setdefault(name, []).append(outcome)
    return found


def best_so_far(outcome: tune.Outcome) -> list[float]:
    """Return the GFLOP/s of the fastest program after each trial."""
    seconds = accumulate((t.seconds for t in outcome.trials), min)
    return [tune.rate(outcome.task, s) for s in seconds]


def report(curves: Curves, trials: int) -> dict[str, list[list[float]]]:
    """Print the table; return the curves, one for each seed."""
    rates = {name: [best_so_far(o) for o in outcomes] for name, outcomes in curves.items()}
    best = max(rate[-1] for several in rates.values() for rate in several)
    shown = sorted({n for n in SHOWN if n < trials} | {trials})
    print(f"best of all: {best:.1f} GFLOP/s")
    head = "".join(f"{n:>6}" for n in shown) + "  x default"
    print(f"{'trials':16}{head}   Ansor's paper, 1,000 trials")
    for name, several in rates.items():
        middle = [statistics.median(r[min(n, len(r)) - 1] for r in several) / best for n in shown]
        gain = statistics.median(o.gain for o in curves[name])
        row = "".join(f"{m:6.2f}" for m in middle) + f"{gain:11.2f}"
        print(f"{name:16}{row}   {CLAIMS.get(name, '')}")
    return rates


def incomplete(curves: Curves, task: tune.Task) -> dict[str, object]:
    """Print how well a model that is trained on the other trials orders incomplete programs."""
    same = {name: several for name, several in curves.items() if name != "limited space"}
    if not {"full", "random"} <= set(same):
        return {}
    tests = [t for outcome in same["random"] for t in outcome.trials]
    known = [t for n, several in same.items() if n != "random" for o in several for t in o.trials]
    policy = auto_scheduler.BeamPolicy(task, np.random.default_rng(0), branch=EVERY)
    policy.learn(known)
    curve = auto_scheduler.accuracy_by_completeness(task, policy.model, tests)
    print("\nknobs known    pairs of random programs in the right order")
    for share, accuracy in curve:
        print(f"{share:11.0%}    {'-' if accuracy is None else f'{accuracy:.2f}'}")
    best = min([*known, *tests], key=lambda t: t.seconds).candidate
    trace = policy.search()
    lost, knobs = trace.pruned_at(best), len(best.row)
    where = "kept to the end" if lost is None else f"pruned with {lost} of {knobs} knobs known"
    until = len(trace.decisions) if lost is None else lost + 1
    print(f"\nthe best program of all, in a beam of {policy.beam}: {where}")
    print(auto_scheduler.BeamTrace(task, trace.decisions[:until]))
    return {"accuracy_by_completeness": curve, "pruned_at": lost, "knobs": knobs}


def draw(
    rates: Mapping[str, list[list[float]]],
    title: str,
    file: Path,
    ylabel: str = "GFLOP/s of the best program so far",
) -> None:
    """Write a picture: the median of the seeds, and their range as a band."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for name, several in rates.items():
        length = min(map(len, several))
        values = np.array([r[:length] for r in several])
        numbers = np.arange(1, length + 1)
        (line,) = axes.plot(numbers, np.median(values, axis=0), label=name)
        low, high = values.min(axis=0), values.max(axis=0)
        axes.fill_between(numbers, low, high, color=line.get_color(), alpha=0.12, linewidth=0)
    axes.set(xlabel="trials", ylabel=ylabel, title=title)
    axes.set_ylim(bottom=0)
    axes.legend(frameon=False)
    figure.savefig(file, format="svg", bbox_inches="tight")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("curves", nargs="*", metavar="CURVE", help="(default: all)")
    parser.add_argument("--quick", action="store_true", help="a smaller operator, 16 trials")
    parser.add_argument("--seeds", type=int, help="searches of each curve (5)")
    parser.add_argument("--trials", type=int, help="of each search (64)")
    parser.add_argument("--seconds", type=float, default=60.0, help="of this call (60)")
    parser.add_argument("--log", type=Path, default=Path("ablation"), metavar="FOLDER")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--svg", type=Path, metavar="FILE")
    flags = parser.parse_args()
    flags.log.mkdir(exist_ok=True)
    shape = (14, 64) if flags.quick else (7, 512)
    trials = flags.trials or (16 if flags.quick else 64)
    seeds = flags.seeds or (1 if flags.quick else 5)
    full, limited = (task_of(*shape, limited=x) for x in (False, True))
    names = flags.curves or list(POLICIES)
    tasks = {name: limited if name == "limited space" else full for name in names}
    curves = measured(tasks, seeds, trials, flags.seconds, flags.log)
    if curves is None:
        print("not all trials are measured: the same command goes on")
        return
    rates = report(curves, trials)
    more = incomplete(curves, full)
    if flags.json is not None:
        found = {"operator": full.name, "trials": trials, "gflops": rates, **more}
        flags.json.write_text(json.dumps(found, indent=1))
    if flags.svg is not None:
        draw(rates, full.name, flags.svg)


if __name__ == "__main__":
    main()
