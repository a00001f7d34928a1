"""Arrays go to other libraries and come from them without being copied."""

from typing import Any

import numpy as np
import pytest

import minitvm as tvm
from minitvm import te
from minitvm.base import ArgumentError

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module", params=["llvm", "python"])
def f(request: pytest.FixtureRequest) -> tvm.Function:
    """C = A * 2"""
    A = te.placeholder((4, 6), name="A")
    C = te.compute((4, 6), lambda i, j: A[i, j] * 2.0, name="C")
    return tvm.build(te.create_schedule(C.op), [A, C], request.param)


def refusal(f: tvm.Function, a: Any) -> str:
    with pytest.raises(ArgumentError) as caught:
        f(a, np.zeros((4, 6), "float32"))
    return str(caught.value)


def test_tensors_are_read_and_written_in_place(f: tvm.Function) -> None:
    a, c = torch.ones(4, 6), torch.zeros(4, 6)
    f(a, c)
    assert (c == 2).all()


def test_an_array_of_ours_becomes_a_tensor_over_the_same_memory() -> None:
    a = tvm.nd.array(np.zeros((2, 3), "float32"))
    t = torch.from_dlpack(a)
    t[1, 2] = 5
    assert a[1, 2] == 5
    assert t.data_ptr() == a.ctypes.data


def test_a_read_only_array_may_be_an_input(f: tvm.Function) -> None:
    a, c = np.ones((4, 6), "float32"), torch.zeros(4, 6)
    a.setflags(write=False)
    f(a, c)
    assert (c == 2).all()


@pytest.mark.parametrize(
    ("tensor", "says"),
    [
        (lambda: torch.ones(4, 6, requires_grad=True), "use tensor.detach()"),
        (lambda: torch.ones(4, 6, device="meta"), "argument A: cannot be read in place: "),
        (lambda: torch.ones(4, 6).to_sparse(), "argument A: cannot be read in place: "),
        (lambda: torch.ones(4, 6, dtype=torch.bfloat16), "argument A: cannot be read in place: "),
        (lambda: torch.ones(4, 6, dtype=torch.float64), "has dtype float64, not float32"),
        (lambda: torch.ones(6, 4).T, "is not C-contiguous"),
    ],
)
def test_a_tensor_that_cannot_be_read_in_place_is_refused(
    f: tvm.Function, tensor: Any, says: str
) -> None:
    assert says in refusal(f, tensor())


class OnGPU:
    """A tensor in the memory of a GPU, as seen through DLPack."""

    def __dlpack__(self, **options: Any) -> Any:
        raise AssertionError("nobody should ask for its memory")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 2, 0


def test_a_tensor_on_a_gpu_is_refused(f: tvm.Function) -> None:
    assert refusal(f, OnGPU()) == (
        "argument A: is in the memory of a CUDA GPU\n  try: x.cpu(), a copy in main memory"
    )
