"""What both code generators ask about names and buffers."""

import re

from minitvm.base import BuildError
from minitvm.tir import Buffer, For, Index, PrimFunc, Var


def clean(name: str) -> str:
    """`name` as an identifier of any language: "i.outer" -> "i_outer"."""
    word = re.sub(r"\W", "_", name, flags=re.ASCII)
    return f"v{word}" if not word or word[0].isdigit() else word


def parameters(f: PrimFunc) -> tuple[Buffer | Var, ...]:
    """What compiled code is called with: f.params, then sizes that are not among them."""
    return (*f.params, *(n for n in f.sizes if not any(n is p for p in f.params)))


def flat(buffer: Buffer, indices: tuple[Index, ...]) -> Index:
    """The one index of an access. Raises BuildError if the pass `flatten` has not run."""
    if len(indices) != 1:
        raise BuildError(
            f"{len(indices)} indices on buffer {buffer.name!r}",
            "code is generated from flat offsets",
            "run the pass `flatten` first",
        )
    return indices[0]


def refuse_threads(s: For) -> None:
    """Raise BuildError if the loop is bound to a hardware thread."""
    if s.kind == "bind":
        raise BuildError(
            f"loop {s.var.name!r} bound to {s.thread!r}",
            "a CPU has no such threads",
            "target='cuda', or parallel() in place of bind()",
        )
