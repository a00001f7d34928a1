"""The ledger: rows that are measured, stored, or refused; the chart says which is which."""

import json
from pathlib import Path

import numpy as np
import pytest

import minitvm as tvm
from minitvm import course, te, viz
from minitvm.course import chapters


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The reader's file; neither this process nor the authors have measured anything."""
    monkeypatch.setattr(chapters, "_measured", {})
    monkeypatch.setattr(chapters, "STORED", tmp_path / "stored.jsonl")
    monkeypatch.setenv("MINITVM_LEDGER", str(tmp_path / "ledger.jsonl"))
    return tmp_path / "ledger.jsonl"


def row(text: str, notebook: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(notebook))


def test_both_forms_compute_the_layer() -> None:
    random = np.random.default_rng(0)
    data, weight = (
        random.random((64, 58, 58), np.float32),
        random.random((64, 64, 3, 3), np.float32),
    )
    windows = np.lib.stride_tricks.sliding_window_view(data, (3, 3), (1, 2))
    patches = windows.transpose(1, 2, 0, 3, 4).reshape(3136, 576)
    expected = patches @ weight.reshape(64, 576).T
    conv, product = np.empty((64, 56, 56), "float32"), np.empty((3136, 64), "float32")
    for layer, arrays in (
        (course.layer(), (data, weight, conv)),
        (course.layer(product=True), (patches, weight.reshape(64, 576).T, product)),
    ):
        s = te.create_schedule(layer.out.op)
        tvm.build(s, [*layer])(*map(np.ascontiguousarray, arrays[:2]), arrays[2])
    np.testing.assert_allclose(product, expected, rtol=1e-4)
    np.testing.assert_allclose(conv.reshape(64, -1).T, expected, rtol=1e-4)


def test_a_schedule_is_measured_and_kept(file: Path) -> None:
    layer = course.layer()
    relu = te.compute(layer.out.shape, lambda *i: te.max(layer.out[i], 0), name="relu")
    s = te.create_schedule(relu.op)
    shown = repr(course.ledger("02", s, [layer.data, layer.weight, relu]))
    (entry,) = map(json.loads, file.read_text().splitlines())
    assert entry["notebook"] == "02"
    assert 0 < entry["share"] < 1.2
    percent = viz.LedgerRow("02", "", entry["share"], is_stored=False).text()
    assert row(shown, "02").endswith(f" {percent}")
    assert row(shown, "...").endswith(
        "12 later rows                                  not measured yet"
    )
    assert "not measured yet" in row(repr(course.ledger()), "03")


def test_readers_see_their_own_rows_and_otherwise_the_authors(file: Path) -> None:
    stored = [{"notebook": n, "share": 0.5, "cpu": "znver4"} for n in ("03", "04", "08")]
    chapters.STORED.write_text("\n".join(map(json.dumps, stored)))
    file.write_text('{"notebook": "03", "share": 0.25}\nbroken\n{"notebook": "04", "share": "x"}\n')
    shown = repr(course.ledger())
    assert row(shown, "03").endswith("25 %")
    assert row(shown, "04").endswith("50 % (stored)")
    assert row(shown, "08").endswith("50 % (of the accelerator's peak, stored)")
    assert shown.endswith("stored rows: znver4")


def test_a_share_of_another_machine_is_entered_and_bytes_may_exceed_the_peak() -> None:
    course.ledger("08", share=0.061)
    shown = repr(course.ledger("16", share=1.4))
    assert row(shown, "08").endswith("6.1 % (of the accelerator's peak)")
    assert row(shown, "16").endswith("140 %")


def test_nonsense_is_refused() -> None:
    layer = course.layer()
    half = te.compute((64,), lambda i: layer.data[i, 0, 0], name="half")
    for refused, why in (
        (lambda: course.ledger("99"), "no such row"),
        (lambda: course.ledger(share=0.5), "no notebook is named"),
        (lambda: course.ledger("08", share=float("nan")), "not a number above 0"),
        (lambda: course.ledger("08", share=50.0), "not a number above 0 and up to 4"),
        (lambda: course.ledger("03", te.create_schedule(half.op), [layer.data, half]), "231,211"),
    ):
        with pytest.raises(tvm.TVMError, match=why):
            refused()


def test_the_chart_tells_machines_and_origins_apart() -> None:
    rows = [
        viz.LedgerRow("03", "tiled", 0.25),
        viz.LedgerRow("04", "caches", 0.5, is_stored=True),
        viz.LedgerRow("08", "blocks", 0.5, "accelerator"),
        viz.LedgerRow("10", "network", None),
    ]
    chart = viz.LedgerChart(rows, "a layer", "znver4")
    keys = {s.key: s.kind for s in chart.scene().shapes if s.key}
    assert keys == {"row:03": "blue", "row:04": "serial", "row:08": "orange"}
    assert len(chart.png()) < 60_000
    with pytest.raises(tvm.TVMError, match="there are no rows"):
        viz.LedgerChart([], "a layer", "znver4")


def test_stored_rows_of_later_notebooks_are_a_single_line(file: Path) -> None:
    stored = [{"notebook": n, "share": x, "cpu": "znver4"} for n, x in (("06", 0.9), ("10", 2.2))]
    chapters.STORED.write_text("\n".join(map(json.dumps, stored)))
    file.write_text('{"notebook": "03", "share": 0.25}\n{"notebook": "04", "share": 0.5}\n')
    shown = repr(course.ledger("03"))
    assert [line[:2] for line in shown.splitlines()[1:-1]] == ["02", "03", "04", ".."]
    assert row(shown, "...").endswith("up to 90 %; beyond the peak with fewer multiplications")
    assert "later" not in repr(course.ledger("17"))


@pytest.mark.parametrize(("count", "words"), [(1, "1 later row "), (2, "2 later rows ")])
def test_later_rows_are_counted(count: int, words: str) -> None:
    later = [viz.LedgerRow(f"{5 + n:02}", "later", 0.5, is_stored=True) for n in range(count)]
    chart = viz.LedgerChart([viz.LedgerRow("03", "tiled", 0.25), *later], "a layer", "znver4", "03")
    assert words in row(chart.ascii(), "...")
