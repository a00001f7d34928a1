"""Errors for code that uses a tensor as if it were an array, with what to write instead."""

from __future__ import annotations

from typing import Any

from minitvm.base import ExprError

FORMULA = "a tensor here is a formula, not data"


class NotAnArray:
    """A base class that raises ExprError for operators, iteration and numpy functions.

    Its subclasses are whole tensors and parts of tensors, which have no value yet.
    """

    __slots__ = ()

    def _called(self) -> str:
        """Return a description of this object for error messages, such as "A"."""
        raise NotImplementedError

    def _operator(self, other: Any = None) -> Any:
        return self._one_element()

    def _one_element(self) -> Any:
        """Return this object as a single element; raise ExprError if it has more elements."""
        name = self._called()
        fix = f"te.compute({name}.shape, lambda *i: {name}(*i) + ...), or topi"
        raise ExprError(f"an operator on {name} as a whole", "a formula works on elements", fix)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _operator
    __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = _operator
    __pow__ = __rpow__ = __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __abs__ = _operator

    def __matmul__(self, other: Any) -> Any:
        fix = "topi.matmul(A, B), or te.sum(A[i, k] * B[k, j], axis=k) in a te.compute"
        raise ExprError(f"@ on {self._called()}", "a formula works on elements", fix)

    __rmatmul__ = __matmul__

    def __iter__(self) -> Any:
        fix = "te.sum(..., axis=k) to sum over a reduce axis k"
        raise ExprError(f"iterating over {self._called()}", FORMULA, fix)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        fix = "te or topi; data is passed when the compiled function is called"
        raise ExprError(f"a numpy array of {self._called()}", FORMULA, fix)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Raise ExprError for numpy functions, and for operators on a numpy array and a tensor."""
        what = f"numpy.{ufunc.__name__} of {self._called()}"
        raise ExprError(what, FORMULA, "the functions of te or topi")
