"""What these tests share: no template is left behind, and a measurer without processes."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pytest

from minitvm import autotvm, te, tune
from minitvm.autotvm import templates


@pytest.fixture(autouse=True)
def no_templates_are_left() -> Iterator[None]:
    before = dict(templates.TEMPLATES)
    yield
    templates.TEMPLATES.clear()
    templates.TEMPLATES.update(before)


@pytest.fixture
def matmul() -> autotvm.Template:
    """A template with knobs of all kinds: numbers, steps, an order."""

    @autotvm.template("test/matmul")
    def made(n: int, dtype: str = "float32") -> Any:
        A, B = te.placeholder((n, n), dtype, "A"), te.placeholder((n, n), dtype, "B")
        k = te.reduce_axis((0, n), "k")
        C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
        s, cfg = te.create_schedule(C.op), autotvm.get_config()
        y, x = s[C].op.axis
        (k,) = s[C].op.reduce_axis
        cfg.define_split("tile_y", y)
        cfg.define_split("tile_x", x)
        cfg.define_split("tile_k", k, "verbose", num_outputs=3, max_factor=16)
        cfg.define_knob("unroll", [0, 16, 64])
        cfg.define_knob("vector", [False, True])
        yo, yi = cfg["tile_y"].apply(s, C, y)
        xo, xi = cfg["tile_x"].apply(s, C, x)
        ko, km, ki = cfg["tile_k"].apply(s, C, k)
        cfg.define_reorder("order", [ko, yi, km], "interval_all", interval=(0, 2))
        s[C].reorder(yo, xo, *cfg["order"].apply(s, C, [ko, yi, km]), ki, xi)
        if cfg["vector"].val:
            s[C].vectorize(xi)
        s[C].pragma(yo, "auto_unroll_max_step", cfg["unroll"].val)
        return s, [A, B, C]

    return made


class Pretended:
    """Results from a function of the configuration: no program is made."""

    def __init__(
        self, task: autotvm.Task, seconds: Callable[[autotvm.ConfigEntity], float]
    ) -> None:
        self.task, self.seconds = task, seconds
        self.reference_cost = 1.0

    def measure(self, programs: Iterable[Any]) -> Iterator[tune.Result]:
        for program in programs:
            yield self._one(program)

    def remeasure(self, programs: Sequence[Any]) -> list[tune.Result]:
        return [*map(self._one, programs), tune.Result((self.reference_cost,))]

    def _one(self, program: Any) -> tune.Result:
        seconds = self.seconds(self.task.config(program.candidate))
        return tune.Result((seconds,)) if seconds else tune.Result((), "crash", "signal 11")


@pytest.fixture
def pretended() -> type[Pretended]:
    return Pretended
