"""TripleView: what lights up with what."""

import pytest

from minitvm import te, viz
from minitvm.base import ArgumentError

from .programs import blur, matmul, tiled


def lit(view: viz.TripleView, key: str) -> list[str]:
    """The lines of code that light up with a key, stripped."""
    (_, code) = view.view["panels"]
    text = {line["key"]: line["text"].strip() for line in code["lines"]}
    return [text[k] for k in view.view["links"][key] if k in text]


def test_as_text(golden) -> None:
    golden(repr(viz.TripleView(*blur())))


def test_the_picture_has_the_formula_the_loops_and_the_code() -> None:
    view = viz.TripleView(*matmul(8))
    formula, code = view.view["panels"]
    shapes = view.picture().shapes
    texts = [s.text for s in shapes if isinstance(s, viz.Text)]
    assert [text for text in texts if text in ("formula", "loops", "python")] == [
        "formula", "loops", "python"
    ]  # fmt: skip
    assert [line["text"] for line in formula["lines"]] == texts[1 : texts.index("loops")]
    shown = "".join(texts[texts.index("python") + 1 :])
    code_text = "".join(line["text"] for line in code["lines"])
    assert shown.replace(" ", "") == code_text.replace(" ", "")  # long lines are folded
    assert {"loop:i", "loop:j_outer", "loop:j_inner", "loop:k"} <= {s.key for s in shapes}


def test_a_loop_lights_up_its_python() -> None:
    assert lit(viz.TripleView(*matmul(8)), "loop:k") == [
        "for k in range(8):",
        "C[i*8 + j_outer*4 + j_inner] = C[i*8 + j_outer*4 + j_inner]"
        " + A[i*8 + k] * B[k*8 + j_outer*4 + j_inner]",
    ]


def test_an_axis_lights_up_the_loops_it_became() -> None:
    links = viz.TripleView(*matmul(8)).view["links"]
    assert links["axis:C/j"][:2] == ["loop:j_outer", "loop:j_inner"]
    assert links["loop:j_inner"][-1] == "axis:C/j"


def test_copies_of_a_loop_light_up_with_it() -> None:
    view = viz.TripleView(*blur())
    view.event("code", "loops")
    assert lit(view, "loop:i")[::2] == ["for i in range(6):", "for i_1 in range(4):"]


def test_a_vectorized_loop_has_no_lines_in_llvm() -> None:
    view = viz.TripleView(*tiled())
    view.event("code", "llvm")
    assert lit(view, "loop:i_outer")[0] == "i_outer.loop:"
    assert lit(view, "loop:j_inner") == []
    view.event("click", "loop:j_inner")
    assert view.message == "j_inner (vectorize × 8): no such loop is left in the code shown"


def test_hardware_threads_are_shown_as_loops() -> None:
    s, (A, B, C) = matmul(8)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    view = viz.TripleView(s, [A, B, C])
    assert lit(view, "loop:i")[0] == "for i in bind(8, 'blockIdx.x'):"
    view.event("code", "python")
    assert "a CPU has no hardware threads" in view.message


def test_unknown_code_is_refused() -> None:
    view = viz.TripleView(*matmul(8))
    view.event("code", "cobol")
    assert view.message.startswith("code 'cobol': no such code")


def test_code_whose_loops_are_others_gets_no_links() -> None:
    lines = ["for x in y:", "  pass"]
    assert viz.triple.code_spans(lines, ["i", "j"]) == {}
    assert viz.triple.code_spans(lines, ["i"]) == {"i": [0, 1]}


def test_a_tensor_is_no_schedule() -> None:
    with pytest.raises(ArgumentError, match=r"TripleView\(Tensor\): not a schedule"):
        viz.TripleView(matmul()[1][0])
