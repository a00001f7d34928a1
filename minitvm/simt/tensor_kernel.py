"""Kernels with instructions for tensor cores, which the lanes of a warp execute together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minitvm import schedule, tir

from . import report as faults
from . import tensor_core as core
from .kernel import Kernel
from .memory import Memory
from .report import AccessCounts
from .traffic import cost
from .values import Frame, Run

Operand = tuple[Memory, Run]


class TensorKernel(Kernel):
    """A kernel, compiled for a launch, that may have the instructions of tensor_core.py."""

    def part(self, s: tir.Stmt) -> Run:
        match s:
            case tir.Evaluate(tir.Call(name, args)) if name in core.INSTRUCTIONS:
                text = "\n".join(self.printer.lines(s)).strip()
                pointers = [a for a in args if isinstance(a, tir.Pointer)]
                operands = [self.operand(p) for p in pointers]
                if name not in core.IN_MEMORY:
                    return self.in_registers(name, text, operands)
                access_index = len(self.report.accesses)
                self.report.accesses.append(
                    AccessCounts(text, operands[name != core.STORE][0].scope)
                )
                stride = self.either(args[2])
                move = self.store_tile if name == core.STORE else self.load_tile
                return move(name, text, operands, stride, access_index)
            case _:
                return super().part(s)

    def operand(self, p: tir.Pointer) -> Operand:
        """Compile a pointer: its memory, and the index of its first element."""
        return self.memory(p.first.buffer), self.index(tir.add(p.first.indices[0], p.offset))

    def warps(self, text: str) -> Any:
        """Return the number of each active warp; end the launch if one of its lanes is missing."""
        slots = self.batch.of(self.batch.slot)
        lane_counts = np.bincount(slots // schedule.WARP)
        if not np.isin(lane_counts, (0, schedule.WARP)).all():
            detail = "the lanes of a warp execute it together, but some are not active"
            self.stop(faults.INACTIVE, text, detail=detail)
        return slots.reshape(-1, schedule.WARP)[:, 0] // schedule.WARP

    def first(self, start: Any, text: str) -> Any:
        """Return the value of an index in each active warp, whose lanes must agree: [warps, 1]."""
        lanes = np.broadcast_to(start, self.batch.lanes().shape).reshape(-1, schedule.WARP)
        if (lanes != lanes[:, :1]).any():
            self.stop(faults.INACTIVE, text, detail="the lanes of a warp give different operands")
        return lanes[:, :1]

    def registers(self, operand: Operand, frame: Frame, fragment: str, text: str) -> Any:
        """Return where the registers of all active lanes are in a memory: [warps, 32, R]."""
        memory, start = operand
        warps, first = self.warps(text), self.first(start(frame), text)
        count = core.FRAGMENTS[fragment].registers
        first_of_lane = core.LANES * count + first
        self.check(memory, text, first_of_lane.reshape(-1) + count - 1)
        positions = warps[:, None] * memory.size + first_of_lane
        return positions[:, :, None] + np.arange(count)

    def in_registers(self, name: str, text: str, operands: Sequence[Operand]) -> Run:
        """Compile an instruction that reads and writes registers only."""
        sums = operands[0][0]

        def zero(frame: Frame) -> None:
            to = self.registers(operands[0], frame, "c", text)
            sums.data[to] = 0
            self.written(sums, to)

        def multiply(frame: Frame) -> None:
            positions = [
                self.registers(o, frame, f, text)
                for o, f in zip(operands, ("c", "a", "b"), strict=True)
            ]
            values = [self.known(o[0], at, text) for o, at in zip(operands, positions, strict=True)]
            c, a, b = values
            sums.data[positions[0]] = core.mma(a, b, c)

        return zero if name == core.ZERO else multiply

    def known(self, memory: Memory, at: Any, text: str) -> Any:
        """Return the elements of a memory; report those that no thread has written."""
        if memory.written is not None and not memory.written[at].all():
            self.fault(faults.UNINITIALISED, text)
        return memory.data[at]

    def written(self, memory: Memory, at: Any) -> None:
        if memory.written is not None:
            memory.written[at] = True

    def load_tile(
        self, name: str, text: str, operands: Sequence[Operand], stride: Run, access_index: int
    ) -> Run:
        """Compile ldmatrix: each lane gives the address of a row, and gets its registers."""
        (registers, _), (memory, start) = operands
        fragment, shared = core.IN_MEMORY[name], memory.buffer.dtype.bytes
        transposed = name == core.LOAD_B

        def run(frame: Frame) -> None:
            to = self.registers(operands[0], frame, fragment, text)
            first, step = self.first(start(frame), text), stride(frame)
            if transposed:
                rows = first + core.B_ROW[:16] * step
            else:
                rows = first + core.A_ROW * step + core.A_COLUMN
            lanes = np.resize(rows.T, (schedule.WARP, len(rows))).T.reshape(-1)
            self.count(access_index, memory, lanes, 16 // shared, rows.shape[1])
            addresses = core.ldmatrix(rows, transposed)
            for r in range(to.shape[2]):
                index = addresses[:, :, r].reshape(-1)
                self.check(memory, text, index)
                at = memory.at(self.batch, index)
                self.read(memory, access_index, text, at)
                registers.data[to[:, :, r].reshape(-1)] = memory.data[at]
            self.written(registers, to)

        return run

    def store_tile(
        self, name: str, text: str, operands: Sequence[Operand], stride: Run, access_index: int
    ) -> Run:
        """Compile the stores of the pairs of elements that each lane has of a tile of sums."""
        (memory, start), (registers, _) = operands
        f = core.FRAGMENTS[core.IN_MEMORY[name]]

        def run(frame: Frame) -> None:
            sums = self.registers(operands[1], frame, "c", text)
            values = self.known(registers, sums, text)
            first, step = self.first(start(frame), text), stride(frame)
            for r in range(f.registers):
                index = (first + f.rows[:, r] * step + f.columns[:, r]).reshape(-1)
                self.check(memory, text, index)
                if r % 2 == 0:
                    self.count(access_index, memory, index, 2, schedule.WARP)
                new = values[:, :, r].reshape(-1)
                self.write(memory, access_index, text, memory.at(self.batch, index), new)

        return run

    def read(self, memory: Memory, number: int, text: str, at: Any) -> None:
        """Report races of a read, and elements that no thread has written."""
        if memory.written is not None and not memory.written[at].all():
            self.unwritten(memory, at, text)
        if memory.shadow is not None:
            for race in memory.shadow.read(at, self.batch, number):
                self.race(memory, number, race)

    def count(self, number: int, memory: Memory, index: Any, width: int, lanes: int) -> None:
        """Count an access of `width` adjacent elements by the first `lanes` lanes of each warp."""
        if not self.counters or memory.scope not in ("shared", "global"):
            return
        counts, batch, active = self.report.accesses[number], self.batch, self.batch.active
        chosen = batch.of(batch.slot) % schedule.WARP < lanes
        batch.active = batch.chosen(chosen)
        spent = cost(memory.scope, index[chosen], batch, memory.buffer.dtype.bytes, width)
        batch.active = active
        counts.add(int(chosen.sum()), spent)
