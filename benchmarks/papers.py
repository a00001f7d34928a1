"""The experiments of three papers, drawn again from what was measured before.

python benchmarks/papers.py all                  every figure, 3 seeds: tables, and claims
python benchmarks/papers.py autotvm|ansor|tvm    the figures of one paper
python benchmarks/papers.py figure8 --seeds 20   one figure
python benchmarks/papers.py all --svg build      also draw the pictures: build/figure4.svg, ...
python benchmarks/papers.py tvm --claims FILE    also write the claims to a Markdown table
python benchmarks/papers.py --record             store 20 seeds of each search in papers.json
python benchmarks/papers.py --check 5            run five stored searches again; all must agree

autotvm: Chen et al. 2018, "Learning to Optimize Tensor Programs"; ansor: Zheng et al. 2020; tvm:
the talk on Chen et al. 2018, "TVM". Searches replay the recorded tables of minitvm.papers. Other
figures are drawn from papers_measured.json, which papers_measure.py measures again. Nothing is
measured here, and two runs print the same. A claim that does not hold stays here.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import _computed
import _measured
import _replayed
from _figures import Drawn, draw, write_claims

SEEDS = 3
ANSOR_REPLAYED = ("statements", "product")  # the other searches are those of AutoTVM's paper


def _stored(figures: Mapping[str, Callable[[], Drawn]]) -> dict[str, Callable[[int], Drawn]]:
    """Return figures as functions of the number of seeds, on which they do not depend."""
    return {name: lambda _, make=make: make() for name, make in figures.items()}


_searches = {name: partial(_replayed.drawn, name) for name in _replayed.FIGURES}
GROUPS: dict[str, dict[str, Callable[[int], Drawn]]] = {
    "autotvm": {
        **{name: make for name, make in _searches.items() if name not in ANSOR_REPLAYED},
        **_computed.AUTOTVM,
        **_stored(_measured.AUTOTVM),
    },
    "ansor": {
        **{name: _searches[name] for name in ANSOR_REPLAYED},
        **_computed.ANSOR,
        **_stored(_measured.ANSOR),
    },
    "tvm": _stored(_measured.TVM),
}
FIGURES = {name: make for group in GROUPS.values() for name, make in group.items()}


def chosen(names: list[str]) -> list[str]:
    """Return the names of figures, in place of the groups that have them."""
    groups = {"all": FIGURES, **GROUPS}
    return [*dict.fromkeys(figure for name in names for figure in groups.get(name, [name]))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    known = ", ".join(("all", *GROUPS, *FIGURES))
    parser.add_argument("names", nargs="*", metavar="FIGURE", help=known)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--svg", type=Path, help="folder for the pictures")
    parser.add_argument("--claims", type=Path, help="Markdown file with a place for the claims")
    parser.add_argument("--record", action="store_true", help="20 seeds of all; repeat to resume")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes that search")
    parser.add_argument("--check", type=int, default=0, help="stored searches to run again")
    parser.add_argument("--quick", action="store_true", help="figure 8 only")
    flags = parser.parse_args()
    if unknown := {*flags.names} - {"all", *GROUPS, *FIGURES}:
        parser.error(f"no figure is called {', '.join(sorted(unknown))}")
    if flags.record:
        _replayed.record(flags.jobs)
    if flags.check and not _replayed.check(flags.check, seed=0):
        raise SystemExit("stored searches differ")
    names = ["figure8"] if flags.quick else chosen(flags.names)
    searched = [name for name in names if name in _replayed.FIGURES]
    if searched:
        _replayed.run_ahead(_replayed.cells_of(searched, flags.seeds), flags.jobs)
    claims = {}
    for name in names:
        figure = FIGURES[name](flags.seeds)
        claims[name] = figure.claim
        print(f"\n{figure}", flush=True)
        if flags.svg and figure.columns:
            draw(figure, flags.svg / f"{name}.svg")
    if flags.claims:
        write_claims(claims, flags.seeds, flags.claims)
    if len(claims) > 1:
        print("\nclaims")
        for name, claim in claims.items():
            print(f"{name:12} {claim.verdict:20} {claim.here}")


if __name__ == "__main__":
    main()
