"""Compare strategies of the task scheduler on networks whose kernels take the times of tables.

    python benchmarks/scheduler.py [--quick] [--json FILE] [--policy random|guided]
                                   [resnet18 resnet50 mobilenet_v2 squeezenet dcgan bert]

The figures are means over the trials, from the first round of all tasks on, divided by that of
round robin: the latency of the network, and its excess over the best that the tables have. No
scheduler can lower the rest, which is most of the latency. No program is compiled or run.
"""

from _common import Row, arguments, report

flags = arguments(__doc__, policy=("random", "guided"))

import statistics

from _replay import area, guided, replay

from minitvm import graph, tune

CASES = flags.cases or ["resnet18", "mobilenet_v2", "squeezenet", "dcgan", "bert"]
SEEDS = range(5 if flags.quick else 20)
TRIALS = 24 if flags.quick else 48  # of each task
POLICY = guided if flags.policy == "guided" else tune.RandomPolicy


def main() -> None:
    """Print a row for each network: medians over the seeds, and how many are at most .85."""
    rows = list[Row]()
    for name in CASES:
        given = replay(getattr(graph.networks, name)())
        latency, excess = list[float](), list[float]()
        for seed in SEEDS:
            ours = area(given, "gradient", seed, TRIALS, POLICY)
            even = area(given, "round-robin", seed, TRIALS, POLICY)
            latency.append(ours.latency / even.latency)
            excess.append(ours.excess / even.excess)
        for what, ratios in (("latency", latency), ("excess", excess)):
            met = sum(r <= 0.85 for r in ratios)
            print(f"{name}, {what}: at most .85 in {met} of {len(ratios)} seeds", flush=True)
            rows.append(Row(f"{name} {what}", 1, "area", statistics.median(ratios), {"even": 1.0}))
    report(rows, flags.json, ("even",))


main()
