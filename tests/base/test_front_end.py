"""front_end: who runs the code, as the kernel tells."""

from types import SimpleNamespace

import IPython
import pytest

from minitvm.base import front_end


def shell(monkeypatch: pytest.MonkeyPatch, **attributes) -> None:
    monkeypatch.setattr(IPython, "get_ipython", lambda: SimpleNamespace(**attributes), False)


def test_outside_jupyter_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    assert front_end() == ""
    shell(monkeypatch)  # IPython in a terminal
    assert front_end() == ""


@pytest.mark.parametrize(("asks", "found"), [(True, "notebook"), (False, "batch")])
def test_a_tool_has_nobody_to_ask(monkeypatch: pytest.MonkeyPatch, asks: bool, found: str) -> None:
    shell(monkeypatch, kernel=SimpleNamespace(_allow_stdin=asks))
    assert front_end() == found
