"""Remove all tokens from a program, or add tokens so that only one unit runs at a time."""

from __future__ import annotations

from dataclasses import replace

from .isa import NO_FLAGS, Finish, Flags, Instruction, Unit, flags_of, nop, unit_of
from .program import Program, check_program


def strip_tokens(program: Program) -> Program:
    """Return the program without tokens, so that nothing orders the units."""
    check_program(program)
    stripped = (replace(i, flags=NO_FLAGS) for i in program.instructions)
    return Program(tuple(stripped), program.uops, program.areas)


def serial(program: Program) -> Program:
    """Return the program with tokens that make each instruction wait for the previous one.

    load; gemm; store   ->   load push_next; gemm pop_prev push_next; store pop_prev; nop pop_next

    Tokens are passed only where the unit changes. There is no queue between load and store, so a
    nop of compute is inserted between them, and before FINISH, which takes no token.
    Source: VTA's runtime flag FORCE_SERIAL, which links neighbouring instructions in the same way.
    """
    check_program(program)
    chain: list[Instruction] = []
    for instruction in program.instructions:
        previous, current = unit_of(chain[-1]) if chain else None, unit_of(instruction)
        before_finish = isinstance(instruction, Finish) and previous is not Unit.COMPUTE
        if chain and (before_finish or {previous, current} == {Unit.LOAD, Unit.STORE}):
            chain.append(nop(Unit.COMPUTE, NO_FLAGS))
        chain.append(replace(instruction, flags=NO_FLAGS))
    units = [unit_of(instruction) for instruction in chain]
    instructions = tuple(
        replace(instruction, flags=_flags(unit, before, after))
        for instruction, unit, before, after in zip(
            chain, units, [None, *units[:-1]], [*units[1:], None], strict=True
        )
    )
    return Program(instructions, program.uops, program.areas)


def _flags(unit: Unit, before: Unit | None, after: Unit | None) -> Flags:
    """Return flags that pop from unit `before` and push to unit `after`, where these differ."""
    pairs = (("pop", before), ("push", after))
    return flags_of(
        unit, [(verb, neighbour) for verb, neighbour in pairs if neighbour not in (None, unit)]
    )
