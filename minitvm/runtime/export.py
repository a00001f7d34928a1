"""Write and read files of compiled functions, with their signatures and the CPU they need.

A file consists of three lines of text and the code:

    minitvm function 5                   format and its version
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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from minitvm import tir
from minitvm.base import ArgumentError, BuildError, Target, dtype, host, processor

from .jit import load_object
from .loading import NativeRun, Run, load_python, provided
from .numba_load import load_numba

MAGIC, FORMAT = b"minitvm function", 5
EXPORTED = "a file that f.export(path) has written"
AGAIN = "build the function on this machine, and export it again"
MANY = "generic" if platform.machine().lower() in ("arm64", "aarch64") else "x86-64-v3"
PORTABLE = f"build it on this machine, or for many CPUs: target='llvm -mcpu={MANY}'"
OTHERS_WRITE = 0o022  # the mode bits that let the group, or everybody, change a file
UNREADABLE = (  # what reading a header without meaning may raise
    ArithmeticError, LookupError, NameError, RecursionError, SyntaxError, TypeError, ValueError
)  # fmt: skip
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
    machine   the machine that machine code needs: {"system": "Linux", "machine": "x86_64",
              "cpu": "znver4", "features": ["avx2", ...]}; cpu is "" if all CPUs with these features
              can run it
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
    file_path, what = _path(path, "export"), f"export({str(path)!r})"
    try:
        with open(file_path, "wb", opener=lambda name, flags: os.open(name, flags, 0o644)) as file:
            file.write(data)
    except OSError as e:
        raise ArgumentError(what, str(e.strerror), "a file in a folder that exists") from e


def read(path: File) -> bytes:
    """Return the contents of the file `path`.

    Raises ArgumentError if it cannot be read, ForeignFileError if another user may have written it.
    """
    file_path, what = _path(path, "load"), f"load({str(path)!r})"
    try:
        with file_path.open("rb") as file:
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


def _path(file: File, verb: str) -> Path:
    """Return `file` as a path; raise ArgumentError if it cannot be one."""
    try:
        path = Path(file)
        if "\0" not in str(path):
            return path
    except TypeError:
        pass
    raise ArgumentError(f"{verb}({file!r})", "not a file name", f'{verb}("matmul.mtvm")')


# --- bytes ---------------------------------------------------------------------------------------


def pack(package: Package) -> bytes:
    """Return the bytes of the file that stores `package`."""
    header = {
        **_signature(package.func),
        "target": str(package.target),
        "minitvm": package.made_by or _version(),
        "machine": dict(package.machine),
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
    data: bytes, magic: bytes, number: int, what: str, parse: Callable[[Json, bytes], T]
) -> T:
    """Check the bytes of a file that sealed() made, and return parse(header, bytes after it).

    Raises ArgumentError if sealed() did not make the file; BuildError if it has another format, is
    damaged, or `parse` cannot read it. Errors begin with `what`.
    """
    head, _, rest = data.partition(b"\n")
    kind, _, stored = head.rpartition(b" ")
    if kind != magic:
        why = f"it is not an exported {magic.decode().removeprefix('minitvm ')}"
        raise ArgumentError(what, why, EXPORTED)
    if stored != b"%d" % number:
        shown = stored.decode(errors="replace")
        why = f"it has format {shown}, this minitvm reads format {number}"
        raise BuildError(what, why, AGAIN)
    checksum, _, body = rest.partition(b"\n")
    if checksum.decode(errors="replace") != hashlib.sha256(body).hexdigest():
        raise BuildError(what, "it is damaged: its checksum is wrong", AGAIN)
    header, _, after = body.partition(b"\n")
    try:
        return parse(json.loads(header), after)
    except UNREADABLE as e:
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
    from importlib import metadata  # imports the e-mail package: 12 ms

    try:
        return metadata.version("minitvm")
    except metadata.PackageNotFoundError:  # minitvm runs from a folder, without being installed
        return "unknown"


# --- the code ------------------------------------------------------------------------------------


def run_of(package: Package, what: str) -> Run:
    """Load the code of a package and return its function; errors begin with `what`.

    Raises BuildError if the code was made for another CPU or operating system.
    """
    kind = package.target.kind
    if kind not in LOADERS:
        raise BuildError(what, f"functions of target {kind} cannot be stored")
    if package.machine:
        check_machine(package.machine, what)
    return LOADERS[kind](package)


def _native(package: Package) -> Run:
    calls = package.calls
    machine = load_object(package.code, symbols=provided(calls), calls=calls)
    return NativeRun(package.func, machine, package.entry)


LOADERS: dict[str, Callable[[Package], Run]] = {  # by the kind of target
    "llvm": _native,
    "numba": lambda package: load_numba(package.code.decode(), package.target.num_cores),
    "python": lambda package: load_python(package.code.decode()),
}


# --- the machine ---------------------------------------------------------------------------------


def machine_for(target: Target) -> dict[str, Json]:
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
    origin = (needs["system"], needs["machine"])
    machine = (platform.system(), platform.machine())
    if origin != machine:
        why = f"it is machine code for {' on '.join(origin)}, and this is {' on '.join(machine)}"
        raise BuildError(what, why, AGAIN)
    if needs["cpu"] and needs["cpu"] != host().cpu:
        why = f"it is machine code for a {needs['cpu']}, and this is a {host().cpu}"
        raise BuildError(what, why, PORTABLE)
    why = processor.lacking(needs["features"])
    if why:
        raise BuildError(what, why, PORTABLE)


# --- the signature -------------------------------------------------------------------------------


class _Shown(tir.Printer):
    """Prints indices as text that Python can evaluate, with names v0, v1, ... of variables."""

    def __init__(self) -> None:
        super().__init__()
        self.variables: dict[tir.Var, str] = {}

    def name(self, x: tir.Var | tir.Buffer) -> str:
        assert isinstance(x, tir.Var)
        return self.variables.setdefault(x, f"v{len(self.variables)}")

    def index(self, e: tir.Index) -> str:
        if isinstance(e, tir.Expr) and any(isinstance(n, tir.AsIndex) for n in tir.walk(e)):
            why = "it depends on data, not on sizes alone"
            raise BuildError(f"export: extent {tir.text(e)}", why)
        return self.expr(e)


def _signature(f: tir.PrimFunc) -> dict[str, Json]:
    """Return a function's parameters, outputs, sizes and symbolic temporaries as JSON values."""
    shown = _Shown()

    def parameter(p: tir.Buffer | tir.Var) -> Json:
        if isinstance(p, tir.Var):
            return shown.index(p)
        return {
            "name": p.name,
            "dtype": p.dtype,
            "shape": [shown.index(n) for n in p.shape],
            "strides": [shown.index(n) for n in p.strides],
            "output": any(p is b for b in f.outputs),
            "constant": any(p is b for b in f.constants),
            "scratch": any(p is b for b in f.scratch),
        }

    signature = {
        "name": f.name,
        "params": [parameter(p) for p in f.params],
        "sizes": [shown.index(v) for v in f.sizes],
        "temporaries": [parameter(b) for b in tir.symbolic_buffers(f)],
        "needs": [shown.index(n) for n in f.needs],
    }
    variables = [
        [v.name, v.dtype, *(n if abs(n) < tir.INF else None for n in (v.low, v.high))]
        for v in shown.variables
    ]
    return {**signature, "variables": variables}


def _function(header: dict[str, Json]) -> tir.PrimFunc:
    """Return the function of a header; its body only allocates temporaries."""
    scope: dict[str, Any] = {"min": tir.minimum, "max": tir.maximum}
    for n, (name, kind, low, high) in enumerate(header["variables"]):
        least, most = -tir.INF if low is None else int(low), tir.INF if high is None else int(high)
        scope[f"v{n}"] = tir.Var(str(name), least, most, dtype=dtype(kind))

    def index(text: Json) -> Any:
        return eval(text, {"__builtins__": {}}, scope)  # no risk is added: loading runs the code

    def buffer(p: Json) -> tir.Buffer:
        shape, strides = (tuple(map(index, p[key])) for key in ("shape", "strides"))
        return tir.Buffer(str(p["name"]), shape, dtype(p["dtype"]), strides=strides)

    params = tuple(index(p) if isinstance(p, str) else buffer(p) for p in header["params"])
    pairs = zip(params, header["params"], strict=True)
    buffers = [(b, p) for b, p in pairs if not isinstance(p, str)]
    outputs, constants, scratch = (
        tuple(b for b, p in buffers if p[key]) for key in ("output", "constant", "scratch")
    )
    sizes, needs = (tuple(map(index, header[key])) for key in ("sizes", "needs"))
    body: tir.Stmt = tir.NOTHING
    for b in header["temporaries"]:
        body = tir.Allocate(buffer(b), body)
    name = str(header["name"])
    return tir.PrimFunc(
        name, params, body, outputs, sizes, needs, constants=constants, scratch=scratch
    )
