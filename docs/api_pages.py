"""Write one page for each public package: its names, first sentences and whole docstrings.

Docstrings here are plain text, with indented examples and columns. A paragraph becomes text; one
with an indented line or with columns is shown as it is written.
"""

import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from types import ModuleType
from typing import Any

PACKAGES = (
    "te", "tir", "topi", "vta", "tune", "autotvm", "auto_scheduler", "graph", "viz", "edu", "show",
    "net", "tuning", "accesses", "cachesim", "explain", "testing",
)  # fmt: skip
VERBATIM = re.compile(r"^\s|\S {2,}\S|->", re.M)  # indented lines, columns, before -> after
SPECIAL = re.compile(r"[\\*_<>\[\]#|~$^]")


def public_names(module: ModuleType) -> list[str]:
    """List the functions and classes of minitvm that a package exports, in alphabetical order."""
    listed: list[str] = getattr(module, "__all__", None) or list(vars(module))
    things = {name: getattr(module, name) for name in listed if not name.startswith("_")}
    return sorted(
        (
            name
            for name, thing in things.items()
            if (inspect.isclass(thing) or inspect.isfunction(thing))
            and thing.__module__.startswith("minitvm")
        ),
        key=str.lower,
    )


def escaped(line: str) -> str:
    """Escape what Markdown would interpret, but not inside `code`."""
    parts = re.split(r"(`[^`]*`)", line)
    return "".join(p if p.startswith("`") else SPECIAL.sub(r"\\\g<0>", p) for p in parts)


def markdown(docstring: str | None) -> str:
    """Convert a docstring to Markdown: prose as paragraphs, the rest verbatim."""
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(docstring or "").strip("\n"))
    shown: list[str] = []
    for paragraph in paragraphs:
        if VERBATIM.search(paragraph):
            shown.append(f"````text\n{textwrap.dedent(paragraph)}\n````")
        else:
            shown.append(escaped(paragraph))
    return "\n\n".join(shown)


def first_sentence(docstring: str | None) -> str:
    """Return the first line of a docstring, for a table."""
    return escaped(inspect.cleandoc(docstring or "").split("\n")[0])


def signature(name: str, thing: Any) -> str:
    """Return the call of a function or class without annotations: split(parent, factor=None)."""
    try:
        found = inspect.signature(thing)
    except (TypeError, ValueError):  # an exception, or a class without a constructor of its own
        return name
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in found.parameters.values()
        if p.name != "self"
    ]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    return name + re.sub(r" at 0x[0-9a-f]+", "", text)


def methods(cls: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class that have a docstring of their own."""
    for name, thing in vars(cls).items():
        method = thing.__func__ if isinstance(thing, (classmethod, staticmethod)) else thing
        is_one = inspect.isfunction(method) or isinstance(method, property)
        if is_one and not name.startswith("_") and method.__doc__:
            yield name, method


def entry(package: str, name: str, thing: Any) -> str:
    """Return the section about one function or class."""
    lines = [f"## {escaped(name)}", "", f"```python\n{package}.{signature(name, thing)}\n```", ""]
    lines += [markdown(thing.__doc__), ""]
    if inspect.isclass(thing):
        for method, function in methods(thing):
            call = method if isinstance(function, property) else signature(method, function)
            lines += [f"```python\n.{call}\n```", "", markdown(function.__doc__), ""]
    return "\n".join(lines)


def page(package: str) -> str:
    """Return the page about one package, as Markdown."""
    module = importlib.import_module(f"minitvm.{package}")
    names = public_names(module)
    lines = [f"# minitvm.{escaped(package)}", "", markdown(module.__doc__), ""]
    lines += ["| name | what it does |", "|---|---|"]
    for name in names:
        lines.append(
            f"| [`{name}`](#{name.lower()}) | {first_sentence(getattr(module, name).__doc__)} |"
        )
    lines += [""] + [entry(package, name, getattr(module, name)) for name in names]
    return "\n".join(lines)


def overview() -> str:
    """Return the page that lists the packages."""
    lines = ["# Packages", "", "Every page is made from the docstrings.", ""]
    lines += ["| package | what it is |", "|---|---|"]
    for package in PACKAGES:
        module = importlib.import_module(f"minitvm.{package}")
        lines.append(f"| [`{package}`]({package}.md) | {first_sentence(module.__doc__)} |")
    listed = "\n".join(PACKAGES)
    return "\n".join(lines) + f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
