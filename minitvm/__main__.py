"""The command line: python -m minitvm demo | doctor | show | tune | net."""

import argparse
import sys
from collections.abc import Sequence

import minitvm
from minitvm import demo, doctor
from minitvm.base import TVMError


def parser() -> argparse.ArgumentParser:
    """Return the parser for `python -m minitvm`."""
    exercises = "exercises are checked and graded by: python -m minitvm.edu --help"
    top = argparse.ArgumentParser(
        prog="python -m minitvm", description="a small tensor compiler", epilog=exercises
    )
    commands = top.add_subparsers(dest="command", required=True)
    tour = commands.add_parser("demo", help="one matrix product, from naive loops to full speed")
    tour.add_argument("--size", type=int, default=1024, help="rows of the matrices (1024)")
    tour.add_argument("--json", default="", metavar="FILE", help="store the table in FILE")
    commands.add_parser("doctor", help="what is installed, what works on this machine")
    commands.add_parser("show", help="every stage of a formula, an operator or a network")
    commands.add_parser("tune", help="search for the fastest schedule of an operator")
    commands.add_parser("net", help="compile a network and measure its kernels")
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        if words[:1] == ["tune"]:  # imported late, so that the doctor runs without all packages
            minitvm.tuning.main(words[1:])
            return 0
        if words[:1] == ["net"]:
            minitvm.net.main(words[1:])
            return 0
        if words[:1] == ["show"]:
            minitvm.show.main(words[1:])
            return 0
        options = parser().parse_args(words)
        if options.command == "doctor":
            return 0 if doctor.run() else 1
        demo.run(options.size, json_file=options.json)
    except TVMError as e:
        print(f"error: {e}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
