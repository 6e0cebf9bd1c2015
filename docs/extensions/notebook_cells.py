"""``{code-cell}`` of MyST notebooks: shows the code, runs it with lazyt, shows what it gives.

Text is shown as it is printed, figures of matplotlib as pictures. The cells of a page share their
names, as in a notebook; the same cells run as a test (``tests/test_docs.py``).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import page_examples
from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class CodeCell(SphinxDirective):
    """One cell."""

    has_content = True
    optional_arguments = 1  # the kernel's name, as jupytext writes it
    option_spec = {"tags": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        """The code, what it prints, and its value."""
        code = "\n".join(self.content) + "\n"
        programs = self.env.temp_data.setdefault("lazyt_programs", {})
        name = self.env.docname
        program = programs.setdefault(name, page_examples.Program(f"docs/{name}.md"))
        printed, value = program.run(code, self.lineno + 1, cell=True)
        shown: list[nodes.Node] = [_text(code, "python")]
        if printed:
            shown.append(_text(printed, "output"))
        if hasattr(value, "savefig"):
            shown.append(self._picture(value))
        elif value is not None:
            shown.append(_text(f"{value!r}\n", "output"))
        return shown

    def _picture(self, figure: Any) -> nodes.Node:
        folder = Path(self.env.srcdir) / "pictures"
        folder.mkdir(exist_ok=True)
        number = self.env.new_serialno("lazyt_picture")
        path = folder / f"{self.env.docname.replace('/', '-')}-{number}.png"
        held = io.BytesIO()
        figure.savefig(held, format="png", dpi=80, metadata={"Software": None})
        path.write_bytes(held.getvalue())
        picture = nodes.image(uri=f"/pictures/{path.name}", alt="what the cell draws")
        return picture


def _text(text: str, language: str) -> nodes.literal_block:
    return nodes.literal_block(text, text, language=language, classes=[f"cell-{language}"])


def _always_run(app: Sphinx, env: Any, *_: Any) -> list[str]:
    """Notebooks are read again with every build: what their cells give depends on lazyt."""
    paths = {name: Path(env.doc2path(name)) for name in env.found_docs}
    return [n for n, path in paths.items() if "{code-cell}" in path.read_text(encoding="utf-8")]


def setup(app: Sphinx) -> dict[str, bool]:
    """Registers the directive, and that it runs with every build."""
    app.add_directive("code-cell", CodeCell)
    app.connect("env-get-outdated", _always_run)
    return {"parallel_read_safe": True}
