"""Searches that begin with what other tasks have shown (Chen et al. 2018, section 4)."""

from __future__ import annotations

from functools import lru_cache, partial

import numpy as np

from minitvm import tune

from .models import global_model, transferred
from .recorded import Encoding, recorded
from .searchers import Searcher, annealed

SOURCES = ("C1", "C2", "C3", "C4", "C5", "C6")


@lru_cache(maxsize=32)
def history(sources: tuple[str, ...], encoding: Encoding, seed: int = 0) -> tune.Trees:
    """Train a model on all recorded measurements of the tasks `sources`.

    The columns of the encoding must be the same for all of them: "context relation" has the same
    columns for each task, "flattened loops" too; "configuration" only for equal knobs.
    """
    tables = [recorded(name) for name in sources]
    return global_model([(t.encoded(encoding), t.speeds) for t in tables], seed)


@lru_cache(maxsize=32)
def inverted(sources: tuple[str, ...], encoding: Encoding, seed: int = 0) -> tune.Trees:
    """Train a model on measurements whose ranks are inverted: the fastest is called the slowest.

    The history is plausible, because it has the same values, and misleading.
    """
    tables = [recorded(name) for name in sources]
    return global_model([(t.encoded(encoding), _inverted(t.speeds)) for t in tables], seed)


def _inverted(speeds: tune.Floats) -> tune.Floats:
    order, result = np.argsort(speeds, kind="stable"), np.empty_like(speeds)
    result[order] = speeds[order[::-1]]
    return result


def with_history(past: tune.Model, encoding: Encoding) -> Searcher:
    """Return a searcher that starts from a model of other tasks and corrects it (equation 4)."""
    return annealed(partial(transferred, past), encoding, is_ready=True)
