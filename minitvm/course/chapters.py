"""ledger(): what each chapter of the course gains for one layer, as a share of a machine's peak."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minitvm import driver, te, testing, topi, viz
from minitvm.base import ArgumentError, Target, front_end, host

from .journal import append, journal, rows

NAME = "ledger.jsonl"
STORED = Path(__file__).with_name(NAME)  # written by: MINITVM_LEDGER=FILE make notebooks
SEARCHED = Path(__file__).with_name("c2_search.jsonl")  # the winner of a search, for notebook 14
FLOPS = 2 * 56 * 56 * 64 * 64 * 3 * 3  # of the layer: two for each multiply-add
TITLE = "a 3x3 layer of ResNet-18, 64 to 64 channels, 56 x 56"
MOST = 1.1  # times the layer's operations that a program may have: a ReLU, a bias
GREATEST_SHARE = 4.0  # bytes are computed up to four times as fast as float32 numbers


@dataclass(frozen=True, slots=True)
class Chapter:
    """What a notebook adds to the ledger, and whose peak it is compared with, if not the CPU's."""

    idea: str
    peak: str = ""


CHAPTERS = {
    "02": Chapter("plain loops"),
    "03": Chapter("tiled and reordered"),
    "04": Chapter("larger tiles, k innermost"),
    "05": Chapter("vectors, fused with its ReLU"),
    "06": Chapter("sums in registers"),
    "07": Chapter("on a GPU, simulated: at most", "GPU"),
    "08": Chapter("on the accelerator", "accelerator"),
    "09": Chapter("the same, with two threads", "accelerator"),
    "10": Chapter("in its network, by Winograd"),
    "11": Chapter("tuned from a template"),
    "14": Chapter("found without a template"),
    "16": Chapter("in bytes, of the float32 peak"),
    "17": Chapter("in a network, as a convolution", "accelerator"),
}
_measured: dict[str, float] = {}  # by this process: a batch run keeps no file


class Layer(NamedTuple):
    """The tensors of the layer: its two inputs and its output, all float32."""

    data: te.Tensor
    weight: te.Tensor
    out: te.Tensor


def layer(*, product: bool = False) -> Layer:
    """Write the formula of the course's layer: C2 of ResNet-18, as Chen et al. (2018) number them.

    The convolution reads data (64, 58, 58), padded, and weight (64, 64, 3, 3); out is (64, 56, 56).
    Its product form multiplies data (3136, 576), a row of patches for each pixel, by weight
    (576, 64). Both have 231,211,008 floating-point operations.
    """
    if product:
        a, b = te.placeholder((3136, 576), name="A"), te.placeholder((576, 64), name="B")
        k = te.reduce_axis((0, 576), name="k")

        def dot(i: Any, j: Any) -> Any:
            return te.sum(a[i, k] * b[k, j], axis=k)

        return Layer(a, b, te.compute((3136, 64), dot, name="C"))
    data = te.placeholder((64, 58, 58), name="data")
    weight = te.placeholder((64, 64, 3, 3), name="weight")
    c, kh, kw = (te.reduce_axis((0, n), name=name) for n, name in ((64, "c"), (3, "kh"), (3, "kw")))

    def window(o: Any, h: Any, w: Any) -> Any:
        return te.sum(data[c, h + kh, w + kw] * weight[o, c, kh, kw], axis=[c, kh, kw])

    return Layer(data, weight, te.compute((64, 56, 56), window, name="conv"))


def ledger(
    notebook: str = "",
    s: te.Schedule | None = None,
    args: Sequence[te.Tensor] = (),
    *,
    share: float | None = None,
) -> viz.LedgerChart:
    """Show the ledger; with a schedule or a share, enter it as the row of a notebook first.

    notebook   such as "03"
    s, args    a schedule of the layer and its tensors, as for tvm.build: it is built for one core,
               and measured beside the peak of multiply-adds. A ReLU or a bias may follow the layer;
               their operations do not count.
    share      instead: a share of the peak that was computed elsewhere, 1 for all of it

    Rows are kept in ledger.jsonl beside the notebook, or in the file that MINITVM_LEDGER names; for
    the other notebooks the chart shows what the authors' run of the notebooks has stored. With a
    notebook, stored rows of later ones are a single line.
    Raises ArgumentError for a notebook without a row, and for a schedule of another computation.
    """
    if notebook and notebook not in CHAPTERS:
        raise ArgumentError(f"ledger({notebook!r})", "no such row", f"one of {', '.join(CHAPTERS)}")
    if (s is not None or share is not None) and not notebook:
        raise ArgumentError("ledger(share=...)", "no notebook is named", 'ledger("03", s, args)')
    if s is not None:
        share = _share(s, args)
    if share is not None:
        if not _is_share(share):
            why = f"not a number above 0 and up to {GREATEST_SHARE:g}"
            raise ArgumentError(f"ledger(share={share!r})", why, "share=0.5 for half of the peak")
        _measured[notebook] = float(share)
        row = {"notebook": notebook, "share": float(f"{share:.3g}"), "cpu": host().cpu}
        append(_file(), row)
    return _chart(notebook)


def _file() -> Path | None:
    """Return the reader's file; a script that is no notebook keeps none of its own."""
    return journal("MINITVM_LEDGER", NAME if front_end() else "")


def _is_share(share: Any) -> bool:
    return isinstance(share, Real) and 0 < float(share) <= GREATEST_SHARE


def _share(s: te.Schedule, args: Sequence[te.Tensor]) -> float:
    """Measure a schedule of the layer on one core."""
    flops = topi.flops(args[-1:])
    if not FLOPS <= flops <= MOST * FLOPS:
        why = f"the formula has {flops:,.0f} operations; the layer has {FLOPS:,}"
        raise ArgumentError("ledger(s, args)", why, "a schedule of the tensors of course.layer()")
    target = Target("llvm").on(num_cores=1)
    run = driver.build(s, args, target=target)
    random = np.random.default_rng(0)
    arrays = [random.random([*map(int, t.shape)], np.float32) for t in args]
    return testing.share_of_peak(partial(run, *arrays), FLOPS, target, repeat=3).share


def _chart(now: str) -> viz.LedgerChart:
    stored = {row["notebook"]: row for row in rows(STORED)}
    own_rows = [row for row in rows(_file()) if _is_share(row.get("share"))]
    own = {row.get("notebook"): row["share"] for row in own_rows} | _measured
    lines = [
        viz.LedgerRow(
            notebook,
            chapter.idea,
            own.get(notebook, stored.get(notebook, {}).get("share")),
            chapter.peak,
            is_stored=notebook not in own,
        )
        for notebook, chapter in CHAPTERS.items()
    ]
    cpus = " and ".join(sorted({str(row["cpu"]) for row in stored.values()}))
    return viz.LedgerChart(lines, TITLE, cpus or "nothing yet", now)
