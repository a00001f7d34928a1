"""Search for accelerators on which a network takes few cycles and that need little area.

    explored = vta.explore(vta.RESNET18, vta.TIMES, budget=200, log="designs.jsonl")
    print(explored.table())                   the Pareto front
    print(explored.best(area=1).explain())    the fastest within 1 mm2, and what limits it

The configuration of the accelerator is data, and a network is simulated in seconds. So both are
searched: configurations by changing those on the front, and for each of them the tilings of all
layers, by lower bounds and simulation.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from minitvm import accel, workers
from minitvm.base import ArgumentError, BuildError, check_count, check_kind, check_text, is_count

from .designs import MOST, Json, Point, answer, best_of, check_network, point, request
from .workloads import Layer

ROUND = 16  # configurations that are proposed at a time: they run in parallel
RANDOM = 0.25  # the share of proposals that are drawn from the whole space
DRAWS = 50  # draws until the space counts as exhausted
SECONDS = 86400.0  # the time limit of one evaluation, which takes seconds
JOB = "minitvm.vta.evaluate_job"

Changes = tuple[tuple[str, int], ...]  # the parameters that differ from a base configuration


def _kilobytes(low: int, high: int) -> tuple[int, ...]:
    """Return the powers of 2 from `low` to `high` kB, in bytes."""
    return tuple(1 << n for n in range(9 + low.bit_length(), 10 + high.bit_length()))


# the port to DRAM is a property of the board: it is not varied, because `area` does not price it
SPACE: dict[str, tuple[int, ...]] = {
    "block_in": (8, 16, 32, 64),
    "block_out": (8, 16, 32, 64),
    "inp_bytes": _kilobytes(8, 128),
    "wgt_bytes": _kilobytes(8, 512),
    "acc_bytes": _kilobytes(16, 256),
    "uop_bytes": _kilobytes(4, 32),
}


@dataclass(frozen=True, slots=True)
class Refused:
    """A configuration that cannot exist, or on which a layer does not fit, and the reason."""

    changes: Changes
    reason: str

    def __str__(self) -> str:
        values = ", ".join(f"{name}={value}" for name, value in self.changes)
        return f"refused: {values}: {self.reason}"


@dataclass(frozen=True, slots=True, repr=False)
class Exploration:
    """The result of a search.

    points    the designs, in the order in which they were tried
    refused   the configurations that were refused
    marked    the names of designs to compare with
    """

    points: tuple[Point, ...]
    refused: tuple[Refused, ...]
    marked: tuple[str, ...]

    @property
    def front(self) -> tuple[Point, ...]:
        """Return the designs that no other design dominates, the smallest first."""
        front: list[Point] = []
        for p in sorted(self.points, key=lambda p: (p.area, p.cycles)):
            if not front or p.cycles < front[-1].cycles:
                front.append(p)
        return tuple(front)

    def dominating(self, point: Point) -> tuple[Point, ...]:
        """Return the designs on the front that are smaller or faster than `point`, and not worse.

        The fastest is the last.
        """
        check_kind("point", point, Point, fix="explored.points[0]")
        better = (p for p in self.front if p.area <= point.area and p.cycles <= point.cycles)
        return tuple(p for p in better if (p.area, p.cycles) != (point.area, point.cycles))

    def best(self, area: float) -> Point:
        """Return the fastest design of at most `area` mm2; ArgumentError if there is none."""
        check_kind("area", area, int, float, fix="area=1.0")
        within = [p for p in self.front if p.area <= area]
        if not within:
            why = (
                f"the smallest design has {self.front[0].area:.3g}" if self.points else "no design"
            )
            raise ArgumentError(f"best(area={area:g})", why, "a larger area")
        return within[-1]

    def verdict(self, name: str) -> str:
        """Say whether the marked design `name` is on the front, or which design dominates it."""
        check_text("name", name, '"vta_pynq"')
        named = [p for p in self.points if p.config.name == name]
        if not named:
            raise ArgumentError(f"verdict({name!r:.60})", "no design has this name", "vta_pynq")
        p = named[0]
        better = self.dominating(p)
        if not better:
            return f"{name} is on the front"
        area, cycles = better[0].area / p.area, better[-1].cycles / p.cycles
        return (
            f"{name} is dominated: {better[0].config.name} needs {area:.0%} of its area, "
            f"{better[-1].config.name} takes {cycles:.0%} of its cycles"
        )

    @property
    def designs(self) -> tuple[Point, ...]:
        """Return the designs on the front and the marked ones, the smallest first."""
        front = self.front
        marked = (p for p in self.points if p.config.name in self.marked and p not in front)
        return tuple(sorted((*front, *marked), key=lambda p: (p.area, p.cycles)))

    def table(self) -> str:
        """Return these designs as a table: area, cycles and limits; * is for dominated ones."""
        front, designs = self.front, self.designs
        wide = max((len(p.config.name) for p in designs), default=0) + 2
        lines = [f"{'':{wide}}{'mm2':>7}{'cycles':>12}  limits, by share of the cycles"]
        for p in designs:
            limits = " ".join(f"{limit} {share:.0%}" for limit, share in p.limits().items())
            name = p.config.name if p in front else f"{p.config.name}*"
            lines.append(f"{name:{wide}}{p.area:7.3f}{p.cycles:12,}  {limits}")
        return "\n".join(
            [*lines, *(f"* {self.verdict(p.config.name)}" for p in designs if p not in front)]
        )

    def __repr__(self) -> str:
        counts = f"{len(self.points)} designs, {len(self.front)} on the front"
        return f"<exploration: {counts}, {len(self.refused)} refused>"


def explore(
    layers: Mapping[str, Layer],
    times: Mapping[str, int] | None = None,
    *,
    budget: int = 100,
    space: Mapping[str, Sequence[int]] | None = None,
    base: accel.Config = accel.vta_pynq,
    marked: Sequence[accel.Config] = (accel.vdla_osdi18, accel.vta_pynq),
    most: int = MOST,
    seed: int = 0,
    log: str | Path | None = None,
    processes: int = 1,
    progress: Callable[[str], object] | None = None,
) -> Exploration:
    """Search configurations and tilings for designs with few cycles and little area.

    layers      name -> layer, such as vta.RESNET18: the distinct layers of a network
    times       name -> how often the network contains it; by default once each
    budget      the number of configurations to try, with those that are refused
    space       parameter of Config -> its values; by default vta.SPACE
    base        the configuration that has all other parameters
    marked      configurations to compare with; they are tried first
    most        the number of tilings of a layer that are simulated for each configuration
    log         a file of one line of JSON per configuration; a search continues where it ended
    processes   how many configurations are simulated at a time; the result is the same
    progress    called with a line of text after each configuration

    The result depends only on the arguments, also after an interruption.
    """
    counts = check_network(layers, times)
    check_kind("marked", marked, Sequence, fix="(vta.vta_pynq,)")
    for config in (base, *marked):
        check_kind("base and marked", config, accel.Config, fix="vta.vta_pynq")
    if not is_count(seed, 0):
        raise ArgumentError(f"seed={seed!r:.60}", "not an int of at least 0", "seed=0")
    options = _checked_space(SPACE if space is None else space)
    budget, processes = check_count("budget", budget), check_count("processes", processes)
    question = request(layers, counts, check_count("most", most))
    known = {} if log is None else _resumed(log, {**question, "base": asdict(base)})
    named = {_changes(asdict(config), base): config for config in marked}
    configured = partial(_configured, base, named)
    rng, trials = np.random.default_rng(seed), dict[Changes, Point | Refused]()
    with nullcontext() if processes == 1 else workers.Pool(JOB, min(processes, ROUND)) as pool:
        ask = partial(_asked, question, configured)
        while batch := _proposals(trials, options, base, [*named], rng, budget):
            new = [changes for changes in batch if changes not in known]
            for changes, reply in pool.map(ask, new) if pool else map(partial(ask, None), new):
                known[changes] = reply
                if log is not None:
                    _append(Path(log), {"changes": dict(changes), **reply})
                if progress is not None:
                    trial = _trial(changes, reply, configured, layers, counts)
                    progress(f"{len(known)} of {budget}: {trial}")
            for changes in batch:
                trials[changes] = _trial(changes, known[changes], configured, layers, counts)
    return _exploration(trials.values(), [config.name for config in marked])


def _configured(
    base: accel.Config, named: Mapping[Changes, accel.Config], changes: Changes
) -> accel.Config:
    """Return a changed configuration; raise ArgumentError if it cannot exist."""
    if changes in named:
        return named[changes]
    return replace(base, name=_label(base, changes), **dict(changes))


def _asked(
    question: Json,
    configured: Callable[[Changes], accel.Config],
    worker: workers.Worker | None,
    changes: Changes,
) -> tuple[Changes, Json]:
    """Return `changes`, and the reply for this configuration from a worker or this process."""
    try:
        asked = {**question, "config": asdict(configured(changes))}
    except ArgumentError as e:
        return changes, {"refused": ": ".join(e.args[:2])}
    if worker is None:
        return changes, answer(asked)
    reply = worker.ask(asked, seconds=SECONDS)
    if isinstance(reply, workers.Failure):
        raise BuildError(f"evaluation of {dict(changes)}", f"{reply}", "processes=1")
    return changes, reply.value


def _trial(
    changes: Changes,
    reply: Json,
    configured: Callable[[Changes], accel.Config],
    layers: Mapping[str, Layer],
    times: Mapping[str, int],
) -> Point | Refused:
    """Return the result of a configuration; without layers if its line in the log is abridged."""
    if "refused" in reply:
        return Refused(changes, reply["refused"])
    if "layers" not in reply:
        return Point(configured(changes), int(reply["cycles"]))
    fastest = {name: best_of(described) for name, described in reply["layers"].items()}
    return point(layers, times, configured(changes), fastest)


# --- proposals -----------------------------------------------------------------------------------


def _proposals(
    trials: Mapping[Changes, Point | Refused],
    space: Mapping[str, Sequence[int]],
    base: accel.Config,
    named: Sequence[Changes],
    rng: np.random.Generator,
    budget: int,
) -> list[Changes]:
    """Return the next configurations: those that are named first, then new ones.

    They are drawn from the whole space, or are on the front and then changed in one or two
    parameters. The list is empty if the budget is spent, or no new configuration was drawn.
    """
    count = min(ROUND, budget - len(trials))
    batch = dict.fromkeys([] if trials else [*named][:count])
    front = _exploration(trials.values(), []).front
    for _ in range(DRAWS * count):
        if len(batch) == count:
            break
        values = {name: int(rng.choice(options)) for name, options in space.items()}
        if front and rng.random() >= RANDOM:
            parent = asdict(front[rng.integers(len(front))].config)
            changed = rng.choice([*space], size=min(len(space), rng.integers(1, 3)), replace=False)
            values = parent | {name: values[name] for name in changed}
        changes = _changes(values, base)
        if changes not in trials:
            batch[changes] = None
    return [*batch]


def _changes(values: Mapping[str, Any], base: accel.Config) -> Changes:
    """Return the values that differ from those of `base`, without name and clock."""
    same = {**asdict(base), "name": values.get("name"), "clock_hz": values.get("clock_hz")}
    return tuple(sorted((name, v) for name, v in values.items() if v != same[name]))


def _label(base: accel.Config, changes: Changes) -> str:
    """Return the name of a configuration: 16x16 32/256/128/32 kB for INP, WGT, ACC and UOP."""
    values = {**asdict(base), **dict(changes)}
    sizes = "/".join(f"{values[name] / 1024:g}" for name in SPACE if name.endswith("bytes"))
    others = (f" {name}={value}" for name, value in changes if name not in SPACE)
    return f"{values['block_in']}x{values['block_out']} {sizes} kB{''.join(others)}"


def _exploration(trials: Iterable[Point | Refused], marked: Sequence[str]) -> Exploration:
    """Return the result of a search from its trials."""
    tried = [*trials]
    points = tuple(trial for trial in tried if isinstance(trial, Point))
    refused = tuple(trial for trial in tried if isinstance(trial, Refused))
    return Exploration(points, refused, tuple(marked))


def _checked_space(space: Any) -> dict[str, tuple[int, ...]]:
    """Return the space; raise ArgumentError unless it maps parameters to one or more ints."""
    allowed = {f.name for f in fields(accel.Config)} - {"name", "clock_hz"}
    check_kind("space", space, Mapping, fix="vta.SPACE")
    fix = '{"block_in": (8, 16), "wgt_bytes": (32 << 10, 64 << 10)}'
    options = cast("Mapping[Any, Any]", space)
    for name, values in options.items():
        kinds = {*map(type, cast("list[Any]", values))} if isinstance(values, tuple | list) else ()
        if name not in allowed or kinds != {int}:
            why = "expected a parameter of Config, and a list of ints"
            raise ArgumentError(f"space: {name!r:.60}: {values!r:.60}", why, fix)
    if not options:
        raise ArgumentError("space={}", "no parameters", fix)
    return {name: tuple(values) for name, values in options.items()}


# --- the log -------------------------------------------------------------------------------------


def _resumed(log: str | Path, header: Json) -> dict[Changes, Json]:
    """Return the replies in a log; start a new log if there is none, and cut off a broken line.

    Raises ArgumentError if the log is damaged, or of other layers, times or parameters.
    """
    path = Path(check_kind("log", log, str, Path, fix='log="designs.jsonl"'))
    try:
        text = path.read_text() if path.exists() else ""
        whole = text[: text.rfind("\n") + 1] or json.dumps(header) + "\n"
        if whole != text:
            path.write_text(whole)
    except (OSError, ValueError) as e:
        raise ArgumentError(f"log={path}", f"{e}", 'log="designs.jsonl"') from e
    try:
        first, *replies = map(json.loads, whole.splitlines())
        known = {tuple(sorted(reply.pop("changes").items())): reply for reply in replies}
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise ArgumentError(
            f"log={path}", "not a log of explore(), or damaged", "another file"
        ) from e
    if first != json.loads(json.dumps(header)):
        why = "it was written for other layers, times, base or most"
        raise ArgumentError(f"log={path}", why, "another file")
    return known


def _append(path: Path, reply: Json) -> None:
    with path.open("a") as file:
        file.write(json.dumps(reply) + "\n")
