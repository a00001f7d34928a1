"""The other way to simulate a GPU: run the printed kernel, with a Python generator per thread.

A barrier is a `yield`. This finds divergent barriers, but neither races nor what accesses cost.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np


class _Barriers(ast.NodeTransformer):
    """Turns barriers into yields of their line; a kernel ends with `yield -1`."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST:
        if ast.unparse(node.value) == "cuda.syncthreads()":
            node = ast.Expr(ast.Yield(ast.Constant(node.lineno)))
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        is_kernel = bool(node.decorator_list) and "device" not in ast.unparse(
            node.decorator_list[0]
        )
        node.decorator_list = []
        self.generic_visit(node)
        if is_kernel:
            node.body.append(ast.Expr(ast.Yield(ast.Constant(-1))))
        return node


def kernel_of(source: str) -> tuple[Callable[..., Any], SimpleNamespace, dict[int, Any]]:
    """Return the kernel of a printed program as a generator, its `cuda`, and shared memory."""
    tree = ast.parse(source)
    tree.body = [n for n in tree.body if isinstance(n, ast.FunctionDef)][:-1]  # without the launch
    name = tree.body[-1].name
    index = SimpleNamespace(x=0, y=0, z=0)
    cuda = SimpleNamespace(threadIdx=index, blockIdx=SimpleNamespace(**vars(index)))
    shared: dict[int, Any] = {}
    cuda.count = 0

    def in_block(size: int, dtype: Any) -> Any:
        cuda.count += 1
        return shared.setdefault(cuda.count, np.full(size, np.nan, dtype))

    def copy(to: Any, i: int, source: Any, j: int) -> None:
        to[i : i + 4] = source[j : j + 4]

    cuda.shared = SimpleNamespace(array=in_block)
    cuda.local = SimpleNamespace(array=lambda size, dtype: np.full(size, np.nan, dtype))
    scope = {"cuda": cuda, "np": np, "ld": lambda a, i: a[i], "st": np.ndarray.__setitem__}
    scope["cp4"] = copy
    tree = ast.fix_missing_locations(_Barriers().visit(tree))
    exec(compile(tree, "<kernel>", "exec"), scope)
    return scope[name], cuda, shared


def run(
    source: str, grid: tuple[int, ...], block: tuple[int, ...], arrays: list[np.ndarray[Any, Any]]
) -> None:
    """Run the one kernel of a printed program on a grid of blocks of threads."""
    kernel, cuda, shared = kernel_of(source)
    flat = [a.reshape(-1) for a in arrays]
    for by, bx in np.ndindex(grid[1], grid[0]):
        shared.clear()
        cuda.blockIdx.x, cuda.blockIdx.y = bx, by
        threads = [(at, kernel(*flat)) for at in np.ndindex(block[0], block[1])]
        reached: set[int] = set()
        while reached != {-1}:
            reached.clear()
            for (x, y), thread in threads:
                cuda.threadIdx.x, cuda.threadIdx.y, cuda.count = x, y, 0
                reached.add(next(thread))
            assert len(reached) == 1, f"divergent barrier: {reached}"
