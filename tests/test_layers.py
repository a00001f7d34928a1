"""The layers: imports go down, use public APIs and stand at the top of a file; files stay small.

A package is a folder directly below minitvm, or a single file there. A folder inside a package has
an `__init__` of its own: files beside it import from the folder, and its files may import from
those beside it. A file names what it uses from another package by that package, tir.For, so that a
reader knows where each noun lives; only the vocabulary of base (errors, dtypes, checks) is imported
by name. The checks read sources with `ast` and import nothing; the second half of this file shows
each of them a small tree of files that breaks its rule.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "minitvm"

LAYERS = (  # low to high; packages of one layer do not import each other
    ("base",),
    ("workers", "dist"),
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
    ("graph", "papers"),
    ("viz",),
    ("course", "edu"),
    ("demo", "doctor", "net", "tuning"),
    ("show",),
    ("__init__",),
    ("__main__",),
)
HEIGHT = {package: height for height, layer in enumerate(LAYERS) for package in layer}
VOCABULARY = "base"  # its names are imported one by one
VIZ_ONLY = {"ipywidgets", "anywidget", "matplotlib", "PIL"}
WIDGETS = {"ipywidgets", "anywidget"}  # course has a widget, too
MAX_FILE_LINES = 500
MAX_FUNCTION_LINES = 60  # without the docstring
UNFINISHED = ("TODO", "FIXME")

Sources = Mapping[str, str]  # path inside minitvm, such as "tir/stmt.py" -> text
Module = tuple[str, ...]  # ("tir", "stmt"); ("tir",) is tir/__init__.py, () minitvm/__init__.py
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


def package_of(module: Module) -> str:
    return module[0] if module else "__init__"


def folder_of(file: str) -> Module:
    """Return the folder of a file: (tir,) for tir/stmt.py and for tir/__init__.py."""
    return tuple(file.split("/")[:-1])


def bypasses_init(statement: Import) -> bool:
    """Does a file reach into a folder of its own package that it does not lie in?"""
    folder, here = statement.target[:-1], folder_of(statement.file)
    return len(folder) > 1 and here[: len(folder)] != folder


@cache
def names_bound(text: str) -> set[str]:
    """The names that other files can import from this one: what it imports, assigns or defines."""
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
    """Return the module that `from base import name` reads: the file `name`, if any, or base.

    An `__init__` may export something else of that name: lowering.vectorize is a file, and a pass.
    """
    if not base:
        return (name,) if name in HEIGHT else base
    init = sources.get("/".join(base) + ".py") or sources.get("/".join((*base, "__init__.py")), "")
    exported = folder_of(file) != base and name in names_bound(init)
    inside = "/".join((*base, name))
    is_file = f"{inside}.py" in sources or f"{inside}/__init__.py" in sources
    return (*base, name) if is_file and not exported else base


def targets_of(node: ast.AST, file: str, sources: Sources) -> set[Module]:
    """Our own modules that one statement imports; none for any other node."""
    targets: set[Module] = set()
    if isinstance(node, ast.Import):
        for alias in node.names:
            top, *rest = alias.name.split(".")
            if top == "minitvm":
                # without `as` this binds the name minitvm, and with it the top-level __init__
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


def fault_of(statement: Import) -> str:
    """Say what is wrong with one import: unknown package, upward, past `__init__`, spelling."""
    here, target = module_of(statement.file), statement.target
    importer, package = package_of(here), package_of(target)
    if package not in HEIGHT:
        return f"{package} has no layer: add it to LAYERS and to the design"
    if importer == package:
        if not statement.dotted:
            return "inside a package a dot: from .file import name"
        if bypasses_init(statement):
            return f"import from the folder, not from inside it: {'.'.join(target)}"
        inside = folder_of(statement.file)[: len(target)] == target
        if inside and here != target:
            folder = "/".join(target)
            return f"a file of {folder} imports its own __init__: name the file that has it"
        return ""
    if HEIGHT[package] >= HEIGHT[importer]:
        return f"{package} is not below {importer}"
    if len(target) > 1:
        return f"import from the package, not from inside it: {'.'.join(target)}"
    if statement.dotted and importer != "__init__":
        return f"another package by its full name: from minitvm.{package} import name"
    return ""


def import_faults(sources: Sources) -> list[str]:
    """List imports that go up, bypass an `__init__`, or name an unknown package."""
    unknown = sorted({package_of(module_of(file)) for file in sources} - HEIGHT.keys())
    faults = [f"{package}: no layer, add it to LAYERS and the design" for package in unknown]
    known = (file for file in sources if package_of(module_of(file)) in HEIGHT)
    statements = (one for file in known for one in imports(file, sources))
    return faults + [
        f"{one.file}:{one.line}: {why}" for one in statements if (why := fault_of(one))
    ]


def cycle_faults(sources: Sources) -> list[str]:
    """List files of a package that import each other in a cycle; its `__init__` is exempt."""
    inits = {module_of(file) for file in sources if file.count("/") == 1 and "__init__" in file}
    inits.add(())
    graph: dict[Module, set[Module]] = {}
    for file in sources:
        here = module_of(file)
        targets = {one.target for one in imports(file, sources)}
        graph[here] = {to for to in targets - inits if here not in inits and to[:1] == here[:1]}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return ["cycle: " + " -> ".join("/".join(module) for module in error.args[1])]
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
    bound: set[str] = set()
    for node in nodes(text):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                bound.add(name)
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                bound.add(name)
            case ast.ExceptHandler(name=str(name)) | ast.FunctionDef(name=name):
                bound.add(name)
            case _:
                pass
    return bound


def noun_faults(sources: Sources) -> list[str]:
    """List nouns imported without their package, and locals that hide an imported package.

    A file in which a package's name is taken, cache_read(tensor), imports from it by name.
    """
    faults: list[str] = []
    for file, text in sources.items():
        if file.endswith("__init__.py"):
            continue
        taken = bound_inside(text)
        for node in parsed(text).body:
            if not isinstance(node, ast.ImportFrom) or node.level:
                continue
            top, _, package = (node.module or "").partition(".")
            names = {alias.asname or alias.name for alias in node.names}
            other = package and package != VOCABULARY
            if top == "minitvm" and other and package not in taken:
                why = f"from minitvm import {package}, then {package}.name"
                faults.append(f"{file}:{node.lineno}: {why}")
            elif node.module == "minitvm":
                hidden = sorted(names & taken)
                faults += [f"{file}: a local name hides the package {name}" for name in hidden]
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
            drawing = {name.split(".")[0] for name in names} & VIZ_ONLY
            package = package_of(module_of(file))
            if drawing - (WIDGETS if package == "course" else set()) and package != "viz":
                faults.append(
                    f"{file}:{node.lineno}: only viz imports {', '.join(sorted(drawing))}"
                )
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
    cycle_faults,
    late_faults,
    noun_faults,
    viz_faults,
    size_faults,
    unfinished_faults,
)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_package_keeps_its_rules(rule) -> None:
    sources = {
        file.relative_to(PACKAGE).as_posix(): file.read_text(encoding="utf-8")
        for file in sorted(PACKAGE.rglob("*.py"))
    }
    assert sources, f"no Python files under {PACKAGE}"
    faults = rule(sources)
    assert not faults, "\n".join(faults)


# --- the rules can fail -----------------------------------------------------------------------

TREE = {
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


def test_a_tree_in_order_has_no_faults() -> None:
    assert [fault for rule in RULES for fault in rule(TREE)] == []


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
        ("viz/__init__.py", "from minitvm.attic import x", "attic has no layer"),
        ("tir/walk.py", "from minitvm.tir.stmt import For", "inside a package a dot"),
        ("tir/walk.py", "from . import For", "imports its own __init__"),
        ("tir/walk.py", "from . import stmt", ""),
        ("tir/walk.py", "from .box import size", "from the folder, not from inside it: tir.box.si"),
        ("tir/walk.py", "from .box.size import area", "not from inside it: tir.box.size"),
        ("tir/box/side.py", "from . import area", "a file of tir/box imports its own __init__"),
        ("tir/box/side.py", "from .. import For", "a file of tir imports its own __init__"),
        ("tir/box/side.py", "from minitvm import cachesim", "cachesim is not below tir"),
        ("driver.py", "from minitvm.tir.box import area", "not from inside it: tir.box"),
        ("attic.py", "import numpy", "attic: no layer"),
    ],
)
def test_an_import_is_judged_by_layer_init_and_spelling(file: str, line: str, fault: str) -> None:
    faults = import_faults(TREE | {file: line})
    assert len(faults) == bool(fault)
    assert fault in "".join(faults)


def test_files_of_a_package_do_not_import_each_other_in_a_cycle() -> None:
    cycle = TREE | {"tir/stmt.py": "from .walk import walk"}
    assert cycle_faults(cycle) == ["cycle: tir/stmt -> tir/walk -> tir/stmt"]
    through_a_folder = TREE | {"tir/box/side.py": "from ..walk import walk"}
    assert "tir/box" in cycle_faults(through_a_folder)[0]


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
            "a local name hides the package tir",
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
    faults = rule(TREE | {"driver.py": text})
    assert len(faults) == bool(fault)
    assert fault in "".join(faults)
