"""ONNX's own tests of single operators: python -m tests.graph.onnx_suite [--compile] [NAME ...].

Each case is a model with inputs and the outputs that ONNX expects. It is right, wrong, a crash (an
error that is no TVMError), or refused by a GraphError, which says why. A real export has axes and
shapes as constants, where these models have inputs: an input of at most one dimension becomes a
constant if the refusal says that it must be one.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper
from onnx.backend.test.loader import load_model_tests

from minitvm import graph
from minitvm.base import GraphError, dtype

VERSION = "1.23.2"  # of onnx, whose cases are counted; each version has its own
KINDS = ("right", "wrong", "crash", "refused")
Run = Callable[..., tuple[Any, ...]]  # of a network and its inputs


@dataclass(frozen=True)
class Outcome:
    """What became of one case, and why."""

    case: str
    operator: str
    kind: str
    why: str = ""


def evaluated(net: graph.Graph, *inputs: Any) -> tuple[Any, ...]:
    """Compute a network in numpy."""
    return graph.evaluate(net, *inputs)


def compiled(net: graph.Graph, *inputs: Any) -> tuple[Any, ...]:
    """Compute a network by compiled code."""
    outputs = graph.compile(net, "llvm -num-cores=1")(*inputs)
    return outputs if isinstance(outputs, tuple) else (outputs,)


def outcomes(run: Run = evaluated, names: tuple[str, ...] = ()) -> Iterator[Outcome]:
    """Run all cases, or those whose names contain one of `names`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of numpy, about infinities
        for case in load_model_tests(kind="node"):
            if not names or any(name in case.name for name in names):
                yield from (_outcome(case, run, *data) for data in case.data_sets)


def _outcome(case: Any, run: Run, inputs: Any, outputs: Any) -> Outcome:
    nodes = case.model.graph.node
    operator = nodes[0].op_type if len(nodes) == 1 else "several operators"

    def outcome(kind: str, why: str = "") -> Outcome:
        return Outcome(case.name, operator, kind, why)

    try:
        values = list(map(_array, inputs))
        net, fed = _network(case.model, values)
        for y, wanted in zip(run(net, *fed), map(_array, outputs), strict=True):
            if (y.shape, y.dtype) != (wanted.shape, wanted.dtype):
                return outcome("wrong", f"{y.dtype}{y.shape}, not {wanted.dtype}{wanted.shape}")
            if y.dtype.name == "bfloat16":
                limit = _error_of_others(wanted, net, fed)
                np.testing.assert_allclose(y.astype("float64"), wanted, 0, limit)
            else:
                np.testing.assert_allclose(y, wanted, case.rtol, case.atol)
    except AssertionError as e:
        return outcome("wrong", str(e))
    except GraphError as e:
        return outcome("refused", str(e))
    except Exception as e:
        return outcome("crash", f"{type(e).__name__}: {e}")
    return outcome("right")


def _error_of_others(wanted: Any, net: graph.Graph, fed: Any) -> float:
    """Return how much a result in bfloat16 may differ from ONNX's.

    Inside of an operator ONNX rounds to bfloat16 several times, and we do not: so by ONNX's own
    error against float64, and by two roundings.
    """
    (exact,) = graph.evaluate(net, *fed, dtype="float64")
    largest = np.abs(wanted.astype("float64")).max()
    error = np.abs(wanted.astype("float64") - exact.astype("float64")).max()
    return float(error + largest * dtype("bfloat16").epsilon)


def _array(value: Any) -> Any:
    """Return an input or output as an array; lists and what is left out stay as they are."""
    if isinstance(value, TensorProto):
        return numpy_helper.to_array(value)
    return np.asarray(value) if isinstance(value, np.ndarray | np.generic) else value


def _network(model: Any, values: list[Any]) -> tuple[graph.Graph, list[Any]]:
    """Return the network of a model, and the inputs that it still has."""
    shapes = {
        v.name: x.shape
        for v, x in zip(model.graph.input, values, strict=False)
        if isinstance(x, np.ndarray) and "dim_param" in str(v.type)
    }
    stored: dict[str, Any] = {}
    while True:
        net = type(model).FromString(model.SerializeToString())
        net.graph.initializer.extend(numpy_helper.from_array(x, n) for n, x in stored.items())
        free = {name: shape for name, shape in shapes.items() if name not in stored}
        names = [v.name for v in model.graph.input]
        kept = [x for name, x in zip(names, values, strict=False) if name not in stored]
        try:
            return graph.from_onnx(net.SerializeToString(), shapes=free), kept
        except GraphError as refused:
            _, _, inputs = refused.args[1].partition("must be constant, but depends on the input ")
            wanted = dict(zip(names, values, strict=False))
            more = {n: wanted[n] for n in re.findall("'([^']*)'", inputs) if _is_option(wanted[n])}
            if not more:
                raise
            stored |= more


def _is_option(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim < 2


def table(found: list[Outcome]) -> str:
    """Return the number of outcomes of each operator and kind, and the reasons of refusals."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for each in found:
        counts[each.operator][each.kind] += 1
        counts["all"][each.kind] += 1
    rows = sorted(counts.items(), key=lambda item: (item[0] == "all", item[0]))
    lines = [f"{'':28}" + "".join(f"{kind:>9}" for kind in KINDS)]
    lines += [f"{op:28}" + "".join(f"{n[kind] or '':>9}" for kind in KINDS) for op, n in rows]
    reasons = Counter(_reason(each.why) for each in found if each.kind == "refused")
    lines += ["", "refused because", *(f"{n:5} {why}" for why, n in reasons.most_common(25))]
    return "\n".join(lines)


def _reason(why: str) -> str:
    """Return a refusal without names and numbers."""
    first = why.splitlines()[0]
    return re.sub(r"'[^']*'", "'...'", re.sub(r"^node '.*?' ", "", first))[:90]


if __name__ == "__main__":
    words = sys.argv[1:]
    run = compiled if "--compile" in words else evaluated
    found = list(outcomes(run, tuple(w for w in words if not w.startswith("--"))))
    print(table(found))
    for each in found:
        if each.kind in ("wrong", "crash"):
            print(f"\n{each.case} is {each.kind}: {each.why}")
