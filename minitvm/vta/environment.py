"""The names that schedules use for the accelerator: sizes, scopes, pragmas, the intrinsic."""

from __future__ import annotations

from contextlib import ExitStack
from contextvars import ContextVar
from functools import cached_property, lru_cache

from minitvm import accel, lowering, tensor
from minitvm.base import ArgumentError, Target, check_kind, check_text, dtype

from .intrin import gemm

MEMORIES = (accel.Memory.INP, accel.Memory.WGT, accel.Memory.ACC, accel.Memory.OUT)


class Environment:
    """The names that schedules use for one accelerator; `with Environment(config):` selects it.

    lower and build use the accelerator of the innermost `with` statement in their thread.

    BATCH, BLOCK_IN, BLOCK_OUT         the matrix unit: (BATCH, BLOCK_IN) @ (BLOCK_OUT, BLOCK_IN).T
    INP_WIDTH, INP_BUFF_SIZE           bits of a number in INP, bytes of its memory; also for WGT,
                                       ACC and OUT (and UOP_BUFF_SIZE)
    INP_ELEM_BITS, INP_ELEM_BYTES      the size of an element of BATCH x BLOCK_IN numbers
    TARGET, target, target_host        "sim", and the targets for vta.build
    inp_scope, wgt_scope, acc_scope    its memory scopes, for set_scope, cache_read, cache_write
    dma_copy, alu, ...                 the keys of its pragmas
    gemm                               its intrinsic, for tensorize
    mock                               the same machine without transfers and arithmetic
    """

    inp_scope, wgt_scope, acc_scope = "local.inp_buffer", "local.wgt_buffer", "local.acc_buffer"
    skip_dma_copy, skip_alu = "skip_dma_copy", "skip_alu"
    coproc_sync, trim_loop = "coproc_sync", "trim_loop"
    TARGET = "sim"

    def __init__(self, config: accel.Config = accel.vta_pynq, *, skip: bool = False) -> None:
        check_kind("Environment: config", config, accel.Config, fix="vta.vta_pynq")
        self.config, self.skip = config, skip
        self.BATCH, self.BLOCK_IN, self.BLOCK_OUT = config.batch, config.block_in, config.block_out
        self.inp_dtype, self.wgt_dtype, self.acc_dtype, self.out_dtype = map(config.dtype, MEMORIES)
        self.INP_WIDTH, self.WGT_WIDTH, self.ACC_WIDTH, self.OUT_WIDTH = (
            8 * dtype(config.dtype(memory)).bytes for memory in MEMORIES
        )
        self.INP_ELEM_BYTES, self.WGT_ELEM_BYTES, self.ACC_ELEM_BYTES, self.OUT_ELEM_BYTES = (
            config.element_bytes(memory) for memory in MEMORIES
        )
        self.INP_ELEM_BITS, self.WGT_ELEM_BITS, self.ACC_ELEM_BITS, self.OUT_ELEM_BITS = (
            8 * config.element_bytes(memory) for memory in MEMORIES
        )
        self.INP_BUFF_SIZE, self.WGT_BUFF_SIZE, self.ACC_BUFF_SIZE, self.OUT_BUFF_SIZE = (
            config.depth(memory) * config.element_bytes(memory) for memory in MEMORIES
        )
        self.UOP_BUFF_SIZE = config.uop_bytes
        self.dma_copy = self.skip_dma_copy if skip else "dma_copy"
        self.alu = self.skip_alu if skip else "alu"

    @property
    def target(self) -> Target:
        """Return the accelerator as a target, for vta.build."""
        return Target("ext_dev", host=self.target_host)

    @property
    def target_host(self) -> Target:
        """Return the target for the CPU that calls the accelerator."""
        return Target("llvm")

    @cached_property
    def gemm(self) -> tensor.TensorIntrin:
        """Return the intrinsic acc[i, j] += inp[i, k] * wgt[j, k] on one element per memory."""
        return gemm(self.config, skip=self.skip)

    @cached_property
    def mock(self) -> Environment:
        """Return an environment whose pragmas and gemm emit nothing.

        Units scheduled with it do nothing, so the remaining unit is timed alone.
        """
        return Environment(self.config, skip=True)

    def depth(self, scope: str) -> int:
        """Return the capacity of the memory with the scope `scope`, in elements."""
        if check_text("scope", scope, self.inp_scope) not in self.scopes:
            fix = f"one of {', '.join(self.scopes)}"
            raise ArgumentError(f"depth({scope!r})", "no such memory", fix)
        return self.config.depth(MEMORIES[self.scopes.index(scope)])

    @property
    def scopes(self) -> tuple[str, str, str]:
        """Return the scopes of INP, WGT and ACC; OUT has none."""
        return self.inp_scope, self.wgt_scope, self.acc_scope

    def __enter__(self) -> Environment:
        stack = ExitStack()
        stack.enter_context(lowering.using(self.config))
        _entered.set((*_entered.get(), (self, stack)))
        return self

    def __exit__(self, *error: object) -> None:
        entered_envs = _entered.get()
        if not entered_envs or entered_envs[-1][0] is not self:
            why = "it is not the innermost environment in use"
            raise ArgumentError(f"end of {self!r}", why, "with env: ...")
        _entered.set(entered_envs[:-1])
        entered_envs[-1][1].close()

    def __repr__(self) -> str:
        size = f"{self.BATCH} x {self.BLOCK_IN} x {self.BLOCK_OUT}"
        return f"<environment of {self.config.name}, {size}>"


# the environments of enclosing `with` statements in this thread and context, innermost last
_entered: ContextVar[tuple[tuple[Environment, ExitStack], ...]] = ContextVar("entered", default=())


def get_env() -> Environment:
    """Return the innermost environment if its config is lowering.machine(), or a default one."""
    entered_envs, config = _entered.get(), lowering.machine()
    if entered_envs and entered_envs[-1][0].config == config:
        return entered_envs[-1][0]
    return _environment(config)


@lru_cache(maxsize=32)
def _environment(config: accel.Config) -> Environment:
    """Return the environment of `config`, cached so that later calls use the same intrinsic."""
    return Environment(config)
