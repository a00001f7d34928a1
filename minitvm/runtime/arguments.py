"""The check of the arguments of a call against the parameters of the function."""

from __future__ import annotations

from numbers import Integral
from typing import Any, cast

import numpy as np

from minitvm import tir
from minitvm.base import ArgumentError

from .aligned import Array

REACHED = (1, 3)  # DLPack's device types of main memory, ordinary and pinned
ELSEWHERE = {2: "a CUDA GPU", 8: "a Metal GPU", 10: "a ROCm GPU", 14: "a oneAPI device"}


class Arguments:
    """The parameters of a function, and the check that the arguments of a call fit them."""

    def __init__(self, func: tir.PrimFunc) -> None:
        self._func = func
        self._outputs = [n for n, p in enumerate(func.params) if is_among(p, func.outputs)]
        self._fixed = [_fixed(p) for p in func.params]
        self._symbolic = None in self._fixed  # some size or scalar is known only at the call
        self._temporary = tir.symbolic_buffers(func)

    def checked(self, args: tuple[Any, ...]) -> list[Any]:
        """Return the arguments as numpy arrays and ints, followed by the values of symbolic sizes.

        Raises ArgumentError for arguments that do not fit the parameters.
        """
        params = self._func.params
        if len(args) != len(params):
            names = ", ".join(p.name for p in params)
            why = f"takes {len(params)} arguments, {len(args)} given"
            raise ArgumentError(f"{self._func.name}({names})", why)
        checked_args = [
            a if type(a) is np.ndarray or not isinstance(p, tir.Buffer) else as_array(p.name, a)
            for p, a in zip(params, args, strict=True)
        ]
        for p, a, fixed in zip(params, checked_args, self._fixed, strict=True):
            if isinstance(p, tir.Buffer):
                if fixed is None or a.shape != fixed[0] or a.dtype != fixed[1]:
                    self._check_kind(p, a, fixed)
                flags = a.flags
                if not flags.c_contiguous:
                    self._unfit(p, "is not C-contiguous", "numpy.ascontiguousarray(...)")
                if not flags.aligned:
                    self._unfit(p, "starts at an address that is not aligned", "pass a copy")
            elif not isinstance(a, Integral):
                _refuse(self._func.name, p, f"is {type(a).__name__}, not an int", "an int")
            elif not -(2**63) <= a < 2**63:
                why = f"is {a}, which does not fit in 64 bits"
                _refuse(self._func.name, p, why, "a smaller int")
        for n in self._outputs:
            self._check_output(n, checked_args)
        if not self._symbolic:
            return checked_args
        sizes = tir.sizes_of(self._func, tuple(checked_args))
        tir.check_symbolic_buffers(self._func, self._temporary, sizes)
        pairs = zip(self._func.params, checked_args, strict=True)
        plain = [a if isinstance(p, tir.Buffer) else int(a) for p, a in pairs]  # also numpy.int64
        return [*plain, *(sizes[v] for v in self._func.sizes)]

    def _check_output(self, n: int, ready: list[Any]) -> None:
        output, p = ready[n], self._func.params[n]
        if not output.flags.writeable:
            self._unfit(p, "is an output, but read-only", "")
        for q, argument in zip(self._func.params, ready, strict=True):
            if q is not p and isinstance(q, tir.Buffer) and np.may_share_memory(output, argument):
                why = f"is an output, but shares memory with {q.name}"
                _refuse(self._func.name, p, why, "separate arrays")

    def _check_kind(
        self, p: tir.Buffer, a: Array, fixed: tuple[tuple[int, ...], np.dtype[Any]] | None
    ) -> None:
        """Raise ArgumentError for a wrong dtype, rank or (if p has a constant shape) shape."""
        if a.dtype != p.dtype.numpy:
            fix = f"{p.name}.astype({str(p.dtype)!r})"
            self._unfit(p, f"has dtype {a.dtype}, not {p.dtype}", fix)
        if a.ndim != len(p.shape):
            self._unfit(p, f"has {a.ndim} dimensions, not {len(p.shape)}", "reshape it")
        if fixed is not None:
            self._unfit(p, f"has shape {a.shape}, not {fixed[0]}", "arrays of the declared shape")

    def _unfit(self, p: Any, why: str, fix: str) -> None:
        """Raise ArgumentError for an array; for an output, suggest a new array, not a copy."""
        if is_among(p, self._func.outputs):
            fixed = _fixed(p)
            sizes = p.shape if fixed is None else fixed[0]
            comma = "," if len(sizes) == 1 else ""
            shape = f"({', '.join(map(tir.text, sizes))}{comma})"
            fix = f"make it with numpy.empty({shape}, {str(p.dtype)!r})"
        _refuse(self._func.name, p, why, fix)


def is_among(p: object, buffers: tuple[tir.Buffer, ...]) -> bool:
    """Return whether `p` is one of the buffers, compared by identity."""
    return any(p is b for b in buffers)


def _fixed(p: Any) -> tuple[tuple[int, ...], np.dtype[Any]] | None:
    """Return the required shape and dtype, or None if the shape is not constant.

    Only temporary arrays have gaps between rows. They are passed as a single row with the gaps.
    """
    if not isinstance(p, tir.Buffer) or not all(isinstance(n, int) for n in p.shape):
        return None
    if p.strides and isinstance(n := tir.elements(p), int):
        return (n,), p.dtype.numpy
    return tuple(n for n in p.shape if isinstance(n, int)), p.dtype.numpy


def _refuse(name: str, p: Any, why: str, fix: str) -> None:
    raise ArgumentError(f"{name}: argument {p.name}", why, fix)


def as_array(name: str, a: Any) -> Array:
    """Return `a`, an array of numpy or another library, as a numpy array, without copying it."""
    if isinstance(a, np.ma.MaskedArray):
        why = "is a masked array, whose mask compiled code would ignore"
        raise ArgumentError(f"argument {name}", why, f"{name}.filled(0), or {name}.data")
    if isinstance(a, np.ndarray):
        return np.asarray(cast("Array", a))
    if isinstance(a, np.generic):
        scalar = np.asarray(cast("Any", a))
        scalar.flags.writeable = False  # it is a copy, so it cannot be an output
        return scalar
    if hasattr(a, "__dlpack__"):
        try:
            where = a.__dlpack_device__()[0]
            if where in REACHED:
                return np.from_dlpack(a)
        except Exception as e:  # raised by code of another library
            why = f"cannot be read in place: {e}"
            narrow = "x.view(torch.int16).numpy().view('bfloat16')"
            fix = f"a numpy array; of a tensor in bfloat16: {narrow}"
            raise ArgumentError(f"argument {name}", why, fix) from e
        what = ELSEWHERE.get(where, f"a device of DLPack's type {where}")
        why = f"is in the memory of {what}"
        raise ArgumentError(f"argument {name}", why, "x.cpu(), a copy in main memory")
    raise ArgumentError(f"argument {name}", f"is {type(a).__name__}, not an array", "a numpy array")
