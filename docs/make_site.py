"""Build the documentation site: python docs/make_site.py OUT. It needs no network.

The pages are the README, docs/, the notebooks with their stored outputs, the exercises, an API
reference and the source files that they link to. They are collected in a folder that has the layout
of the repository, so relative links work there as they do here. Warnings are errors.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import api_pages
import make_slides

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
NOTEBOOKS = sorted(ROOT.glob("notebooks/*.ipynb"))
PAGES = (
    *("instructor", "cluster", "papers", "field", "related"),
    *("tutorials", "from_tvm", "calls", "glossary", "errata"),
)
TOUR = "## The reading tour"  # from here on the README is about the source
SOURCE = re.compile(r"(?<!\[)`(minitvm/[\w/]+\.py)`|(\]\()((?:\.\./)*)(minitvm/[\w/]+\.py)\)")
# what a page loads; a plain link <a href=...> loads nothing
LOADED = re.compile(
    r"""<(?:script|img|iframe|source|video)\b[^>]*?\bsrc=["'](?:https?:)?//[^"']+"""
    r"""|<link\b(?![^>]*rel=["'](?:canonical|license))[^>]*?\bhref=["'](?:https?:)?//[^"']+"""
    r"""|(?:url\(|@import )\s*["']?(?:https?:)?//[^"')]+"""
)


def titled(folder: str) -> list[str]:
    """List the notebooks of a folder as links: "03 Split, tile, reorder <notebooks/03_...>"."""
    links: list[str] = []
    for path in sorted((ROOT / folder).glob("*.ipynb")):
        first = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
        title = first.split("\n")[0].removeprefix("# ").removeprefix("Exercise ")
        number = path.stem.split("_")[0]
        if number[0].isdigit():  # a lesson: 09, 09b
            title = f"{number} {title.split(':')[0]}"
        links.append(f"{title} <{folder}/{path.stem}>")
    return links


def toctree(caption: str, *names: str) -> str:
    """Return one group of links for the bar at the side of each page."""
    return f"\n```{{toctree}}\n:hidden:\n:caption: {caption}\n\n" + "\n".join(names) + "\n```\n"


def contents() -> str:
    """Return all groups of links: every page is in one of them."""
    return (
        toctree("Course", *titled("notebooks"))
        + toctree("Exercises", *titled("exercises"))
        + toctree("Reading", *(f"docs/{name}" for name in PAGES), "tour", "slides", "AGENTS")
        + toctree("Reference", "api/index")
    )


def slides_page(notebooks: list[Path]) -> str:
    """Return the page that links to the slides, which Sphinx does not build."""
    links = [f'<li><a href="slides/{path.stem}.html">{path.stem}</a></li>' for path in notebooks]
    return "# Slides\n\nThe arrow keys change slides.\n\n<ul>\n" + "\n".join(links) + "\n</ul>\n"


def source_linked(text: str, up: str) -> tuple[str, set[str]]:
    """Link source files to their pages here; return the text and the files. up: to the root."""
    files: set[str] = set()

    def link(match: re.Match[str]) -> str:
        path = match[1] or match[4]
        if not (ROOT / path).is_file():
            return match[0]
        files.add(path)
        return f"[`{path}`]({up}{path}.md)" if match[1] else f"]({up}{path}.md)"

    return SOURCE.sub(link, text), files


def folded(notebook: str) -> str:
    """Return a notebook in which the code that JupyterLab folds is folded on the page, too."""
    content = json.loads(notebook)
    for cell in content["cells"]:
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            cell["metadata"].setdefault("tags", []).append("hide-input")
    return json.dumps(content)


def collect(folder: Path) -> None:
    """Collect the pages in `folder`."""
    shutil.rmtree(folder, ignore_errors=True)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    home, tour = readme.split(TOUR)
    pages = {
        "index.md": home + contents(),
        "tour.md": "# The reading tour" + tour.replace("\n### ", "\n## "),
    }
    pages["AGENTS.md"] = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    pages["slides.md"] = slides_page(NOTEBOOKS)
    for name in PAGES:
        pages[f"docs/{name}.md"] = (DOCS / f"{name}.md").read_text(encoding="utf-8")
    files: set[str] = set()
    for name, text in pages.items():
        pages[name], linked = source_linked(text, "../" * name.count("/"))
        files |= linked
    pages["api/index.md"] = api_pages.overview()
    pages |= {f"api/{package}.md": api_pages.page(package) for package in api_pages.PACKAGES}
    for file in files:
        code = (ROOT / file).read_text(encoding="utf-8")
        pages[f"{file}.md"] = f"---\norphan: true\n---\n\n# {file}\n\n`````python\n{code}`````\n"
    for name, text in pages.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    copied = ("notebooks/*.ipynb", "exercises/*.ipynb", "docs/*.svg", "LICENSE")
    for path in (path for pattern in copied for path in ROOT.glob(pattern)):
        place = folder / path.relative_to(ROOT)
        place.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, place)
    for place in folder.glob("notebooks/*.ipynb"):
        place.write_text(folded(place.read_text(encoding="utf-8")), encoding="utf-8")


def remote(site: Path) -> list[str]:
    """List what pages and style sheets of a site would load from elsewhere."""
    loaded: list[str] = []
    for path in (*site.rglob("*.html"), *site.rglob("*.css")):
        text = path.read_text(encoding="utf-8")
        loaded += [f"{path.relative_to(site)}: {match[0]}" for match in LOADED.finditer(text)]
    return loaded


def main(out: Path) -> int:
    """Build the site in `out`; return the exit code."""
    sources = out.parent / "site-sources"
    collect(sources)
    sphinx = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-j",
        "2",
        "-c",
        str(DOCS),
    ]
    if code := subprocess.run([*sphinx, str(sources), str(out)], check=False).returncode:
        return code
    make_slides.main(out / "slides", NOTEBOOKS)
    if loaded := remote(out):
        print("the site would load from elsewhere:", *loaded, sep="\n", file=sys.stderr)
        return 1
    print(f"{sum(1 for _ in out.rglob('*.html'))} pages: {out / 'index.html'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve()))
