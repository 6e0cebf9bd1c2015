"""Notes what a program looks at, of lazyt's tensors or of PyTorch's, and lazyt's nodes on the way.

A look is a call of a tensor's method that gives Python numbers or memory: `METHODS`. Nodes are seen
as ``config.eager`` computes them one by one, which does not change their bits.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from lazyt.config import config
from lazyt.handle import pending
from lazyt.ir.dtypes import bfloat16
from lazyt.ir.graph import Node, source_text
from lazyt.plan.explain import op_name
from lazyt.tools.records.files import Value, Writer, value_of

__all__ = ["METHODS", "watching"]

#: How programs look at tensors, and what a recording calls it.
METHODS = {
    "item": "item()", "tolist": "tolist()", "numpy": "numpy()", "__array__": "numpy()",
    "__bool__": "bool()", "__int__": "int()", "__float__": "float()", "__complex__": "complex()",
    "__index__": "int()", "__repr__": "print()", "__str__": "print()", "__format__": "print()",
}  # fmt: skip


def _asked_by_program(folders: tuple[str, ...]) -> bool:
    """Whether the caller of a wrapped method is none of the framework's own functions, such as an
    optimizer that reads its count of steps."""
    return not sys._getframe(2).f_code.co_filename.startswith(folders)


def _user_line(folders: tuple[str, ...]) -> tuple[str, str]:
    """``file.py:12`` and the text of the innermost line that is not in one of these folders."""
    frame = sys._getframe(2)
    while True:
        name = frame.f_code.co_filename
        if not name.startswith(folders) and os.path.exists(name):
            text = linecache.getline(name, frame.f_lineno).strip()
            return f"{os.path.basename(name)}:{frame.f_lineno}", text
        outer = frame.f_back
        if outer is None:
            return "", ""
        frame = outer


def _seen(module: ModuleType, tensor: Any, what: str, line: tuple[str, str]) -> Value | None:
    """A tensor that is looked at; None for those that have no values in memory."""
    plain = tensor.detach()
    layout, name = str(plain.layout), str(plain.dtype).rpartition(".")[2]
    if not layout.endswith("strided") or plain.device.type == "meta" or plain.is_quantized:
        return None
    if plain.is_complex():
        plain = plain.resolve_conj()
    plain = plain.cpu().contiguous()
    if name == "bfloat16":
        plain = plain.view(module.int16)
    return value_of("look", what, *line, plain.numpy(), name)


def _wrapped(
    module: ModuleType, method: Callable[..., Any], what: str, note: Callable[[Value], None],
    folders: tuple[str, ...], busy: list[bool],
) -> Callable[..., Any]:  # fmt: skip
    """A method that notes what it is called on, unless that happens inside of another look."""

    @functools.wraps(method)
    def looked(self: Any, *args: Any, **kwargs: Any) -> Any:
        if busy or not _asked_by_program(folders):
            return method(self, *args, **kwargs)
        busy.append(True)
        try:
            line = _user_line(folders)
            found = method(self, *args, **kwargs)
            value = _seen(module, self, what, line)
        finally:
            busy.clear()
        if value is not None:
            note(value)
        return found

    return looked


def _computed(writer: Writer, node: Node) -> None:
    """Notes a node that was computed."""
    if node.data is None or node.data.place:
        return
    array = node.data.as_numpy(node.dtype, node.shape)
    if node.dtype is bfloat16:
        array = array.view("i2")
    where = source_text(node.source)
    name, _, number = where.rpartition(":")
    text = linecache.getline(name, int(number)).strip() if number.isdigit() else ""
    line = f"{os.path.basename(name)}:{number}" if number.isdigit() else ""
    writer.write(value_of("node", op_name(node), line, text, array, node.dtype.name))


@contextmanager
def watching(module: ModuleType, writer: Writer, nodes: bool) -> Iterator[None]:
    """While it is entered, what the program looks at is written down; with ``nodes`` of lazyt every
    value that is computed, too."""
    import lazyt

    kind: Any = module.Tensor
    files = [os.path.abspath(m.__file__ or "") for m in (module, lazyt)]
    folders = tuple({os.path.dirname(file) + os.sep for file in files})
    busy: list[bool] = []
    before = {name: kind.__dict__.get(name) for name in METHODS}
    for name, what in METHODS.items():
        method = getattr(kind, name, None)
        if method is not None:
            setattr(kind, name, _wrapped(module, method, what, writer.write, folders, busy))
    hook = functools.partial(_computed, writer)
    eager = config.eager
    if nodes:
        config.eager = True
        pending.after_each.append(hook)
    try:
        yield
    finally:
        if nodes:
            config.eager = eager
            pending.after_each.remove(hook)
        for name, method in before.items():
            if method is not None:
                setattr(kind, name, method)
            elif name in kind.__dict__:
                delattr(kind, name)
