"""Names, parameters, flat accesses and checks that the emitters share."""

import keyword
import re

from minitvm import lowering, tir
from minitvm.base import BuildError, Target

# names that emitted code uses: Python's builtins and helpers, libm and libc
RESERVED = {
    *keyword.kwlist, "np", "math", "range", "min", "max", "int", "abs", "bool",
    "truncdiv", "to_integer", "registered", "view", "numba", "truncmod", "floordiv", "floormod",
    "shl", "shr", "wrap_add", "wrap_sub", "wrap_mul",
    *tir.INTRINSICS, *(f"{name}f" for name in tir.INTRINSICS),
    "pow", "powf", "malloc", "free", "memcpy", "memmove", "memset",
}  # fmt: skip
ACTED_ON = ("dma_copy", "alu", "skip_dma_copy", "skip_alu")  # pragmas of passes for the accelerator
MAX_CHARACTERS = (
    200  # characters of an identifier; LLVM truncates at 1,024, and numba lengthens names
)


def clean(name: str) -> str:
    """Return the identifier that emitted text uses for `name`: "i.outer" -> "i_outer".

    Reserved names get an underscore ("exp" -> "exp_"), and long names are truncated. Two names may
    therefore have the same identifier; the emitters number their declarations.
    """
    word = re.sub(r"\W", "_", name[:MAX_CHARACTERS], flags=re.ASCII)
    if not word or word[0].isdigit():
        word = f"v{word}"
    return f"{word}_" if word in RESERVED else word


def parameters(f: tir.PrimFunc) -> tuple[tir.Buffer | tir.Var, ...]:
    """Return the parameters of compiled code: f.params, f.packed, the other symbolic sizes."""
    return (*f.params, *f.packed, *(n for n in f.sizes if not any(n is p for p in f.params)))


def flat(buffer: tir.Buffer, indices: tuple[tir.Index, ...]) -> tir.Index:
    """Return the flat index of an access; raise BuildError if the pass `flatten` has not run."""
    if len(indices) != 1:
        what = f"{len(indices)} indices on buffer {buffer.name!r}"
        raise BuildError(what, "code needs one flat offset", "run the pass `flatten` first")
    return indices[0]


def is_c_function(e: tir.Call, why: str) -> bool:
    """Return whether an opaque call runs a C function of this process, not a Python function.

    Raises BuildError with the reason `why` if `e` names neither a C function nor a registered one.
    """
    name = tir.callee(e)
    if not tir.is_registered(name) and not e.name.startswith((tir.EXTERN, tir.PACKED)):
        raise BuildError(f"{name}(...)", why, in_python(name))
    return e.name.startswith(tir.EXTERN) and not tir.is_registered(name)


def in_python(name: str) -> str:
    """Return the advice to register a Python function as `name`, for an error message."""
    return f"tir.register_func({name!r}, f), with f in Python"


def refuse_threads(s: tir.For) -> None:
    """Raise BuildError if the loop is bound to a hardware thread."""
    if s.kind == "bind":
        raise BuildError(
            f"loop {s.var.name!r} bound to {s.thread!r}",
            "a CPU has no hardware threads",
            "parallel() in place of bind(), te.thread_axis('vthread'), "
            "or tir.interpret(program, ...)",
        )


def check_memories(func: tir.PrimFunc, target: Target) -> None:
    """Raise BuildError if a program uses memories or pragmas of the accelerator."""
    tir.check_buffers(func)
    for n in tir.every(func.body):
        if isinstance(n, tir.Allocate) and lowering.memory_of(n.buffer) is not None:
            what = f"{n.buffer.name} in {n.buffer.scope!r}"
        elif isinstance(n, tir.Pragma) and n.key in ACTED_ON:
            what = f"pragma {n.key}"
        else:
            continue
        why = "only the accelerator has this"
        raise BuildError(f"{what} for target {target.kind!r}", why, 'target="vta"')
