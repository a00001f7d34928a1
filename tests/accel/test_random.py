"""Random programs: every legal order computes what plain Python does, one element at a time."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minitvm.accel import (
    Alu,
    Config,
    Finish,
    Flags,
    Gemm,
    Instruction,
    Load,
    Memory,
    Op,
    Program,
    Queue,
    Store,
    Unit,
    Uop,
    UopLoops,
    decode,
    durations,
    encode,
    execute,
    in_order,
    measure,
    nop,
    parse,
    place,
    serial,
    simulate,
    text,
    unit_of,
    verify,
    witness,
)

SMALL = Config(
    name="small",
    batch=2,
    block_in=2,
    block_out=2,
    inp_bytes=8 * 4,
    wgt_bytes=4 * 4,
    acc_bytes=8 * 16,
    uop_bytes=16 * 4,
    token_latency=0,
)
AREAS = place(
    SMALL,
    {
        "A": (Memory.INP, (12,)),
        "W": (Memory.WGT, (8,)),
        "B": (Memory.ACC, (12,)),
        "C": (Memory.OUT, (12,)),
    },
)
A, W, B, C = AREAS

# --- the oracle: integers, one at a time ----------------------------------------------------------


def wrap(x: int, bits: int) -> int:
    return (x + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


POISON = {Memory.INP: 0x5A, Memory.WGT: 0x5A, Memory.ACC: 0x5A5A5A5A}
OPS = {
    Op.MIN: min,
    Op.MAX: max,
    Op.ADD: lambda a, b: a + b,
    Op.MUL: lambda a, b: a * b,
    Op.SHR: lambda a, b: a >> b if b >= 0 else a << -b,
}


@dataclass
class Slow:
    """All bytes and numbers in dictionaries; every access is noted."""

    dram: list[int]
    uops: tuple[Uop, ...]
    chip: dict = field(default_factory=dict)  # (memory, element, row, column) -> number
    reads: set = field(default_factory=set)
    writes: set = field(default_factory=set)
    unwritten: set = field(default_factory=set)  # elements that were read before any write
    outputs: list[int] = field(default_factory=list)

    def get(self, memory: Memory, element: int, row: int, column: int) -> int:
        self.reads.add((memory, element))
        if (memory, element, row, column) not in self.chip:
            self.unwritten.add((memory, element))
        return self.chip.get((memory, element, row, column), POISON[memory])

    def put(self, memory: Memory, element: int, row: int, column: int, value: int) -> None:
        self.writes.add((memory, element))
        self.chip[memory, element, row, column] = value

    def step(self, instruction: Instruction) -> None:
        self.reads, self.writes = set(), set()
        match instruction:
            case Load(memory=Memory.UOP, sram=sram, dram=dram, x=x):
                for n in range(x):
                    self.chip["uop", sram + n] = self.uops[dram + n]
            case Load(x=x) if x:
                self.load(instruction)
            case Store(sram=sram, dram=dram, y=y, x=x, stride=stride):
                for n in range(y * x):
                    for k in range(4):
                        byte = (dram + n // x * stride + n % x) * 4 + k
                        value = self.get(Memory.ACC, sram + n, k // 2, k % 2)
                        self.dram[byte] = value % 256
                        self.writes.add(("DRAM", byte))
            case Gemm() | Alu():
                self.loops(instruction)
            case Finish():
                self.outputs = list(self.dram)
                self.reads |= {("DRAM", byte) for byte in range(len(self.dram))}

    def load(self, load: Load) -> None:
        width = 4 if load.memory is Memory.ACC else 1
        to = Memory.ACC if load.memory is Memory.ACC_8BIT else load.memory
        at = load.sram
        for y in range(-load.y_pad[0], load.y + load.y_pad[1]):
            for x in range(-load.x_pad[0], load.x + load.x_pad[1]):
                inside = 0 <= y < load.y and 0 <= x < load.x
                for k in range(4):
                    first = ((load.dram + y * load.stride + x) * 4 + k) * width
                    bytes_ = self.dram[first : first + width] if inside else [0] * width
                    number = int.from_bytes(bytes(bytes_), "little", signed=True)
                    self.put(to, at, k // 2, k % 2, number)
                    if inside:
                        self.reads |= {("DRAM", byte) for byte in range(first, first + width)}
                at += 1

    def loops(self, instruction: Gemm | Alu) -> None:
        loops = instruction.loops
        for i in range(loops.outer):
            for j in range(loops.inner):
                for n in range(loops.begin, loops.end):
                    uop = self.chip["uop", n]
                    dst = uop.dst + i * loops.dst_factors[0] + j * loops.dst_factors[1]
                    src = uop.src + i * loops.src_factors[0] + j * loops.src_factors[1]
                    wgt = uop.wgt + i * loops.wgt_factors[0] + j * loops.wgt_factors[1]
                    for row in range(2):
                        for column in range(2):
                            value = self.value(instruction, dst, src, wgt, row, column)
                            self.put(Memory.ACC, dst, row, column, wrap(value, 32))

    def value(self, instruction: Gemm | Alu, dst: int, src: int, wgt: int, row, column) -> int:
        match instruction:
            case Gemm(reset=True):
                return 0
            case Gemm():
                return self.get(Memory.ACC, dst, row, column) + sum(
                    self.get(Memory.INP, src, row, k) * self.get(Memory.WGT, wgt, column, k)
                    for k in range(2)
                )
            case Alu(op=op, imm=imm):
                other = self.get(Memory.ACC, src, row, column) if imm is None else imm
                if op is Op.SHR:
                    other = max(other, -64)  # all bits are out
                return OPS[op](self.get(Memory.ACC, dst, row, column), other)


def slow(
    instructions, uops, inputs: dict[str, np.ndarray]
) -> tuple[bytes, list[tuple[set, set]], set]:
    """The bytes of C after running in order, what each instruction reads and writes, and what is
    read before it is written."""
    raw = bytearray(C.byte_range(SMALL)[1])
    for area in AREAS:
        begin, end = area.byte_range(SMALL)
        raw[begin:end] = inputs[area.name].tobytes()
    machine, touched = Slow(list(raw), uops), []
    for instruction in instructions:
        machine.step(instruction)
        touched.append((machine.reads, machine.writes))
    begin, end = C.byte_range(SMALL)
    return bytes(machine.outputs[begin:end]), touched, machine.unwritten


# --- random instructions --------------------------------------------------------------------------

uop_lists = st.lists(
    st.builds(Uop, st.integers(0, 3), st.integers(0, 3), st.integers(0, 1)), min_size=6, max_size=6
)
factors = st.tuples(st.integers(0, 2), st.integers(0, 1))  # indices reach 3 + 2 + 1 + ... < 8


@st.composite
def looped(draw) -> UopLoops:
    begin = draw(st.integers(0, 5))
    return UopLoops(
        begin=begin,
        end=draw(st.integers(begin, 6)),
        outer=draw(st.integers(1, 2)),
        inner=draw(st.integers(1, 3)),
        dst_factors=draw(factors),
        src_factors=draw(factors),
    )


@st.composite
def loads(draw) -> Load:
    memory, area, depth = draw(
        st.sampled_from(
            [
                (Memory.INP, A, 8),
                (Memory.WGT, W, 4),
                (Memory.ACC, B, 8),
                (Memory.INP, C, 8),
                (Memory.ACC_8BIT, A, 8),
                (Memory.ACC_8BIT, C, 8),
            ]
        )
    )
    y, x = draw(st.sampled_from([(1, 1), (1, 2), (2, 1), (1, 3), (2, 2)]))
    y_pad, x_pad = (0, 0), (0, 0)
    if x == 1:
        y_pad = draw(st.sampled_from([(0, 0), (1, 0), (0, 1)]))
        x_pad = draw(st.sampled_from([(0, 0), (1, 0)]))
    size = (y + sum(y_pad)) * (x + sum(x_pad))
    stride = draw(st.integers(0, 3))
    last = area.shape[0] - (y - 1) * stride - x
    dram, y_size = (draw(st.integers(0, last)), size) if size <= depth else (0, 0)
    if not y_size:
        return Load(memory=memory, x=1)
    base = area.byte_range(SMALL)[0] // SMALL.element_bytes(memory)
    sram = draw(st.integers(0, depth - size))
    return Load(
        memory=memory,
        sram=sram,
        dram=base + dram,
        y=y,
        x=x,
        stride=stride,
        y_pad=y_pad,
        x_pad=x_pad,
    )


@st.composite
def stores(draw) -> Store:
    y, x, stride = draw(st.sampled_from([(1, 1, 0), (1, 3, 0), (2, 2, 3), (2, 2, 1), (3, 1, 2)]))
    dram = C.base + draw(st.integers(0, 12 - (y - 1) * stride - x))
    return Store(sram=draw(st.integers(0, 8 - y * x)), dram=dram, y=y, x=x, stride=stride)


instructions = st.one_of(
    loads(),
    loads(),
    stores(),
    st.builds(Gemm, loops=looped(), reset=st.sampled_from([False, False, True])),
    st.builds(
        Alu,
        op=st.sampled_from(Op),
        loops=looped(),
        imm=st.none() | st.integers(-40, 40) | st.integers(-(1 << 15), (1 << 15) - 1),
    ),
)

# --- tokens where elements are shared -------------------------------------------------------------

QUEUE = {
    (Unit.LOAD, Unit.COMPUTE): ("push_next", "pop_prev"),
    (Unit.COMPUTE, Unit.LOAD): ("push_prev", "pop_next"),
    (Unit.COMPUTE, Unit.STORE): ("push_next", "pop_prev"),
    (Unit.STORE, Unit.COMPUTE): ("push_prev", "pop_next"),
}


class Placer:
    """Appends instructions, each with the tokens that order it after what it must follow."""

    def __init__(self) -> None:
        self.instructions: list[Instruction] = []
        self.before: list[set[int]] = []  # every instruction that comes first in all orders
        self.pushed: dict[tuple[Unit, Unit], int] = {}

    def known(self, unit: Unit) -> set[int]:
        """What comes before the next instruction of a unit, tokens of its own aside."""
        mine = [n for n, other in enumerate(self.instructions) if unit_of(other) is unit]
        return {mine[-1]} | self.before[mine[-1]] if mine else set()

    def append(self, instruction: Instruction, after: set[int]) -> int:
        """Its number. `after` are the instructions that it has to follow."""
        unit = unit_of(instruction)
        if isinstance(instruction, Finish):  # takes no tokens: a nop does
            after = {self.append(nop(unit, Flags()), after)}
        known = self.known(unit)
        after = after - known
        far = {n for n in after if {unit_of(self.instructions[n]), unit} == {Unit.LOAD, Unit.STORE}}
        if far:  # no queue between these
            after = after - far | {self.append(nop(Unit.COMPUTE, Flags()), far)}
        for other in Unit:
            late = [n for n in after - known if unit_of(self.instructions[n]) is other]
            if late:
                instruction = self.join(max(late), other, unit, instruction)
                known = known | {max(late)} | self.before[max(late)]
        self.instructions.append(instruction)
        self.before.append(known)
        return len(self.instructions) - 1

    def join(self, n: int, source: Unit, target: Unit, instruction: Instruction) -> Instruction:
        """Push at n, pop at `instruction`, which it returns. Pushes into a queue come in order."""
        push, pop = QUEUE[source, target]
        assert self.pushed.get((source, target), -1) < n
        self.pushed[source, target] = n
        old = self.instructions[n]
        self.instructions[n] = replace(old, flags=replace(old.flags, **{push: True}))
        return replace(instruction, flags=replace(instruction.flags, **{pop: True}))


def clash(a: tuple[set, set], b: tuple[set, set]) -> bool:
    return bool(a[1] & (b[0] | b[1]) or b[1] & a[0])


@dataclass
class Case:
    program: Program
    inputs: dict[str, np.ndarray]
    expected: bytes
    unwritten: set


def build(body: list[Instruction], uops: list[Uop], seed: int) -> Case:
    """A program with as few tokens as its elements need, and its outputs."""
    rng = np.random.default_rng(seed)
    inputs = {
        area.name: rng.integers(-128, 128, area.shape + SMALL.element_shape(area.memory)).astype(
            SMALL.dtype(area.memory)
        )
        for area in AREAS
    }
    inputs["B"] = rng.integers(-(1 << 31), 1 << 31, inputs["B"].shape).astype(np.int32)
    whole = [Load(memory=Memory.UOP, x=len(uops)), *body, Finish()]
    expected, touched, unwritten = slow(whole, tuple(uops), inputs)
    placer, numbers = Placer(), []
    for n, instruction in enumerate(whole):
        after = {numbers[k] for k in range(n) if clash(touched[k], touched[n])}
        numbers.append(placer.append(instruction, after))
    program = Program(tuple(placer.instructions), tuple(uops), AREAS)
    return Case(program, inputs, expected, unwritten)


cases = st.builds(build, st.lists(instructions, max_size=14), uop_lists, st.integers(0, 1 << 30))


@given(cases)
@settings(max_examples=200)
def test_every_legal_order_computes_what_plain_python_does(case: Case) -> None:
    for order in (None, *map(np.random.default_rng, range(4))):
        outputs = execute(case.program, SMALL, case.inputs, order)
        assert outputs["C"].tobytes() == case.expected


@given(cases)
def test_the_verdict_on_enough_tokens_is_good(case: Case) -> None:
    found = verify(case.program, SMALL)
    assert (found.deadlock, found.leaks, found.races) == ((), (), ())


@given(cases)
@settings(max_examples=200)
def test_uninitialised_reads_are_those_of_plain_python(case: Case) -> None:
    """Each read that is reported is one, and a memory with any is reported."""
    found = {(Memory[r.space], r.element) for r in verify(case.program, SMALL).uninitialised}
    assert found <= case.unwritten
    assert {memory for memory, _ in found} == {memory for memory, _ in case.unwritten}


@given(cases)
def test_programs_come_back_from_text_and_bits(case: Case) -> None:
    assert parse(text(case.program, SMALL), SMALL) == case.program
    for instruction in case.program.instructions:
        assert decode(*encode(instruction)) == instruction


@given(cases)
def test_one_unit_at_a_time_computes_the_same_and_takes_the_sum(case: Case) -> None:
    run = simulate(serial(case.program), SMALL, case.inputs)
    assert run.outputs["C"].tobytes() == case.expected
    assert run.cycles == sum(durations(case.program, SMALL))
    fast = measure(case.program, SMALL)
    assert fast.cycles <= run.cycles


PAIRS = {
    Queue.L2G: (Unit.LOAD, "push_next", Unit.COMPUTE, "pop_prev"),
    Queue.G2L: (Unit.COMPUTE, "push_prev", Unit.LOAD, "pop_next"),
    Queue.G2S: (Unit.COMPUTE, "push_next", Unit.STORE, "pop_prev"),
    Queue.S2G: (Unit.STORE, "push_prev", Unit.COMPUTE, "pop_next"),
}


def ordered(program: Program) -> np.ndarray:
    """[i, j]: does i come before j in every order? By closing the graph over, not by clocks."""
    stream = program.instructions
    before = np.zeros((len(stream), len(stream)), bool)
    for unit in Unit:
        own = [n for n, instruction in enumerate(stream) if unit_of(instruction) is unit]
        before[own[:-1], own[1:]] = True
    for queue in Queue:
        before[ends(program, queue)] = True
    for k in range(len(stream)):
        before |= before[:, k : k + 1] & before[k]
    return before


def ends(program: Program, queue: Queue) -> tuple[list[int], list[int]]:
    """The instructions that push into a queue, and those that pop from it."""
    source, push, target, pop = PAIRS[queue]
    stream = list(enumerate(program.instructions))
    return (
        [n for n, i in stream if unit_of(i) is source and getattr(i.flags, push)],
        [n for n, i in stream if unit_of(i) is target and getattr(i.flags, pop)],
    )


def drop(program: Program, queue: Queue, at: int) -> Program | None:
    """The program without the at-th push and pop of a queue, None if there are fewer."""
    stream = list(program.instructions)
    _, push, _, pop = PAIRS[queue]
    for found, flag in zip(ends(program, queue), (push, pop), strict=True):
        if at >= len(found):
            return None
        old = stream[found[at]]
        stream[found[at]] = replace(old, flags=replace(old.flags, **{flag: False}))
    return Program(tuple(stream), program.uops, program.areas)


@given(cases, st.sampled_from(Queue), st.integers(0, 3))
@settings(max_examples=200)
def test_races_are_exactly_the_unordered_pairs(case: Case, queue: Queue, at: int) -> None:
    program = drop(case.program, queue, at)
    if program is None:
        return
    found = verify(program, SMALL)
    before = ordered(program)
    _, touched, _ = slow(program.instructions, program.uops, case.inputs)
    unordered = {
        (i, j)
        for j in range(len(touched))
        for i in range(j)
        if not before[i, j] and clash(touched[i], touched[j])
    }
    reported = {(race.first, race.second) for race in found.races}
    assert not found.deadlock
    assert {tuple(sorted(pair)) for pair in reported} <= unordered
    assert bool(reported) == bool(unordered)
    for race in found.races:
        order = witness(program, race)
        assert order.index(race.second) < order.index(race.first)
        execute(program, SMALL, case.inputs, order)


def misplaced(case: Case, bits: list[int]) -> Program:
    """The program with flags drawn at random, as far as queues exist."""
    stream: list[Instruction] = []
    for n, instruction in enumerate(case.program.instructions[:-1]):
        unit, bit = unit_of(instruction), bits[n % len(bits)]
        flags = Flags(
            pop_prev=bit & 1 > 0 and unit is not Unit.LOAD,
            pop_next=bit & 2 > 0 and unit is not Unit.STORE,
            push_prev=bit & 4 > 0 and unit is not Unit.LOAD,
            push_next=bit & 8 > 0 and unit is not Unit.STORE,
        )
        stream.append(replace(instruction, flags=flags))
    return Program((*stream, Finish()), case.program.uops, AREAS)


@given(cases, st.lists(st.sampled_from([0, 0, 4, 8, 9, 6, 12, 15]), min_size=1, max_size=9))
def test_any_tokens_end_in_a_result(case: Case, bits: list[int]) -> None:
    program = misplaced(case, bits)
    run = simulate(program, SMALL, case.inputs)
    ran = {len(in_order(program, order)) for order in (None, np.random.default_rng(0))}
    assert ran == {len(run.trace)}
    assert bool(run.blocked) == (len(run.trace) < len(program.instructions))
    found = verify(program, SMALL)
    assert found.deadlock == run.blocked
    if not found.deadlock and not found.races:
        drawn = execute(program, SMALL, case.inputs, np.random.default_rng(0))
        assert run.outputs["C"].tobytes() == drawn["C"].tobytes()
        if in_order(program) == tuple(range(len(program.instructions))):  # none waits for a later
            assert run.outputs["C"].tobytes() == case.expected


@pytest.mark.parametrize("queue", Queue)
def test_random_programs_use_every_queue(queue: Queue) -> None:
    used = 0
    for seed in range(5):
        body = [
            Load(memory=Memory.INP, x=1, dram=A.base),
            Load(memory=Memory.WGT, x=1, dram=W.base),
            Gemm(loops=UopLoops(begin=0, end=1)),
            Store(x=1, dram=C.base),
            Load(memory=Memory.INP, x=1, dram=C.byte_range(SMALL)[0] // 4),
            Gemm(loops=UopLoops(begin=0, end=1)),
            Store(x=1, dram=C.base),
        ]
        case = build(body, [Uop(0, 0, 0)] * 6, seed)
        used += drop(case.program, queue, 0) is not None
        assert execute(case.program, SMALL, case.inputs)["C"].tobytes() == case.expected
    assert used == 5
