"""Test the compiler with random programs: python -m tests.fuzz --n 10000 --seed 1."""

import argparse
import sys

from .case import TARGETS
from .driver import EVERY, FAILURES, fuzz


def main() -> int:
    """Run the command line; return 1 if any case failed, otherwise 0."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--n", type=int, default=1000, help="how many cases")
    parser.add_argument("--seed", type=int, default=1, help="seed of the first case")
    parser.add_argument("--only", type=int, help="run only the case of this seed")
    usual = ", ".join(t if n == 1 else f"{t} every {n}th case" for t, n in EVERY.items())
    parser.add_argument(
        "--targets",
        help=f"targets of all cases, from {','.join(TARGETS)}; default: {usual}",
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    given = parser.parse_args()
    every = dict.fromkeys(given.targets.split(","), 1) if given.targets else EVERY
    if not set(every) <= set(TARGETS):
        parser.error(f"--targets: choose from {', '.join(TARGETS)}")
    first = given.seed if given.only is None else given.only
    count = given.n if given.only is None else 1
    summary = fuzz(range(first, first + count), every, given.jobs)
    print(summary)
    return int(any(summary.verdicts[v] for v in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
