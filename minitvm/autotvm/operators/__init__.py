"""Templates of operators, by name; a task of each is autotvm.task_for(name, shape, target)."""

# pyright: reportUnusedImport=false

from .products import dense, matmul
