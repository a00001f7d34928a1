"""GridView as a picture: a block step by step, and a warp's access in sectors or banks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from minitvm import schedule, simt, tir
from minitvm.base import plural

from .boxes import Box, block, cells, column, flow, framed, legend, paragraph, row, sized, text
from .controls import Frame
from .grid_run import GridRun, Step, passes_of, sectors_of, warp_lanes
from .kinds import ink

WIDTH, SIDE = 840, 128  # pixels: the picture, the largest grid of threads or memory
MAX_CELLS, MAX_COLUMNS = 16, (33, 16)  # of a grid of shared or other, and of global memory; in a
# larger one, a cell is several elements
CELL, SECTOR = 17, 113  # pixels: the side of a cell with a letter, the width of a sector
MAX_PASSES, MAX_SECTORS, MAX_BLOCKS, MAX_BUFFERS = 8, 32, 256, 6  # that are drawn
SERIES = ("pale_sky", "pale_orange", "pale_pink", "pale_yellow", "pale_green", "pale_blue")
LETTERS = "abcdefghijklmnopqrstuvwxyz"
LOOKS = {
    "read": "reads",
    "write": "writes",
    "faint": "takes no part",
    "seen": "before",
    "race": "races",
}


def errors(run: GridRun) -> list[simt.Fault]:
    """Return the faults of a kernel, without harmless ones."""
    return [f for f in run.report.faults if not f.harmless]


def block_name(run: GridRun, n: int) -> str:
    """Return the name of a block: "block (0, 1)"."""
    return run.report.launch.name(n * run.report.launch.threads).partition(", thread")[0]


def thread_name(run: GridRun, t: int) -> str:
    """Return the name of a thread in its block: "thread (3, 0)"."""
    number = run.block * run.report.launch.threads + t
    return f"thread{run.report.launch.name(number).partition(', thread')[2]}"


# --- a block, step by step ------------------------------------------------------------------------


def played(run: GridRun, access: int) -> Box:
    """Draw blocks, threads, memories and steps; frames mark what a step accesses."""
    faults = [paragraph(words, WIDTH - 16, "on_light") for words in _summary(run)]
    return column(
        framed(column(*faults), "pale_red", inset=8, width=WIDTH) if faults else None,
        flow([_blocks(run, access), _threads(run), *_memories(run)], WIDTH, between=10),
        legend(LOOKS, WIDTH),
        _timeline(run),
    )


def _summary(run: GridRun) -> list[str]:
    """Return what is wrong, in short: the race that is shown, or else the first fault."""
    faults = errors(run)
    others = f" ({len(faults) - 1} more)" if len(faults) > 1 else ""
    return [f"{race_text(run) or faults[0]}{others}"] if faults else []


def race_text(run: GridRun) -> str:
    """Describe the race that is shown, with both threads and both steps."""
    if run.clash is None:
        return ""
    early, late = run.steps[run.clash.first], run.steps[run.clash.second]
    first, second = (thread_name(run, t) for t in run.clash.threads)
    verbs = "writes" if late.write else "reads", "wrote" if early.write else "read"
    element = f"{printed(late.buffer)}[{run.clash.element}]"
    return (
        f"RACE: in step {run.clash.second + 1} {second} {verbs[0]} {element}, which {first} "
        f"{verbs[1]} in step {run.clash.first + 1}: no barrier lies between the two"
    )


def _titled(words: str, box: Box) -> Box:
    return column(text(words, bold=True), box, gap=5)


def _blocks(run: GridRun, access: int) -> Box:
    """Draw the grid of blocks; those that share elements of an access with the block are pale."""
    x, y, z = run.report.launch.grid
    wide = x if y * z > 1 else min(x, MAX_CELLS)
    touched_blocks = run.touched[access] if run.report.accesses[access].space == "global" else {}
    side, boxes = max(5.0, min(CELL, SIDE / max(wide, y * z))), list[Box]()
    for n in range(min(x * y * z, MAX_BLOCKS)):
        common = len(
            touched_blocks.get(run.block, frozenset()) & touched_blocks.get(n, frozenset())
        )
        kind = "now" if n == run.block else "seen" if common else "cell"
        tip = f"{block_name(run, n)}: {common} elements of the chosen access in common"
        boxes.append(
            framed(block("", 0, side), kind, f"block:{n}", tip, inset=0, radius=0, width=side)
        )
    rows = (row(*boxes[n : n + wide], gap=0) for n in range(0, len(boxes), wide))
    return _titled("blocks", column(*rows, gap=0))


def across(run: GridRun) -> int:
    """Return how many threads are in a row of the picture: as many as along x, or a warp."""
    x = run.report.launch.block[0]
    return x if x < run.report.launch.threads else min(schedule.WARP, x)


def _threads(run: GridRun) -> Box:
    wide, side = across(run), max(4.0, min(12, SIDE / across(run)))
    cell_specs = (
        (*divmod(t, wide), f"thread:{t}", thread_name(run, t))
        for t in range(run.report.launch.threads)
    )
    return _titled("threads of the block", cells(cell_specs, side, side))


def _memories(run: GridRun) -> Iterator[Box]:
    """Draw the elements of each accessed buffer, those of shared memory first."""
    buffers = dict.fromkeys(s.buffer for s in run.steps)
    for b in sorted(buffers, key=lambda b: b.scope == "global")[:MAX_BUFFERS]:
        rows, columns, down, right = _shape(b)
        side = max(5.0, min(12, SIDE // -(-rows // down), 1.6 * SIDE // -(-columns // right)))
        drawn = {_cell(b, i): None for i in range(rows * columns)}
        cell_text = f", {down} x {right} a cell" if down * right > 1 else ""
        name = f"{printed(b)}: {schedule.scope_kind(b.scope)} {rows} x {columns}{cell_text}"
        yield _titled(name, cells(((*at, _key(b, at), "") for at in drawn), side, side))


def printed(b: tir.Buffer) -> str:
    """Return the name of a buffer as a program prints it."""
    return b.name.replace(".", "_")


def _shape(b: tir.Buffer) -> tuple[int, int, int, int]:
    """Return rows and columns of a buffer, and the rows and columns of elements in a cell."""
    total, inner = _int(tir.elements(b)), b.shape[-1] if b.shape else 1
    columns = _int(b.strides[-2] if len(b.strides) > 1 else inner)  # a padded row with its gap
    columns = min(columns, schedule.WARP) if columns == total else columns
    rows = -(-total // columns)
    return rows, columns, -(-rows // MAX_CELLS), -(-columns // MAX_COLUMNS[b.scope == "global"])


def _int(n: tir.Index) -> int:
    return n if isinstance(n, int) else 1


def _cell(b: tir.Buffer, element: int) -> tuple[int, int]:
    """Return the row and the column of the cell that shows an element."""
    _, columns, down, right = _shape(b)
    return element // columns // down, element % columns // right


def _key(b: tir.Buffer, at: tuple[int, int]) -> str:
    return f"at:{b.name}/{at[0]}/{at[1]}"


def _timeline(run: GridRun) -> Box:
    """Draw a cell for each step; the gaps between them are barriers."""
    phases = [list(group) for _, group in groupby(enumerate(run.steps), lambda pair: pair[1].phase)]
    free = WIDTH - 60 - 8 * len(phases)
    side = max(3.0, min(12.0, free / max(1, len(run.steps))))
    parts = (
        cells(((0, k, f"step:{n}", "") for k, (n, _) in enumerate(phase)), side, 14)
        for phase in phases
    )
    return row(text("steps", bold=True), flow(parts, WIDTH - 50, gap=8, between=4), gap=12)


def frames(run: GridRun, lines: dict[int, str]) -> tuple[Frame, ...]:
    """Return a frame for each step: its threads and elements, and the race where it shows."""
    return tuple(_frame(run, n, lines) for n in range(len(run.steps)))


def _frame(run: GridRun, n: int, lines: dict[int, str]) -> Frame:
    step, clash = run.steps[n], run.clash
    kind = "write" if step.write else "read"
    threads, reach = run.report.launch.threads, range(step.width)
    marks = {f"thread:{t}": kind if t in step.lanes else "faint" for t in range(threads)}
    elements = sorted({i + k for i in step.lanes.values() for k in reach})
    marks |= {_key(step.buffer, _cell(step.buffer, i)): kind for i in elements}
    current_line = [lines[k] for k in (step.access,) if k in lines]
    caption = (
        f"step {n + 1} of {run.total}, after {step.phase} barrier{plural(step.phase)}: "
        f"{len(step.lanes)} threads {kind} {len(elements)} elements of {printed(step.buffer)}"
    )
    if clash and n == clash.second:
        marks |= {f"thread:{t}": "race" for t in clash.threads}
        marks[_key(step.buffer, _cell(step.buffer, clash.element))] = "race"
        current_line += [lines[k] for k in (run.steps[clash.first].access,) if k in lines]
        marks[f"step:{clash.first}"] = "race"
        caption += f"\n{race_text(run)}"
    return Frame(
        {**marks, **dict.fromkeys([f"step:{n}", *current_line], "now")}, caption, f"step:{n}"
    )


# --- one access, and what it costs ----------------------------------------------------------------


def cost_text(counts: simt.AccessCounts) -> str:
    """Return what an access cost in the whole run."""
    if counts.space == "global":
        request_text = f"{counts.sectors:,} sectors ({counts.sectors_per_request:.3g} a request)"
        cost = f"{request_text}, {100 * counts.useful:.3g} % of their bytes useful"
    else:
        per_request = counts.wavefronts_per_request
        cost = f"{counts.wavefronts:,} wavefronts ({per_request:.3g} a request)"
    return f"{counts.space} memory, {counts.requests:,} requests of warps, {cost}"


def access_box(run: GridRun, step: Step, warp: int) -> Box:
    """Draw the threads by what they access in a step, and the lanes of a warp."""
    counts, wide = run.report.accesses[step.access], across(run)
    is_global, threads = counts.space == "global", run.report.launch.threads
    per_cell = max(1, simt.SECTOR // step.buffer.dtype.bytes) if is_global else 1
    groups = {n: k for k, n in enumerate(dict.fromkeys(i // per_cell for i in step.lanes.values()))}
    letters = (
        _letter(groups[step.lanes[t] // per_cell] if t in step.lanes else None)
        for t in range(threads)
    )
    boxes = list(letters)
    rows = (row(*boxes[n : n + wide], gap=0) for n in range(0, min(threads, 16 * wide), wide))
    what = "sector" if is_global else "element"
    grid = column(text(f"threads by {what}", "soft"), column(*rows, gap=0), gap=5)
    warps = _sectors(step, warp) if is_global else _banks(step, warp)
    return column(
        text(counts.access, bold=True, mono=True, width=WIDTH),
        text(cost_text(counts), width=WIDTH),
        flow([grid, warps], WIDTH),
        gap=6,
    )


def _letter(number: int | None, tip: str = "") -> Box:
    """Draw a cell with the letter and the colour of a group; None for no group."""
    kind = "faint" if number is None else SERIES[number % len(SERIES)]
    return _number("" if number is None else LETTERS[number % len(LETTERS)], kind, tip)


def _number(words: str, kind: str, tip: str) -> Box:
    label = sized(text(words, ink(kind), width=CELL, anchor="middle"), CELL, CELL, down=0.5)
    return framed(label, kind, tip=tip, inset=0, radius=0)


def _sectors(step: Step, warp: int) -> Box:
    """Draw the sectors of global memory that the lanes of a warp access."""
    sectors, lanes = sectors_of(step, warp), warp_lanes(step, warp)
    per_sector, name = max(1, simt.SECTOR // step.buffer.dtype.bytes), printed(step.buffer)
    names = {s: n for n, s in enumerate(sectors)}
    boxes = list[Box]()
    for s, used in list(sectors.items())[:MAX_SECTORS]:
        kinds = ("read" if s * per_sector + k in used else "cell" for k in range(per_sector))
        begin, letter = s * per_sector, LETTERS[names[s] % len(LETTERS)]
        words = text(f"{letter}  {name}[{begin}:{begin + per_sector}]")
        strip = row(*(block(kind, 9, 9) for kind in kinds), gap=3)
        content = column(words, strip, gap=3)
        boxes.append(framed(content, "", tip=f"{len(used)} of {per_sector} used", width=SECTOR))
    group = {n: names[element // per_sector] for n, element in lanes.items()}
    heads = (
        _letter(group.get(n), f"lane {n}: element {lanes.get(n)}") for n in range(schedule.WARP)
    )
    used, loaded = sum(map(len, sectors.values())), per_sector * len(sectors)
    note = f"{len(sectors)} sectors of {simt.SECTOR} bytes; {used} of {loaded} elements used"
    return column(
        text(f"lanes 0 to 31 of warp {warp}, by sector", "soft"),
        row(*heads, gap=0),
        text(note),
        flow(boxes, schedule.WARP * CELL, gap=6, between=6),
        gap=5,
    )


def _banks(step: Step, warp: int) -> Box:
    """Draw the passes over the 32 banks of shared memory that a warp needs."""
    passes, lanes = passes_of(step, warp), warp_lanes(step, warp)
    first = dict[int, int]()
    for k, pass_lanes in (
        (k, lane) for k, p in enumerate(passes) for s in p.values() for lane in s
    ):
        first.setdefault(pass_lanes, k)
    heads = (
        _letter(first.get(n), f"lane {n}: element {lanes.get(n)}") for n in range(schedule.WARP)
    )
    count, more = len(passes), len(passes) - MAX_PASSES
    note = f"{count} wavefront{plural(count)}: banks 0 to 31, with how many lanes each serves"
    return column(
        text(f"lanes 0 to 31 of warp {warp}, by the pass that serves them", "soft"),
        row(*heads, gap=0),
        text(note),
        column(*(row(*_bank_cells(k, p), gap=0) for k, p in enumerate(passes[:MAX_PASSES])), gap=5),
        text(f"and {more} more", "soft") if more > 0 else None,
        gap=5,
    )


def _bank_cells(k: int, served: dict[int, list[int]]) -> Iterable[Box]:
    for bank in range(simt.BANKS):
        lanes = served.get(bank, [])
        kind = SERIES[k % len(SERIES)] if lanes else "cell"
        tip = f"bank {bank}: lanes {', '.join(map(str, lanes)) or 'none'}"
        yield _number(str(len(lanes)) if lanes else "", kind, tip)
