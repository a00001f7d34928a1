"""A notebook exported to HTML shows its pictures without a kernel and without a network."""

from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

from minitvm import te, viz


def test_exported_html_shows_the_svg(browser, tmp_path: Path) -> None:
    A = te.placeholder((8,), name="A")
    C = te.compute((8,), lambda i: A[i] + 1.0, name="C")
    data, about = viz.NestPlayer(te.create_schedule(C.op))._repr_mimebundle_()
    output = nbformat.v4.new_output("execute_result", data, metadata=about, execution_count=1)
    cell = nbformat.v4.new_code_cell("player", outputs=[output], execution_count=1)
    html, _ = HTMLExporter().from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    file = tmp_path / "exported.html"
    file.write_text(html, encoding="utf-8")
    page = browser.new_page()
    page.route("http*://**", lambda route: route.abort())
    page.goto(file.as_uri())
    picture = page.locator("img[src^='data:image/svg+xml']")
    assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 808
    page.close()
