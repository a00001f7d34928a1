"""python -m minitvm.testing fuzz --n 10000 --seed 1"""

import argparse
import sys

from .case import TARGETS, USUAL
from .fuzz import FAILURES, fuzz


def main() -> int:
    """1 if any case failed."""
    parser = argparse.ArgumentParser(prog="python -m minitvm.testing", description=__doc__)
    command = parser.add_subparsers(required=True).add_parser(
        "fuzz", help="random programs under random schedules on every target"
    )
    command.add_argument("--n", type=int, default=1000, help="how many cases")
    command.add_argument("--seed", type=int, default=1, help="the first; case n has seed + n")
    command.add_argument("--only", type=int, help="this one case, described in full if it fails")
    command.add_argument("--targets", default=",".join(USUAL), help=f"some of {', '.join(TARGETS)}")
    command.add_argument("--jobs", type=int, default=1, help="processes at a time")
    given = parser.parse_args()
    targets = given.targets.split(",")
    if not set(targets) <= set(TARGETS):
        parser.error(f"targets are {', '.join(TARGETS)}")
    first = given.seed if given.only is None else given.only
    count = given.n if given.only is None else 1
    summary = fuzz(range(first, first + count), targets, given.jobs)
    print(summary)
    return int(any(summary.verdicts[v] for v in FAILURES))


if __name__ == "__main__":
    sys.exit(main())
