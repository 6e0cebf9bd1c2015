"""How modules print: as PyTorch's do, to the character."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lazyt.nn.module import Module


def indented(text: str) -> str:
    """``text`` with every line but the first moved right by two."""
    return text.replace("\n", "\n  ")


def module_text(self: Module) -> str:
    """The module, its settings and, line by line, its children."""
    own = self.extra_repr()
    lines = own.split("\n") if own else []
    below = [f"({name}): {indented(repr(child))}" for name, child in self._modules.items()]
    return f"{self._get_name()}({_body(lines, below)})"


def _body(lines: list[str], below: list[str]) -> str:
    if len(lines) == 1 and not below:
        return lines[0]
    if not lines and not below:
        return ""
    return "\n  " + "\n  ".join(lines + below) + "\n"


def list_text(name: str, children: list[Any]) -> str:
    """A list of modules, in which equal neighbours are counted: ``(0-1): 2 x ReLU()``."""
    texts = [repr(child) for child in children]
    lines = []
    start = 0
    for stop in range(1, len(texts) + 1):
        if stop < len(texts) and texts[stop] == texts[start]:
            continue
        label = f"({start})" if stop - start == 1 else f"({start}-{stop - 1})"
        count = "" if stop - start == 1 else f"{stop - start} x "
        lines.append(f"{label}: {count}{indented(texts[start])}")
        start = stop
    return f"{name}({_body([], lines)})"
