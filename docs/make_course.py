"""Make a course folder: python docs/make_course.py OUT --weeks 14 --start 2027-01-11.

Each week has its notebooks, slides and exercises; README.md is the syllabus, with the dates when
exercises are due. The plans are those of docs/instructor.md. Students get the folder as it is: it
has no solutions, and the checks lie beside the exercises.
"""

import argparse
import datetime
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import make_slides

ROOT = Path(__file__).resolve().parent.parent
Week = tuple[str, ...]
PLANS: dict[int, tuple[Week, ...]] = {  # the labs of each week
    14: (
        ("00", "01"), ("02",), ("03",), ("04",), ("05",), ("06",), (),
        ("07",), ("08",), ("09",), ("10",), ("11", "12"), ("13", "14"), ("15", "16", "17"),
    ),
    6: (
        ("00", "01", "02"), ("03", "04"), ("05", "06"), ("08", "09"), ("10", "11", "12"),
        ("13", "14", "15"),
    ),
}  # fmt: skip
CAPSTONE = "90"  # the exercise after all labs
DELAY = datetime.timedelta(days=7)  # from a lab to the day when its exercise is due

SYLLABUS = """# A course on tensor compilers, in {weeks} weeks

Install minitvm once (`pip install -e .` in its repository), or use the JupyterHub of the course.
Open this folder in JupyterLab. Exercises check themselves: `python -m minitvm.edu check NOTEBOOK`.

| week | begins | labs | slides | exercises | due |
|---|---|---|---|---|---|
{rows}

After the labs: [the capstone]({capstone}), about a week. What AI assistants may do here is in
[AGENTS.md](AGENTS.md).

## Grading

For the instructor, with what students handed in below `submissions/`, one folder for each student:

    python -P -m minitvm.edu --checks checks grade submissions --out grades \\
        --seed "words of yours" --strict

Keep `checks/` where students cannot write. `grades/grades.csv` has one row for each notebook, and
`grades/NAME/ex03/feedback.html` is what a student gets back. An exam: `python -m minitvm.edu exam
--seed NUMBER --out exam`.
"""


def named(folder: str, start: str) -> list[Path]:
    """Return the notebooks in a folder whose names start with `start`: lab 09 has 09 and 09b."""
    return sorted((ROOT / folder).glob(f"{start}*.ipynb"))


def label(path: Path) -> str:
    """Return the number of a notebook: 09b, ex09."""
    return path.stem.split("_")[0]


def relinked(text: str, places: dict[str, str]) -> str:
    """Change the links of a notebook to where its targets lie here: `places`, file name -> folder.

    A link to a lab that the course leaves out becomes plain text.
    """

    def link(match: re.Match[str]) -> str:
        words, name, anchor = match[1], match[2].rpartition("/")[2], match[3] or ""
        return f"[{words}](../{places[name]}/{name}{anchor})" if name in places else words

    return re.sub(r"\[([^\[\]]+)\]\(([\w./]+\.(?:ipynb|md))(#[^()\s]+)?\)", link, text)


def places_of(weeks: tuple[Week, ...]) -> dict[str, str]:
    """Return the folder of each file that notebooks link to, by the file's name."""
    places = {path.name: "docs" for path in ROOT.glob("docs/*.md")}
    for number, labs in enumerate(weeks, 1):
        for lab in labs:
            for path in (*named("notebooks", lab), *named("exercises", f"ex{lab}")):
                places[path.name] = f"week_{number:02}"
    return places


def put_week(folder: Path, labs: Week, places: dict[str, str]) -> None:
    """Write the notebooks, exercises and slides of one week into its folder."""
    for lab in labs:
        lessons = named("notebooks", lab)
        for path in (*lessons, *named("exercises", f"ex{lab}")):
            text = relinked(path.read_text(encoding="utf-8"), places)
            (folder / path.name).write_text(text, encoding="utf-8")
        for path in lessons:
            deck = folder / f"slides_{label(path)}.html"
            deck.write_text(make_slides.deck(path), encoding="utf-8")
    if labs:
        shutil.copytree(ROOT / "exercises/checks", folder / "checks", ignore=other_labs(labs))


def other_labs(labs: Week) -> Callable[[str, list[str]], set[str]]:
    """Return what shutil.copytree leaves out: the checks of other labs."""
    kept = tuple(f"ex{lab}" for lab in labs)

    def ignored(folder: str, names: list[str]) -> set[str]:
        return {name for name in names if not name.startswith(kept)}

    return ignored


def row(number: int, labs: Week, begins: datetime.date) -> str:
    """Return the line of one week in the syllabus."""
    place = f"week_{number:02}"
    lessons = [path for lab in labs for path in named("notebooks", lab)]
    exercises = [path for lab in labs for path in named("exercises", f"ex{lab}")]
    cells = (
        str(number),
        begins.isoformat(),
        ", ".join(f"[{label(path)}]({place}/{path.name})" for path in lessons) or "a written exam",
        ", ".join(f"[{label(path)}]({place}/slides_{label(path)}.html)" for path in lessons),
        ", ".join(f"[{label(path)}]({place}/{path.name})" for path in exercises),
        (begins + DELAY).isoformat() if labs else "",
    )
    return f"| {' | '.join(cells)} |"


def main(arguments: list[str] | None = None) -> int:
    """Make the folder; return the exit code."""
    parser = argparse.ArgumentParser(description="make a course folder")
    parser.add_argument("out", type=Path)
    parser.add_argument("--weeks", type=int, choices=sorted(PLANS), default=14)
    parser.add_argument("--start", default="", help="the first day, 2027-01-11 (default: today)")
    options = parser.parse_args(arguments)
    today = datetime.date.today()
    start = datetime.date.fromisoformat(options.start) if options.start else today
    if options.out.exists() and any(options.out.iterdir()):
        print(f"error: {options.out} is not empty: name another folder", file=sys.stderr)
        return 1
    rows: list[str] = []
    places = places_of(PLANS[options.weeks])
    for number, labs in enumerate(PLANS[options.weeks], 1):
        folder = options.out / f"week_{number:02}"
        folder.mkdir(parents=True)
        put_week(folder, labs, places)
        rows.append(row(number, labs, start + (number - 1) * datetime.timedelta(days=7)))
    shutil.copytree(ROOT / "exercises/checks", options.out / "checks", ignore=other_labs(("",)))
    (options.out / "docs").mkdir()
    for path in ROOT.glob("docs/*.md"):
        shutil.copyfile(path, options.out / "docs" / path.name)
    shutil.copyfile(ROOT / "AGENTS.md", options.out / "AGENTS.md")
    (options.out / "capstone").mkdir()
    put_week(options.out / "capstone", (CAPSTONE,), places)
    capstone = f"capstone/{named('exercises', f'ex{CAPSTONE}')[0].name}"
    text = SYLLABUS.format(weeks=options.weeks, rows="\n".join(rows), capstone=capstone)
    (options.out / "README.md").write_text(text, encoding="utf-8")
    print(f"{len(rows)} weeks: {options.out / 'README.md'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
