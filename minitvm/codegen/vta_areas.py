"""Where the arguments of a program for the accelerator lie in main memory."""

from __future__ import annotations

from math import prod

from minitvm.accel import Area, Config, Memory, place
from minitvm.base import BuildError
from minitvm.lowering import memory_of
from minitvm.tir import Buffer, Call, PrimFunc, first_element, walk

COPY = "dma_copy2d"
RESERVED = {"DRAM", "uops", *(memory.name.lower() for memory in Memory)}  # words of its assembly


def areas(func: PrimFunc, config: Config) -> dict[Buffer, Area]:
    """An area of main memory for each argument, of the elements that it is loaded or stored as."""
    kinds = _transferred(func)
    printer = func.printer()
    shapes: dict[str, tuple[Memory, tuple[int, ...]]] = {}
    names: dict[Buffer, str] = {}
    for p in func.params:
        assert isinstance(p, Buffer)
        kind = kinds.get(p) or _kind_of(p, func)
        names[p] = printer.name(p) if printer.name(p) not in RESERVED else f"{printer.name(p)}_"
        shapes[names[p]] = kind, _shape(p, config.element_shape(kind))
    placed = {area.name: area for area in place(config, shapes)}
    return {b: placed[name] for b, name in names.items()}


def _transferred(func: PrimFunc) -> dict[Buffer, Memory]:
    """What each argument is loaded as; OUT if it is stored."""
    found: dict[Buffer, Memory] = {}
    for n in walk(func.body):
        if isinstance(n, Call) and n.name.endswith(f".{COPY}"):
            to, source = (first_element(a).buffer for a in n.args[:2] if isinstance(a, Call))
            memory = memory_of(to)
            if memory is None:
                found[to] = Memory.OUT
            else:
                found.setdefault(source, memory)
    return found


def _kind_of(p: Buffer, func: PrimFunc) -> Memory:
    """The elements of an argument that nothing moves."""
    if any(p is b for b in func.outputs):
        return Memory.OUT
    return Memory.ACC if str(p.dtype) == "int32" else Memory.INP


def _shape(p: Buffer, element: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of an argument in elements. (64, 1, 16) of (1, 16) is (64,)"""
    shape = tuple(n for n in p.shape if isinstance(n, int))
    if shape[-len(element) :] == element:
        return shape[: -len(element)]
    count, size = prod(shape), prod(element)
    if count % size:
        raise BuildError(
            f"argument {p.name} of shape {shape}",
            f"its {count} numbers are no whole elements of {' x '.join(map(str, element))}",
            "pad it, and pack it",
        )
    return (count // size,)
