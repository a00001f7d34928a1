"""A JupyterLab of our own in Chromium, started once: what a student sees and types.

Skipped where Chromium is not installed. CHROMIUM names another executable than the usual ones.
"""

import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import nbformat
import pytest

from .pages import KERNEL, PANEL

ROOT = Path(__file__).parent.parent.parent
NAMES = (os.environ.get("CHROMIUM", ""), "chromium", "chromium-browser", "google-chrome")
CELLS = f"{PANEL}.content.model.cells"
SETUP = """
import minitvm as tvm
from minitvm import te, viz

def matmul(n):
    A, B = te.placeholder((n, n), name="A"), te.placeholder((n, n), name="B")
    k = te.reduce_axis((0, n), name="k")
    C = te.compute((n, n), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].split(C.op.axis[1], factor=4)
    return s, [A, B, C]
"""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.browser)


@pytest.fixture(scope="session")
def chromium() -> str:
    """The path of a Chromium, or a skip."""
    found = next(filter(None, (shutil.which(name) for name in NAMES if name)), None)
    if found is None:
        pytest.skip("no Chromium here: make ci-deps installs it, or CHROMIUM names it")
    return found


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(url: str, server: subprocess.Popen) -> None:
    """Returns when the server answers; fails when it has ended, or says nothing for a minute."""
    for _ in range(240):
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            if server.poll() is not None:
                pytest.fail(f"JupyterLab ended with {server.returncode}")
            time.sleep(0.25)
    pytest.fail("JupyterLab does not answer")


@pytest.fixture(scope="session")
def lab(chromium: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """(address, folder) of a JupyterLab that knows nothing of the user's settings."""
    folder = tmp_path_factory.mktemp("lab")
    own = {f"JUPYTER_{kind}_DIR": str(folder / kind) for kind in ("CONFIG", "DATA", "RUNTIME")}
    own |= {"IPYTHONDIR": str(folder / "ipython"), "PYTHONPATH": str(ROOT), "MINITVM_WIDGETS": ""}
    own["MINITVM_GUESSES"] = ""
    notebooks = folder / "notebooks"
    notebooks.mkdir()
    port = free_port()
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ip=127.0.0.1", f"--port={port}", "--ServerApp.port_retries=0"),
        *(
            "--IdentityProvider.token=",
            "--ServerApp.password=",
            f"--ServerApp.root_dir={notebooks}",
        ),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"),
        "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    ]
    log = (folder / "lab.log").open("w")
    server = subprocess.Popen(command, env=os.environ | own, stdout=log, stderr=log)
    try:
        wait_for(f"http://127.0.0.1:{port}/api", server)
        yield f"http://127.0.0.1:{port}", notebooks
    finally:
        server.terminate()
        server.wait(30)
        log.close()


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def open_page(lab: tuple[str, Path], browser) -> Callable:
    """open_page("a.ipynb", cells) -> (page, errors in its scripts), with a kernel that is ready.

    cells   written to that notebook first, if there are any;  width: of the window, in pixels
    """
    url, folder = lab

    def opened(name: str, *cells: str, width: int = 1500) -> tuple:
        if cells:
            written = nbformat.v4.new_notebook(cells=list(map(nbformat.v4.new_code_cell, cells)))
            written.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3"}
            nbformat.write(written, folder / name)
        page = browser.new_page(viewport={"width": width, "height": 1100})
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto(f"{url}/lab/tree/{name}?reset")
        page.wait_for_selector(".jp-Notebook .jp-Cell")
        page.wait_for_function(f"() => {KERNEL}?.status === 'idle'")  # else Lab asks for one
        return page, errors

    return opened


@pytest.fixture(scope="session")
def notebook(open_page: Callable) -> Iterator[tuple]:
    """(page, errors in its scripts): one notebook for all tests, with one kernel.

    Loading JupyterLab and starting a kernel take seconds; the last cell is what a test shows.
    """
    page, errors = open_page("notebook.ipynb", SETUP, "")
    yield page, errors
    page.close()


@pytest.fixture
def show(notebook: tuple) -> Iterator[Callable]:
    """show("viz.NestPlayer(*matmul(8))") -> the page of a notebook whose last cell was just run.

    The page must stay free of errors in scripts.
    """
    page, errors = notebook
    errors.clear()

    def run(code: str):
        page.evaluate("document.querySelectorAll('.mtvm-visual').forEach(e => e.className = 'old')")
        page.evaluate(f"code => {{ {CELLS}.get(1).sharedModel.setSource(code); }}", code)
        # in braces: returning the promise would wait for the last cell
        page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
        page.wait_for_selector(".mtvm-visual svg", timeout=60_000)
        return page

    yield run
    assert errors == []
