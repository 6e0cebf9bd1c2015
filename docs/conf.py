"""How Sphinx builds the site: ``make generate``. Needs a C compiler, and no network."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
sys.path[:0] = [str(DOCS.parent), str(DOCS), str(DOCS / "extensions")]
os.environ.setdefault("LAZYT_PROGRESS", "0")

import reference_pages  # noqa: E402

from lazyt.version import __version__  # noqa: E402

project = "lazyt"
author = "The lazyt developers"
copyright = "The lazyt developers"
version = release = __version__

extensions = ["myst_parser", "sphinx_copybutton", "notebook_cells", "repository_links"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["extensions"]
suppress_warnings = ["config.cache"]
nitpicky = True

myst_enable_extensions = ["colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
myst_number_code_blocks = []

# Copy what one would type, not what comes of it.
copybutton_selector = "div:not(.highlight-output) > div.highlight > pre"

html_theme = "furo"
html_title = f"lazyt {version}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_show_sourcelink = False
html_use_index = False
html_domain_indices = False
smartquotes = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def _shorten_contents(app: Any, env: Any) -> None:
    """Leaves the entries of the reference out of the tables of contents: a table at the top of each
    page has them, and the navigation of every page would copy thousands."""
    for name, contents in env.tocs.items():
        if name.startswith("reference/api/") and len(contents):
            item = contents[0]
            del item[1:]


def setup(app: Any) -> None:
    """Has the reference written before pages are read."""
    app.connect("builder-inited", lambda _: reference_pages.write())
    app.connect("env-updated", _shorten_contents)
