"""What ptxas and nvdisasm print is read as numbers; blocks per multiprocessor follow from them."""

from __future__ import annotations

import pytest

from minitvm.runtime.gpu_resources import KernelResources, Resources, main_loop, parse_resources

LOG = """
ptxas info    : 8 bytes gmem
ptxas info    : Compiling entry function '_ZN4main' for 'sm_90'
ptxas info    : Function properties for _ZN4main
    24 bytes stack frame, 20 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 126 registers, used 1 barriers, 16608 bytes smem
ptxas info    : Compile time = 103.672 ms
"""
LITTLE = """
ptxas info    : Function properties for _ZN4main
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""
SASS = """
        .section        .text._ZN4main,"ax",@progbits
.text._ZN4main:
        /*0000*/                   LDC R1, c[0x0][0x28] ;
        /*0010*/                   FFMA R0, R0, R1, R2 ;
        /*0020*/              @!P0 BRA `(.L_x_9) ;
.L_x_1:
        /*0030*/                   LDG.E.128 R4, desc[UR4][R2.64] ;
.L_x_2:
        /*0040*/                   FFMA R0, R0, R1, R2 ;
        /*0050*/              @!P3 FFMA.FTZ R0, R0, R1.reuse, R2 ;
        /*0060*/                   FFMA R0, -R0, c[0x3][0x0], R2 ;
        /*0070*/          @!UP0 UIADD3 UR4, UR4, 0x1, URZ ;
        /*0080*/               @P1 BRA `(.L_x_2) ;
        /*0090*/                   HFMA2.MMA R5, -RZ, RZ, 0, 0 ;
        /*00a0*/               @P2 BRA `(.L_x_1) ;
.L_x_9:
        /*00b0*/                   EXIT ;
.L_x_3:
        /*00c0*/                   BRA `(.L_x_3);
        /*00d0*/                   NOP;
"""
STRAIGHT = """
        /*0000*/                   LDS R1, [R0] ;
        /*0010*/                   FFMA R0, R0, R1, R2 ;
        /*0020*/                   EXIT ;
.L_x_3:
        /*0030*/                   BRA `(.L_x_3);
        /*0040*/                   NOP;
"""


def test_numbers_of_a_kernel() -> None:
    kernel = parse_resources("main_kernel", 256, LOG, SASS)
    expected = KernelResources("main_kernel", 256, 126, 20, 24, 16608, 0.6, 5)
    assert kernel == expected


def test_what_a_kernel_does_not_use_is_zero() -> None:
    kernel = parse_resources("main_kernel", 32, LITTLE, SASS)
    assert (kernel.registers, kernel.spilled, kernel.stack, kernel.shared) == (10, 0, 0, 0)


def test_the_main_loop_is_the_innermost_with_the_most_multiply_adds() -> None:
    assert main_loop(SASS) == (3 / 5, 5)
    assert main_loop(STRAIGHT) == (1 / 4, 4)  # no loop has any: all but the padding
    assert main_loop("") == (0, 0)


@pytest.mark.parametrize(
    ("threads", "registers", "shared", "blocks", "limit"),
    [
        (256, 128, 16384, 2, "registers"),
        (256, 129, 16384, 1, "registers"),  # allocated as 136
        (256, 72, 16864, 3, "registers"),
        (256, 40, 2048, 6, "registers"),
        (256, 32, 0, 8, "registers"),
        (256, 16, 0, 8, "warps"),
        (1024, 64, 0, 1, "registers"),
        (1024, 128, 0, 0, "registers"),  # it cannot be launched
        (96, 32, 0, 16, "registers"),  # registers are allocated for four warps
        (32, 8, 0, 32, "blocks"),
        (32, 8, 48 << 10, 4, "shared memory"),  # 49 KB each with the one that CUDA reserves
        (1, 8, 0, 32, "blocks"),
    ],
)
def test_blocks_of_a_multiprocessor(
    threads: int, registers: int, shared: int, blocks: int, limit: str
) -> None:
    kernel = KernelResources("k", threads, registers, 0, 0, shared, 0.0, 1)
    assert (kernel.blocks, kernel.limit) == (blocks, limit)
    assert kernel.occupancy == blocks * -(-threads // 32) / 64


def test_resources_print_as_a_table() -> None:
    table = Resources([parse_resources("main_kernel", 256, LOG, SASS)])
    head, row, *_ = str(table).splitlines()
    assert head.split()[:6] == ["kernel", "threads", "registers", "spilled", "stack", "shared"]
    cells = " ".join(row.split())
    assert cells == "main_kernel 256 126 20 24 16608 60.0% 5 2 25% registers"
    assert len(head) == len(row)
    assert repr(table) == str(table)
    assert table[0].threads == 256
