"""The listings on latency hiding of the talk "TVM: An End-to-End Optimizing Compiler for Deep
Learning", line by line: a program of one thread, its tokens, and two threads in one."""

import pytest

import minitvm as tvm
from minitvm import vta
from minitvm.accel import Queue
from minitvm.driver import TARGETS
from minitvm.runtime import AcceleratorFunction
from minitvm.vta import Config, Environment

from .programs import Scheduled, talk

WIDE = Environment(Config(name="wide", block_in=8, block_out=8))  # elements of 8, as in the talk

ONE_THREAD = """
for x_outer in bind(2, 'cthread'):
  CL = allocate((8,), "int32", "local.acc_buffer")
  for k in range(128):
    AL = allocate((1, 8), "int8", "local.inp_buffer")
    ld.dma_copy2d(AL, A[k][x_outer*8:x_outer*8+8])
    ex.accumulate(AL, CL)
"""
WITH_TOKENS = """
for x_outer in bind(2, 'cthread'):
  CL = allocate((8,), "int32", "local.acc_buffer")
  ex.push_dep_to(ld)
  for k in range(128):
    AL = allocate((1, 8), "int8", "local.inp_buffer")
    ld.pop_dep_from(ex)
    ld.dma_copy2d(AL, A[k][x_outer*8:x_outer*8+8])
    ld.push_dep_to(ex)
    ex.pop_dep_from(ld)
    ex.accumulate(AL, CL)
    ex.push_dep_to(ld)
  ld.pop_dep_from(ex)
"""
INTERLEAVED = """
CL = allocate((2, 8), "int32", "local.acc_buffer")
ex.push_dep_to(ld)
ex.push_dep_to(ld)
for k in range(128):
  AL = allocate((2, 1, 8), "int8", "local.inp_buffer")
  ld.pop_dep_from(ex)
  ld.dma_copy2d(AL[0], A[k][0:8])
  ld.push_dep_to(ex)
  ld.pop_dep_from(ex)
  ld.dma_copy2d(AL[1], A[k][8:16])
  ld.push_dep_to(ex)
  ex.pop_dep_from(ld)
  ex.accumulate(AL[0], CL[0])
  ex.push_dep_to(ld)
  ex.pop_dep_from(ld)
  ex.accumulate(AL[1], CL[1])
  ex.push_dep_to(ld)
ld.pop_dep_from(ex)
ld.pop_dep_from(ex)
"""


def body(program: Scheduled, until: str = "") -> str:
    """The loops, without the line of the function."""
    func = tvm.lower(*program, target="vta", until=until)
    return "\n".join(["", *(line[2:] for line in str(func).splitlines()[1:]), ""])


def built(length: int, threads: int = 2) -> AcceleratorFunction:
    with WIDE:
        return vta.build(*talk(length, threads))


def queues(f: AcceleratorFunction) -> dict[Queue, tuple[int, int]]:
    """Tokens pushed into each queue, and popped."""
    counts = {q: [0, 0] for q in range(len(Queue))}
    for wire in f.program.wires:
        for q in wire.pushes:
            counts[q][0] += 1
        for q in wire.pops:
            counts[q][1] += 1
    return {
        queue: (pushed, popped)
        for queue, (pushed, popped) in zip(Queue, counts.values(), strict=True)
    }


@pytest.mark.parametrize(
    ("until", "listing"),
    [
        ("assign_units", ONE_THREAD),
        ("inject_coproc_sync", WITH_TOKENS),
        ("inject_virtual_thread", INTERLEAVED),
    ],
)
def test_a_listing_of_the_talk_is_what_the_pass_makes(until: str, listing: str) -> None:
    assert body(talk(128), until) == listing


def test_one_thread_of_the_talk_waits_for_each_load() -> None:
    assert (
        body(talk(2, threads=1))
        == """
CL = allocate((8,), "int32", "local.acc_buffer")
ex.push_dep_to(ld)
for k in range(2):
  AL = allocate((1, 8), "int8", "local.inp_buffer")
  ld.pop_dep_from(ex)
  ld.dma_copy2d(AL, A[k])
  ld.push_dep_to(ex)
  ex.pop_dep_from(ld)
  ex.accumulate(AL, CL)
  ex.push_dep_to(ld)
ld.pop_dep_from(ex)
"""
    )


def test_its_instructions_carry_the_tokens_as_flags() -> None:
    assert built(2).source("vta").splitlines()[4:] == [
        "ex  nop   push ld                                  #    0  l2g 0  g2l 1  g2s 0  s2g 0",
        "ex  nop   push ld                                  #    1  l2g 0  g2l 2  g2s 0  s2g 0",
        "ld  inp[0] = A[0] x=1 stride=1   pop ex   push ex  #    2  l2g 1  g2l 1  g2s 0  s2g 0",
        "ld  inp[1] = A[1] x=1 stride=1   pop ex   push ex  #    3  l2g 2  g2l 0  g2s 0  s2g 0",
        "ex  uop[0] = uops[0] x=1   pop ld                  #    4  l2g 1  g2l 0  g2s 0  s2g 0",
        "ex  gemm u[0:1]   push ld                          #    5  l2g 1  g2l 1  g2s 0  s2g 0",
        "ex  uop[1] = uops[1] x=1   pop ld                  #    6  l2g 0  g2l 1  g2s 0  s2g 0",
        "ex  gemm u[1:2]   push ld                          #    7  l2g 0  g2l 2  g2s 0  s2g 0",
        "ld  inp[0] = A[2] x=1 stride=1   pop ex   push ex  #    8  l2g 1  g2l 1  g2s 0  s2g 0",
        "ld  inp[1] = A[3] x=1 stride=1   pop ex   push ex  #    9  l2g 2  g2l 0  g2s 0  s2g 0",
        "ex  gemm u[0:1]   pop ld   push ld                 #   10  l2g 1  g2l 1  g2s 0  s2g 0",
        "ex  gemm u[1:2]   pop ld   push ld                 #   11  l2g 0  g2l 2  g2s 0  s2g 0",
        "ld  nop   pop ex                                   #   12  l2g 0  g2l 1  g2s 0  s2g 0",
        "st  nop   push ex                                  #   13  l2g 0  g2l 1  g2s 0  s2g 1",
        "ld  nop   pop ex                                   #   14  l2g 0  g2l 0  g2s 0  s2g 1",
        "ld  nop   push ex                                  #   15  l2g 1  g2l 0  g2s 0  s2g 1",
        "ex  nop   pop ld   pop st                          #   16  l2g 0  g2l 0  g2s 0  s2g 0",
        "ex  finish                                         #   17  l2g 0  g2l 0  g2s 0  s2g 0",
    ]


def test_128_steps_of_two_threads_are_520_instructions_and_two_loads_of_uops() -> None:
    f = built(128)
    assert len(f.program.instructions) == 520 + 2
    assert queues(f) == {
        Queue.L2G: (257, 257),
        Queue.G2L: (258, 258),
        Queue.G2S: (0, 0),
        Queue.S2G: (1, 1),
    }


def test_two_threads_overlap_and_one_does_not() -> None:
    one, two = (built(64, threads).run() for threads in (1, 2))
    assert two.cycles < 2 * one.cycles
    assert sum(cycles for units, cycles in one.overlap.items() if len(units) > 1) == 0
    assert sum(cycles for units, cycles in two.overlap.items() if len(units) > 1) > 0


def test_tokens_after_interleaving_are_safe_and_let_nothing_overlap() -> None:
    """The wrong order of the two passes: both threads wait for each other."""
    names = [p.__name__ for p in TARGETS["vta"].passes]
    tokens, threads = names.index("inject_coproc_sync"), names.index("inject_virtual_thread")
    passes = list(TARGETS["vta"].passes)
    passes[tokens], passes[threads] = passes[threads], passes[tokens]
    with WIDE:
        f = vta.build(tvm.lower(*talk(16), target="vta", passes=tuple(passes)))
    run = f.run()
    assert sum(cycles for units, cycles in run.overlap.items() if len(units) > 1) == 0


def test_what_the_talk_leaves_out_is_a_warning() -> None:
    """It is built to be timed: no weights are loaded, and nothing is set to 0."""
    assert built(2).warnings() == (
        "uninitialised: instruction 5 (gemm) reads WGT[0], which nothing has written",
        "uninitialised: instruction 5 (gemm) reads ACC[0], which nothing has written",
        "uninitialised: instruction 7 (gemm) reads ACC[1], which nothing has written",
    )
