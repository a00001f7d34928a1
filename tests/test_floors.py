"""The rules of the house: imports go down, through doors, at the top of a file; rooms stay small.

A room is a folder of minitvm or a single file of it. A folder inside a room has a door of its own:
files beside it import from the folder, and its files may import from those beside it. A file names
what it uses from another room by that room, tir.For, so that a reader knows where each noun lives;
only the vocabulary of base (errors, dtypes, checks) is imported by name. The checks read sources
with `ast` and import nothing; the second half of this file shows each of them a small house that
breaks its rule.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "minitvm"

FLOORS = (  # low to high; rooms on one floor do not see each other
    ("base",),
    ("workers",),
    ("tir", "accel", "cachesim"),
    ("tensor",),
    ("schedule",),
    ("lowering",),
    ("explain", "simt"),
    ("te",),
    ("topi",),
    ("runtime",),
    ("codegen",),
    ("driver",),
    ("accesses",),
    ("testing",),
    ("vta",),
    ("tune",),
    ("autotvm", "auto_scheduler"),
    ("graph",),
    ("viz",),
    ("edu",),
    ("demo", "doctor", "net", "tuning"),
    ("__init__",),
    ("__main__",),
)
HEIGHT = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
VOCABULARY = "base"  # its names are imported one by one
VIZ_ONLY = {"ipywidgets", "anywidget", "matplotlib", "PIL"}
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60  # without the docstring
UNFINISHED = ("TODO", "FIXME")

Sources = Mapping[str, str]  # path inside minitvm, such as "tir/stmt.py" -> text
Module = tuple[str, ...]  # ("tir", "stmt"); ("tir",) is the door of tir, () the face of minitvm
FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Import:
    """One of our modules, as `line` of `file` names it: with dots, or by its full name."""

    file: str
    line: int
    target: Module
    dotted: bool


@cache
def parsed(text: str) -> ast.Module:
    """The syntax tree of a file; all rules read the same one."""
    return ast.parse(text)


@cache
def nodes(text: str) -> list[ast.AST]:
    """All nodes of that tree."""
    return list(ast.walk(parsed(text)))


@cache
def module_of(file: str) -> Module:
    """tir/stmt.py -> (tir, stmt); tir/__init__.py -> (tir,)"""
    parts = file.removesuffix(".py").split("/")
    return tuple(parts[:-1] if parts[-1] == "__init__" else parts)


def room_of(module: Module) -> str:
    return module[0] if module else "__init__"


def folder_of(file: str) -> Module:
    """The folder a file lies in: tir/stmt.py -> (tir,); its door, tir/__init__.py, too."""
    return tuple(file.split("/")[:-1])


def past_a_door(found: Import) -> bool:
    """Does a file reach into a folder of its own room that it does not lie in?"""
    folder, here = found.target[:-1], folder_of(found.file)
    return len(folder) > 1 and here[: len(folder)] != folder


@cache
def names_bound(text: str) -> set[str]:
    """The names that a file gives away by importing, assigning or defining them at the top."""
    bound: set[str] = set()
    for node in parsed(text).body:
        match node:
            case ast.Import() | ast.ImportFrom():
                bound |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
            case ast.Assign():
                bound |= {name.id for name in node.targets if isinstance(name, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.ClassDef(name=name):
                bound.add(name)
            case ast.FunctionDef(name=name):
                bound.add(name)
            case _:
                pass
    return bound


def base_of(node: ast.ImportFrom, file: str) -> Module | None:
    """X of `from X import y`; None where X is not ours."""
    base = tuple(node.module.split(".")) if node.module else ()
    if not node.level:
        return base[1:] if base[:1] == ("minitvm",) else None
    package = module_of(file) if file.endswith("__init__.py") else module_of(file)[:-1]
    return package[: len(package) - node.level + 1] + base


def target_of(base: Module, name: str, file: str, sources: Sources) -> Module:
    """What `from base import name` opens: the file called `name` if there is one, or base.

    A door may give away something else of that name: lowering.vectorize is a file, and its pass.
    """
    if not base:
        return (name,) if name in HEIGHT else base
    door = sources.get("/".join(base) + ".py") or sources.get("/".join((*base, "__init__.py")), "")
    given = folder_of(file) != base and name in names_bound(door)
    inside = "/".join((*base, name))
    is_file = f"{inside}.py" in sources or f"{inside}/__init__.py" in sources
    return (*base, name) if is_file and not given else base


def targets_of(node: ast.AST, file: str, sources: Sources) -> set[Module]:
    """Our own modules that one statement imports; none for any other node."""
    targets: set[Module] = set()
    if isinstance(node, ast.Import):
        for alias in node.names:
            top, *rest = alias.name.split(".")
            if top == "minitvm":
                # without `as` the name that is bound is minitvm: the face, and all behind it
                targets |= {tuple(rest)} if alias.asname else {tuple(rest), ()}
    elif isinstance(node, ast.ImportFrom) and (base := base_of(node, file)) is not None:
        targets = {target_of(base, alias.name, file, sources) for alias in node.names}
    return targets


def imports(file: str, sources: Sources) -> Iterator[Import]:
    """Every import of our own in `file`, also those inside functions and under TYPE_CHECKING."""
    for node in nodes(sources[file]):
        dotted = isinstance(node, ast.ImportFrom) and node.level > 0
        for target in sorted(targets_of(node, file, sources)):
            yield Import(file, getattr(node, "lineno", 0), target, dotted)


def fault_of(found: Import) -> str:
    """What is wrong with one import, or "": unknown room, upward, past the door, wrong spelling."""
    here, target = module_of(found.file), found.target
    mine, room = room_of(here), room_of(target)
    if room not in HEIGHT:
        return f"{room} is not on the floor plan: add it to FLOORS and to the design"
    if mine == room:
        if not found.dotted:
            return "inside a room a dot: from .file import name"
        if past_a_door(found):
            return f"import from the folder, not from inside it: {'.'.join(target)}"
        inside = folder_of(found.file)[: len(target)] == target
        if inside and here != target:
            return f"a file of {'/'.join(target)} imports its own door: name the file that has it"
        return ""
    if HEIGHT[room] >= HEIGHT[mine]:
        return f"{room} is not below {mine}"
    if len(target) > 1:
        return f"import from the room, not from inside it: {'.'.join(target)}"
    if found.dotted and mine != "__init__":
        return f"another room by its full name: from minitvm.{room} import name"
    return ""


def import_faults(sources: Sources) -> list[str]:
    """Imports that climb, pass by a door, or reach an unknown room."""
    unknown = sorted({room_of(module_of(file)) for file in sources} - HEIGHT.keys())
    faults = [f"{room}: not on the floor plan, add it to FLOORS and the design" for room in unknown]
    known = (file for file in sources if room_of(module_of(file)) in HEIGHT)
    found = (one for file in known for one in imports(file, sources))
    return faults + [f"{one.file}:{one.line}: {why}" for one in found if (why := fault_of(one))]


def circle_faults(sources: Sources) -> list[str]:
    """Files of one room that import each other in a circle; the room's door does not count."""
    doors = {module_of(file) for file in sources if file.count("/") == 1 and "__init__" in file}
    doors.add(())
    graph: dict[Module, set[Module]] = {}
    for file in sources:
        here = module_of(file)
        targets = {one.target for one in imports(file, sources)}
        graph[here] = {to for to in targets - doors if here not in doors and to[:1] == here[:1]}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["circle: " + " -> ".join("/".join(module) for module in error.args[1])]
    return []


def late_faults(sources: Sources) -> list[str]:
    """Modules imported inside functions, by name or by path, but for the two files that may."""
    faults: list[str] = []
    for file, text in sources.items():
        for node in nodes(text):
            if isinstance(node, FUNCTION):
                late = (inner for inner in ast.walk(node) if targets_of(inner, file, sources))
                faults += [f"{file}:{inner.lineno}: import inside {node.name}" for inner in late]
            names = {getattr(node, field, None) for field in ("id", "attr", "name")}
            if names & {"import_module", "__import__"} and file != "__init__.py":
                faults.append(f"{file}:{node.lineno}: only minitvm/__init__.py imports by name")
            if "spec_from_file_location" in names and file != "edu/course.py":
                faults.append(f"{file}:{node.lineno}: only edu/course.py loads files by their path")
    return faults


def bound_inside(text: str) -> set[str]:
    """The names that a file binds other than by importing: parameters, locals, fields."""
    found: set[str] = set()
    for node in nodes(text):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                found.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name):
                found.add(name)
            case _:
                pass
    return found


def noun_faults(sources: Sources) -> list[str]:
    """Nouns imported without their room, and locals that hide an imported room.

    A file in which a room's name is taken, cache_read(tensor), imports from that room by name.
    """
    faults: list[str] = []
    for file, text in sources.items():
        if file.endswith("__init__.py"):
            continue
        taken = bound_inside(text)
        for node in parsed(text).body:
            if not isinstance(node, ast.ImportFrom) or node.level:
                continue
            top, _, room = (node.module or "").partition(".")
            names = {alias.asname or alias.name for alias in node.names}
            if top == "minitvm" and room and room != VOCABULARY and room not in taken:
                faults.append(f"{file}:{node.lineno}: from minitvm import {room}, then {room}.name")
            elif node.module == "minitvm":
                hidden = sorted(names & taken)
                faults += [f"{file}: a local name hides the room {room}" for room in hidden]
    return faults


def viz_faults(sources: Sources) -> list[str]:
    """Widget and plotting libraries imported outside viz."""
    faults: list[str] = []
    for file, text in sources.items():
        for node in nodes(text):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            found = {name.split(".")[0] for name in names} & VIZ_ONLY
            if found and room_of(module_of(file)) != "viz":
                faults.append(f"{file}:{node.lineno}: only viz imports {', '.join(sorted(found))}")
    return faults


def code_lines(function: FUNCTION) -> int:
    """Lines from `def` to the end, without the docstring."""
    last = function.end_lineno or function.lineno
    first = function.body[0]
    has_docstring = ast.get_docstring(function) is not None
    docstring = (first.end_lineno or first.lineno) - first.lineno + 1 if has_docstring else 0
    return last - function.lineno + 1 - docstring


def size_faults(sources: Sources) -> list[str]:
    """Files and functions that want to be two."""
    faults: list[str] = []
    for file, text in sources.items():
        if (lines := len(text.splitlines())) > MAX_FILE_LINES:
            faults.append(f"{file}: {lines} lines, at most {MAX_FILE_LINES}")
        for node in nodes(text):
            if isinstance(node, FUNCTION) and (lines := code_lines(node)) > MAX_FUNCTION_LINES:
                faults.append(
                    f"{file}: {node.name} has {lines} lines, at most {MAX_FUNCTION_LINES}"
                )
    return faults


def unfinished_faults(sources: Sources) -> list[str]:
    """Words of unfinished work."""
    return [
        f"{file}: {word}" for file, text in sources.items() for word in UNFINISHED if word in text
    ]


RULES = (
    import_faults,
    circle_faults,
    late_faults,
    noun_faults,
    viz_faults,
    size_faults,
    unfinished_faults,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(rule) -> None:
    sources = {
        file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(PACKAGE.rglob("*.py"))
    }
    assert sources, f"no Python files under {PACKAGE}"
    faults = rule(sources)
    assert not faults, "\n".join(faults)


# --- the rules can fail -----------------------------------------------------------------------

HOUSE = {
    "__init__.py": "from minitvm.tir import For\nfrom .driver import build",
    "__main__.py": "import minitvm\nfrom minitvm import driver, tir\nfrom minitvm import build",
    "base/__init__.py": "from .node import node",
    "base/node.py": "import numpy",
    "tir/__init__.py": "from . import stmt\nfrom .stmt import For\nfrom .walk import walk",
    "tir/stmt.py": "from minitvm.base import node",
    "tir/walk.py": "from .stmt import For\nfrom .box import area\nimport minitvm.base as base",
    "tir/box/__init__.py": "from .size import area",
    "tir/box/size.py": "from ..stmt import For\nfrom .side import length",
    "tir/box/side.py": "import numpy",
    "cachesim.py": "from minitvm.base import node",
    "driver.py": "from minitvm.base import node\nfrom minitvm import tir",
    "viz/__init__.py": "import ipywidgets\nfrom minitvm.tir import For, stmt, walk",
}


def test_a_house_in_order_has_no_faults() -> None:
    assert [fault for rule in RULES for fault in rule(HOUSE)] == []


@pytest.mark.parametrize(
    ("file", "line", "fault"),
    [
        ("base/node.py", "from minitvm.tir import For", "tir is not below base"),
        ("base/node.py", "from minitvm import tir", "tir is not below base"),
        ("base/node.py", "import minitvm.tir as tir", "tir is not below base"),
        ("base/node.py", "from ..tir import For", "tir is not below base"),
        ("base/node.py", "from .. import tir", "tir is not below base"),
        ("tir/walk.py", "from minitvm import cachesim", "cachesim is not below tir"),
        ("cachesim.py", "from minitvm.tir import For", "tir is not below cachesim"),
        ("cachesim.py", "from .tir import For", "tir is not below cachesim"),
        ("driver.py", "from minitvm import build", "__init__ is not below driver"),
        ("driver.py", "import minitvm", "__init__ is not below driver"),
        ("driver.py", "import minitvm.tir", "__init__ is not below driver"),
        ("driver.py", "from minitvm import tir, build", "__init__ is not below driver"),
        ("driver.py", "from minitvm.base.node import node", "not from inside it: base.node"),
        ("driver.py", "from minitvm.base import node as n, node", ""),
        ("driver.py", "import minitvm.base.node as n", "not from inside it: base.node"),
        ("viz/__init__.py", "from ..tir.stmt import For", "not from inside it: tir.stmt"),
        ("viz/__init__.py", "from ..tir import For", "by its full name: from minitvm.tir"),
        ("viz/__init__.py", "from minitvm.attic import x", "attic is not on the floor plan"),
        ("tir/walk.py", "from minitvm.tir.stmt import For", "inside a room a dot"),
        ("tir/walk.py", "from . import For", "imports its own door"),
        ("tir/walk.py", "from . import stmt", ""),
        ("tir/walk.py", "from .box import size", "from the folder, not from inside it: tir.box.si"),
        ("tir/walk.py", "from .box.size import area", "not from inside it: tir.box.size"),
        ("tir/box/side.py", "from . import area", "a file of tir/box imports its own door"),
        ("tir/box/side.py", "from .. import For", "a file of tir imports its own door"),
        ("tir/box/side.py", "from minitvm import cachesim", "cachesim is not below tir"),
        ("driver.py", "from minitvm.tir.box import area", "not from inside it: tir.box"),
        ("attic.py", "import numpy", "attic: not on the floor plan"),
    ],
)
def test_an_import_is_judged_by_floor_door_and_spelling(file: str, line: str, fault: str) -> None:
    faults = import_faults(HOUSE | {file: line})
    assert len(faults) == bool(fault)
    assert fault in "".join(faults)


def test_files_of_a_room_do_not_import_each_other_in_a_circle() -> None:
    circle = HOUSE | {"tir/stmt.py": "from .walk import walk"}
    assert circle_faults(circle) == ["circle: tir/stmt -> tir/walk -> tir/stmt"]
    through_a_folder = HOUSE | {"tir/box/side.py": "from ..walk import walk"}
    assert "tir/box" in circle_faults(through_a_folder)[0]


@pytest.mark.parametrize(
    ("rule", "text", "fault"),
    [
        (late_faults, "def f():\n    from minitvm.tir import For", "driver.py:2: import inside f"),
        (late_faults, "def f():\n    import numba", ""),
        (late_faults, "from importlib import import_module", "driver.py:1: only minitvm"),
        (late_faults, "import importlib\nimportlib.import_module('minitvm.tir')", "only minitvm"),
        (late_faults, "__import__('minitvm.tir')", "only minitvm/__init__.py"),
        (late_faults, "from importlib.resources import files", ""),
        (
            late_faults,
            "import importlib.util as u\nu.spec_from_file_location",
            "only edu/course.py",
        ),
        (noun_faults, "from minitvm.tir import For", "driver.py:1: from minitvm import tir"),
        (noun_faults, "from minitvm.tir import For\ndef f(tir): pass", ""),
        (
            noun_faults,
            "from minitvm import tir\ndef f(tir): pass",
            "a local name hides the room tir",
        ),
        (noun_faults, "from minitvm import tir\ntir.For\nx.tir = 1", ""),
        (viz_faults, "import matplotlib.pyplot as plt", "driver.py:1: only viz imports matplotlib"),
        (viz_faults, "def f():\n    from ipywidgets import Play", "only viz imports ipywidgets"),
        (size_faults, "x = 1\n" * 501, "driver.py: 501 lines"),
        (size_faults, "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
        (size_faults, "def f():\n    '''Long" + "\n" * 60 + "'''\n    x = 1", ""),
        (unfinished_faults, "x = 1  # TO" + "DO", "driver.py: TODO"),
    ],
)
def test_other_rules_see_their_faults(rule, text: str, fault: str) -> None:
    faults = rule(HOUSE | {"driver.py": text})
    assert len(faults) == bool(fault)
    assert fault in "".join(faults)
