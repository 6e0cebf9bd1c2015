"""docs/reference/torch-names.md: what each of PyTorch's names that packages import does here.

It is printed from the table in lazyt/compat/names.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from lazyt.compat.names import table
from lazyt.compat.names.entries import Group, Refused, Served, spelled

_HEAD = """# Names of PyTorch that packages import

Under `python -m lazyt run`, and where `lazyt.compat.torch_alias` is installed, these names can be
imported from `torch`, besides lazyt's own ([coverage](coverage.md)). A name **works** as
PyTorch's does; is **harmless**: a mark for a compiler, a switch or a question, which changes
nothing; or **raises** NotImplementedError when it is called, with the reason that stands here.
Classes that raise can be subclassed and tested with `isinstance`; errors that stand with them
are never raised. The page is printed from the table in `lazyt/compat/names` by `make generate`.
"""


def _kind(group: Group) -> str:
    if isinstance(group, Refused):
        return f"raises: {group.reason}"
    return "works" if isinstance(group, Served) else "harmless"


def _entries() -> Iterator[str]:
    for path in sorted(table.MODULES):
        groups = {group: names for group, names in table.MODULES[path].items() if names.strip()}
        if not groups:
            continue
        yield f"## torch.{path}" if path else "## torch"
        kinds: dict[str, list[str]] = {}
        for group, names in groups.items():
            listed = [f"`{name}`" for name in spelled(names) if name != "*"]
            kinds.setdefault(_kind(group), []).extend(listed or ["all functions of `torch`"])
        for kind, texts in kinds.items():
            line = f"- {kind}: {', '.join(sorted(texts))}"
            yield textwrap.fill(line, 118, subsequent_indent="  ", break_on_hyphens=False)


def page() -> str:
    """The page."""
    return _HEAD + "\n" + "\n\n".join(_entries()) + "\n"
