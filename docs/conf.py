"""Configure Sphinx for the site that docs/make_site.py builds. No page loads anything remote."""

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "minitvm"
author = "minitvm developers"
extensions = ["myst_nb"]
html_theme = "furo"
html_title = "minitvm"
html_copy_source = True  # a notebook page has its notebook in _sources/
html_math_renderer = "mathml"
html_css_files = ["site.css"]
html_static_path = ["site.css"]
pygments_style = "friendly"
pygments_dark_style = "github-dark"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 4
nb_execution_mode = "off"  # pages show the outputs that are stored in the notebooks
nb_ipywidgets_js: dict[str, dict[str, str]] = {}  # stored outputs are pictures; no widgets to load
nb_merge_streams = True


def inline_math(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula as MathML, which browsers show without a script."""
    translator.body.append(tex2mathml(node.astext()))
    raise nodes.SkipNode


def block_math(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on lines of its own as MathML."""
    translator.body.append(tex2mathml(node.astext(), as_block=True))
    raise nodes.SkipNode


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", (inline_math, None), (block_math, None))
