"""What shift-tab shows of operators and of the methods that schedules are written with."""

import inspect
import pickle
from collections.abc import Callable
from types import ModuleType

import pytest

from minitvm import te, tir, topi

MATH = """
    exp exp2 log log2 log10 sqrt rsqrt sin cos tan atan asin acos atan2 log1p hypot copysign sinh
    cosh tanh sigmoid erf floor ceil trunc round abs clz isnan isfinite isinf fmod power truncdiv
    truncmod indexdiv indexmod EQ NE LT LE GT GE likely max min
"""
ELEMENTWISE = """
    relu leaky_relu sigmoid tanh gelu silu exp log sqrt rsqrt erf negative abs clip cast add
    subtract multiply divide maximum minimum power equal not_equal less less_equal greater
    greater_equal where take
"""


def shown(package: ModuleType, name: str) -> str:
    """The name, the signature and the first line that a notebook shows."""
    f = getattr(package, name)
    assert (f.__name__, f.__module__.split(".")[1]) == (name, package.__name__.split(".")[1])
    return f"{name}{inspect.signature(f)}\n    {(inspect.getdoc(f) or '').splitlines()[0]}"


def member(cls: type, name: str) -> str:
    """The same for a method; a property has no arguments."""
    f = getattr(cls, name)
    arguments = f": {f.fget.__annotations__['return']}" if isinstance(f, property) else ""
    doc = inspect.getdoc(f)
    assert doc, f"{cls.__name__}.{name} says nothing"
    return f"{name}{arguments or inspect.signature(f)}\n    {doc.splitlines()[0]}"


@pytest.mark.parametrize(
    ("package", "names"), [(tir, MATH), (topi, ELEMENTWISE)], ids=["tir", "topi"]
)
def test_every_operator_shows_its_signature_and_what_it_computes(
    package: ModuleType, names: str, golden: Callable[[str], None]
) -> None:
    golden("\n".join(shown(package, name) for name in names.split()))


@pytest.mark.parametrize("cls", [te.Schedule, te.StageView])
def test_every_method_shows_its_signature_and_what_it_does(
    cls: type, golden: Callable[[str], None]
) -> None:
    names = [n for n in vars(cls) if not n.startswith("_")]
    golden("\n".join(member(cls, n) for n in names))


def test_te_offers_the_functions_of_tir() -> None:
    shared = [n for n in MATH.split() if hasattr(te, n) and n not in ("max", "min")]
    assert len(shared) > 30
    assert all(getattr(te, n) is getattr(tir, n) for n in shared)


def test_an_operator_pickles_by_its_name() -> None:
    for f in (te.exp, te.fmod, te.truncdiv, tir.EQ, topi.exp, topi.add, topi.less):
        assert pickle.loads(pickle.dumps(f)) is f
