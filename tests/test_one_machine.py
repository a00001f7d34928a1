"""All stored pages come from one machine: they agree on the peak rate of its cores."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
CLOCKS = 1.2  # the clock of one core varies, and a peak is measured at the clock of the moment
STATED = re.compile(r"peak,?(?: one core)?\s+([\d.]+) GFLOP/s")
SHARE = re.compile(r"([\d.]+) GFLOP/s, +(\d+) ?% of the peak")


def stored_peaks() -> Iterator[tuple[str, float]]:
    """Yield (page, GFLOP/s of one core) for each peak that is stored or follows from a share."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            for output in cell.get("outputs", []):
                text = "".join(output.get("text", output.get("data", {}).get("text/plain", "")))
                yield from ((path.stem, float(peak)) for peak in STATED.findall(text))
                for rate, share in SHARE.findall(text):
                    yield path.stem, float(rate) / float(share) * 100
    rows = json.loads((ROOT / "docs" / "demo.json").read_text(encoding="utf-8"))["rows"]
    yield from (("demo", row["peers"]["fma_peak"]) for row in rows if row["threads"] == 1)


def test_stored_peaks_agree() -> None:
    peaks = list(stored_peaks())
    assert {page[:2] for page, _ in peaks} >= {"00", "06", "de"}
    low, high = min(peaks, key=lambda p: p[1]), max(peaks, key=lambda p: p[1])
    assert high[1] <= CLOCKS * low[1], f"{low[0]} has {low[1]:.0f} GFLOP/s, {high[0]} {high[1]:.0f}"
