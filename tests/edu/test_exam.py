"""Exams: each answer of a key is computed again in plain Python, from the printed question."""

import math
import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from html.parser import HTMLParser
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

from minitvm.edu.__main__ import main
from minitvm.edu.exam import FAMILIES, Question, exam_page, key_page, questions_of

SEEDS = range(10)
EXAMS = {seed: questions_of(seed) for seed in SEEDS}
SLOW = ("sectors", "banks", "instructions", "sketches")  # families that compile or derive programs
LATE = {  # taught after notebook 06
    "Sectors", "Banks", "Instructions of the accelerator", "Tokens", "A plan of the memory",
    "A configuration space", "Pairs in order", "The first split of a tree",
    "A history and its correction", "Sketches", "The gradient of a task",
}  # fmt: skip
WIDEST = 94  # characters of a line that fit on A4

Loops = list[tuple[str, int]]  # name and extent, outermost first


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"-?\d+", text)]


def shape_of(code: str, name: str) -> list[int]:
    return numbers(re.findall(rf"^{name} = te\.\w+\(\(([\d, ]+)\)", code, re.M)[0])


def split_loops(q: Question, extents: dict[str, int]) -> Loops:
    """The loops of a schedule with splits that divide, and a reorder."""
    for axis, factor in re.findall(r"\.split\((\w), factor=(\d+)\)", q.code):
        extents |= {f"{axis}_outer": extents[axis] // int(factor), f"{axis}_inner": int(factor)}
    names = re.findall(r"reorder\((.*)\)", q.code)[0].split(", ")
    return [(name, extents[name]) for name in names]


def iterations(loops: Loops) -> Iterator[dict[str, int]]:
    for values in product(*(range(extent) for _, extent in loops)):
        yield dict(zip([name for name, _ in loops], values, strict=True))


def position(at: dict[str, int], loops: Loops, axis: str) -> int:
    if axis in at:
        return at[axis]
    return at[f"{axis}_outer"] * dict(loops)[f"{axis}_inner"] + at[f"{axis}_inner"]


# --- the answers, by hand ---------------------------------------------------------------------


def order(q: Question) -> list[str]:
    rows, columns = shape_of(q.code, "Y")
    loops = split_loops(q, {"i": rows, "j": columns})
    order = [(position(at, loops, "i"), position(at, loops, "j")) for at in iterations(loops)]
    assert len(set(order)) == rows * columns
    row, column = order[numbers(q.asks[0])[0] - 1]
    return [f"Y[{row}, {column}]", str(order.index((*numbers(q.asks[1]),)) + 1)]


def sums(q: Question) -> list[str]:
    (rows, columns), terms = shape_of(q.code, "C"), shape_of(q.code, "A")[1]
    loops = split_loops(q, {"i": rows, "j": columns, "k": terms})
    at = [name for name, _ in loops].index("k")
    before, inside = loops[:at], loops[at + 1 :]
    init = sum(1 for _ in iterations(inside))
    stores = sum(init + sum(1 for _ in iterations(loops[at:])) for _ in iterations(before))
    return [str(len(loops) + len(inside)), str(init), str(stores)]


def guards(q: Question) -> list[str]:
    source = q.code.partition("\n")[2]
    source = re.sub(
        r"^( *)if likely\((.*)\):", r"\1evaluated(j_outer, \2)\n\g<0>", source, flags=re.M
    )
    source = re.sub(r"^( *)Y\[.*", r"\1pass", source, flags=re.M)
    seen: list[tuple[int, bool]] = []
    scope = {"evaluated": lambda outer, holds: seen.append((outer, holds)), "likely": bool}
    exec(re.sub(r"^  ", "", source, flags=re.M), scope)
    failing = {outer for outer, holds in seen if not holds}
    certain = {outer for outer, _ in seen} - failing
    return [str(len(seen)), str(sum(not holds for _, holds in seen)), str(len(certain))]


def bounds(q: Question) -> list[str]:
    rows, columns = shape_of(q.code, "C")
    height, width = numbers(re.findall(r"tile\(y, x, (.*)\)", q.code)[0])
    loop = re.findall(r"compute_at\(s\[C\], (\w+)\)", q.code)[0]
    second = re.findall(r"\+ B\[y \+ (\d+), x(?: \+ (\d+))?\]", q.code)[0]
    down, right = int(second[0]), int(second[1] or 0)
    loops = [("yo", rows // height), ("xo", columns // width), ("yi", height), ("xi", width)]
    at = [name for name, _ in loops].index(loop) + 1
    shapes, times = set[tuple[int, int]](), dict[tuple[int, int], int]()
    for outer in iterations(loops[:at]):
        reads = set[tuple[int, int]]()
        for inner in iterations(loops[at:]):
            v = outer | inner
            y, x = v["yo"] * height + v["yi"], v["xo"] * width + v["xi"]
            reads |= {(y, x), (y + down, x + right)}
        ys, xs = ({p[d] for p in reads} for d in range(2))
        shapes.add((max(ys) - min(ys) + 1, max(xs) - min(xs) + 1))
        for p in product(range(min(ys), max(ys) + 1), range(min(xs), max(xs) + 1)):
            times[p] = times.get(p, 0) + 1
    ((a, b),) = shapes
    total = sum(times.values())
    return [f"{a} x {b}", str(total), f"{total}/{len(times)} = {total / len(times):.2f}"]


def footprint(q: Question) -> list[str]:
    height, width = numbers(q.text)[:2]
    window = [int(n) for n in re.findall(r"reduce_axis\(\(0, (\d+)\)", q.code)]
    index = compile(re.findall(r"X\[(.*?)\]", q.code)[0], "index", "eval")

    def reads(first: int) -> set[tuple[int, int]]:
        points = product(range(height), range(first, first + width), *map(range, window))
        return {eval(index, dict(zip(("y", "x", "ry", "rx"), p, strict=True))) for p in points}

    return [str(len(reads(0))), str(len(reads(0) & reads(width)))]


def lru(walk: list[int], lines: int, sets: int) -> int:
    kept: list[list[int]] = [[] for _ in range(sets)]
    misses = 0
    for line in walk:
        ways = kept[line % sets]
        if line in ways:
            ways.remove(line)
        else:
            misses += 1
            del ways[: max(0, len(ways) - lines // sets + 1)]
        ways.append(line)
    return misses


def misses(q: Question) -> list[str]:
    rows, columns = numbers(q.text)[:2]
    lines = int(re.findall(r"has (\d+) lines", q.text)[0])
    sets = int((re.findall(r"has (\d+) sets", q.text) or ["1"])[0])
    times = range(int(re.findall(r"for t in range\((\d)\)", q.code)[0]))
    walks = (
        [(i, j) for _ in times for i in range(rows) for j in range(columns)],
        [(i, j) for _ in times for j in range(columns) for i in range(rows)],
    )
    return [str(lru([(i * columns + j) * 4 // 16 for i, j in w], lines, sets)) for w in walks]


def reuse(q: Question) -> list[str]:
    walk, distances = q.code.split(), list[int]()
    for n, name in enumerate(walk):
        before = [m for m in range(n) if walk[m] == name]
        distances.append(len(set(walk[before[-1] + 1 : n])) if before else -1)
    ids = [ord(name) for name in walk]
    counts = [lru(ids, lines, 1) for lines in range(1, 9)]
    lines = numbers(q.asks[1])[-1]
    enough = counts.index(len(set(walk))) + 1
    return [" ".join(map(str, distances)), str(counts[lines - 1]), str(enough)]


def lanes(code: str) -> list[int]:
    index = re.findall(r"\[(.*)\]", code)[0]
    return [eval(index, {"t": t}) for t in range(32)]


def sectors(q: Question) -> list[str]:
    elements = set(lanes(q.code))
    sectors = {4 * e // 32 for e in elements}
    return [
        str(len(sectors)),
        str(sum(8 * s + n not in elements for s in sectors for n in range(8)) * 4),
    ]


def banks(q: Question) -> list[str]:
    def wavefronts(code: str) -> int:
        elements = set(lanes(code))
        return max(sum(e % 32 == bank for e in elements) for bank in range(32))

    return [str(wavefronts(line)) for line in q.code.splitlines()]


def effects(line: str) -> tuple[set[str], set[str]]:
    """The elements that an instruction reads and writes."""
    if load := re.match(r"ld +(inp|wgt)\[(\d)\]", line):
        return set(), {load[1] + load[2]}
    if gemm := re.match(r"ex +gemm u\[(\d)", line):
        return {f"inp{gemm[1]}", "wgt0", f"acc{gemm[1]}"}, {f"acc{gemm[1]}"}
    if reset := re.match(r"ex +reset u\[0:(\d)\]", line):
        return set(), {f"acc{n}" for n in range(int(reset[1]))}
    if re.match(r"st +C", line):
        return {"acc0"}, {"C"}
    return ({"C"}, set()) if "finish" in line else (set(), set())


def tokens(q: Question) -> list[str]:
    lines = re.findall(r"^ ?\d+  (.*)", q.code, re.M)
    units = [line[:2] for line in lines]
    queues = {
        (a, b): (
            [n for n, line in enumerate(lines) if line.startswith(a) and f"push {b}" in line],
            [n for n, line in enumerate(lines) if line.startswith(b) and f"pop {a}" in line],
        )
        for a, b in (("ld", "ex"), ("ex", "ld"), ("ex", "st"), ("st", "ex"))
    }
    edges = {n: set[int]() for n in range(len(lines))}  # what must run before
    for unit in ("ld", "ex", "st"):
        for a, b in pairwise([n for n, u in enumerate(units) if u == unit]):
            edges[b].add(a)
    for pushes, pops in queues.values():
        for m, pop in enumerate(pops):
            edges[pop].add(pushes[m] if m < len(pushes) else pop)  # waits for itself: for ever
    ran, grew = set[int](), True
    while grew:
        ready = {n for n in edges if n not in ran and edges[n] <= ran}
        ran, grew = ran | ready, bool(ready)
    if len(ran) < len(lines):
        firsts = (
            (unit, [n for n, u in enumerate(units) if u == unit and n not in ran])
            for unit in ("ld", "ex", "st")
        )
        return ["deadlock: " + ", ".join(f"{unit} at {left[0]}" for unit, left in firsts if left)]
    before = {n: set[int]() for n in edges}
    for _ in edges:
        for n, direct in edges.items():
            before[n] |= direct.union(*(before[m] for m in direct))
    names = {("ld", "ex"): "l2g", ("ex", "ld"): "g2l", ("ex", "st"): "g2s", ("st", "ex"): "s2g"}
    words = [
        f"leak: {len(pushes) - len(pops)} in {names[queue]}"
        for queue, (pushes, pops) in queues.items()
        if len(pushes) > len(pops)
    ]
    races = list[str]()
    for a, b in product(edges, edges):
        (reads, writes), (others, stored) = effects(lines[a]), effects(lines[b])
        conflict = writes & (others | stored) or reads & stored
        if a < b and conflict and a not in before[b] and b not in before[a]:
            races.append(f"race: for example {a} and {b}")
    said = q.answers[0].split("; ")
    example = [word for word in said if word.startswith("race")]
    assert bool(example) == bool(races)
    assert set(example) <= set(races)
    return ["; ".join(words + example) or "right"]


def memory_plan(q: Question) -> list[str]:
    rows = [line.split(maxsplit=3) for line in q.code.splitlines()[1:]]
    size = {name: int(count) for _, name, count, _ in rows if name != "out"}
    first = {name: int(call) for call, name, _, _ in rows}
    last = {
        name: max(int(c) for c, _, _, reads in rows if name in reads.split(", ")) for name in size
    }
    alive = [sum(size[t] for t in size if first[t] <= c <= last[t]) for c in first.values()]
    offset: dict[str, int] = {}
    for t in sorted(size, key=lambda t: -size[t]):
        busy = set[int]()
        for u, start in offset.items():
            if first[u] <= last[t] and first[t] <= last[u]:
                busy |= set(range(start, start + size[u]))
        end = max(busy, default=-1) + 1
        starts = [at for at in range(end) if at not in busy and (at == 0 or at - 1 in busy)]
        gaps = [(next(n for n in range(at, end) if n in busy) - at, at) for at in starts]
        offset[t] = min([gap for gap in gaps if gap[0] >= size[t]], default=(0, end))[1]
    arena = max(offset[t] + size[t] for t in size)
    plan = ", ".join(f"{t} {offset[t]}" for t in size)
    return [str(sum(size.values())), str(max(alive)), plan, str(arena)]


def vectors(q: Question) -> list[str]:
    rows, columns = shape_of(q.code, "Y")
    matrix, vector = re.findall(r": X\[(.*?)\] \* v\[(.)\]", q.code)[0]
    (axis,) = re.findall(r"split\((.),", q.code)
    times = rows * columns // 8

    def visited(lane: str) -> int:
        """The addresses of 8 lanes: 1 if they are the same or neighbours in memory, else 8."""
        plain = {"i": ["j, i"], "j": ["i, j"]}[lane]
        y, x = 1 if lane == "j" else 8, 1 if matrix in plain else 8
        return y + x + 1  # v is read at one number or at neighbours

    other = "j" if axis == "i" else "i"
    assert vector in "ij"
    return [str(times), str(times * visited(axis)), str(times * visited(other))]


def instructions(q: Question) -> list[str]:
    rows, depth = numbers(re.findall(r"A: int8(\[.*?\])", q.code)[0])[:2]
    columns = numbers(re.findall(r"B: int8(\[.*?\])", q.code)[0])[0]
    extents = {"y": rows, "xo": columns, "ko": depth}
    order = [name for name in re.findall(r"for (\w+) in", q.code) if name in extents]
    before = order[: order.index("ko") + 1]
    steps = math.prod(extents[name] for name in before)
    fetched = sum(
        size * math.prod(extents[name] for name in names if name not in before)
        for size, names in ((16, ("y", "ko")), (256, ("xo", "ko")))
    )
    return [str(steps), str(rows * columns * depth), str(steps * fetched)]


def factored(n: int, parts: int) -> int:
    """The number of ways to write n as a product of `parts` numbers."""
    return sum(math.prod(p) == n for p in product(range(1, n + 1), repeat=parts))


def configurations(q: Question) -> list[str]:
    height, _, most, width, _ = numbers(q.code.partition("order")[0])
    order, knob = (
        numbers(re.findall(name + r".*?\[(.*?)\]", q.code)[0]) for name in ("order", "unroll")
    )
    small = sum(height % d == 0 for d in range(1, most + 1))
    counts = [small, factored(width, 3), math.factorial(len(order)), len(knob)]
    left, row = numbers(q.asks[2])[0], list[int]()
    for count in counts:
        left, option = divmod(left, count)
        row.append(option)
    assert left == 0
    return [", ".join(map(str, counts)), str(math.prod(counts)), ", ".join(map(str, row))]


def pairs(q: Question) -> list[str]:
    rows = [(n, float(s), float(v)) for n, s, v in map(str.split, q.code.splitlines()[1:])]
    both = [(a, b) for n, a in enumerate(rows) for b in rows[n + 1 :]]
    wrong = [a[0] + b[0] for a, b in both if (a[1] > b[1]) != (a[2] > b[2])]
    tried = sorted(rows, key=lambda row: row[1])[-2:]
    best = max(speed for _, _, speed in tried)
    return [", ".join(wrong) or "none", f"{15 - len(wrong)} of 15", f"{best:.2f}"]


def splits(q: Question) -> list[str]:
    rows = [(int(t), int(n), float(v)) for _, t, n, v in map(str.split, q.code.splitlines()[1:])]
    found = list[tuple[float, str, str]]()
    for column, name in enumerate(("tile", "lanes")):
        for size in sorted({row[column] for row in rows})[1:]:
            halves = [[r[2] for r in rows if (r[column] < size) is yes] for yes in (True, False)]
            error = sum(float(np.var(half)) * len(half) for half in halves)
            means = ", ".join(f"{sum(half) / len(half):.2f}" for half in halves)
            found.append((error, f"{name} < {size}", means))
    return list(min(found)[1:])


def corrections(q: Question) -> list[str]:
    rows = [line.split() for line in q.code.splitlines()[1:] if line]
    tried, new = rows[:6], rows[6:]
    errors = [float(measured) - float(history) for *_, history, measured in tried]
    models = list[tuple[float, str, list[float]]]()
    for knob, name in enumerate(("lanes", "pack")):
        effect = {
            option: float(
                np.mean([e for r, e in zip(tried, errors, strict=True) if r[knob] == option])
            )
            for option in {row[knob] for row in tried}
        }
        error = sum((e - effect[r[knob]]) ** 2 for r, e in zip(tried, errors, strict=True))
        models.append((error, name, [float(row[2]) + effect[row[knob]] for row in new]))
    _, name, scores = min(models)
    text = ", ".join(f"{n} {v:.2f}" for n, v in zip("ABC", scores, strict=True))
    return [name, text, "ABC"[scores.index(max(scores))]]


def sketches(q: Question) -> list[str]:
    stages = re.findall(r"^(\w)\(.*?\) (\+?=) (.*)", q.code, re.M)
    inlined = [name for name, kind, formula in stages[:-1] if kind == "=" and "exp" not in formula]
    sums = [formula for _, kind, formula in stages if kind == "+="]
    products = sum("*" in formula for formula in sums)
    count = 3 ** len(sums)
    return [", ".join(inlined) or "none", str(count), str(count - count // 3**products)]


def gradients(q: Question) -> list[str]:
    rows = [line.split() for line in q.code.splitlines()[1:]]
    tasks = [(Fraction(w), Fraction(g), Fraction(t), Fraction(b), Fraction(c))
             for _, w, g, t, b, c in rows]  # fmt: skip
    best = max(c / g for _, g, _, _, c in tasks[:2])
    found = list[Fraction]()
    for n, (w, g, t, before, operations) in enumerate(tasks):
        alike = 2 * operations / best - g if n < 2 else Fraction(0)
        found.append(w * ((g - before) / 15 + min(-g / t, alike) * 4 / 5))
    text = ", ".join(f"{n} {float(g):.0f}" for n, g in zip("ABC", found, strict=True))
    return [text, "ABC"[found.index(min(found))]]


BY_HAND: dict[str, Callable[[Question], list[str]]] = {
    "The order of visits": order, "Init and update": sums, "Guards": guards, "Bounds": bounds,
    "The footprint of a tile": footprint, "Misses": misses, "Reuse distance": reuse,
    "Vectors": vectors, "Sectors": sectors, "Banks": banks,
    "Instructions of the accelerator": instructions, "Tokens": tokens,
    "A plan of the memory": memory_plan, "A configuration space": configurations,
    "Pairs in order": pairs, "The first split of a tree": splits,
    "A history and its correction": corrections, "Sketches": sketches,
    "The gradient of a task": gradients,
}  # fmt: skip


@pytest.mark.parametrize("seed", SEEDS)
def test_the_answers_are_those_of_plain_python(seed: int) -> None:
    for question in EXAMS[seed]:
        assert list(question.answers) == BY_HAND[question.title](question), question


def test_every_family_occurs_in_every_exam() -> None:
    assert len(BY_HAND) == len(FAMILIES)
    for questions in EXAMS.values():
        assert {q.title for q in questions} == BY_HAND.keys()


def test_no_answer_can_be_guessed_or_read_off() -> None:
    for question in (q for questions in EXAMS.values() for q in questions):
        sentences = {"0", "1", *re.findall(r"\d+", " ".join((question.text, *question.asks)))}
        assert not sentences & set(question.answers), question
        assert len(question.asks) == len(question.answers)


def test_streams_of_all_four_kinds_occur() -> None:
    (family,) = (family for family in FAMILIES if family.__name__ == "tokens")
    rng = np.random.default_rng(0)
    questions = [family(rng) for _ in range(150)]
    said = {q.answers[0].split(":")[0] for q in questions}
    assert all(list(q.answers) == tokens(q) for q in questions)
    assert said == {"right", "deadlock", "leak", "race"}


# --- pages ------------------------------------------------------------------------------------


class Text(HTMLParser):
    """Collects the text of a page, and checks that each element is closed in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text, self.open = "", list[str]()
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("seed", SEEDS)
def test_the_pages_show_every_question_and_only_the_key_the_answers(seed: int) -> None:
    questions = EXAMS[seed]
    exam, key = Text(exam_page(questions)).text, Text(key_page(questions, seed)).text
    for q in questions:
        for text in (q.text, q.code, *q.asks):
            assert text.replace("`", "") in exam
            assert text.replace("`", "") in key
        assert q.working in key
        assert q.working not in exam
        assert q.section in key
        assert all(f" {answer}" in key for answer in q.answers)
        assert max(map(len, q.code.splitlines())) <= WIDEST
    assert "--seed" not in exam


def test_signs_of_html_are_escaped() -> None:
    hostile = Question("<i>", "a < b & c", "<script>", ("x > y?",), ("<b>1</b>",), "&amp;", "<", 1)
    for page in (exam_page((hostile,)), key_page((hostile,), 1)):
        assert "<script>" not in page
        assert "a &lt; b &amp; c" in page
        assert "&lt;script&gt;" in page
        Text(page)
    assert "&lt;b&gt;1&lt;/b&gt;" in key_page((hostile,), 1)


def test_a_page_loads_nothing() -> None:
    page = key_page(EXAMS[0], 0)
    assert not re.search(r"src=|href=|url\(|@import|https?:", page)
    assert "size:A4" in page


def test_ten_seeds_are_ten_exams() -> None:
    assert len({exam_page(questions) for questions in EXAMS.values()}) == len(EXAMS)
    for family in zip(*EXAMS.values(), strict=True):
        assert len({(q.text, q.code, q.asks) for q in family}) > 7, family[0].title


@pytest.mark.parametrize("family", [f for f in FAMILIES if f.__name__ not in SLOW])
def test_a_family_has_more_than_forty_questions(family: Callable[..., Question]) -> None:
    rng = np.random.default_rng(0)
    assert len({(q.text, q.code, q.asks) for q in (family(rng) for _ in range(150))}) > 40


def test_an_exam_in_the_middle_of_the_term_asks_what_was_taught() -> None:
    questions = questions_of(3, until="06")
    assert {q.title for q in questions} == BY_HAND.keys() - LATE
    assert all(re.findall(r"notebook (\d\d)", q.section)[-1] <= "06" for q in questions)
    for family, notebook in FAMILIES.items():
        section = family(np.random.default_rng(0)).section
        assert re.findall(r"notebook (\d\d)", section)[-1] == notebook


# --- the command ------------------------------------------------------------------------------


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path, capsys) -> None:
    for name in "ab":
        assert main(["exam", "--seed", "7", "--out", str(tmp_path / name), "--questions", "5"]) == 0
    assert "key.html" in capsys.readouterr().out
    for page in ("exam.html", "key.html"):
        first, second = ((tmp_path / name / page).read_bytes() for name in "ab")
        assert first == second
        assert first.count(b"<section>") == 5
    assert sorted(p.name for p in (tmp_path / "a").iterdir()) == ["exam.html", "key.html"]


def test_the_path_of_an_exam_does_not_show_its_seed(tmp_path: Path, monkeypatch, capsys) -> None:
    # browsers print the path of a page below it
    monkeypatch.chdir(tmp_path)
    assert main(["exam", "--seed", "481516", "--questions", "2"]) == 0
    (folder,) = tmp_path.iterdir()
    assert "481516" not in folder.name
    assert folder.name == f"exam-{re.findall('exam ([0-9a-f]+)', capsys.readouterr().out)[0]}"


def test_many_questions_take_all_families_and_repeat_none() -> None:
    questions = questions_of(3, 25)
    counts = [sum(q.title == title for q in questions) for title in BY_HAND]
    assert sum(counts) == len(set(questions)) == 25
    assert {math.floor(25 / len(FAMILIES)), math.ceil(25 / len(FAMILIES))} >= set(counts)


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["--seed", "many"], "--seed 'many': not an integer from 0 to "),
        (["--seed", "-3"], "--seed '-3': not an integer from 0 to "),
        (["--seed", "٣"], "--seed '٣': not an integer from 0 to "),
        (["--seed", ""], "--seed '': not an integer from 0 to "),
        (["--seed", "9" * 5000], "--seed '999"),
        (["--seed", "1", "--questions", "0"], "--questions '0': not an integer from 1 to 40"),
        (["--seed", "1", "--questions", "41"], "--questions '41': not an integer from 1 to 40"),
        (["--seed", "1", "--questions", "2.5"], "--questions '2.5': not an integer from 1 to 40"),
        (["--seed", "1", "--until", "many"], "--until 'many': no question is about it"),
        (["--seed", "1", "--until", "00"], "--until '00': no question is about it"),
    ],
)
def test_other_numbers_are_refused(arguments, what, tmp_path: Path, capsys) -> None:
    assert main(["exam", "--out", str(tmp_path / "out"), *arguments]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"error: {what}")
    assert re.search(f"try: {arguments[-2]} \\d\\d", error)
    assert not (tmp_path / "out").exists()


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path, capsys) -> None:
    file = tmp_path / "exam"
    file.write_text("mine")
    assert main(["exam", "--seed", "1", "--out", str(file)]) == 1
    error = capsys.readouterr().err
    assert "it is a file, not a folder" in error
    assert "try: --out FOLDER" in error
    assert file.read_text() == "mine"
