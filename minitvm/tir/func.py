"""PrimFunc, a function of the loop IR: `lower` returns it, and code generators read it."""

from collections.abc import Iterator
from dataclasses import field

from minitvm.base import node

from .index import add
from .nodes import Buffer, Index, Var
from .stmt import Stmt
from .text import Printer


@node
class PrimFunc:
    """A loop program and its parameters.

    params      buffers (passed by address) and scalar variables
    outputs     the parameters that the program writes; it only reads the others
    sizes       the symbolic sizes that appear in the shapes of the parameters
    needs       indices in terms of `sizes`; a call raises an error unless all are >= 0
    machine     the Config of the accelerator that the program was lowered for; None for a CPU
    constants   the parameters whose contents are the same in every call
    prepack     the program that computes all that depends on constants only, or None. It takes
                `constants` and then `packed`, the buffers that it fills and this program reads
    scratch     the outputs that hold temporary results: their contents mean nothing to the caller
    """

    name: str
    params: tuple[Buffer | Var, ...]
    body: Stmt
    outputs: tuple[Buffer, ...] = field(default=())
    sizes: tuple[Var, ...] = field(default=())
    needs: tuple[Index, ...] = field(default=())
    machine: object = field(default=None)
    constants: tuple[Buffer, ...] = field(default=())
    prepack: "PrimFunc | None" = field(default=None)
    scratch: tuple[Buffer, ...] = field(default=())

    @property
    def packed(self) -> tuple[Buffer, ...]:
        """The buffers that `prepack` fills and this program reads."""
        return self.prepack.outputs if self.prepack is not None else ()

    def is_constant(self, p: Buffer | Var) -> bool:
        """Return whether the parameter `p` has the same contents in every call."""
        return any(p is c for c in self.constants)

    def lines(self, p: Printer) -> Iterator[str]:
        """Yield the printed lines of the function without `prepack`; `p` chooses the names."""
        shown = [p.parameter(x) for x in self.params]
        if self.packed:
            shown += ["*", *(p.parameter(b) for b in self.packed)]
        yield f"def {self.name}({', '.join(shown)}):"
        for n in self.needs:
            yield f"  assert {p.expr(add(n, 1))} >= 1"
        yield from p.lines(self.body, 1)

    def printer(self) -> Printer:
        """Return a printer that prints parts of this function with the names of print(self)."""
        p = Printer()
        for _ in self.lines(p):
            pass
        return p

    def __str__(self) -> str:
        before = "" if self.prepack is None else f"{self.prepack}\n\n"
        return before + "\n".join(self.lines(Printer()))

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return f"```python\n{self}\n```"
