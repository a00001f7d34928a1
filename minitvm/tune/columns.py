"""The columns that a model sees of each candidate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .model import Floats
from .space import Gene, Rows
from .task import Task


@dataclass(frozen=True, slots=True)
class Columns:
    """Named features of the candidates of a task.

    of      of(sketch number, rows) is float32[candidates, columns]
    names   of the columns
    """

    of: Callable[[int, Rows], Floats]
    names: tuple[str, ...]


def gene_columns(task: Task) -> Columns:
    """Return the values of the genes as columns: AutoTVM's "knob" features.

    Numbers and loop sizes are logarithms; each option of a choice has a column with 0 or 1. Each
    sketch has columns of its own, which are 0 for candidates of other sketches.
    """
    tables = [[_table(gene) for gene in sketch.space.genes] for sketch in task.sketches]
    names = [
        f"{sketch.name}.{gene.name}.{part}" if len(task.sketches) > 1 else f"{gene.name}.{part}"
        for sketch, genes in zip(task.sketches, tables, strict=True)
        for gene, table in zip(sketch.space.genes, genes, strict=True)
        for part in range(table.shape[1])
    ]
    widths = [sum(table.shape[1] for table in genes) for genes in tables]

    def of(n: int, rows: Rows) -> Floats:
        found = np.zeros((len(rows), len(names)), np.float32)
        at = sum(widths[:n])
        for gene, table in enumerate(tables[n]):
            found[:, at : at + table.shape[1]] = table[rows[:, gene]]
            at += table.shape[1]
        return found

    return Columns(of, tuple(names))


def _table(gene: Gene) -> Floats:
    """Return the columns of one gene, float32[options, columns]."""
    if gene.kind == "choice":
        return np.eye(len(gene), dtype=np.float32)
    return np.log2(np.abs(gene.values) + 1.0).astype(np.float32)
