"""Targets: which kind of code to generate, and the facts about the machine that schedules need."""

from __future__ import annotations

import platform
import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from . import processor
from .dtype import dtype as dtype_named
from .errors import ArgumentError, Reason, raise_first
from .host import Dot2, Dot4, amx_products, dot2_instructions, dot4_instructions, vector_unit
from .host import host as this_machine

FACTS = ("num_cores", "vector_bytes", "vector_registers", "l1", "l2", "l3")
EXT_DEV = "ext_dev"  # TVM's name for the kind of VTA
CUDA = "cuda"  # NVIDIA's GPUs, and the simulated one of "cuda -sim"
VTA = "vta"  # the accelerator; vta.Environment(config) says which one


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Properties of one kind of target, such as "llvm".

    what      a description for users of the target's programs
    cpu       whether the programs run on this CPU; only they can call C or Python
    options   the options that it takes, and `fix` proposes in their place
    """

    what: str
    cpu: bool = True
    options: tuple[str, ...] = ("-mcpu", "-mattr", "-num-cores")
    fix: str = "-mcpu=NAME, -mattr=+a,-b, -num-cores=N or -unroll=0"


KINDS = {
    "llvm": Capabilities(
        "machine code for a CPU", options=("-mcpu", "-mattr", "-num-cores", "-unroll")
    ),
    "numba": Capabilities("Python that numba compiles"),
    "python": Capabilities("plain Python, no compiler at all"),
    CUDA: Capabilities(
        "kernels for an NVIDIA GPU", cpu=False, options=("-sim", "-arch"), fix="-sim or -arch=sm_90"
    ),
    VTA: Capabilities(
        "instructions of an accelerator", False, (), "with vta.Environment(config): ..."
    ),
}

WIDER = {"avx": ("avx2", "avx512f"), "avx2": ("avx512f",)}  # vector unit -> units removed with it

OPTIONS = {  # name -> (pattern of valid values, error message for others)
    "-mcpu": (".+", ""),
    "-mattr": (r"[+-][^,]+(,[+-][^,]+)*", "each feature must begin with + or -"),
    "-num-cores": ("[1-9][0-9]{0,5}", "not a number of cores"),
    "-unroll": ("[01]", "not 0 or 1"),
    "-sim": ("1", "it takes no value"),
    "-arch": (r"sm_\d\d+", "not an architecture, such as sm_90"),
}


@dataclass(frozen=True, slots=True, init=False)
class Target:
    """A target, made from a string: Target("llvm"), Target("llvm -mcpu=znver4 -num-cores=4").

    With Target("llvm -unroll=0") LLVM unrolls no loops by itself, which halves compile times.
    Loops that the schedule unrolls are not affected.

    Inside `with Target(...):` this is the current target. lower, build and topi.schedule use the
    current target by default; Target(None) returns it. Each thread has its own.

    Target("ext_dev", host="llvm") is TVM's spelling of Target("vta"). The host is the CPU that
    calls the program; here it is always the CPU of this process.

    Target("cuda -sim") is a simulated GPU, which finds races and counts memory traffic.

    kind              "llvm", "numba", "python", "cuda" or "vta"
    mcpu, mattr       CPU name and feature changes, spelled as in LLVM; "" for this machine.
                      A named CPU has its own vector unit and dot products, but the cores and
                      caches of this machine: see `on`. It may be of another architecture, for
                      which schedules can be made, but no code
    num_cores         the number of threads that a parallel loop may use
    unroll            whether LLVM may unroll more loops than the schedule does
    vector_bytes      the width of one vector register in bytes
    vector_registers  the number of vector registers
    l1, l2, l3        cache sizes in bytes: L1 data and L2 of one core, and the shared last level
    sim               whether a simulator runs its programs, for "cuda"
    arch              the GPU that code is made for, such as "sm_90"; "" for the one that is here
    """

    kind: str
    mcpu: str
    mattr: str
    num_cores: int
    unroll: bool
    vector_bytes: int
    vector_registers: int
    l1: int
    l2: int
    l3: int
    sim: bool
    arch: str

    def __init__(
        self, text: str | Target | None = "llvm", host: str | Target | None = None
    ) -> None:
        text = Target.current() if text is None else text
        if isinstance(text, Target) and host is None:
            self._set({name: getattr(text, name) for name in Target.__slots__})
            return
        kind, *words = str(text).split() or [""]
        kind = VTA if kind == EXT_DEV else kind
        raise_first(ArgumentError, f"target {str(text)!r}", _about(kind, words, host))
        options = dict(_option(word, kind, str(text)) for word in words)
        machine = this_machine()
        unit = machine.vector_bytes, machine.vector_registers
        mcpu, mattr = options.get("mcpu", ""), options.get("mattr", "")
        if mcpu or mattr:
            unit = vector_unit(*_code(kind, mcpu, mattr))
        values = {
            "kind": kind,
            "mcpu": mcpu,
            "mattr": mattr,
            "num_cores": int(options.get("num-cores", machine.cores)),
            "unroll": options.get("unroll", "1") == "1",
            "vector_bytes": unit[0],
            "vector_registers": unit[1],
            "l1": machine.l1,
            "l2": machine.l2,
            "l3": machine.l3,
            "sim": "sim" in options,
            "arch": options.get("arch", ""),
        }
        self._set(values)

    def _set(self, values: Mapping[str, str | int]) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def on(self, **facts: int) -> Target:
        """Return this target with other machine facts: target.on(l1=32 << 10, l2=1 << 20).

        Schedules and cost models use these facts. Code is still generated for `mcpu` and `mattr`.
        """
        for name, value in facts.items():
            if name not in FACTS:
                raise ArgumentError(f"target {self}", f"no such fact: {name}", ", ".join(FACTS))
            if value < 1:
                raise ArgumentError(f"target {self}", f"{name}={value}", "a positive number")
        target = Target(self)
        target._set(facts)
        return target

    @staticmethod
    def current() -> Target:
        """Return the target of the innermost `with Target(...):`, or else Target("llvm")."""
        entered_targets = _entered.get()
        return entered_targets[-1] if entered_targets else Target("llvm")

    def __enter__(self) -> Target:
        """Make this the current target of this thread until the end of the `with` statement.

        As with all context variables of Python, a new thread starts without it: use the `with`
        statement inside the function that the thread runs.
        """
        _entered.set((*_entered.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        """Restore the target that was current before the `with` statement."""
        _entered.set(_entered.get()[:-1])

    def lanes(self, dtype: str) -> int:
        """Return how many elements of `dtype` fit in one vector register."""
        return max(1, self.vector_bytes // dtype_named(dtype).bytes)

    def tile_rows(self, vectors: int) -> int:
        """Return how many rows of `vectors` accumulators the registers can hold, at least 0.

        They also hold one row of the right operand and one element of the left one. With 16 bytes,
        two more are free: SSE multiplies and adds in two steps, and LLVM loads ahead for ARM.
        """
        spare = 1 if self.vector_bytes > 16 else 3
        return max(0, (self.vector_registers - spare - vectors) // vectors)

    @property
    def unit(self) -> Literal["seconds", "cycles"]:
        """The unit of its programs' cost: simulators have modelled cycles, but no clock."""
        return "cycles" if self.sim or self.kind == VTA else "seconds"

    @property
    def dot4(self) -> tuple[Dot4, ...]:
        """Return the instructions of the CPU that sum four products of bytes, widest first."""
        return dot4_instructions(_code(self.kind, self.mcpu, self.mattr)[0])

    @property
    def dot2(self) -> tuple[Dot2, ...]:
        """Return the instructions of the CPU that sum two products of int16, widest first."""
        return dot2_instructions(_code(self.kind, self.mcpu, self.mattr)[0])

    @property
    def amx(self) -> frozenset[str]:
        """Return the products that the CPU's matrix unit has: "int8", "bf16"; empty without one."""
        return amx_products(_code(self.kind, self.mcpu, self.mattr)[0])

    def __str__(self) -> str:
        if not KINDS[self.kind].cpu:
            arch = f" -arch={self.arch}" if self.arch else ""
            return self.kind + (" -sim" if self.sim else "") + arch
        cpu = f" -mcpu={self.mcpu}" if self.mcpu else ""
        attr = f" -mattr={self.mattr}" if self.mattr else ""
        unroll = "" if self.unroll else " -unroll=0"
        return f"{self.kind}{cpu}{attr} -num-cores={self.num_cores}{unroll}"


_entered: ContextVar[tuple[Target, ...]] = ContextVar("targets", default=())  # innermost last


def _about(kind: str, words: list[str], host: str | Target | None) -> Iterator[Reason]:
    """Yield each reason to refuse a target: an unknown kind, useless options, a wrong host."""
    if kind not in KINDS:
        yield "no such kind of target", f"one of {', '.join(KINDS)}"
    cpu = KINDS[kind].cpu
    if words and not KINDS[kind].options:
        yield f"{kind} takes no options, but {words[0]!r} is given", KINDS[kind].fix
    if host is None:
        return
    caller = Target(host).kind
    if cpu and caller != kind:
        yield f"its host must be {kind!r}, not {str(host)!r}", f'host="{kind}", or omit host'
    if not cpu and not KINDS[caller].cpu:
        yield f"its host must be a CPU target, not {str(host)!r}", 'host="llvm", or omit host'


def cuda(*options: str) -> Target:
    """Return Target("cuda"), as in TVM; options are "-sim" and "-arch=sm_90"."""
    return Target(" ".join((CUDA, *map(str, options))))


def _option(word: str, kind: str, text: str) -> tuple[str, str]:
    name, _, value = word.partition("=")
    if name == "-sim" and word == name:
        value = "1"
    if name not in OPTIONS:
        why = "no such option"
    elif name not in KINDS[kind].options:
        why = f"the target {kind} has no such option"
    elif not value:
        why = "the value is missing"
    elif not re.fullmatch(OPTIONS[name][0], value):
        why = OPTIONS[name][1]
    else:
        return name[1:], value
    raise ArgumentError(f"target {text!r}: {word!r}", why, KINDS[kind].fix)


def _code(kind: str, mcpu: str, mattr: str) -> tuple[frozenset[str], str]:
    """Return the features that code for a target may use, and its architecture.

    LLVM is asked only about a CPU that is named; other kinds than "llvm" make code for this one.
    Raises BuildError if LLVM does not know the CPU or a feature.
    """
    if mcpu and kind == "llvm":
        return processor.described(mcpu, mattr)
    return _changed(this_machine().features, mattr), platform.machine()


def _changed(features: frozenset[str], mattr: str) -> frozenset[str]:
    """Return `features` after the changes in `mattr`, such as "+avx2,-avx512f".

    As in LLVM, a vector unit that is removed takes the wider ones with it. LLVM knows more such
    dependencies, which matter less here: they do not change the width of vectors.
    """
    names = set(features)
    for change in mattr.split(","):
        name = change[1:]
        if change.startswith("+"):
            names.add(name)
        else:
            names -= {name, *WIDER.get(name, ())}
    return frozenset(names)
