"""Links to files of the repository outside of docs/: the site names them, as it does not hold them.

Where such a link leads nowhere, the build stops (``tests/test_docs.py`` says so sooner).
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

_LINK = re.compile(r"\[([^\]]*)\]\(((?:\.\./)+[^)#\s]*)(?:#[^)]*)?\)")


def _name_files(app: Sphinx, docname: str, source: list[str]) -> None:
    docs = Path(app.srcdir).resolve()
    folder = (docs / docname).parent

    def named(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if not target.exists():
            raise ExtensionError(f"{docname}: there is no {link[2]}")
        if target.is_relative_to(docs):
            return link[0]
        name = f"`{target.relative_to(docs.parent).as_posix()}`"
        words = link[1].strip("`")
        return name if words == name.strip("`") else f"{link[1]} ({name})"

    source[0] = _LINK.sub(named, source[0])


def setup(app: Sphinx) -> dict[str, bool]:
    """Connects to the reading of pages."""
    app.connect("source-read", _name_files)
    return {"parallel_read_safe": True}
