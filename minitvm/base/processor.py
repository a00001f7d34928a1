"""Ask LLVM about a CPU: whether it supports the CPU, and which features code for it may use.

LLVM is asked in another process, because it may abort.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from .errors import BuildError
from .host import host, reported_features

# llvmlite cannot list the features of a CPU. But LLVM inlines a function only if its caller has all
# of its features. So a function with one feature more than the CPU is inlined into a function for
# the CPU exactly if the CPU has that feature.
TRIAL = """
import re, sys
from llvmlite import binding as llvm
llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()
cpu, features, triple, *names = sys.argv[1:]
target = llvm.Target.from_triple(triple or llvm.get_process_triple())
machine = target.create_target_machine(cpu=cpu, features=features, opt=2, jit=True)
text = "define double @f(double %x) { %y = fadd double %x, 1.0 ret double %y }"
machine.emit_object(llvm.parse_assembly(text))
lines = []
for n, name in enumerate([*names, ""]):
    more = ",".join(filter(None, (features, name and "+" + name)))
    lines.append(f'attributes #{n} = {{ "target-cpu"="{cpu}" "target-features"="{more}" }}')
for n in range(len(names)):
    lines.append(f"define internal i32 @has{n}(i32 %x) #{n} {{ %y = mul i32 %x, 3 ret i32 %y }}")
    call = f"%y = call i32 @has{n}(i32 %x) ret i32 %y"
    lines.append(f"define i32 @f{n}(i32 %x) #{len(names)} {{ {call} }}")
module = llvm.parse_assembly("\\n".join(lines))
passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
passes.getModulePassManager().run(module, passes)
called = set(re.findall(r"call .*@has(\\d+)\\(", str(module)))
print(*[name for n, name in enumerate(names) if str(n) not in called])
"""
# Other architectures: LLVM's triple, and the features that a Target depends on.
OTHERS = {
    "x86_64": "sse2 sse3 ssse3 sse4.1 sse4.2 avx avx2 fma f16c "
    "avx512f avx512bw avx512vl avx512vnni avxvnni",
    "aarch64": "neon dotprod i8mm",
}
SECONDS = 60  # time limit of a trial; a trial usually takes less than a second
# Names of features whose instructions LLVM chooses for ordinary code. Other features, such as those
# of the operating system (xsaves, pku), which virtual machines hide, need intrinsics.
CHOSEN = re.compile(
    r"s?sse|avx|fma|f16c|bmi|lzcnt|popcnt|movbe|adx|cmov|xop|tbm|gfni|amx|prfchw"  # x86
    r"|(ccmp|cf|egpr|ndd|nf|ppx|push2pop2|zu)$"
    r"|neon|fp-armv8|sve|sme|lse|dotprod|fullfp16|bf16|i8mm"  # ARM
)


class Answer(NamedTuple):
    """LLVM's objection to a CPU, or an empty string; and the features that its code may use."""

    objection: str
    features: frozenset[str] = frozenset()


def options(mcpu: str, mattr: str) -> tuple[str, str]:
    """Return LLVM's name of the CPU of a target, and the changes to the features of that CPU."""
    if mcpu:
        return mcpu, mattr
    # a virtual machine may hide features that its CPU model has: name the absent ones as well
    return host().cpu, ",".join(filter(None, (_host_features(), mattr)))


def check_cpu(mcpu: str, mattr: str) -> None:
    """Raise BuildError unless LLVM supports the CPU and the features of a target."""
    why = _asked(*options(mcpu, mattr)).objection if mcpu or mattr else ""
    if why:
        flags = " ".join(filter(None, (mcpu and f"-mcpu={mcpu}", mattr and f"-mattr={mattr}")))
        fix = f"leave out -mcpu and -mattr: the default is this machine, -mcpu={host().cpu}"
        raise BuildError(f"code for {flags}", why, fix)


def features(mcpu: str, mattr: str) -> frozenset[str]:
    """Return LLVM's names of the features that code for a target may use; empty if unknown."""
    return _asked(*options(mcpu, mattr)).features if mcpu or mattr else host().features


def described(mcpu: str, mattr: str) -> tuple[frozenset[str], str]:
    """Return the features of a named CPU, and its architecture, which may be another one.

    Raises BuildError if LLVM does not know the CPU, or a change to its features.
    """
    native = _asked(mcpu, mattr)
    for machine, names in OTHERS.items() if native.objection else ():
        answer = _asked(mcpu, mattr, f"{machine}-unknown-linux-gnu", names)
        if not answer.objection:
            return answer.features, machine
    check_cpu(mcpu, mattr)
    return native.features, platform.machine()


def lacking(needed: Iterable[str]) -> str:
    """Return why this CPU cannot run code with these features, or an empty string."""
    missing = sorted(set(needed) - host().features)
    if not missing:
        return ""
    return f"it may use {', '.join(missing)}, which this CPU ({host().cpu}) does not have"


def _host_features() -> str:
    """Return "+avx2,-avx512f,...": what the host has, and what it lacks that LLVM might choose."""
    present = host().features
    absent = filter(CHOSEN.match, set(reported_features()) - present)
    return ",".join([*(f"+{f}" for f in sorted(present)), *(f"-{f}" for f in sorted(absent))])


@cache
def _asked(cpu: str, changes: str, triple: str = "", names: str = "") -> Answer:
    """Ask LLVM about a CPU with these changes to its features.

    triple, names   another architecture, and the features to ask about; by default, this one and
                    those that are known of this CPU
    """
    if cpu == "help" or "+help" in changes.split(","):  # LLVM would print a list, and go on
        return Answer("'help' is not a CPU")
    known = names.split() or [*reported_features()]
    command = [sys.executable, "-c", TRIAL, cpu, changes, triple, *known]
    try:
        process = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        return Answer(f"LLVM could not be asked about it ({e})")
    said = [line.strip() for line in process.stderr.splitlines() if line.strip()]
    unknown = [line for line in said if "is not a recognized" in line]
    if unknown:
        return Answer(f"LLVM says {unknown[0]}")
    if process.returncode:
        return Answer(f"LLVM refuses: {said[-1] if said else process.returncode}")
    return Answer("", frozenset(filter(CHOSEN.match, process.stdout.split())))
