"""Memory that compiled code passes to registered Python functions."""

from typing import Any

import numpy as np

import minitvm as tvm
from minitvm import te, tir


def test_a_function_gets_each_buffer_from_the_index_to_its_end() -> None:
    sizes = range(10, 34, 3)
    inputs = [te.placeholder((n,), name=f"A{n}") for n in sizes]
    seen: list[list[int]] = []
    tir.register_func("lengths", lambda *rows: seen.append([len(row) for row in rows]), True)

    def body(ins: Any, outs: Any) -> Any:
        ib = tir.ir_builder.create()
        with ib.for_range(0, 3, name="i") as i:
            rows = [a.access_ptr("r", offset=i * k) for k, a in enumerate(ins, 1)]
            ib.emit(tir.call_packed("lengths", *rows))
        ib.buffer_ptr(outs[0])[0] = 0.0
        return ib.get()

    out = te.extern((1,), inputs, body, name="out", dtype="float32")
    f = tvm.build(te.create_schedule(out.op), [*inputs, out])
    f(*(np.zeros(n, "float32") for n in sizes), np.zeros(1, "float32"))
    assert seen == [[n - i * k for k, n in enumerate(sizes, 1)] for i in range(3)]
