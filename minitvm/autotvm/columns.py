"""The features by which a cost model describes a configuration: AutoTVM's three types.

"itervar"   features of the loops and accesses of each statement, and the analytic model's estimate
"knob"      the options of the knobs; a model trained on them is useless for other templates
"curve"     relations between how much memory the loops touch and how often they run
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from minitvm import tune
from minitvm.base import ArgumentError

from .task import Task

FeatureType: TypeAlias = Literal["itervar", "knob", "curve"]
Floats: TypeAlias = npt.NDArray[Any]

POINTS = 20  # thresholds of a curve: 2 ** 0, 2 ** 1, ...
CURVES = ("count_reuse", "reuse_count", "count_topdown", "topdown_count")
ACCESSES = 4  # the most accesses of the heaviest statement that have curves


def columns_of(task: Task, kind: FeatureType) -> tune.Columns:
    """Return the columns of a feature type; fall back to "knob" if the loops are unknown."""
    if kind not in get_args(FeatureType):
        known = ", ".join(get_args(FeatureType))
        raise ArgumentError(f"feature_type {kind!r}", "no such type of features", known)
    if kind == "knob" or not all(s.traced for s in task.sketches):
        return knob_columns(task)
    if kind == "itervar":
        return tune.columns_of(task)
    return tune.Columns(lambda n, rows: relations(task.sketches[n], rows), CURVE_NAMES)


def features_of(task: Task, columns: tune.Columns, rows: tune.Rows) -> Floats:
    """Return the columns of rows of the task's configuration space, float32[rows, columns]."""
    features = np.zeros((len(rows), len(columns.names)), np.float32)
    for sketch, at, part in task.derived.parts(rows):
        features[at] = columns.of(sketch, part)
    return features


def knob_columns(task: Task) -> tune.Columns:
    """Return the options of the knobs as columns; all sketches of the task have the same columns.

    Numbers and loop sizes become logarithms; each option of other knobs has a column with 0 or 1.
    """
    sketch = replace(task.sketches[0], space=task.config_space.space)
    whole = tune.knob_columns(replace(task, sketches=(sketch,)))
    return tune.Columns(lambda n, rows: whole.of(0, task.derived.rows(n, rows)), whole.names)


CURVE_NAMES = tuple(
    f"access{a}.{curve}.{1 << p}"
    for a in range(ACCESSES)
    for curve in CURVES
    for p in range(POINTS)
)


def touched(
    sketch: tune.Sketch, rows: tune.Rows
) -> tuple[tuple[str, ...], tuple[str, ...], Floats]:
    """Return how many elements of each tensor the loops of the heaviest statement touch.

    Returns the names of the loops, outermost first, the names of the tensors, and the elements that
    one run of a loop touches, float64[loops, tensors, candidates].
    """
    s, arrays = _heaviest(sketch, rows)
    numbers = np.concatenate([f.touched[:-1] for f in _chunks(arrays)], axis=2)
    return tuple(x.name for x in s.loops), tuple(a.buffer for a in s.accesses), numbers


def _chunks(arrays: tune.Packed) -> Iterator[tune.Footprint]:
    """Yield copies of the footprints of all chunks, which share the memory of their arrays."""
    for f in tune.footprint_chunks(arrays):
        yield f._replace(touched=f.touched[0].copy())


def _heaviest(sketch: tune.Sketch, rows: tune.Rows) -> tuple[tune.Statement, tune.Packed]:
    """Return the statement that the first candidate executes most often, also as arrays."""
    batch = tune.statements(sketch).at(rows)
    packed = [(s, tune.packed(s, batch)) for s in batch.statements]
    return max(packed, key=lambda one: float(one[1].extent[:, 0].prod()))


def relations(sketch: tune.Sketch, rows: tune.Rows) -> npt.NDArray[np.float32]:
    """Return the relation features of candidates, float32[candidates, columns], as logarithms.

    For two quantities x and y of the loops around an access, a curve contains for each threshold
    the largest y of a loop whose x is below the threshold (Chen et al. 2018, R_t). The quantities:
    elements touched inside (count), iterations per element (reuse), iterations outside (topdown).
    """
    extent = _heaviest(sketch, rows)[1].extent  # [loops, candidates]
    count = touched(sketch, rows)[2]
    inner_extents, topdown = np.cumprod(extent[::-1], axis=0)[::-1], np.cumprod(extent, axis=0)
    out = np.zeros((len(rows), ACCESSES, len(CURVES), POINTS))
    for b in range(min(ACCESSES, count.shape[1])):
        c, reuse = count[:, b], inner_extents / count[:, b]
        pairs = ((c, reuse), (reuse, c), (c, topdown), (topdown, c))
        for curve, (x, y) in enumerate(pairs):
            out[:, b, curve] = _curve(x, y)
    return np.log2(out + 1).reshape(len(rows), -1).astype(np.float32)


def _curve(x: Floats, y: Floats) -> Floats:
    """Return for each threshold t the largest y whose x is below t, [candidates, POINTS]."""
    below = x[:, :, None] < 2.0 ** np.arange(POINTS)
    return np.max(np.where(below, y[:, :, None], 0.0), axis=0)
