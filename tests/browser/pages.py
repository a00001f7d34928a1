"""What the tests of whole notebooks do and look at, in a page of JupyterLab."""

import re
from collections.abc import Iterator
from pathlib import Path

SCRIPT = (Path(__file__).parent / "pages.js").read_text(encoding="utf-8")
PANEL = "window.jupyterapp.shell.currentWidget"
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
DONE = f"""() => {KERNEL}?.status === 'idle'
    && [...{PANEL}.content.model.cells].every((c) => c.type !== 'code'
    || c.executionState === 'idle' && (c.executionCount || !c.sharedModel.source.trim()))"""
SETTLE = 80  # milliseconds until a widget has told Python of an event, or a theme is there
NONSENSE = "nonsense"
BUG = re.compile(r"\b\w*(Error|Exception): ")  # an event may be refused, but not fail


def settled(page, promise: str, argument: object = None) -> None:
    """Wait for a promise, a minute at most: Playwright's own evaluate waits for ever."""
    page.evaluate(
        f"""(argument) => Promise.race([({promise})(argument), new Promise((_, fail) =>
        setTimeout(() => fail(new Error('still waiting after a minute')), 60000))])""",
        argument,
    )


def command(page, name: str, **given) -> None:
    settled(
        page, "([name, given]) => window.jupyterapp.commands.execute(name, given)", [name, given]
    )


def run_all(page, seconds: float = 300) -> None:
    """Run all cells and wait for them, and for the pictures of their widgets."""
    command(page, "notebook:clear-all-cell-outputs")
    # in braces: returning the promise would wait for the last cell
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    page.wait_for_function(DONE, timeout=seconds * 1000)
    page.wait_for_function(
        "() => [...document.querySelectorAll('.mtvm-visual')].every((e) => e.querySelector('svg'))"
    )


def failures(page) -> list[str]:
    """The errors that cells printed, other than those that a notebook is about."""
    return page.evaluate(
        f"""() => [...{PANEL}.content.model.cells].filter((c) => c.type === 'code'
        && !(c.metadata.tags ?? []).includes('raises-exception')).flatMap((c) => c.outputs.toJSON())
        .filter((o) => o.output_type === 'error').map((o) => o.ename + ': ' + o.evalue)"""
    )


def shown(page) -> list[str]:
    """What one can see of the outputs: "live" widgets, each "picture", and texts."""
    return page.evaluate(
        """() => [...document.querySelectorAll('.jp-OutputArea-child')]
        .filter((e) => e.getClientRects().length && !e.querySelector('.jp-OutputArea-child'))
        .map((e) => e.querySelector('.mtvm-visual') ? 'live' : e.querySelector('img') ? 'picture'
        : e.innerText.trim())"""
    )


def reveal(page) -> None:
    """Show the answer to each prediction."""
    for button in page.locator(".mtvm-predict [data-name=show]:visible").all()[::-1]:
        button.click()


def save(page) -> None:
    """Save the notebook, and wait until it is written."""
    settled(page, f"() => {PANEL}.context.save()")


def reopen_without_kernel(page, url: str, pictures: int) -> None:
    """End the kernel, leave the page, and open the saved notebook, until it has its pictures."""
    settled(page, f"() => {PANEL}.sessionContext.shutdown()")
    page.goto("about:blank")
    page.goto(url)
    page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")
    page.wait_for_function(  # and until the live views have given up
        """(least) => document.querySelectorAll('.jp-OutputArea-child:has(img)').length >= least
        && [...document.querySelectorAll('.jp-OutputArea-output')]
        .every((e) => e.textContent !== 'Loading widget...')""",
        arg=pictures,
    )


def use_theme(page, name: str) -> None:
    """Switch to "Light" or "Dark"."""
    command(page, "apputils:change-theme", theme=f"JupyterLab {name}")
    light = str(name == "Light").lower()
    page.wait_for_selector(f"body[data-jp-theme-light={light}]", state="attached")
    page.wait_for_selector("#jupyterlab-splash", state="detached")  # two at a time are an error
    page.wait_for_timeout(SETTLE)  # the colours of the page change over a moment


def illegible(page) -> list[str]:
    """What cannot be read in widgets and feedback: text and lines too like their ground, or cut."""
    return page.evaluate(f"() => {{ {SCRIPT}; return illegible(); }}")


def press_everything(page) -> Iterator[str]:
    """Press each button of each widget, choose each option; yield what went wrong."""
    for number in range(page.locator(".mtvm-visual").count()):
        widget = page.locator(".mtvm-visual").nth(number)
        widget.scroll_into_view_if_needed()
        for name in widget.evaluate(
            "w => [...w.querySelectorAll('[data-name]')].map((e) => e.dataset.name)"
        ):
            control = widget.locator(f"[data-name={name}]")
            if not control.count() or control.is_disabled():
                continue
            before = _place(widget)
            _use(page, control)
            page.wait_for_timeout(SETTLE)
            page.wait_for_function(f"() => {KERNEL}.status === 'idle'")
            said = widget.locator(".mtvm-message").inner_text()
            if BUG.search(said) and NONSENSE not in said:
                yield f"widget {number}, {name}: {said}"
            if (after := _place(widget)) != before:
                yield f"widget {number}, {name}: the picture moved from {before} to {after}: {said}"


def _place(widget) -> tuple[int, int]:
    """Where the picture is in its widget, whose controls stand above."""
    inside, around = widget.locator(".mtvm-stage").bounding_box(), widget.bounding_box()
    return round(inside["x"] - around["x"]), round(inside["y"] - around["y"])


def _use(page, control) -> None:
    match control.evaluate("e => e.type"):
        case "range":
            control.focus()
            page.keyboard.press("End")
        case "text":
            control.fill(NONSENSE)
            control.press("Enter")
        case "select-one":
            control.select_option(index=control.locator("option").count() - 1)
        case _:
            control.click()
