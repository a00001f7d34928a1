"""A function of the loop IR: what `lower` returns and what code is generated from."""

from collections.abc import Iterator
from dataclasses import field

from minitvm.base import node

from .index import add
from .nodes import Buffer, Index, Var
from .stmt import Stmt
from .text import Printer


@node
class PrimFunc:
    """A loop program with its parameters: buffers (passed by address) and scalar variables.

    `outputs` are the parameters it writes; the others are only read. `sizes` are the symbolic
    sizes that appear in the shapes of the parameters; a call checks that each of `needs` is >= 0.
    `machine` is the accelerator it was lowered for, a Config; None for a CPU.
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    outputs: tuple[Buffer, ...] = field(default=())
    sizes: tuple[Var, ...] = field(default=())
    needs: tuple[Index, ...] = field(default=())
    machine: object = field(default=None)

    def lines(self, p: Printer) -> Iterator[str]:
        """Yield the lines of the function as `p` prints them."""
        yield f"def {self.name}({', '.join(p.parameter(x) for x in self.params)}):"
        for n in self.needs:
            yield f"  assert {p.expr(add(n, 1))} >= 1"
        yield from p.lines(self.body, 1)

    def printer(self) -> Printer:
        """Return a printer with the names of `print(f)`, for messages that quote a part of it."""
        p = Printer()
        for _ in self.lines(p):
            pass
        return p

    def __str__(self) -> str:
        return "\n".join(self.lines(Printer()))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return f"```python\n{self}\n```"
