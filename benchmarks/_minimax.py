"""Compute the numbers of minitvm/codegen/llvm/coefficients.py: a Remez exchange in 60 digits.

    python benchmarks/_minimax.py [name ...]

Each polynomial p minimises the largest |weight(x) * (f(x) - p(x))|. This weighted error is the
relative error of the function that is computed from p, such as exp. The script prints the tables
and, as comments, the largest weighted error as a power of two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, getcontext
from itertools import accumulate, pairwise
from operator import mul

getcontext().prec = 60
GRID = 600  # points on which extrema are looked for
ROUNDS = 12
TINY = Decimal(10) ** -70

Function = Callable[[Decimal], Decimal]


def series(x: Decimal, first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    """Return first + first * ratio(1) + first * ratio(1) * ratio(2) + ..."""
    total, term, n = Decimal(0), first, 0
    while abs(term) > TINY:
        total += term
        n += 1
        term *= ratio(n)
    return total


def sin(x: Decimal) -> Decimal:
    return series(x, x, lambda n: -x * x / (2 * n * (2 * n + 1)))


def cos(x: Decimal) -> Decimal:
    return series(x, Decimal(1), lambda n: -x * x / (2 * n * (2 * n - 1)))


def sinh(x: Decimal) -> Decimal:
    return series(x, x, lambda n: x * x / (2 * n * (2 * n + 1)))


def atan(x: Decimal) -> Decimal:
    """Return atan x by Euler's series, which converges for every x."""
    z = x * x / (1 + x * x)
    return series(x, x / (1 + x * x), lambda n: z * 2 * n / (2 * n + 1))


def erf(x: Decimal) -> Decimal:
    """Return erf x = 2 / sqrt(pi) * exp(-x^2) * (x + 2 x^3 / 3 + 4 x^5 / 15 + ...)."""
    start = 2 * x / PI.sqrt() * (-x * x).exp()
    return series(x, start, lambda n: 2 * x * x / (2 * n + 1))


PI = 16 * atan(Decimal(1) / 5) - 4 * atan(Decimal(1) / 239)
LN2 = Decimal(2).ln()


def atanh(x: Decimal) -> Decimal:
    return ((1 + x) / (1 - x)).ln() / 2


@dataclass(frozen=True)
class Fit:
    """A function f to approximate; `degrees`: dtype -> (degree, lower end, upper end of x)."""

    f: Function
    weight: Function
    degrees: dict[str, tuple[int, Decimal, Decimal]]


def fit(
    f: Function, weight: Function, low: Decimal, high: Decimal, float32: int, float64: int
) -> Fit:
    """Return the Fit of `f` on low .. high, with a degree for float32 and one for float64."""
    return Fit(f, weight, {"FLOAT32": (float32, low, high), "FLOAT64": (float64, low, high)})


def squared(f: Function) -> Function:
    """Return the function that maps z to f(sqrt(z))."""
    return lambda z: f(z.sqrt())


def expm1(r: Decimal) -> Decimal:
    return r.exp() - 1


ZERO = Decimal(1) / 10**12  # instead of 0, because the formulas below divide by x
WIDER = Decimal("1.001")  # a rounded quotient may leave the exact range by a little
LOG_END = ((Decimal(2).sqrt() - 1) / (Decimal(2).sqrt() + 1)) ** 2
TURN_END = (PI / 4) ** 2 * WIDER

FITS = {
    # e^r = 1 + r + r^2 p(r); the error is measured against e^r - 1, which tanh needs
    "EXP": fit(
        lambda r: (expm1(r) - r) / (r * r),
        lambda r: abs(r * r / expm1(r)),
        -LN2 / 2 * WIDER, LN2 / 2 * WIDER, float32=4, float64=9,
    ),
    # log((1 + s) / (1 - s)) = 2 s + s z p(z), z = s^2
    "LOG": fit(
        squared(lambda s: 2 * (atanh(s) / s - 1) / (s * s)),
        squared(lambda s: s**3 / atanh(s) / 2),
        ZERO,
        LOG_END * WIDER,
        float32=2,
        float64=6,
    ),
    # log((1 + s) / (1 - s)) = 2 s (1 + z / 3 + z^2 p(z)), z = s^2
    "LOG_TAIL": fit(
        squared(lambda s: (atanh(s) / s - 1 - s * s / 3) / s**4),
        squared(lambda s: s**5 / atanh(s)),
        ZERO, LOG_END * WIDER, float32=2, float64=6,
    ),
    # sin r = r + r z p(z), z = r^2
    "SIN": fit(
        squared(lambda r: (sin(r) / r - 1) / (r * r)),
        squared(lambda r: r**3 / sin(r)),
        ZERO, TURN_END, float32=2, float64=5,
    ),
    # cos r = 1 - z / 2 + z^2 p(z), z = r^2
    "COS": fit(
        squared(lambda r: (cos(r) - 1 + r * r / 2) / r**4),
        squared(lambda r: r**4 / cos(r)),
        ZERO, TURN_END, float32=2, float64=5,
    ),
    # atan t = t + t z p(z), z = t^2
    "ATAN": fit(
        squared(lambda t: (atan(t) / t - 1) / (t * t)),
        squared(lambda t: t**3 / atan(t)),
        ZERO, Decimal(1), float32=7, float64=18,
    ),
    # sinh x = x + x z p(z), z = x^2
    "SINH": fit(
        squared(lambda x: (sinh(x) / x - 1) / (x * x)),
        squared(lambda x: x**3 / sinh(x)),
        ZERO, Decimal(1), float32=3, float64=6,
    ),
    # erf x = x + x p(z), z = x^2
    "ERF_NEAR": fit(
        squared(lambda x: erf(x) / x - 1),
        squared(lambda x: x / erf(x)),
        ZERO, Decimal(1), float32=6, float64=11,
    ),
    # erf x = 1 - exp(-p(x - 1)) until it rounds to 1
    "ERF_FAR": Fit(
        lambda t: -(1 - erf(1 + t)).ln(),
        lambda t: 1 / erf(1 + t) - 1,
        {
            "FLOAT32": (5, Decimal(0), Decimal(3)),
            "FLOAT64": (17, Decimal(0), Decimal(5)),
        },
    ),
}  # fmt: skip


def solve(rows: list[list[Decimal]]) -> list[Decimal]:
    """Solve a linear system by Gauss-Jordan elimination; a row is [*coefficients, right side]."""
    n = len(rows)
    for k in range(n):
        pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
        rows[k], rows[pivot] = rows[pivot], rows[k]
        rows[k] = [v / rows[k][k] for v in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                factor = rows[i][k]
                rows[i] = [u - factor * v for u, v in zip(rows[i], rows[k], strict=True)]
    return [row[n] for row in rows]


def powers(x: Decimal, degree: int) -> list[Decimal]:
    """Return [1, x, x^2, ..., x^degree]."""
    return list(accumulate([x] * degree, mul, initial=Decimal(1)))


def value(coefficients: list[Decimal], x: Decimal) -> Decimal:
    total = Decimal(0)
    for c in reversed(coefficients):
        total = total * x + c
    return total


def extrema(errors: list[Decimal]) -> list[int]:
    """Return the indices of the largest |error| between successive changes of its sign."""
    found = [0]
    for i, (before, here) in enumerate(pairwise(errors), 1):
        if (before < 0) != (here < 0):
            found.append(i)
        elif abs(here) > abs(errors[found[-1]]):
            found[-1] = i
    return found


def remez(fit: Fit, degree: int, low: Decimal, high: Decimal) -> tuple[list[Decimal], Decimal]:
    """Return the coefficients of 1, x, x^2, ... of the best polynomial, and its largest error."""
    middle, radius = (low + high) / 2, (high - low) / 2
    xs = [middle - radius * cos(PI * i / (GRID - 1)) for i in range(GRID)]
    fs, ws = [fit.f(x) for x in xs], [fit.weight(x) for x in xs]
    picks = [round((GRID - 1) * (i + 0.5) / (degree + 2)) for i in range(degree + 2)]
    coefficients, errors = [Decimal(0)], fs
    for _ in range(ROUNDS):
        system = [[*powers(xs[i], degree), (-1) ** n / ws[i], fs[i]] for n, i in enumerate(picks)]
        coefficients = solve(system)[:-1]
        errors = [w * (f - value(coefficients, x)) for x, f, w in zip(xs, fs, ws, strict=True)]
        found = extrema(errors)
        while len(found) > degree + 2:  # drop the end with the smaller error
            found.pop(0 if abs(errors[found[0]]) < abs(errors[found[-1]]) else -1)
        if len(found) < degree + 2 or found == picks:
            break
        picks = found
    return coefficients, max(abs(e) for e in errors)


def show(name: str) -> None:
    """Print the table of one function in the format of coefficients.py, three numbers a line."""
    fit = FITS[name]
    print(f"{name}: Table = {{")
    for dtype, (degree, low, high) in fit.degrees.items():
        coefficients, error = remez(fit, degree, low, high)
        digits = 9 if dtype == "FLOAT32" else 17
        texts = [f"{c:.{digits}g}," for c in map(float, coefficients)]
        print(f"    {dtype}: (  # 2**{float(error.ln() / LN2):.1f}")
        for at in range(0, len(texts), 3):
            print("        " + " ".join(texts[at : at + 3]))
        print("    ),")
    print("}")


if __name__ == "__main__":
    for name in sys.argv[1:] or FITS:
        show(name)
