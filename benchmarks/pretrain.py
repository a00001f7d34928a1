"""Train a cost model on programs of several tasks, and try it on tasks that it does not know.

    python benchmarks/pretrain.py [--programs 120] [--random 12] [--seconds 60] [--log FOLDER]
                                  [--model FILE] [--json FILE]

Programs of several tasks are drawn and measured for --seconds, and kept in FOLDER. Repeat the
command until all are measured; then it prints the table. Of each task, --programs are drawn
uniformly, and a quarter as many are those that the analytic model ranks highest. The table is for
the uniform ones; the lines below it are for all of them, as the first batch of a search is.

Each line of the table is a task, for which six models order the programs that they have not seen:

analytic  this model is not trained
500     trees that correct it, trained on 500 programs of the other tasks
all     the same, with all their programs
own     what a search uses: trees that correct one of the two, trained on 100 programs of the task
        (--own); the mean of four divisions into known and unknown programs
more    `all`, and programs of --random tasks whose formulas are drawn at random, as Halide's
        model was trained (Adams et al. 2019): chains of products, stencils, sums and elementwise
        stages

Trees of other tasks split only the columns that say what the analytic estimate is made of. --model
writes such trees, trained on all tasks, if `all` orders more pairs than `analytic`: if the mean of
the differences is more than .02 and its standard error. minitvm/tune/pretrained.trees was made by

    python benchmarks/pretrain.py --log FOLDER --model minitvm/tune/pretrained.trees

pairs   the share of pairs that the model orders correctly
best    the fastest of the eight programs with the highest scores, relative to the fastest of all
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = os.environ["MINITVM_NUM_THREADS"] = "1"

import numpy as np

from minitvm import auto_scheduler, te, topi, tune
from minitvm.base import Target, TVMError

TARGET = Target("llvm -num-cores=1")
LIKELY = 4  # programs drawn uniformly for each one that the analytic model ranks highest
MIN_PROGRAMS = 24  # programs of a task that is judged
PICKED = 8  # programs that would be measured
MARGIN = 0.02  # of pairs, by which trees of other tasks must beat the analytic model
FIRST = (4, 8, 16)  # the same among all programs
Samples = tuple[np.ndarray, np.ndarray]


def matmul(m: int, n: int, k: int, relu: bool = False) -> te.Tensor:
    c = topi.matmul(te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B"), name="C")
    return topi.relu(c) if relu else c


def batch_matmul(b: int, m: int, n: int, k: int) -> te.Tensor:
    x, y = te.placeholder((b, m, k), name="A"), te.placeholder((b, k, n), name="B")
    r = te.reduce_axis((0, k), "k")
    return te.compute((b, m, n), lambda b, i, j: te.sum(x[b, i, r] * y[b, r, j], r), name="C")


def conv(
    size: int, ci: int, co: int, kernel: int, stride: int, relu: bool = False, constant: bool = True
) -> te.Tensor:
    x = te.placeholder((1, size, size, ci), name="x")
    w = te.placeholder((kernel, kernel, ci, co), name="w", constant=constant)
    y = topi.conv2d(x, w, stride, kernel // 2, layout="NHWC")
    return topi.relu(y) if relu else y


def depthwise(size: int, channels: int, stride: int) -> te.Tensor:
    x = te.placeholder((1, size, size, channels), name="x")
    w = te.placeholder((3, 3, channels, 1), name="w", constant=True)
    return topi.depthwise_conv2d(x, w, stride, 1, layout="NHWC")


def matrix(m: int, n: int) -> te.Tensor:
    return te.placeholder((m, n), name="A")


def norm(m: int, n: int) -> te.Tensor:
    a = matrix(m, n)
    i, j = te.reduce_axis((0, m), "i"), te.reduce_axis((0, n), "j")
    squares = te.compute((1,), lambda b: te.sum(a[i, j] * a[i, j], [i, j]), name="S")
    return te.compute((1,), lambda b: te.sqrt(squares[b]), name="N")


# Shapes that no other benchmark, notebook or network here has: figures for those are of tasks that
# the trees do not know.
TASKS: Mapping[str, Callable[[], te.Tensor]] = {
    "matmul 384x768x512": lambda: matmul(384, 768, 512),
    "matmul 256x1024x128 relu": lambda: matmul(256, 1024, 128, relu=True),
    "matmul 40x640x384": lambda: matmul(40, 640, 384),
    "batch matmul 8x96x160x64": lambda: batch_matmul(8, 96, 160, 64),
    "conv 40 64-64 3x3 relu": lambda: conv(40, 64, 64, 3, 1, relu=True),
    "conv 48 64-96 1x1 /2": lambda: conv(48, 64, 96, 1, 2),
    "conv 20 96-160 3x3": lambda: conv(20, 96, 160, 3, 1),
    "conv 12 256-192 3x3": lambda: conv(12, 256, 192, 3, 1),
    "conv 10 768-192 1x1": lambda: conv(10, 768, 192, 1, 1),
    "conv 6 384-384 3x3": lambda: conv(6, 384, 384, 3, 1),
    "depthwise 40 96": lambda: depthwise(40, 96, 1),
    "depthwise 20 160 /2": lambda: depthwise(20, 160, 2),
    "row sums 768x1280": lambda: topi.sum(matrix(768, 1280), 1),
    "column sums 640x1536": lambda: topi.sum(matrix(640, 1536), 0),
    "norm 384x640": lambda: norm(384, 640),
    "softmax 320x768": lambda: topi.softmax(matrix(320, 768)),
}


def pipeline(seed: int) -> te.Tensor:
    """Return a chain of two to four stages on a matrix, drawn at random."""
    rng = np.random.default_rng(seed)
    m, n = (int(2 ** rng.integers(4, 11)) for _ in range(2))
    x = matrix(m, n)
    for stage in range(int(rng.integers(2, 5))):
        m, n = map(int, x.shape)  # type: ignore[arg-type]
        kind = rng.choice(["product", "stencil", "sum", "relu", "tanh", "add"])
        if kind == "product":
            width = int(2 ** rng.integers(4, 10))
            x = topi.matmul(x, te.placeholder((n, width), name=f"W{stage}"), name=f"P{stage}")
        elif kind == "stencil" and m > 2:
            x = te.compute(
                (m - 2, n), lambda i, j, x=x: x[i, j] + x[i + 1, j] + x[i + 2, j], name=f"S{stage}"
            )
        elif kind == "sum":
            k = te.reduce_axis((0, n), name=f"k{stage}")
            x = te.compute((m, 1), lambda i, _, x=x, k=k: te.sum(x[i, k], k), name=f"R{stage}")
        elif kind == "add":
            x = topi.add(x, te.placeholder((m, n), name=f"B{stage}"))
        else:
            x = topi.tanh(x) if kind == "tanh" else topi.relu(x)
    return x


def random_tasks(count: int) -> list[tune.Task]:
    """Return tasks with formulas drawn at random, with at least MIN_PROGRAMS programs."""
    found = list[tune.Task]()
    for seed in range(20 * count):
        if len(found) < count:
            try:
                task = task_of(f"random {seed}", pipeline(seed))
            except TVMError:
                continue
            if task.size >= MIN_PROGRAMS and tune.columns_of(task).analytic is not None:
                found.append(task)
    return found


def task_of(name: str, out: te.Tensor) -> tune.Task:
    """Return the task of computing `out`, with the sketches that the rules make."""
    dag = auto_scheduler.ComputeDAG(te.create_schedule(out.op))
    found = auto_scheduler.sketches([dag], TARGET)
    return tune.Task(name, (), TARGET, dag.tensors, dag.flop_ct, found)


def estimate_of(task: tune.Task) -> int:
    """Return the index of the column with the analytic model's estimate."""
    column = tune.columns_of(task).analytic
    assert column is not None
    return column


def drafted(task: tune.Task, rng: np.random.Generator) -> tune.GuidedPolicy:
    """Return a policy that proposes the programs with the best estimates, without learning."""
    return tune.GuidedPolicy(task, rng, model=tune.AnalyticModel(estimate_of(task)))


def measured(tasks: Sequence[tune.Task], folder: Path, programs: int, seconds: float) -> bool:
    """Measure programs that the logs lack, for some seconds; return whether none is left."""
    end = time.perf_counter() + seconds
    for task in tasks:
        kinds = ("random", tune.RandomPolicy, programs), ("drafted", drafted, programs // LIKELY)
        for kind, policy, count in kinds:
            log = tune.Log(folder / f"{kind}.jsonl")
            have = log.read(task).trials
            drawer = policy(task, np.random.default_rng(len(have)))
            drawer.learn(have)
            wanted = drawer.propose(count - len(have)) if len(have) < count else ()
            if wanted and time.perf_counter() >= end:
                return False
            if wanted:
                measure(task, wanted, log, end)
    return time.perf_counter() < end


def measure(task: tune.Task, wanted: Sequence[tune.Candidate], log: tune.Log, end: float) -> None:
    """Measure candidates until the time `end`, and append them to a log."""

    def programs() -> Iterator[tune.CandidateProgram]:
        for candidate in wanted:
            if time.perf_counter() < end:
                yield tune.CandidateProgram(task, candidate)

    begin, count = time.perf_counter(), 0
    with tune.Measurer(task.default(), task.target) as measurer:
        for candidate, result in zip(wanted, measurer.measure(programs()), strict=False):
            log.append(tune.record_of(task, tune.Trial(candidate, result, time.time())))
            count += 1
    took = time.perf_counter() - begin
    print(f"{log.path.stem}: {task.name}: {count} programs in {took:.0f} s", flush=True)


def samples_of(task: tune.Task, log: tune.Log) -> Samples:
    """Return the columns and labels of a task's trials, in the order of their measurement."""
    columns, trials = tune.columns_of(task), log.read(task).trials
    features = np.zeros((len(trials), len(columns.names)), np.float32)
    for n, trial in enumerate(trials):
        features[n] = columns.of(trial.candidate.sketch, np.array([trial.candidate.row], np.int32))
    return features, tune.labels_of(trials)


def joined(a: Samples, b: Samples, best: float) -> Samples:
    """Return the samples of two logs of a task; `best` is b's best time relative to a's."""
    scale = min(1.0, best)
    labels = np.concatenate([a[1] * scale, b[1] * scale / best])
    return np.concatenate([a[0], b[0]]), labels.astype(np.float32)


def thinned(samples: Sequence[Samples], count: int, rng: np.random.Generator) -> list[Samples]:
    """Draw about `count` samples in all, the same share of each element of `samples`."""
    total = sum(len(y) for _, y in samples)
    found = list[Samples]()
    for x, y in samples:
        chosen = rng.permutation(len(y))[: max(2, round(count * len(y) / total))]
        found.append((x[chosen], y[chosen]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--programs", type=int, default=120, help="of each task (120)")
    parser.add_argument("--random", type=int, default=12, help="tasks with random formulas (12)")
    parser.add_argument("--own", type=int, default=100, help="programs that `own` learns from")
    parser.add_argument("--seconds", type=float, default=60.0, help="of measuring (60)")
    parser.add_argument("--log", type=Path, default=Path("pretrain"), metavar="FOLDER")
    parser.add_argument("--model", type=Path, metavar="FILE", help="write the trees to FILE")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the means to FILE")
    flags = parser.parse_args()
    flags.log.mkdir(exist_ok=True)
    tasks = [task_of(name, make()) for name, make in TASKS.items()]
    extra = random_tasks(flags.random)
    end = time.perf_counter() + flags.seconds
    if not measured(tasks, flags.log, flags.programs, flags.seconds) or not measured(
        extra, flags.log, flags.programs // 3, end - time.perf_counter()
    ):
        print("not all programs are measured: the same command goes on")
        return
    means = report(tasks, extra, flags.log, flags.own, flags.model)
    if flags.json is not None:
        flags.json.write_text(json.dumps({"models": means}, indent=1))


def report(
    tasks: Sequence[tune.Task],
    extra: Sequence[tune.Task],
    folder: Path,
    own: int,
    file: Path | None,
) -> dict[str, dict[str, float]]:
    """Print the table; write the trees of all tasks to `file`; return the means of the models."""
    prior = estimate_of(tasks[0])
    logs = [tune.Log(folder / f"{kind}.jsonl") for kind in ("random", "drafted")]
    random = [samples_of(task, logs[0]) for task in tasks]
    every = list[Samples]()
    for task, mine in zip(tasks, random, strict=True):
        best = [tune.fastest(log.read(task).trials) for log in logs]
        theirs = samples_of(task, logs[1])
        assert best[0] is not None
        ratio = best[1].seconds / best[0].seconds if best[1] is not None else 1.0
        every.append(joined(mine, theirs, ratio) if best[1] is not None else mine)
    more = [samples_of(task, logs[0]) for task in extra]
    rows, firsts = list[list[float]](), list[list[float]]()
    models = ("analytic", "500", "all", "own", "more", "random")
    alone = trees_of(more)
    print(f"{'':28}  " + "  ".join(f"{name:>11}" for name in models))
    print(f"{'task':28}  " + "  ".join([" pairs  best"] * len(models)))
    for n, task in enumerate(tasks):
        x, y = random[n]
        if len(y) < MIN_PROGRAMS:
            print(f"{task.name:28}  only {len(y)} programs: not judged")
            continue
        others = [s for m, s in enumerate(every) if m != n]
        few = trees_of(thinned(others, 500, np.random.default_rng(n)))
        all_, more_ = trees_of(others), trees_of([*others, *more])
        known = min(own, 4 * len(y) // 5)
        found = [
            *judged(x[:, prior], y),
            *judged(few.predict(x), y),
            *judged(all_.predict(x), y),
            *divided(x, y, known, (tune.AnalyticModel(prior), all_)),
            *judged(more_.predict(x), y),
            *judged(alone.predict(x), y),
        ]
        rows.append(found)
        x, y = every[n]
        firsts.append(
            [tune.best_of(s, y, k) for k in FIRST for s in (x[:, prior], all_.predict(x))]
        )
        print(line(task.name, found))
    mean = [float(np.mean(column)) for column in zip(*rows, strict=True)]
    print(line("mean", mean))
    for k, estimate, trees in zip(FIRST, *np.mean(firsts, axis=0).reshape(-1, 2).T, strict=True):
        print(
            f"the best of the first {k}: analytic {estimate:.2f}, trees of other tasks {trees:.2f}"
        )
    gains = [row[4] - row[0] for row in rows]
    gain, error = float(np.mean(gains)), float(np.std(gains, ddof=1)) / len(gains) ** 0.5
    print(f"trees of all other tasks order {gain:+.3f} of the pairs, standard error {error:.3f}")
    if file is not None and not gain > max(error, MARGIN):
        print(f"{file}: not written")
    elif file is not None:
        tune.save_trees(trees_of(every), file)
        print(f"{file}: {file.stat().st_size / 1000:.0f} kB")
    pairs = zip(mean[::2], mean[1::2], strict=True)
    return {name: {"pairs": a, "best": b} for name, (a, b) in zip(models, pairs, strict=True)}


def trees_of(samples: Sequence[Samples]) -> tune.Trees:
    """Return small trees that correct the analytic model, trained on samples of several tasks."""
    prior, parts = tune.COLUMNS.index(tune.ANALYTIC), tune.parts_in(tune.COLUMNS)
    model = tune.Trees(prior=prior, only=parts, trees=120, depth=2, rate=0.1)
    model.fit_tasks(samples)
    return model


def divided(
    x: np.ndarray, y: np.ndarray, known: int, bases: Sequence[tune.Model]
) -> tuple[float, float]:
    """Return what trees that learn `known` programs make of the others, a mean of four draws."""
    found = list[tuple[float, float]]()
    for seed in range(4):
        order = np.random.default_rng(seed).permutation(len(y))
        mine, rest = order[:known], order[known:]
        model = tune.ResidualModel(bases, only=tune.loops_in(tune.COLUMNS))
        model.fit(x[mine], y[mine])
        found.append(judged(model.predict(x[rest]), y[rest]))
    pairs, best = np.mean(found, axis=0)
    return float(pairs), float(best)


def judged(scores: np.ndarray, labels: np.ndarray) -> tuple[float, float]:
    """Return the share of pairs in the right order, and the best label of the highest scores."""
    pairs = tune.pairwise_accuracy(scores, labels)
    return float("nan") if pairs is None else pairs, tune.best_of(scores, labels, PICKED)


def line(name: str, found: Sequence[float]) -> str:
    pairs = zip(found[::2], found[1::2], strict=True)
    return f"{name:28}  " + "  ".join(f"  {a:4.2f}  {b:4.2f}" for a, b in pairs)


if __name__ == "__main__":
    main()
