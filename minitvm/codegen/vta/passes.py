"""The passes of target "vta", which turn loops into instructions with units and tokens."""

from __future__ import annotations

from minitvm import lowering

from .accelerator import apply_pragmas, check_capacity, lift_allocations
from .alu import inject_alu_intrin
from .coproc_sync import inject_coproc_sync
from .dma import inject_dma_intrin
from .units import assign_units, check_stores

PASSES: tuple[lowering.Pass, ...] = (
    *lowering.FIRST,
    apply_pragmas,  # pragma trim_loop: for i in range(64)  ->  for i in range(2)
    inject_dma_intrin,  # for i: AL[i] = A[k, i]            ->  vta.dma_copy2d(AL, A[k])
    lowering.flatten,
    check_stores,  # refuses C[i] = A[i] + B[i] that no pragma makes an instruction
    lowering.storage_rewrite,  # B = f(A); C = g(B)         ->  B = f(A); B = g(B)
    inject_alu_intrin,  # for i: CL[i] = CL[i] >> 8         ->  for i: vta.shr(CL[i], 8)
    assign_units,  #  vta.dma_copy2d(AL, A[k])              ->  ld.dma_copy2d(AL, A[k])
    lift_allocations,  # load(A); B = allocate(...)         ->  B = allocate(...); load(A)
    inject_coproc_sync,  # ld...; ex...  ->  ld...; ld.push_dep_to(ex); ex.pop_dep_from(ld); ex
    lowering.inject_virtual_thread,  # for t in bind(2, 'cthread'): ld; ex  ->  ld; ld; ex; ex
    lowering.tidy,
    check_capacity,  # refuses buffers that together exceed a memory
)
