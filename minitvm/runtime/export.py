"""Write and read files of compiled functions, with their signatures and the CPU they need.

A file consists of three lines of text and the code:

    minitvm function 4                   format and its version
    2c26b46b68ffc68f...                  SHA-256 of everything below
    {"name": "main", "target": ...}      one line of JSON: parameters, target, CPU features
    ...                                  machine code (an object file) or Python source text, and
                                         then the file of the function that packs constants, if any

The checksum detects damage, not malice: loading a file runs the code in it.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

from minitvm import tir
from minitvm.base import ArgumentError, BuildError, Target, dtype, host, processor

MAGIC, FORMAT = b"minitvm function", 4
EXPORTED = "a file that f.export(path) has written"
AGAIN = "build the function on this machine, and export it again"
MANY = "generic" if platform.machine().lower() in ("arm64", "aarch64") else "x86-64-v3"
PORTABLE = f"build it on this machine, or for many CPUs: target='llvm -mcpu={MANY}'"
PAIRS: dict[str, Callable[[tir.Index, tir.Index], tir.Index]] = {
    "*": tir.mul,
    "//": tir.floordiv,
    "%": tir.floormod,
    "min": tir.minimum,
    "max": tir.maximum,
}
OTHERS_WRITE = 0o022  # the mode bits that let the group, or everybody, change a file
File: TypeAlias = str | PathLike[str]
Json: TypeAlias = Any
T = TypeVar("T")


class ForeignFileError(BuildError):
    """Raised for a file that another user may have written, because loading it runs its code."""


@dataclass(frozen=True, slots=True)
class Package:
    """A compiled function, with all data that its file contains.

    func      the function's signature; also its loops, unless the package was read from a file
    target    the target for which it was built
    code      an object file (llvm), or source text
    sources   the texts that f.source() returns: {"tir": "def main(...): ..."}
    entry     the name of the function in the object file
    calls     the functions of the process that the object file calls
    made_by   the version of minitvm that built it
    machine   the machine that it needs: {"system": "Linux", "machine": "x86_64", "cpu": "znver4",
              "features": ["avx2", ...]}; cpu is "" if all CPUs with these features can run it
    prepack   the package of the program that packs constants, func.prepack
    """

    func: tir.PrimFunc
    target: Target
    code: bytes
    sources: Mapping[str, str]
    entry: str = ""
    calls: tuple[str, ...] = ()
    made_by: str = ""
    machine: Mapping[str, Json] = field(default_factory=dict[str, Json])
    prepack: Package | None = None


def write(path: File, data: bytes) -> None:
    """Write `data` to the file `path`, which only this user may change; or raise ArgumentError."""
    place, what = _path(path, "export"), f"export({str(path)!r})"
    try:
        with open(place, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
            file.write(data)
    except OSError as e:
        raise ArgumentError(what, str(e.strerror), "a file in a folder that exists") from e


def read(path: File) -> bytes:
    """Return the contents of the file `path`.

    Raises ArgumentError if it cannot be read, ForeignFileError if another user may have written it.
    """
    place, what = _path(path, "load"), f"load({str(path)!r})"
    try:
        with place.open("rb") as file:
            _check_owner(os.fstat(file.fileno()), what)
            return file.read()
    except OSError as e:
        raise ArgumentError(what, str(e.strerror), EXPORTED) from e


def _check_owner(status: os.stat_result, what: str) -> None:
    """Raise ForeignFileError unless only this user, or root, can have written a file (POSIX)."""
    if os.name != "posix":
        return
    why = ""
    if status.st_uid not in (0, os.geteuid()):
        why = f"the file belongs to another user (uid {status.st_uid})"
    elif status.st_mode & OTHERS_WRITE:
        why = f"other users may write to the file (mode {status.st_mode & 0o777:o})"
    if why:
        fix = "if you trust it, a copy of your own: cp FILE mine.mtvm; chmod 600 mine.mtvm"
        raise ForeignFileError(what, f"{why}, and loading it runs the code in it", fix)


def _path(given: File, verb: str) -> Path:
    """Return `given` as a path; raise ArgumentError if it cannot be one."""
    try:
        path = Path(given)
        if "\0" not in str(path):
            return path
    except TypeError:
        pass
    raise ArgumentError(f"{verb}({given!r})", "not a file name", f'{verb}("matmul.mtvm")')


# --- bytes ---------------------------------------------------------------------------------------


def pack(package: Package) -> bytes:
    """Return the bytes of the file that stores `package`."""
    native = package.target.kind == "llvm"
    header = {
        **_signature(package.func),
        "target": str(package.target),
        "minitvm": package.made_by or _version(),
        "machine": dict(package.machine) or (_machine(package.target) if native else {}),
        "entry": package.entry,
        "calls": package.calls,
        "sources": dict(package.sources),
        "length": len(package.code),
    }
    after = b"" if package.prepack is None else pack(package.prepack)
    return sealed(MAGIC, FORMAT, header, package.code, after)


def unpack(data: bytes, what: str) -> Package:
    """Return the package in the bytes of a file; errors begin with `what`."""
    return opened(data, MAGIC, FORMAT, what, lambda header, code: _package(header, code, what))


def sealed(magic: bytes, number: int, header: Json, *parts: bytes) -> bytes:
    """Return the bytes of a file: `magic`, the format `number`, a checksum, the header, `parts`."""
    lines = (json.dumps(header).encode() + b"\n", *parts)
    checksum = hashlib.sha256()
    for part in lines:
        checksum.update(part)
    return b"".join([b"%b %d\n%b\n" % (magic, number, checksum.hexdigest().encode()), *lines])


def opened(
    data: bytes, magic: bytes, number: int, what: str, made: Callable[[Json, bytes], T]
) -> T:
    """Check the bytes of a file that sealed() made, and return made(header, bytes after it).

    Raises ArgumentError if sealed() did not make the file; BuildError if it has another format, is
    damaged, or `made` cannot read it. Errors begin with `what`.
    """
    head, _, rest = data.partition(b"\n")
    found, _, version_found = head.rpartition(b" ")
    if found != magic:
        kind = magic.decode().removeprefix("minitvm ")
        raise ArgumentError(what, f"it is not an exported {kind}", EXPORTED)
    if version_found != b"%d" % number:
        shown = version_found.decode(errors="replace")
        why = f"it has format {shown}, this minitvm reads format {number}"
        raise BuildError(what, why, AGAIN)
    checksum, _, body = rest.partition(b"\n")
    if checksum.decode(errors="replace") != hashlib.sha256(body).hexdigest():
        raise BuildError(what, "it is damaged: its checksum is wrong", AGAIN)
    header, _, after = body.partition(b"\n")
    try:
        return made(json.loads(header), after)
    except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as e:
        why = f"its header cannot be read ({type(e).__name__}: {e})"
        raise BuildError(what, why, AGAIN) from e


def _package(header: dict[str, Json], code: bytes, what: str) -> Package:
    code, after = code[: header["length"]], code[header["length"] :]
    prepack = unpack(after, what) if after else None
    return Package(
        func=replace(_function(header), prepack=prepack and prepack.func),
        target=Target(header["target"]),
        code=code,
        sources={str(k): str(v) for k, v in dict(header["sources"]).items()},
        entry=str(header["entry"]),
        calls=tuple(str(name) for name in header["calls"]),
        made_by=str(header["minitvm"]),
        machine=dict(header["machine"]),
        prepack=prepack,
    )


def _version() -> str:
    try:
        return version("minitvm")
    except PackageNotFoundError:  # minitvm runs from a folder, without being installed
        return "unknown"


# --- the machine ---------------------------------------------------------------------------------


def _machine(target: Target) -> dict[str, Json]:
    """Return the description (Package.machine) of the machines that can run code for `target`."""
    known = processor.features(target.mcpu, target.mattr)
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cpu": "" if known else target.mcpu or host().cpu,
        "features": sorted(known),
    }


def check_machine(needs: Mapping[str, Json], what: str) -> None:
    """Raise BuildError, beginning with `what`, unless code with these `needs` can run here."""
    made, here = (needs["system"], needs["machine"]), (platform.system(), platform.machine())
    if made != here:
        why = f"it is machine code for {' on '.join(made)}, and this is {' on '.join(here)}"
        raise BuildError(what, why, AGAIN)
    if needs["cpu"] and needs["cpu"] != host().cpu:
        why = f"it is machine code for a {needs['cpu']}, and this is a {host().cpu}"
        raise BuildError(what, why, PORTABLE)
    why = processor.lacking(needs["features"])
    if why:
        raise BuildError(what, why, PORTABLE)


# --- the signature -------------------------------------------------------------------------------


def _signature(f: tir.PrimFunc) -> dict[str, Json]:
    """Return a function's parameters, outputs, sizes and symbolic temporaries as JSON values."""
    number: dict[tir.Var, int] = {}  # filled by the lines below
    signature = {
        "name": f.name,
        "params": [_parameter(p, f, number) for p in f.params],
        "sizes": [_index(v, number) for v in f.sizes],
        "temporaries": [_parameter(b, f, number) for b in tir.symbolic_buffers(f)],
        "needs": [_index(n, number) for n in f.needs],
    }
    return signature | {"variables": [_variable(v) for v in number]}


def _parameter(p: tir.Buffer | tir.Var, f: tir.PrimFunc, number: dict[tir.Var, int]) -> Json:
    if isinstance(p, tir.Var):
        return _index(p, number)
    return {
        "name": p.name,
        "dtype": p.dtype,
        "shape": [_index(n, number) for n in p.shape],
        "strides": [_index(n, number) for n in p.strides],
        "output": any(p is b for b in f.outputs),
        "constant": any(p is b for b in f.constants),
        "scratch": any(p is b for b in f.scratch),
    }


def _variable(v: tir.Var) -> Json:
    bounds = [None if n in (tir.INF, -tir.INF) else n for n in (v.low, v.high)]
    return [v.name, v.dtype, *bounds]


def _index(e: tir.Index, number: dict[tir.Var, int]) -> Json:
    """Return an index as nested lists, with `number` giving a number to each variable.

    For example, n*4 + 1 is ["sum", 1, [4, ["var", 0]]].
    """
    match e:
        case int():
            return e
        case tir.Var():
            return ["var", number.setdefault(e, len(number))]
        case tir.Linear(terms, const):
            return ["sum", const, *([c, _index(a, number)] for a, c in terms)]
        case tir.Product(a, b):
            return ["*", _index(a, number), _index(b, number)]
        case tir.FloorDiv(a, b):
            return ["//", _index(a, number), _index(b, number)]
        case tir.FloorMod(a, b):
            return ["%", _index(a, number), _index(b, number)]
        case tir.Extremum(op, a, b):
            return [op, _index(a, number), _index(b, number)]
        case _:
            raise BuildError(
                f"export: extent {tir.text(e)}", "it depends on data, not on sizes alone"
            )


def _function(header: dict[str, Json]) -> tir.PrimFunc:
    """Return the function that a header describes; its body only allocates temporaries."""
    variables = [_known_variable(*v) for v in header["variables"]]
    params = tuple(_known_parameter(p, variables) for p in header["params"])
    marked = list(zip(params, header["params"], strict=True))
    outputs = tuple(b for b, p in marked if isinstance(b, tir.Buffer) and p["output"])
    constants = tuple(b for b, p in marked if isinstance(b, tir.Buffer) and p["constant"])
    scratch = tuple(b for b, p in marked if isinstance(b, tir.Buffer) and p["scratch"])
    sizes = tuple(_only_variables(_known_index(n, variables) for n in header["sizes"]))
    needs = tuple(_known_index(n, variables) for n in header["needs"])
    body: tir.Stmt = tir.NOTHING
    for b in header["temporaries"]:
        body = tir.Allocate(_known_buffer(b, variables), body)
    name = str(header["name"])
    return tir.PrimFunc(
        name, params, body, outputs, sizes, needs, constants=constants, scratch=scratch
    )


def _known_variable(name: str, type_: str, low: int | None, high: int | None) -> tir.Var:
    lowest, highest = -tir.INF if low is None else int(low), tir.INF if high is None else int(high)
    return tir.Var(str(name), lowest, highest, dtype=dtype(type_))


def _known_parameter(p: Json, variables: list[tir.Var]) -> tir.Buffer | tir.Var:
    if isinstance(p, list):
        (v,) = _only_variables([_known_index(p, variables)])
        return v
    return _known_buffer(p, variables)


def _known_buffer(p: Json, variables: list[tir.Var]) -> tir.Buffer:
    shape, strides = (tuple(_known_index(n, variables) for n in p[k]) for k in ("shape", "strides"))
    return tir.Buffer(str(p["name"]), shape, dtype(p["dtype"]), strides=strides)


def _only_variables(found: Iterable[tir.Index]) -> Iterable[tir.Var]:
    for v in found:
        if not isinstance(v, tir.Var):
            raise ValueError(f"expected a variable, found {v}")
        yield v


def _known_index(e: Json, variables: list[tir.Var]) -> tir.Index:
    if isinstance(e, int):
        return e
    known = cast("list[Any]", e)
    kind, parts = str(known[0]), known[1:]
    if kind == "var":
        return variables[int(parts[0])]
    if kind == "sum":
        const, *terms = parts
        total: tir.Index = int(const)
        for c, a in cast("list[tuple[int, Any]]", terms):
            total = tir.add(total, tir.mul(int(c), _known_index(a, variables)))
        return total
    a, b = (_known_index(n, variables) for n in parts)
    return PAIRS[kind](a, b)
