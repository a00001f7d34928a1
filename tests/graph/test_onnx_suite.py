"""ONNX's own tests: each model computes what ONNX expects, or is refused for a stated reason."""

import re
from importlib.metadata import version

import pytest

from minitvm.base import host
from tests.codegen.conftest import CONVERTS_FLOAT16

pytest.importorskip("onnx")
from . import onnx_suite

REASON = r"(node|input|output|constant|param) '.*'|ONNX model: its operator set"


@pytest.fixture(scope="module")
def outcomes() -> list[onnx_suite.Outcome]:
    found = list(onnx_suite.outcomes())
    print(onnx_suite.table(found))
    return found


def of_kind(outcomes: list[onnx_suite.Outcome], *kinds: str) -> dict[str, str]:
    return {each.case: each.why for each in outcomes if each.kind in kinds}


def test_no_result_is_wrong_and_nothing_crashes(outcomes) -> None:
    assert of_kind(outcomes, "wrong", "crash") == {}


def test_a_refusal_names_what_is_refused(outcomes) -> None:
    refused = of_kind(outcomes, "refused")
    assert {case: why for case, why in refused.items() if not re.match(REASON, why)} == {}


def test_right_cases_are_counted(outcomes) -> None:
    if version("onnx") != onnx_suite.VERSION:
        pytest.skip(f"counts are of onnx {onnx_suite.VERSION}; this is {version('onnx')}")
    of_others = re.compile("its element type [0-9]+ is not supported|it is not a tensor")
    covered = [
        each
        for each in outcomes
        if each.operator in onnx_suite.graph.onnx.OPERATORS and not of_others.search(each.why)
    ]
    counts = [(len(of_kind(cases, "right")), len(cases)) for cases in (outcomes, covered)]
    assert counts == [(1428, 1884), (902, 998)]  # of all cases, and of those that could be read


@pytest.mark.slow
def test_compiled_code_computes_the_same(outcomes) -> None:
    names = {each.operator: each.case for each in outcomes if each.kind == "right"}
    found = list(onnx_suite.outcomes(onnx_suite.compiled, tuple(names.values())))
    failed = of_kind(found, "wrong", "crash")
    if not CONVERTS_FLOAT16 & host().features:  # then float16 must be refused
        failed = {case: why for case, why in failed.items() if "float16 for this CPU" not in why}
    assert failed == {}
