"""Make parts of items that check functions and formulas. For schedules, see schedules.py.

Each part calls `arguments(rng)` to draw the arguments of the student's function: a tuple of plain
data, arrays and problems.
"""

from __future__ import annotations

import math
import re
import reprlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, cast

import numpy as np

from minitvm import tensor, testing

from .data import operations
from .item import PASSED, Answer, AnswerError, Kept, Outcome, Part, Problem, Rng, expanded, failed

Arguments: TypeAlias = Callable[[Rng], tuple[Any, ...]]
Array: TypeAlias = np.ndarray[Any, np.dtype[Any]]
CASES = 5
READY_MADE = (
    "operators of topi, which have a tag or a name with T_, are formulas that others have written:"
    " write this one yourself"
)
OWN_FORMULAS = "formulas of your own, by te.compute"
NOTHING = "nothing was returned: is there a `return`?"
MAX_COMPUTED = 10**7  # elements, intermediate ones included, that a formula may compute
ELEMENT = re.compile(r"(\[.*?\]): got (.*), want (.*) \((\d+ of \d+ elements differ)")
SCALAR = re.compile(r"np\.\w+\((.*?)\)")  # np.float32(0.5) -> 0.5
short = reprlib.Repr()
short.maxstring = short.maxother = 200
short.maxlist = short.maxtuple = short.maxarray = 12


# --- functions -----------------------------------------------------------------------------------


def equal(
    reference: Callable[..., Any],
    arguments: Arguments,
    *,
    title: str = "the right result for random arguments",
    cases: int = CASES,
    rtol: float = 0.0,
    atol: float = 0.0,
    weight: float = 1.0,
    why: str = "",
    wrong: str = "wrong-value",
) -> Part:
    """Make a part for functions that return plain data; compare the results with `reference`.

    reference   called with the same arguments, but with Problem.values in place of each problem
    why, wrong  the usual reason for a wrong result, and the message id of that failure
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        for n in range(cases):
            args = arguments(rng)
            want, got = reference(*expanded(args)), answer(*args)
            if difference := differs(got, want, rtol, atol):
                case = f"case {n + 1}, arguments ({', '.join(map(describe, args))})"
                where = f"{case}: {difference}"
                reason = why if got is not None else NOTHING
                return failed(wrong, short.repr(want), short.repr(got), where=where, why=reason)
        return PASSED

    return Part("correctness", title, weight, check)


def describe(argument: Any) -> str:
    """Return the text of an argument for a message; for a problem, for example, matmul(2, 3, 4)."""
    if isinstance(argument, Problem):
        return f"{argument.name}({', '.join(map(short.repr, argument.arguments))})"
    return short.repr(argument.value if isinstance(argument, Kept) else argument)


def differs(got: Any, want: Any, rtol: float = 0.0, atol: float = 0.0) -> str:
    """Describe the first difference of two plain values; return "" if they are equal.

    Lists, tuples and arrays are equal if their elements are, and numbers if their values are.
    """
    if isinstance(want, list | tuple):
        got = got.tolist() if isinstance(got, np.ndarray) else got
        if not isinstance(got, list | tuple):
            return f"{type(got).__name__} instead of a {type(cast('Any', want)).__name__}"
        answer, expected = cast("list[Any]", got), cast("list[Any]", want)
        if len(answer) != len(expected):
            return f"{len(answer)} elements, not {len(expected)}"
        return _differing_entries(answer, expected, range(len(expected)), rtol, atol)
    if isinstance(want, dict):
        expected = cast("dict[Any, Any]", want)
        if not isinstance(got, dict):
            return f"{type(got).__name__} instead of a dict"
        answer = cast("dict[Any, Any]", got)
        if answer.keys() != expected.keys():
            return (
                f"the keys are {', '.join(map(repr, answer))}, not {', '.join(map(repr, expected))}"
            )
        return _differing_entries(answer, expected, expected, rtol, atol)
    if isinstance(want, np.ndarray | int | float) and not isinstance(want, bool):
        if not isinstance(got, np.ndarray | int | float):
            return f"{type(got).__name__} instead of a number"
        difference = testing.difference(got, want, rtol, atol)
        plain = isinstance(got, int | float) and isinstance(want, int | float)
        return f"got {got}, want {want}" if difference and plain else difference
    return "" if type(got) is type(cast("Any", want)) and got == want else "another value"


def _differing_entries(got: Any, want: Any, keys: Iterable[Any], rtol: float, atol: float) -> str:
    differences = ((key, differs(got[key], want[key], rtol, atol)) for key in keys)
    return next((f"[{key!r}]: {text}" for key, text in differences if text), "")


# --- formulas ------------------------------------------------------------------------------------


def formula(
    reference: Callable[..., Array],
    arguments: Arguments,
    *,
    title: str = "the right numbers for random shapes",
    cases: int = 3,
    rtol: float = 1e-4,
    atol: float = 1e-4,
    weight: float = 1.0,
    largest: float = 1.0,
    why: str = "",
) -> Part:
    """Make a part that evaluates the tensor of an answer and compares it with `reference`.

    `reference` is called with the same arguments, but with an array in place of each placeholder
    of a problem. The arrays are random, with floats in -largest .. largest. The answer is computed
    by minitvm.tensor.evaluate. Operators of topi are not accepted.
    """

    def check(answer: Answer, rng: Rng) -> Outcome:
        for n in range(cases):
            args = arguments(rng)
            values = expanded(args)
            inputs = random_inputs(values, rng, largest)
            got = _returned(answer, args, why)
            if isinstance(got, Outcome):
                return got
            if not isinstance(got, tensor.Tensor):
                return wrong_type("a tensor", got)
            for op in operations([got]):
                if op.name.startswith("T_") or getattr(op, "tag", ""):
                    name = f"{op.name}, made by topi"
                    return failed("ready-made", OWN_FORMULAS, name, why=READY_MADE)
            if (points := computed_elements(got)) > MAX_COMPUTED:
                limit = f"at most {MAX_COMPUTED:,} steps"
                return failed("too-large", limit, f"{points:,} steps", why="its tensors are huge")
            plain = [inputs.get(x, x) if isinstance(x, tensor.Tensor) else x for x in values]
            want = reference(*plain)
            case = f"case {n + 1}: inputs of shape {shapes(inputs)}{_others(plain)}"
            if tuple(got.shape) != want.shape:
                right, actual = (str(list(s)) for s in (want.shape, got.shape))
                return failed("wrong-shape", right, actual, case=case, why=why)
            result = tensor.evaluate([got], inputs)[0]
            if wrong := wrong_element(result, want, rtol, atol, case, why):
                return wrong
        return PASSED

    return Part("correctness", title, weight, check)


def _returned(answer: Answer, args: Sequence[Any], why: str) -> Any:
    """Call an answer; return an outcome with `why` if it raises an error, as for a wrong result."""
    try:
        return answer(*args)
    except AnswerError as e:
        message, reason, _ = e.args
        if message != "raises":
            raise
        case = f"the arguments ({', '.join(map(describe, args))})"
        return failed(message, "a tensor", reason, why=why, case=case)


def wrong_type(expected: str, got: Any) -> Outcome:
    """Return the outcome for a value of a wrong type; `expected` is, for example, "a tensor"."""
    why = NOTHING if got is None else ""
    shown = type(got).__name__ + ("" if got is None else f" {short.repr(got)}")
    return failed("wrong-type", expected, shown, why=why)


def _others(plain: Sequence[Any]) -> str:
    """Return the arguments that are not arrays as text: ", then 2", or "" if all are arrays."""
    return "".join(f", then {short.repr(x)}" for x in plain if not isinstance(x, np.ndarray))


def computed_elements(t: tensor.Tensor) -> int:
    """Count the steps of all loops that compute `t` and every tensor that `t` depends on."""
    total = 0
    for op in operations([t]):
        if isinstance(op, tensor.ComputeOp):
            extents = [a.extent for a in (*op.axis, *op.reduce_axis)]
            total += math.prod(n for n in extents if isinstance(n, int))
    return total


def wrong_element(
    got: Array, want: Array, rtol: float, atol: float, case: str, why: str
) -> Outcome | None:
    """Return the outcome for the first wrong element of `got`; None if all elements are right."""
    difference = testing.difference(got, want, rtol, atol)
    if not difference:
        return None
    element = ELEMENT.match(difference)
    if element is None:
        return failed("wrong-value", "the right values", difference, where=case, why=why)
    at, actual, right, many = (SCALAR.sub(r"\1", text) for text in element.groups())
    return failed("wrong-value", right, actual, where=f"element {at}; {case}; {many}", why=why)


def shapes(inputs: dict[tensor.Tensor, Array]) -> str:
    """Return the names and shapes of the inputs, for example "A [2, 3], B [3, 4]"."""
    return ", ".join(f"{t.name} {list(a.shape)}" for t, a in inputs.items())


def random_inputs(
    values: Sequence[Any], rng: Rng, largest: float = 1.0
) -> dict[tensor.Tensor, Array]:
    """Draw an array for each placeholder: floats in -largest .. largest, or small integers."""
    inputs: dict[tensor.Tensor, Array] = {}
    for t in values:
        if isinstance(t, tensor.Tensor) and isinstance(t.op, tensor.PlaceholderOp):
            shape = tuple(int(n) for n in t.shape if isinstance(n, int))
            if t.dtype.is_float:
                numbers = rng.uniform(-largest, largest, shape)
            else:
                numbers = rng.integers(0, 2 if t.dtype == "bool" else 8, shape)
            inputs[t] = numbers.astype(t.dtype.numpy)
    return inputs
