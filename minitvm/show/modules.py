"""Read modules of torch that a command line names."""

from __future__ import annotations

import runpy
from typing import Any

from minitvm import graph, tuning
from minitvm.base import ArgumentError

EXAMPLE = '--torch "nn.RMSNorm(2048)" --shape 1,32,2048'


def module_of(expression: str) -> Any:
    """Return the torch module of an expression such as "nn.RMSNorm(2048)", or of FILE.py:NAME.

    NAME is a module, or a class or a function that returns one when it is called without arguments.
    The expression or the file runs in this process: it is code of the user's own command line.
    """
    what, torch = f"--torch {expression}", graph.torch.imported("--torch")
    path, _, name = expression.rpartition(":")
    try:
        if path.endswith(".py"):
            module = runpy.run_path(path)[name]
        else:
            names = {"torch": torch, "nn": torch.nn, "F": torch.nn.functional}
            module = eval(expression, names)
        module = module if isinstance(module, torch.nn.Module) else module()
    except Exception as e:  # whatever the expression does
        raise ArgumentError(what, f"{type(e).__name__}: {e}", EXAMPLE) from e
    if not isinstance(module, torch.nn.Module):
        raise ArgumentError(what, f"it is {type(module).__name__}, not a torch.nn.Module", EXAMPLE)
    return module.eval()


def network_of(module: Any, shape: str, dtype: str) -> graph.Graph:
    """Return the network of a module for inputs of these sizes, such as "1,8,16 1,8,16"."""
    if not shape:
        raise ArgumentError("--torch", "the shapes of its inputs are missing", EXAMPLE)
    torch = graph.torch.imported("--torch")
    kind = getattr(torch, dtype, None)
    if not isinstance(kind, torch.dtype):
        raise ArgumentError(f"--dtype {dtype}", "torch has no such element type", "--dtype float32")
    inputs = tuple(torch.zeros(tuning.sizes(word), dtype=kind) for word in shape.split())
    return graph.from_torch(module, inputs)
