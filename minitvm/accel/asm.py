"""Parse and print programs as assembly text.

    area A inp 2 8                # DRAM: 2 x 8 elements of INP, called A
    area C out 8
    uop 0 0 0                     # dst src wgt: the micro-operations, in order
    uop 1 0 1

    ex  nop                                push ld
    ld  inp[0] = A[8] y=2 x=4 stride=8 pad=1,0,1,1   pop ex   push ex
    ex  uop[0] = uops[0] x=2
    ex  gemm u[0:2] outer=4 inner=1 dst=2,0 src=1,0 wgt=0,0   pop ld   push ld
    ex  shr u[0:2] imm=8                   push st
    st  C[0] = acc[0] x=8                  pop ex   push ex
    ex  nop                                pop st
    ex  finish

An instruction begins with its unit: ld, ex or st. `pop ex` takes a token that compute has pushed,
`push ex` pushes a token to compute. A[8] is element 8 of area A, counted in elements of the loaded
buffer; DRAM[n] is element n of all DRAM. `acc_8bit[0] = R[0] x=4` loads accumulators from int8 and
widens them; `area R acc_8bit 4` is an area of DRAM with such elements. Omitted numbers are 0, or 1
for y, outer and inner. pad gives the rows before and after, and the columns before and after.
Without `at N` an area begins where the previous one ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

from minitvm.base import ArgumentError, check_text

from . import isa
from .config import Config, Memory, check_config, vta_pynq
from .fields import check_uop
from .formats import FORMATS, keyed, record
from .program import QUEUES, Area, Program, check_areas, check_program, place, wire_of

SHORT = {isa.Unit.LOAD: "ld", isa.Unit.COMPUTE: "ex", isa.Unit.STORE: "st"}
LONG = {short: unit for unit, short in SHORT.items()}
NUMBER = r"-?\d{1,20}"
TRANSFER = re.compile(rf"(\w+)\[({NUMBER})\] = (\w+)\[({NUMBER})\](.*)")
LOOPED = re.compile(rf"(\w+) u\[({NUMBER}):({NUMBER})\](.*)")


# --- text -> program ------------------------------------------------------------------------------


def parse(text: str, config: Config = vta_pynq) -> Program:
    """Parse a program; raise ArgumentError with the line number for a line that is not valid."""
    check_text("text", text, '"ex finish"')
    check_config(config)
    areas: list[Area] = []
    uops: list[isa.Uop] = []
    instructions: list[isa.Instruction] = []
    for number, whole in enumerate(text.splitlines(), 1):
        line = " ".join(whole.split("#")[0].split())
        try:
            match line.split():
                case ["area", *words]:
                    areas.append(_area(words, areas, config))
                case ["uop", *words]:
                    dst, src, *wgt = _integers(words, (2, 3), "dst src wgt")
                    uops.append(isa.Uop(dst, src, wgt[0] if wgt else 0))
                    check_uop(f"uop {len(uops) - 1}", uops[-1])
                case [unit, *_] if unit in LONG:
                    body = line.removeprefix(unit).lstrip()
                    instructions.append(_instruction(LONG[unit], body, areas, config))
                    wire_of(len(instructions) - 1, instructions[-1])  # refuses numbers out of range
                case [word, *_]:
                    why = "a line must begin with area, uop, ld, ex or st"
                    raise ArgumentError(repr(word), why)
                case _:
                    pass  # an empty line, or a comment
        except ArgumentError as error:
            what, why, fix = error.args
            raise ArgumentError(f"line {number}, {line!r:.100}: {what}", why, fix) from None
    return Program(tuple(instructions), tuple(uops), tuple(areas))


def _integers(words: Sequence[str], counts: Sequence[int], names: str) -> list[int]:
    """Return the words as integers; errors describe the expected integers by `names`."""
    if len(words) not in counts or not all(re.fullmatch(NUMBER, word) for word in words):
        raise ArgumentError(f"{' '.join(words):.60}" or "nothing", f"expected integers: {names}")
    return [int(word) for word in words]


def _memory(name: str) -> Memory:
    known = [memory.name.lower() for memory in Memory]
    if name not in known:
        raise ArgumentError(repr(name), "unknown memory", f"one of {', '.join(known)}")
    return Memory[name.upper()]


def _area(words: list[str], areas: Sequence[Area], config: Config) -> Area:
    """Parse the words after `area`: name memory extent ... [at base]."""
    match words:
        case [name, memory, *shape, "at", base]:
            extents = _integers(shape, (len(shape),), "extents")
            at = _integers([base], (1,), "base")[0]
            area = Area(name, _memory(memory), at, tuple(extents))
            check_areas((*areas, area))
            return area
        case [name, memory, *shape]:
            extents = _integers(shape, (len(shape),), "extents")
            return place(config, {name: (_memory(memory), extents)}, areas)[0]
        case _:
            raise ArgumentError("area", "expected a name, a memory and extents", "area A inp 2 8")


def _instruction(
    unit: isa.Unit, text: str, areas: Sequence[Area], config: Config
) -> isa.Instruction:
    """Parse the text of one instruction, without its unit."""
    body, flags = _tokens(unit, text)
    if body in ("nop", "finish"):
        instruction = isa.nop(unit, flags) if body == "nop" else isa.Finish(flags=flags)
    elif parts := TRANSFER.fullmatch(body):
        instruction = _transfer(parts.groups(), flags, areas, config)
    elif parts := LOOPED.fullmatch(body):
        instruction = _looped(parts.groups(), flags)
    else:
        forms = "nop, finish, to[i] = from[j], op u[i:j]"
        raise ArgumentError(f"{body!r:.100}", "not an instruction", forms)
    if isa.unit_of(instruction) is not unit:
        right = SHORT[isa.unit_of(instruction)]
        why = f"{right} runs this instruction, not {SHORT[unit]}"
        raise ArgumentError(f"{SHORT[unit]} {body}", why, f"{right} {body}")
    return instruction


def _tokens(unit: isa.Unit, text: str) -> tuple[str, isa.Flags]:
    """Split an instruction into its text without tokens, and its tokens as flags."""
    words = text.split()
    first = next((n for n, word in enumerate(words) if word in ("pop", "push")), len(words))
    tokens: list[tuple[str, isa.Unit]] = []
    for verb, unit_name in zip_longest(words[first::2], words[first + 1 :: 2], fillvalue="nothing"):
        if verb not in ("pop", "push"):
            raise ArgumentError(repr(verb), "expected pop or push, then a unit", "pop ex")
        if unit_name not in LONG or LONG[unit_name] not in isa.NEIGHBOURS[unit]:
            why = f"there is no queue between {SHORT[unit]} and {unit_name}"
            what = f"{verb} {unit_name}"
            raise ArgumentError(what, why, "tokens between ld and ex, or ex and st")
        if (verb, LONG[unit_name]) in tokens:
            why = "an instruction can do this only once"
            raise ArgumentError(f"{verb} {unit_name}", why, "a nop for the second token")
        tokens.append((verb, LONG[unit_name]))
    return " ".join(words[:first]), isa.flags_of(unit, tokens)


def _options(kind: type[isa.Instruction], text: str) -> dict[str, Any]:
    """Parse options such as "y=2 pad=1,0,1,1"; return the numbers by their Field.path."""
    options: dict[str, Any] = {}
    known = keyed(kind)
    for word in text.split():
        key, _, numbers = word.partition("=")
        if key not in known or known[key][0].path in options:
            fix = f"each of {', '.join(known)} at most once"
            raise ArgumentError(repr(word), "unknown or repeated option", fix)
        names = ",".join(["number"] * len(known[key]))
        values = _integers(numbers.split(","), (len(known[key]),), names)
        options.update(zip((field.path for field in known[key]), values, strict=True))
    return options


def _transfer(
    parts: Sequence[str], flags: isa.Flags, areas: Sequence[Area], config: Config
) -> isa.Instruction:
    """Parse a LOAD or STORE, to[i] = from[j] with the options y, x, stride and pad."""
    to, to_index, source, from_index, rest = parts
    if source in ("acc", "out"):
        dram = _address(to, int(to_index), Memory.OUT, areas, config)
        values = {"sram": int(from_index), "dram": dram, "flags": flags}
        return record(isa.Store, values | _options(isa.Store, rest))
    memory = _memory(to)
    if memory not in isa.LOADABLE:
        raise ArgumentError(to, "OUT cannot be loaded", "inp, wgt, acc, acc_8bit or uop")
    dram = _address(source, int(from_index), memory, areas, config)
    values = {"memory": memory, "sram": int(to_index), "dram": dram, "flags": flags}
    return record(isa.Load, values | _options(isa.Load, rest))


def _address(name: str, index: int, memory: Memory, areas: Sequence[Area], config: Config) -> int:
    """Return the address of name[index] in DRAM, counted in elements of `memory`."""
    if (memory is Memory.UOP) != (name == "uops"):
        why = "micro-operations are loaded from uops, other elements from areas"
        raise ArgumentError(f"{name}[{index}]", why, "uop[0] = uops[0], inp[0] = A[0]")
    if name in ("uops", "DRAM"):
        return index
    area = next((area for area in areas if area.name == name), None)
    if area is None:
        fix = " or ".join([*(area.name for area in areas), f"a line 'area {name} ...' before this"])
        raise ArgumentError(name, "unknown area", fix)
    begin, size = area.byte_range(config)[0], config.element_bytes(memory)
    if begin % size:
        why = f"it begins at byte {begin} of DRAM, inside an element of {memory.name}"
        raise ArgumentError(name, why, f"an address that is a multiple of {size} bytes")
    return begin // size + index


def _looped(parts: Sequence[str], flags: isa.Flags) -> isa.Instruction:
    """Parse a GEMM or ALU, op u[begin:end] with the options outer, inner, dst, src, wgt, imm."""
    name, begin, end, rest = parts
    values = {"loops.begin": int(begin), "loops.end": int(end), "flags": flags}
    if name in ("gemm", "reset"):
        return record(isa.Gemm, {**values, "reset": name == "reset", **_options(isa.Gemm, rest)})
    if name.upper() not in isa.Op.__members__:
        known = ", ".join(op.name.lower() for op in isa.Op)
        raise ArgumentError(repr(name), "unknown operation", f"one of gemm, reset, {known}")
    return record(isa.Alu, {**values, "op": isa.Op[name.upper()], **_options(isa.Alu, rest)})


# --- program -> text ------------------------------------------------------------------------------


def text(program: Program, config: Config = vta_pynq) -> str:
    """Return a program as assembly text: parse(text(p, config), config) == p."""
    check_program(program)
    check_config(config)
    return "\n".join([*_head(program), *_lines(program, config)])


def listing(program: Program, config: Config = vta_pynq) -> str:
    """Return the text with the number of each instruction, and the tokens in each queue after it.

    The tokens are counted as if the instructions ran in program order. A negative count means that
    a later instruction must push a token first.
    """
    check_program(program)
    check_config(config)
    left = [0] * len(QUEUES)
    lines = list(_lines(program, config))
    width = max(map(len, lines), default=0)
    shown: list[str] = []
    for n, (line, wire) in enumerate(zip(lines, program.wires, strict=True)):
        for q in wire.pops:
            left[q] -= 1
        for q in wire.pushes:
            left[q] += 1
        counts = "  ".join(
            f"{queue.value} {count}" for queue, count in zip(QUEUES, left, strict=True)
        )
        shown.append(f"{line:{width}}  # {n:4}  {counts}")
    return "\n".join([*_head(program), *shown])


def _head(program: Program) -> Iterator[str]:
    """Yield the lines of the areas and the micro-operations."""
    for area in program.areas:
        extents = "".join(f" {extent}" for extent in area.shape)
        yield f"area {area.name} {area.memory.name.lower()}{extents} at {area.base}"
    for uop in program.uops:
        yield f"uop {uop.dst} {uop.src} {uop.wgt}"


def _lines(program: Program, config: Config) -> Iterator[str]:
    """Yield one line per instruction."""
    for instruction in program.instructions:
        unit = isa.unit_of(instruction)
        pairs = isa.tokens(unit, instruction.flags)
        tokens = "".join(f"   {verb} {SHORT[neighbour]}" for verb, neighbour in pairs if neighbour)
        yield f"{SHORT[unit]}  {_body(instruction, program.areas, config)}{tokens}"


def _body(instruction: isa.Instruction, areas: Sequence[Area], config: Config) -> str:
    """Return the text of an instruction without its unit and its tokens."""
    options = _given(instruction)
    match instruction:
        case isa.Load() | isa.Store() if isa.is_nop(instruction) and instruction == isa.nop(
            isa.unit_of(instruction), instruction.flags
        ):
            return "nop"
        case isa.Load(memory=memory, sram=sram, dram=dram):
            source = _place(dram, memory, areas, config)
            return f"{memory.name.lower()}[{sram}] = {source}{options}"
        case isa.Store(sram=sram, dram=dram):
            return f"{_place(dram, Memory.OUT, areas, config)} = acc[{sram}]{options}"
        case isa.Gemm(loops=loops) | isa.Alu(loops=loops):
            return f"{isa.mnemonic(instruction)} u[{loops.begin}:{loops.end}]{options}"
        case isa.Finish():
            return "finish"


def _given(instruction: isa.Instruction) -> str:
    """Return x and the options that differ from their defaults as text, such as " y=2 x=4"."""
    default, shown = FORMATS[type(instruction)].default, ""
    for key, fields in keyed(type(instruction)).items():
        numbers = [field.read(instruction) for field in fields]
        if key == "x" or numbers != [field.read(default) for field in fields]:
            shown += f" {key}={','.join(map(str, numbers))}"
    return shown


def _place(dram: int, memory: Memory, areas: Sequence[Area], config: Config) -> str:
    """Return an address as name[index] in its area, or as DRAM[index]."""
    if memory is Memory.UOP:
        return f"uops[{dram}]"
    size = config.element_bytes(memory)
    for area in areas:
        begin, end = area.byte_range(config)
        if begin <= dram * size < end and begin % size == 0:
            return f"{area.name}[{dram - begin // size}]"
    return f"DRAM[{dram}]"
