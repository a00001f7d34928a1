"""compiled: the same numbers, whether or not numba can keep what it compiled."""

from pathlib import Path

import numpy as np
import pytest
from numba.core import config

from minitvm.cachesim.kernels import NONE, compiled, last_seen

fresh = compiled.__wrapped__  # another time for the same function


def seen() -> list[int]:
    """What a newly compiled last_seen says about a b a a."""
    found = np.zeros(4, np.int64)
    fresh(last_seen)(np.array([0, 1, 0, 0]), 2, found)
    return found.tolist()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where numba keeps code during a test."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_the_code_is_kept_for_the_next_process(folder: Path) -> None:
    assert seen() == [NONE, NONE, 0, 2]
    assert [file.suffix for file in sorted(folder.rglob("*last_seen*"))] == [".nbc", ".nbi"]
    assert seen() == [NONE, NONE, 0, 2]


@pytest.mark.parametrize("suffix", [".nbc", ".nbi"])
@pytest.mark.parametrize("content", [b"", b"nonsense"])
def test_a_damaged_file_is_not_used(folder: Path, suffix: str, content: bytes) -> None:
    seen()
    (file,) = folder.rglob(f"*{suffix}")
    file.write_bytes(content)
    assert seen() == [NONE, NONE, 0, 2]


def test_without_a_place_for_it_the_code_is_not_kept(folder: Path, monkeypatch) -> None:
    monkeypatch.setattr(config, "CACHE_LOCATOR_CLASSES", "numba.tests.support.NoSuchLocator")
    assert seen() == [NONE, NONE, 0, 2]
    assert not list(folder.rglob("*.nb?"))


def test_on_a_full_disk_the_code_is_not_kept(folder: Path, monkeypatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile.save", full)
    assert seen() == [NONE, NONE, 0, 2]
    assert not list(folder.rglob("*.nb?"))
