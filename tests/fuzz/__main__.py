"""Test the compiler with random programs.

python -m tests.fuzz --n 10000 --seed 1    random schedules, on interpreters and compilers
python -m tests.fuzz --gpu 1000            schedules for a GPU, on the simulated GPU
"""

import argparse
import sys

from .case import GPU, TARGETS
from .driver import EVERY, FAILURES, fuzz


def main() -> int:
    """Run the command line; return 1 if any case failed, otherwise 0."""
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        "python -m tests.fuzz", description=__doc__, formatter_class=form
    )
    parser.add_argument("--n", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case")
    parser.add_argument("--only", type=int, help="run only the case of this seed")
    usual = ", ".join(t if n == 1 else f"{t} every {n}th case" for t, n in EVERY.items())
    parser.add_argument(
        "--targets",
        help=f"targets of all cases, from {','.join(TARGETS)}; default: {usual}",
    )
    parser.add_argument("--gpu", type=int, nargs="?", const=1000, help="how many cases for a GPU")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    given = parser.parse_args()
    every = dict.fromkeys(given.targets.split(","), 1) if given.targets else EVERY
    if given.gpu is not None:
        every, given.n = {GPU: 1}, given.gpu
    if not set(every) <= set(TARGETS):
        parser.error(f"--targets: choose from {', '.join(TARGETS)}")
    first = given.seed if given.only is None else given.only
    count = given.n if given.only is None else 1
    summary = fuzz(range(first, first + count), every, given.jobs)
    print(summary)
    return int(any(summary.verdicts[v] for v in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
