"""Facts about this machine: its CPU, vector unit, caches, and the cores this process may use."""

import ctypes
import os
import platform
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple, cast

import psutil
from llvmlite import binding as llvm

from .dtype import INT8, INT32, UINT8, DType

KB, MB = 1 << 10, 1 << 20
DEFAULT_CACHES = (32 * KB, 512 * KB, 8 * MB)  # modest for any CPU sold since 2015
SYS_CPU = Path("/sys/devices/system/cpu")
ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # on x86-64, since Linux 5.16
CPU_QUOTA = Path("/sys/fs/cgroup/cpu.max")


@dataclass(frozen=True, slots=True)
class Host:
    """Facts about a machine that schedules and code generators need. Sizes are in bytes."""

    cpu: str
    """LLVM's name for the CPU model, such as "znver4"; "generic" if LLVM does not know it."""
    features: frozenset[str]
    """LLVM's names for the instruction set extensions of the CPU, such as "avx2"."""
    vector_bytes: int
    """Bytes of the widest vector register; 64 bytes are 16 float32 values."""
    vector_registers: int
    """The number of vector registers in the instruction set."""
    fma: bool
    """Whether a * b + c is one instruction."""
    l1: int
    """First-level data cache of one core."""
    l2: int
    """Second-level cache of one core."""
    l3: int
    """Last-level cache, shared between cores; equal to `l2` if there is no third level."""
    cores: int
    """Physical cores that the affinity mask and the container limits let this process use."""
    system: str
    """ "Linux", "Darwin" or "Windows", as platform.system() spells it."""


@cache
def host() -> Host:
    """Return the facts about this machine, with modest defaults for those that are unknown."""
    cpu, names = _cpu()
    vector_bytes, registers = vector_unit(names, platform.machine())
    l1, l2, l3 = _caches(platform.system())
    return Host(
        cpu=cpu,
        features=names,
        vector_bytes=vector_bytes,
        vector_registers=registers,
        fma="fma" in names or _is_arm64(platform.machine()),
        l1=l1,
        l2=l2,
        l3=l3,
        cores=_cores(),
        system=platform.system(),
    )


def vector_unit(features: frozenset[str], machine: str) -> tuple[int, int]:
    """Return (bytes per vector register, number of registers), given LLVM's feature names.

    `machine` is the result of platform.machine(). On x86 without AVX2 the width is 16 bytes.
    """
    if "avx512f" in features:
        return 64, 32
    if "avx2" in features:
        return 32, 16
    return 16, 32 if _is_arm64(machine) else 16


class Dot4(NamedTuple):
    """An instruction that adds the products of four pairs of bytes to each of several int32.

    lanes       the number of int32 results
    a, b        the types of the bytes
    intrinsic   LLVM's name of the instruction
    operand     the element type of the vectors a and b that LLVM declares
    """

    lanes: int
    a: DType
    b: DType
    intrinsic: str
    operand: DType


AVX2 = frozenset({"sse2", "sse3", "ssse3", "sse4.1", "sse4.2", "avx", "avx2"})
VNNI = AVX2 | {"fma", "f16c", "avx512f", "avx512vnni"}
# LLVM 22 declares the operands of vpdpbusd as bytes, but accepts this form too; LLVM 20 requires it
VPDPBUSD = [Dot4(n, UINT8, INT8, f"llvm.x86.avx512.vpdpbusd.{32 * n}", INT32) for n in (16, 8, 4)]
SDOT, UDOT, USDOT = (
    Dot4(4, a, b, f"llvm.aarch64.neon.{name}.v4i32.v16i8", INT8)
    for name, a, b in (("sdot", INT8, INT8), ("udot", UINT8, UINT8), ("usdot", UINT8, INT8))
)
DOT4 = (  # the features that LLVM requires, and the instructions that come with them
    (VNNI, VPDPBUSD[:1]),
    (VNNI | {"avx512vl"}, VPDPBUSD[1:]),
    (AVX2 | {"avxvnni"}, VPDPBUSD[1:]),
    (frozenset({"neon", "dotprod"}), [SDOT, UDOT]),
    (frozenset({"neon", "i8mm"}), [USDOT]),
)


def dot4_instructions(features: frozenset[str]) -> tuple[Dot4, ...]:
    """Return the dot products of bytes that a CPU with these features has, widest first.

    `features` are LLVM's names. Like LLVM, this function ignores a feature whose prerequisites are
    missing, such as avxvnni without avx2.
    """
    return tuple(dict.fromkeys(d for needs, group in DOT4 if features >= needs for d in group))


class Dot2(NamedTuple):
    """An instruction that returns the sums of the products of two pairs of int16, as int32.

    lanes       the number of int32 results
    intrinsic   LLVM's name of the instruction
    """

    lanes: int
    intrinsic: str


DOT2 = (  # the features that LLVM requires for pmaddwd
    (AVX2 | {"avx512f", "avx512bw"}, Dot2(16, "llvm.x86.avx512.pmaddw.d.512")),
    (AVX2, Dot2(8, "llvm.x86.avx2.pmadd.wd")),
    (frozenset({"sse2"}), Dot2(4, "llvm.x86.sse2.pmadd.wd")),
)


def dot2_instructions(features: frozenset[str]) -> tuple[Dot2, ...]:
    """Return the sums of two products of int16 that a CPU has, widest first."""
    return tuple(d for needs, d in DOT2 if features >= needs)


AMX = {  # the products of the matrix unit, and the features that LLVM requires
    "int8": frozenset({"amx-tile", "amx-int8"}),
    "bf16": frozenset({"amx-tile", "amx-bf16"}),
}


def amx_products(features: frozenset[str]) -> frozenset[str]:
    """Return which products a CPU's matrix unit has: "int8", "bf16". `features`: LLVM's names."""
    return frozenset(product for product, needs in AMX.items() if features >= needs)


@cache
def amx_permitted() -> bool:
    """Ask the system for the tile registers of this process, and return whether it grants them.

    Linux gives them to all threads, and to children made by fork; a new program asks again.
    """
    if platform.system() != "Linux" or not amx_products(host().features):
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return int(libc.syscall(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA)) == 0


def _is_arm64(machine: str) -> bool:
    return machine.lower() in ("arm64", "aarch64")


def _cpu() -> tuple[str, frozenset[str]]:
    """Return LLVM's name of this CPU and the names of its features.

    The environment variable MINITVM_CPU, such as "haswell avx avx2 fma", replaces both, here and in
    child processes. The test suite sets it: pytest --as-cpu.
    """
    name, *features = os.environ.get("MINITVM_CPU", "").split() or [""]
    if name:
        return name, frozenset(features)
    known = frozenset(feature for feature, present in reported_features().items() if present)
    return llvm.get_host_cpu_name() or "generic", known


# Features of ARM CPUs that LLVM does not report: the entry of Linux's auxiliary vector and the bit
# in it (asm/hwcap.h), and the end of their name in macOS's sysctl.
ARM_FEATURES = {
    "dotprod": (16, 20, "DotProd"),
    "fullfp16": (16, 10, "FP16"),
    "i8mm": (26, 13, "I8MM"),
}


@cache
def reported_features() -> Mapping[str, bool]:
    """Return whether this CPU has a feature, for those that LLVM or the system reports on."""
    try:
        reported = cast("Mapping[str, bool]", llvm.get_host_cpu_features())  # llvmlite has no types
    except RuntimeError:  # LLVM cannot tell on this operating system
        reported = dict[str, bool]()
    if not _is_arm64(platform.machine()):
        return reported
    return {**reported, "neon": True, **_arm_features(platform.system())}


def _arm_features(system: str) -> dict[str, bool]:
    if system == "Darwin":
        sysctl = "hw.optional.arm.FEAT_{}".format
        return {name: _sysctl(sysctl(end)) == 1 for name, (_, _, end) in ARM_FEATURES.items()}
    if system != "Linux":
        return {}
    ask = ctypes.CDLL(None).getauxval
    ask.argtypes, ask.restype = [ctypes.c_ulong], ctypes.c_ulong
    return {name: bool(ask(entry) >> bit & 1) for name, (entry, bit, _) in ARM_FEATURES.items()}


def _caches(system: str) -> tuple[int, int, int]:
    if system == "Linux":
        return fill_caches(sys_caches(SYS_CPU))
    if system == "Darwin":
        return fill_caches(sysctl_caches())
    return fill_caches({})


def fill_caches(sizes: Mapping[int, int]) -> tuple[int, int, int]:
    """Return the sizes of (L1 data, L2, last level) in bytes; `sizes` maps levels to sizes.

    Missing levels get the sizes in DEFAULT_CACHES.
    """
    l1, l2, l3 = (sizes.get(level, 0) for level in (1, 2, 3))
    # if L2 is known and L3 is not, L2 is the last level, as on Apple's CPUs
    return l1 or DEFAULT_CACHES[0], l2 or DEFAULT_CACHES[1], l3 or l2 or DEFAULT_CACHES[2]


def sys_caches(root: Path) -> dict[int, int]:
    """Return {level: bytes} of the data caches that Linux lists in `root`/cpu*/cache."""
    sizes: dict[int, int] = {}
    for index in root.glob("cpu[0-9]*/cache/index*"):
        try:
            level, kind, size = (
                (index / name).read_text().strip() for name in ("level", "type", "size")
            )
            if kind != "Instruction":
                sizes[int(level)] = parse_size(size)
        except (OSError, ValueError):
            continue
    return sizes


def sysctl_caches() -> dict[int, int]:
    """Return {level: bytes} of the data caches that macOS reports; 0 for a level it lacks.

    On Apple's CPUs they are those of the performance cores, level 0. The names without a level give
    the caches of the slowest cores; Intel's CPUs have only these names.
    """
    names = {1: "l1dcachesize", 2: "l2cachesize", 3: "l3cachesize"}
    return {n: _sysctl(f"hw.perflevel0.{s}") or _sysctl(f"hw.{s}") for n, s in names.items()}


def parse_size(text: str) -> int:
    """Convert a size in the notation of Linux to bytes: parse_size("48K") = 49152."""
    units = {"K": KB, "M": MB, "G": KB * MB}
    return int(text[:-1]) * units[text[-1]] if text[-1:] in units else int(text)


def _sysctl(name: str) -> int:
    """Return the integer that the macOS command `sysctl -n name` prints; 0 if it fails."""
    try:
        command = ["sysctl", "-n", name]
        return int(subprocess.check_output(command, stderr=subprocess.DEVNULL, timeout=5))
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


def _cores() -> int:
    """Return how many physical cores the affinity mask and container quota allow; at least 1."""
    logical = os.cpu_count() or 1
    if hasattr(os, "sched_getaffinity"):  # not on macOS, nor on Windows
        logical = len(os.sched_getaffinity(0))
    physical = psutil.cpu_count(logical=False) or logical
    return max(1, min(physical, logical, quota(CPU_QUOTA) or logical))


def quota(path: Path) -> int:
    """Return how many whole CPUs the cgroup file `path` grants a container; 0 if unlimited."""
    try:
        quota, period = path.read_text().split()  # "200000 100000": 2 CPUs; "max 100000": all
        return max(1, int(quota) // int(period))
    except (OSError, ValueError):
        return 0
