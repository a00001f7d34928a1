"""Ask LLVM whether it supports a CPU, in another process because LLVM may abort."""

from __future__ import annotations

import subprocess
import sys
from functools import cache

from minitvm.base import BuildError, host

TRIAL = """
import sys
from llvmlite import binding as llvm
llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
target = llvm.Target.from_triple(llvm.get_process_triple())
machine = target.create_target_machine(cpu=sys.argv[1], features=sys.argv[2], opt=0, jit=True)
text = "define double @f(double %x) { %y = fadd double %x, 1.0 ret double %y }"
machine.emit_object(llvm.parse_assembly(text))
"""
SECONDS = 60  # time limit of a trial; a trial usually takes less than a second


def check_cpu(cpu: str, features: str, what: str) -> None:
    """Raise BuildError, beginning with `what`, unless LLVM supports this CPU and features."""
    why = _objection(cpu, features)
    if why:
        fix = f"leave out -mcpu and -mattr: the default is this machine, -mcpu={host().cpu}"
        raise BuildError(what, why, fix)


@cache
def _objection(cpu: str, features: str) -> str:
    """Return LLVM's objection to this CPU and features, or an empty string."""
    if cpu == "help" or "+help" in features.split(","):  # LLVM would print a list, and go on
        return "'help' is not a CPU"
    command = [sys.executable, "-c", TRIAL, cpu, features]
    try:
        ran = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=SECONDS, check=False
        )
    except (OSError, ValueError, subprocess.SubprocessError) as e:
        return f"LLVM could not be asked about it ({e})"
    said = [line.strip() for line in ran.stderr.splitlines() if line.strip()]
    unknown = [line for line in said if "is not a recognized" in line]
    if unknown:
        return f"LLVM says {unknown[0]}"
    return f"LLVM refuses: {said[-1] if said else ran.returncode}" if ran.returncode else ""
