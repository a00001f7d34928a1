"""A simulator of a VTA-like accelerator, with an assembler, a timing model and a verifier.

    program = parse(text)                            from assembly text; Program(...) takes records
    run = simulate(program, vta_pynq, {"A": a})      outputs, cycles, trace, counters
    verdict = verify(program)                        deadlock, leaks, races, hazards, ...

VTA has several implementations that do not agree. Where they differ, this one follows VTA's
functional simulator, with these exceptions and decisions:

    MUL, SHR     32 bits; shifts by 32 or more shift all bits out (HLS has no MUL and reads the
                 amount as a signed 5-bit number, so that its SHR 16 shifts left)
    STORE        narrows ACC when it runs (hardware stores a narrowed copy that only GEMM and ALU
                 write, so an accumulator that was only loaded is stored stale; verify() warns)
    GEMM reset   clears ACC, and OUT with it
    padding      works for INP, WGT, ACC and ACC_8BIT (HLS does not pad WGT)
    rates        GEMM 1, ALU 2 cycles per micro-operation by default; parameters of Config
    deadlock     is a result that names the unit, instruction and queue (the original loops forever)
    memories     start poisoned in every run (VTA's simulator starts from zeros once, and hardware
                 from the previous program's data); verify() reports reads before any write
    tokens       are not lost: a full queue makes its pusher wait (Chisel drops tokens over 255);
                 leftover tokens are reported, and each run starts with none
    x = 0        moves and pads nothing; such an instruction only carries tokens (a NOP)
    uops         are loaded from a table of the program, not from the bytes of DRAM
    ACC_8BIT     exists (not in HLS); acc_load_nbytes counts the bytes that are moved, one for each
                 number (VTA's simulator counts the four of the accumulator)
    hazards      GEMM and ALU run as if every micro-operation ended before the next; verify()
                 reports where the pipeline of the hardware would read an old value
"""

# pyright: reportUnusedImport=false

from .asm import listing, parse, text
from .config import CONFIGS, Config, Memory, vdla8x8, vdla_osdi18, vta_pynq
from .elements import Indices, resolve, rows, total
from .encode import decode, decode_uop, encode, encode_uop
from .execute import execute
from .fields import MAX_UOPS
from .initialised import Stale, Uninitialised
from .isa import (
    IMMEDIATES,
    NO_FLAGS,
    Alu,
    Finish,
    Flags,
    Gemm,
    Instruction,
    Load,
    Op,
    Queue,
    Store,
    Unit,
    Uop,
    UopLoops,
    is_nop,
    mnemonic,
    nop,
    unit_of,
)
from .program import RESERVED_NAMES, Area, Program, Wire, label, place
from .rewrite import serial, strip_tokens
from .simulate import Counters, Run, counters, overlap, simulate
from .timing import Blocked, Event, Stall, Timing, Trace, durations, measure
from .tokens import in_order
from .verify import Hazard, Race, Verdict, explain, verify, witness
