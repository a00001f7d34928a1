"""The command line: python -m minitvm.edu build | new | check | verify | hint | grade | ..."""

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path

from minitvm.base import TVMError

from .challenges import challenge_table
from .command import build, check, draft, grade_folder, project
from .course import checks_folder, exercises_in
from .exam import write_exam
from .export import FORMATS, export
from .leaderboard import leaderboard
from .live import hint
from .mutate import mutate
from .sandbox import Limits
from .verify import verify, verify_ungraded


def parser() -> argparse.ArgumentParser:
    """Return the parser for the arguments of `python -m minitvm.edu`."""
    top = argparse.ArgumentParser(prog="python -m minitvm.edu", description="exercises")
    top.add_argument("--root", type=Path, help="the folder with exercises/ and solutions/")
    top.add_argument("--checks", type=Path, help="the folder with the checks (exercises/checks)")
    commands = top.add_subparsers(dest="command", required=True)
    sub = commands.add_parser("build", help="build exercises/ from solutions/")
    sub.add_argument("--check", action="store_true", help="only list those that are out of date")
    sub.add_argument(
        "--force", action="store_true", help="overwrite exercises that have been worked on"
    )
    sub = commands.add_parser("new", help="draft the solution notebook of an exercise")
    sub.add_argument("exercise")
    sub = commands.add_parser("check", help="check your exercise as grading does")
    sub.add_argument("exercise", help="ex03, or a notebook")
    _limits(sub)
    sub = commands.add_parser("verify", help="test the grader with wrong and broken submissions")
    sub.add_argument("exercise", nargs="?", default="", help="ex03 (default: all)")
    sub.add_argument("--jobs", type=int, default=2, help="notebooks at a time (2)")
    sub.add_argument(
        "--mutate", action="store_true", help="change each solution by machine (ex03 or ex03.2)"
    )
    sub.add_argument("--ungraded", action="store_true", help="only puzzles and challenges")
    sub = commands.add_parser("hint", help="print a hint, from small (1) to nearly the answer (3)")
    sub.add_argument("item", help="ex03.2")
    sub.add_argument("level", nargs="?", type=int, default=1)
    sub = commands.add_parser("grade", help="grade every notebook in a folder")
    sub.add_argument("folder", type=Path)
    sub.add_argument("--out", type=Path, required=True, help="where reports go")
    place = sub.add_mutually_exclusive_group()
    place.add_argument("--jobs", type=int, default=1, help="notebooks at a time (1: fair timings)")
    place.add_argument(
        "--scheduler", metavar="ADDRESS", dest="where", help="grade on a running Dask cluster"
    )
    place.add_argument(
        "--local-cluster", metavar="N", dest="where", type=int, help="start a Dask cluster here"
    )
    sub.add_argument("--seed", default="", help="seed of the hidden tests ($MINITVM_GRADE_SEED)")
    sub.add_argument("--strict", action="store_true", help="refuse to grade without namespaces")
    sub.add_argument("--exercise", default="", help="ex03, for notebooks that do not name it")
    _limits(sub)
    commands.add_parser("challenges", help="print the table of challenges in docs/instructor.md")
    sub = commands.add_parser("leaderboard", help="rank the answers to challenges in a folder")
    sub.add_argument("folder", type=Path)
    sub.add_argument("--out", type=Path, required=True, help="board.md; board.csv is written, too")
    sub.add_argument("--seed", default="", help="draws the instances ($MINITVM_GRADE_SEED)")
    sub.add_argument("--jobs", type=int, default=1, help="notebooks at a time (1)")
    sub.add_argument("--strict", action="store_true", help="refuse to run without namespaces")
    _limits(sub)
    sub = commands.add_parser("export", help="write folders for other tools")
    sub.add_argument("format", choices=FORMATS)
    sub.add_argument("folder", type=Path)
    sub = commands.add_parser("exam", help="write an exam and its key, drawn from a seed")
    sub.add_argument("--seed", required=True, help="a number; the same seed, the same exam")
    sub.add_argument("--out", type=Path, help="the folder for exam.html and key.html")
    sub.add_argument("--questions", default="", help="how many (one of each family)")
    sub.add_argument("--until", default="", help="the last notebook that they may need, such as 06")
    return top


def _limits(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--seconds", type=float, default=10.0, help="time limit for one cell or call (10)"
    )
    command.add_argument(
        "--memory", type=float, default=4.0, help="memory limit for a notebook in GiB (4)"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    options = parser().parse_args(arguments)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a console may not have every character
    try:
        if options.command == "exam":
            return write_exam(options.seed, options.out, options.questions, options.until)
        root = options.root or project()
        checks = checks_folder(options.checks, options.root)
        match options.command:
            case "build":
                return build(root, checks, check=options.check, force=options.force)
            case "new":
                return draft(root, checks, options.exercise)
            case "check":
                return check(root, checks, options.exercise, limits_of(options))
            case "verify" if options.mutate:
                return mutate(root, checks, options.exercise, options.jobs)
            case "verify" if options.ungraded:
                return verify_ungraded(root, checks, options.exercise)
            case "verify":
                return verify(root, checks, options.exercise, options.jobs)
            case "hint":
                hint(options.item, options.level, checks=checks)
            case "grade":
                return grade_folder(
                    options.folder, options.out, checks, options.seed, limits_of(options),
                    options.jobs, options.exercise, where=options.where, strict=options.strict,
                )  # fmt: skip
            case "challenges":
                print(challenge_table(exercises_in(checks)))
            case "leaderboard":
                return leaderboard(
                    options.folder, options.out, checks, options.seed, limits_of(options),
                    options.jobs, strict=options.strict,
                )  # fmt: skip
            case _:
                export(root, checks, options.format, options.folder)
    except (TVMError, OSError) as e:  # OSError: a full disk, a folder without permission
        print(f"error: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: finished results are kept; run it again to continue", file=sys.stderr)
        return 130
    return 0


def limits_of(options: argparse.Namespace) -> Limits:
    """Return the limits that the command line asks for; all times grow with --seconds."""
    seconds = options.seconds
    return Limits(
        seconds=seconds, notebook=12 * seconds, item=9 * seconds, memory=int(options.memory * 2**30)
    )


if __name__ == "__main__":
    sys.exit(main())
