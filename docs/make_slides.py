"""Make slides of notebooks: python docs/make_slides.py OUT NOTEBOOK... One HTML file for each.

Slides come from the notebook as it is stored: its title and goals; for each section its first
sentences; pictures with the first sentence after them; predictions as a question and, on the next
slide, what the cell printed; puzzles with the picture to reach; and a short cell with its output
where a section has none of these.
"""

import base64
import html
import json
import math
import re
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbconvert.filters import markdown2html

Cell = dict[str, Any]
MOST_SLIDES, MOST_WORDS, MOST_LINES = 25, 60, 12
WIDTH = 1180  # pixels of a slide of 1280 x 720 that text may fill
LEFT_OUT = ("Try it yourself", "Check yourself", "Your predictions", "Further reading")
FORMULAS = {
    r"\\cdot": "·",
    r"\\ge": "≥",
    r"\\le": "≤",
    r"\\approx": "≈",
    r"\\sum": "Σ",
    r"\^T": "ᵀ",
}
ANSWER = '<details class="mtvm-answer">'  # what a prediction stores, see minitvm/course/folded.py
OF_CELLS = re.compile(r"The next cell|\(If you see only")  # a sentence that slides leave out
FIGURE = r"\*The (?:first )?figure"  # the beginning of a caption
PICTURES = {"image/svg+xml": "image/svg+xml;base64,", "image/png": "image/png;base64,"}


@dataclass(frozen=True)
class Slide:
    """One slide. If there are too many, those of the highest rank are left out."""

    title: str
    text: str = ""  # Markdown, at most MOST_WORDS words with the title
    code: str = ""
    output: str = ""
    picture: str = ""  # a data URL
    about: str = ""  # what the picture shows, for those who cannot see it
    rank: int = 0
    pair: int = 0  # slides with the same number above 0 are kept or left out together


def words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def sentences(text: str, most: int, announces: bool = False) -> str:
    """Return the first sentences of a paragraph, up to `most` words.

    announces   whether the last one may end with a colon, because what it announces follows
    """
    kept: list[str] = []
    for sentence in re.split(r"(?<=[.!?:])\s+(?=[A-Z`*(\"])", " ".join(text.split())):
        if OF_CELLS.match(sentence):
            continue
        if words(" ".join([*kept, sentence])) > most:
            break
        kept.append(sentence)
    while kept and not is_whole(" ".join(kept), announces):
        kept.pop()
    return " ".join(kept)


def is_whole(text: str, announces: bool) -> bool:
    """Tell whether sentences were cut outside of bold text and of parentheses."""
    closed = text.count("**") % 2 == 0 and text.count("(") == text.count(")")
    return closed and (announces or not text.endswith(":"))


def bullets(text: str, most: int) -> str:
    """Return the first items of a list, up to `most` words."""
    kept: list[str] = []
    for item in re.split(r"\n(?=[*-] )", text):
        if words(" ".join([*kept, item])) > most:
            break
        kept.append(item)
    return "\n".join(kept)


def prose(cell: Cell) -> list[str]:
    """Return the paragraphs of a text cell, without folded answers, with formulas as plain text."""
    text = re.sub(r"<details>.*?</details>", "", "".join(cell["source"]), flags=re.S)
    # slides have no files beside them, so links to files become plain text
    text = re.sub(r"\[([^\[\]]+)\]\((?!http)[^()]+\)", r"\1", text)

    def plain(formula: re.Match[str]) -> str:
        shown = formula[1]
        for latex, sign in FORMULAS.items():
            shown = re.sub(latex, sign, shown)
        return "*" + re.sub(r"[{}\\]", "", shown) + "*"

    text = re.sub(r"\$([^$\n]+)\$", plain, text)
    return [p.strip() for p in re.split(r"\n\s*\n", text) if p.strip()]


def explained(cell: Cell | None) -> str:
    """Return the first sentences of the text after an output: its caption, or what explains it.

    Empty if the text asks the next question.
    """
    if cell is None or cell["cell_type"] != "markdown":
        return ""
    text = "".join(cell["source"])
    if text.startswith("<details>"):  # the explanation of an answer, folded in the notebook
        text = re.sub(r"<summary>.*?</summary>|</?details>", "", text)
    paragraphs = prose({**cell, "source": text})
    caption = next((p.strip("*") for p in paragraphs if re.match(FIGURE, p)), "")
    said = next((p for p in paragraphs if is_prose(p)), "")
    return "" if said.startswith(("**Predict", "**Puzzle")) else sentences(caption or said, 45)


def is_prose(paragraph: str) -> bool:
    """Tell sentences from headings, lists, tables, quotes and code."""
    return not re.match(rf"[#|>*+`-](?![*`\w])|\d+\. |```|<|{FIGURE}", paragraph)


def clipped(text: str, most: int) -> str:
    """Return the first lines of a text; the last one says how many are left out."""
    lines = text.rstrip().split("\n")
    if len(lines) <= most:
        return "\n".join(lines)
    return "\n".join([*lines[: most - 1], f"... {len(lines) - most + 1} more lines"])


def results(cell: Cell) -> tuple[str, str]:
    """Return what a code cell printed, and its last picture as a data URL."""
    printed, picture = "", ""
    for output in cell.get("outputs", []):
        data: dict[str, Any] = output.get("data", {})
        kind = next((kind for kind in PICTURES if kind in data), "")
        if ANSWER in "".join(data.get("text/html", "")):
            answer, picture = answered(data)
            printed += answer
        elif kind:
            content = "".join(data[kind])
            if kind == "image/svg+xml":
                content = base64.b64encode(content.encode()).decode()
            picture = f"data:{PICTURES[kind]}" + content.replace("\n", "")
        elif output["output_type"] == "stream" and output["name"] == "stdout":
            printed += "".join(output["text"])
    return printed.strip("\n"), picture


def answered(data: dict[str, Any]) -> tuple[str, str]:
    """Return the text and the last picture of a folded answer; long lines are broken."""
    pictures = re.findall(r'<img src="(data:image/[^"]+)"', "".join(data["text/html"]))
    first, _, rest = "".join(data["text/plain"]).partition("\n")
    lines = [first.partition(": ")[2], *rest.split("\n")]
    broken = (textwrap.wrap(line, 80) if len(line) > 100 else [line] for line in lines)
    text = "\n".join(part for parts in broken for part in parts).replace("`", "")
    return text.strip("\n") + "\n", pictures[-1] if pictures else ""


def sections(cells: list[Cell]) -> Iterator[tuple[str, list[Cell]]]:
    """Yield the sections of a notebook: (heading, cells); the first paragraphs stay with it."""
    title, inside = "", list[Cell]()
    for cell in cells:
        heading = re.match(r"#{1,2} (?:\d+\. )?(.+)\n?", "".join(cell["source"]))
        if cell["cell_type"] == "markdown" and heading:
            if title:
                yield title, inside
            title = heading[1]
            inside = [{**cell, "source": "".join(cell["source"])[heading.end() :]}]
        else:
            inside.append(cell)
    yield title, inside


def opening(title: str, cells: list[Cell]) -> Slide:
    """Return the slide that begins a section: sentences, and lists and tables that fit whole."""
    parts: list[str] = []
    left = MOST_WORDS - words(title)
    paragraphs = [p for p in prose(cells[0]) if not re.match(rf"\*\*Goals|{FIGURE}", p)]
    for n, paragraph in enumerate(paragraphs):
        after = paragraphs[n + 1] if n + 1 < len(paragraphs) else "."
        room = left - words(paragraph)
        announces = not is_prose(after) and words(after) <= room
        part = sentences(paragraph, left, announces) if is_prose(paragraph) else paragraph
        if not part or words(part) > left or "**Predict" in part or part.startswith("#"):
            break
        parts.append(part)
        left -= words(part)
    return Slide(title, "\n\n".join(parts))


def joined(first: Slide, others: list[Slide]) -> list[Slide]:
    """Put the first picture or cell of a section on the slide that begins it, if there is room."""
    is_plain = all(is_prose(p) for p in first.text.split("\n\n"))
    if not others or others[0].pair or not is_plain or not first.text:
        return [first, *others]
    second = others[0]
    if not second.picture and second.text not in first.text:  # a later cell, about something else
        return [first, *others]
    caption = second.text if second.picture else ""
    shown = replace(second, text=first.text, about=caption, rank=0)
    return [shown, *others[1:]]


def lesson(title: str, cells: list[Cell], first_pair: int) -> Iterator[Slide]:
    """Yield the slides of one section, without the one that begins it."""
    shown, question, before = False, "", ""
    for n, cell in enumerate(cells):
        if cell["cell_type"] == "markdown":
            asked = [p for p in prose(cell) if "**Predict" in p and is_prose(p)]
            start = asked[-1][asked[-1].rindex("**Predict") :] if asked else ""
            question = sentences(start, MOST_WORDS - 5) if asked else ""
            before = sentences(next((p for p in prose(cell)[::-1] if is_prose(p)), ""), 45)
            continue
        code = "".join(cell["source"])
        printed, picture = results(cell)
        text = explained(next(iter(cells[n + 1 : n + 2]), None))
        short = code.count("\n") < MOST_LINES
        if question and (printed or picture):
            pair, rank = first_pair + n, 1 if picture else 2
            yield Slide(title, question, code if short else "", rank=rank, pair=pair)
            answer = "" if picture else clipped(printed, 16)
            yield Slide(title, text, "", answer, picture, about=text, rank=rank, pair=pair)
            shown = True
        elif "edu.puzzle(" in code:
            if picture:
                yield Slide(title, before, picture=picture, about=before, rank=3)
        elif picture:
            yield Slide(title, text, picture=picture, about=text, rank=1)
            shown = True
        elif short and printed and not shown:
            yield Slide(title, before, code, clipped(printed, MOST_LINES), rank=3)
            shown = True
        question = ""


def slides(cells: list[Cell]) -> list[Slide]:
    """Choose the slides of a notebook, at most MOST_SLIDES."""
    chosen: list[Slide] = []
    for number, (title, inside) in enumerate(sections(cells)):
        if title in LEFT_OUT:
            continue
        if not chosen:
            chosen.append(opening(title, inside[:1]))
            goals = next((p for p in prose(inside[0]) if re.match(r"[*-] ", p)), "")
            chosen.append(Slide("By the end you will be able to", bullets(goals, MOST_WORDS - 7)))
        elif title == "Exercises":
            items = next((p for p in prose(inside[0]) if re.match(r"[*-] ", p)), "")
            chosen.append(Slide(title, bullets(items, MOST_WORDS - 1)))
        else:
            chosen += joined(opening(title, inside), list(lesson(title, inside, 1000 * number)))
    return fewer([slide for slide in chosen if slide.text or slide.picture or slide.output])


def fewer(chosen: list[Slide]) -> list[Slide]:
    """Leave out slides of the highest rank, from the end, until there are at most MOST_SLIDES."""
    while len(chosen) > MOST_SLIDES:
        last = max(range(len(chosen)), key=lambda n: (chosen[n].rank, n))
        pair = chosen[last].pair
        chosen = [s for n, s in enumerate(chosen) if n != last and not (pair and s.pair == pair)]
    return chosen


def height_left(slide: Slide) -> float:
    """Estimate the pixels that heading and text leave for a line of code or output."""
    text = sum(14 + 40 * math.ceil(len(part) / 72) for part in slide.text.split("\n\n") if part)
    blocks = bool(slide.code) + bool(slide.output)
    lines = slide.code.count("\n") + slide.output.count("\n") + blocks
    left = 620 - 46 * math.ceil(len(slide.title) / 50) - 16 - text - 34 * blocks
    return left / max(lines, 1)


def block(kind: str, text: str, height: float) -> str:
    """Return code or output in the largest letters with which it fits into the slide."""
    columns = max(len(line) for line in text.split("\n"))
    size = min(22, WIDTH / (0.61 * columns + 3), height / 1.36)
    return f'<pre class="{kind}" style="font-size:{size:.1f}px">{html.escape(text)}</pre>'


def section_html(slide: Slide, number: int) -> str:
    """Return one slide as HTML."""
    height = height_left(slide)
    body = markdown2html(re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", slide.text)) if slide.text else ""
    body = body.replace("\u00b6", "")
    body += block("code", slide.code, height) if slide.code else ""
    body += block("output", slide.output, height) if slide.output else ""
    body += f'<img alt="{html.escape(slide.about)}" src="{slide.picture}">' if slide.picture else ""
    is_text = not (slide.code or slide.output or slide.picture)
    kind = "title" if number == 1 else "text" if is_text else "slide"
    heading = markdown2html(slide.title).strip().removeprefix("<p>").removesuffix("</p>")
    return f'<section class="{kind}"><h1>{heading}</h1>{body}<footer>{number}</footer></section>'


def deck(path: Path) -> str:
    """Return the slides of a notebook as one HTML page."""
    chosen = slides(json.loads(path.read_text(encoding="utf-8"))["cells"])
    page = (Path(__file__).parent / "slides.html").read_text(encoding="utf-8")
    sheets = "\n".join(section_html(slide, n) for n, slide in enumerate(chosen, 1))
    return page.replace("@TITLE@", html.escape(chosen[0].title)).replace("@SLIDES@", sheets)


def main(out: Path, notebooks: list[Path]) -> int:
    """Write a deck for each notebook; return the exit code."""
    out.mkdir(parents=True, exist_ok=True)
    for path in notebooks:
        (out / f"{path.stem}.html").write_text(deck(path), encoding="utf-8")
    print(f"{len(notebooks)} decks: {out}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), [Path(name) for name in sys.argv[2:]]))
