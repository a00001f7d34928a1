"""Compile Python source with numba. No other file imports numba.

numba is imported when it is first needed, because that takes longer than importing minitvm. It
ships no types, hence the type `Any` in this file.
"""

from __future__ import annotations

import contextlib
import ctypes
import re
import threading
from collections.abc import Callable, Generator
from typing import Any, cast

import numpy as np

from minitvm.base import BuildError, importing

from .aligned import Array
from .loading import Run, defined
from .pool import num_threads

# Only one caller at a time may use numba's threads: two callers at once end the process, unless the
# threading layer is tbb.
_sharing = threading.Lock()
# LLVM's loop vectorizer hangs on some loops of min, max and conditions, and miscompiles others
# (LLVM 22.1); so it may vectorize only plain arithmetic.
CHOICE = re.compile(r"\bif\b|\b(min|max)(imum)?\(")


def load_numba(source: str, cores: int) -> Run:
    """Compile the last function in `source` and return it; it uses at most `cores` threads.

    Raises BuildError if numba is missing or refuses the source.
    """
    numba = _imported()
    try:
        with _vectorizer(numba, allowed=not CHOICE.search(source)):
            call = defined(source)
    except numba.core.errors.NumbaError as e:
        raise BuildError("numba rejects this source", str(e).strip()) from e
    if "numba.prange(" in source:
        call = _shared(numba, call, cores)

    def run(args: list[Any]) -> None:
        call(*[a if isinstance(a, int) else _row(a) for a in args])

    return run


def _imported() -> Any:
    """Return the module numba; raise BuildError if it cannot be imported."""
    with importing("numba", "target numba", "pip install numba", BuildError):
        import numba
    return cast("Any", numba)


@contextlib.contextmanager
def _vectorizer(numba: Any, allowed: bool) -> Generator[None, None, None]:
    """Return a context in which numba's LLVM vectorizes loops if `allowed`, otherwise does not."""
    with numba.core.compiler_lock.global_compiler_lock:
        before = numba.config.LOOP_VECTORIZE
        numba.config.LOOP_VECTORIZE = before and allowed
        try:
            yield
        finally:
            numba.config.LOOP_VECTORIZE = before


def _shared(numba: Any, call: Callable[..., None], cores: int) -> Callable[..., None]:
    """Wrap `call` so that one caller at a time uses numba's threads, at most num_threads()."""

    def run(*args: Any) -> None:
        with _sharing:
            before = numba.get_num_threads()
            numba.set_num_threads(min(cores, num_threads(), numba.config.NUMBA_NUM_THREADS))
            try:
                call(*args)
            finally:
                numba.set_num_threads(before)

    return run


def _row(a: Array) -> Array:
    """Return the elements of a contiguous array as one dimension.

    numba would compile again for a read-only array. A read-only array is an input, and the loops do
    not write to inputs, so it is passed as a writable array.
    """
    if a.flags.writeable:
        return a.reshape(-1)
    memory = (ctypes.c_char * a.nbytes).from_address(a.ctypes.data)
    return np.frombuffer(memoryview(memory), a.dtype)
