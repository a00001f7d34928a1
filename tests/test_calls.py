"""docs/calls.md is true and complete: every call exists, takes these arguments, none is missing."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import minitvm as tvm
from minitvm import (
    accesses,
    auto_scheduler,
    autotvm,
    cachesim,
    course,
    edu,
    graph,
    runtime,
    te,
    testing,
    tir,
    topi,
    tune,
    viz,
    vta,
)

ROOT = Path(__file__).parent.parent
SHEET = (ROOT / "docs/calls.md").read_text(encoding="utf-8")
PACKAGES: dict[str, Any] = {
    "te": te,
    "tir": tir,
    "topi": topi,
    "viz": viz,
    "accesses": accesses,
    "auto_scheduler": auto_scheduler,
    "autotvm": autotvm,
    "tune": tune,
    "cachesim": cachesim,
    "graph": graph,
    "runtime": runtime,
    "vta": vta,
    "course": course,
    "edu": edu,
    "tvm": SimpleNamespace(**{n: getattr(tvm, n) for n in tvm.__all__}, testing=testing),
    "s": te.Schedule,
    "s[C]": te.StageView,
    "f": tvm.Function,
}
CALL = re.compile(r"`((?:s\[C\]|\w+)(?:\.\w+)+)(?:\(([^`]*)\))?`")
CALLS = [(c[1], c[2]) for c in CALL.finditer(SHEET) if c[1].split(".")[0] in PACKAGES]
NAMES = {name for name, _ in CALLS}
GIVEN = [(name, args) for name, args in CALLS if args]
HANDED_ON = ("te.define", "s[C].tile")  # take any number of arguments under other names


def public(thing: Any) -> set[str]:
    """The names that a class offers."""
    return {name for name in vars(thing) if not name.startswith("_")}


def named(name: str) -> Any:
    """What the sheet means by s[C].split."""
    package, *path = name.split(".")
    thing = PACKAGES[package]
    for part in path:
        thing = getattr(thing, part)
    return thing


def faults(call: Callable[..., Any], args: str) -> list[str]:
    """The arguments on the sheet that the call does not have, and those marked = or not, wrongly.

    Marked are those that can be left out or go by name only.
    """
    known = inspect.signature(call).parameters
    found: list[str] = []
    for arg in args.split(", "):
        name, marked = arg.lstrip("*").removesuffix("="), arg.endswith("=")
        if name not in known:
            found.append(f"no argument {name}")
            continue
        by_name = known[name].kind is inspect.Parameter.KEYWORD_ONLY
        if marked and not by_name and known[name].default is inspect.Parameter.empty:
            found.append(f"{name} cannot be left out")
        if by_name and not marked:
            found.append(f"{name} goes by name only")
    return found


@pytest.mark.parametrize("name", sorted(NAMES))
def test_a_call_on_the_sheet_exists(name: str) -> None:
    assert named(name) is not None


@pytest.mark.parametrize(("name", "args"), GIVEN, ids=[name for name, _ in GIVEN])
def test_a_call_on_the_sheet_takes_these_arguments(name: str, args: str) -> None:
    assert name in HANDED_ON or faults(named(name), args) == []


@pytest.mark.parametrize(
    ("package", "names"),
    [
        ("te", set(te.__all__)),
        ("topi", set(topi.__all__)),
        ("s", public(te.Schedule)),
        ("s[C]", public(te.StageView)),
        ("f", public(tvm.Function)),
    ],
)
def test_every_public_name_is_on_the_sheet(package: str, names: set[str]) -> None:
    assert sorted(n for n in names if f"{package}.{n}" not in NAMES) == []


def test_the_line_that_defines_a_product_is_read() -> None:
    line = re.search(r'`"(C\(i, j\).*?)"`', SHEET)
    assert line is not None
    A, B = (te.placeholder((4, 4), name=name) for name in "AB")
    assert te.define(line[1], A=A, B=B).ndim == 2


def test_wrong_arguments_are_found() -> None:
    assert faults(te.compute, "shape=, speed") == [
        "shape cannot be left out",
        "no argument speed",
    ]
