"""Capture what a block prints and displays, in order, as outputs of a notebook."""

from __future__ import annotations

import io
import re
from collections.abc import Generator
from contextlib import contextmanager, redirect_stdout
from typing import Any

import IPython

from minitvm import viz

Output = dict[str, Any]  # of nbformat: a stream or display_data
OVERWRITTEN = re.compile(r"[^\n]*\r(?!\n)")  # earlier states of a progress bar


class Printed(io.TextIOBase):
    """A stream that appends text to a list of outputs."""

    def __init__(self, outputs: list[Output]) -> None:
        self.outputs = outputs

    def writable(self) -> bool:
        return True

    def write(self, text: str, /) -> int:
        if not self.outputs or self.outputs[-1]["output_type"] != "stream":
            self.outputs.append({"output_type": "stream", "name": "stdout", "text": ""})
        last = self.outputs[-1]
        last["text"] = OVERWRITTEN.sub("", last["text"] + text)
        return len(text)


@contextmanager
def captured(outputs: list[Output]) -> Generator[None]:
    """Append to `outputs` what the block prints and displays; warnings still go to stderr."""

    def keep(message: dict[str, Any]) -> None:
        content = message["content"]
        if message["msg_type"] == "clear_output":
            outputs.clear()
            return
        output: Output = {"output_type": "display_data"}
        output |= {"data": content["data"], "metadata": content["metadata"]}
        name = content["transient"].get("display_id")
        if message["msg_type"] == "update_display_data":
            if name in places:
                outputs[places[name]] = output
            return
        places[name] = len(outputs)
        outputs.append(output)

    places: dict[str | None, int] = {}  # of the outputs that may be updated
    shell: Any = IPython.get_ipython()
    shell.display_pub.register_hook(keep)
    try:
        with redirect_stdout(Printed(outputs)):
            yield
    finally:
        shell.display_pub.unregister_hook(keep)


def show_again(outputs: list[Output]) -> None:
    """Show captured outputs as if nothing had captured them."""
    for output in outputs:
        if output["output_type"] == "stream":
            print(output["text"], end="")
        else:
            viz.show_in_notebook(output["data"], metadata=output["metadata"], raw=True)
