"""Texts of linalg as xDSL has them."""

from __future__ import annotations

from importlib import import_module
from io import StringIO
from typing import Any


def reprinted(text: str) -> str:
    """A module that xDSL has read and verified, as it prints it.

    Operations that it does not know are those that are written as any operation can be. Raises
    xDSL's errors of parsing and of verification.
    """
    dialects = "xdsl.dialects"
    context: Any = import_module("xdsl.context").Context(allow_unregistered=True)
    for module, name in (
        ("builtin", "Builtin"), ("func", "Func"), ("arith", "Arith"), ("math", "Math"),
        ("tensor", "Tensor"), ("linalg", "Linalg"),
    ):  # fmt: skip
        context.load_dialect(getattr(import_module(f"{dialects}.{module}"), name))
    parsed = import_module("xdsl.parser").Parser(context, text).parse_module()
    parsed.verify()
    stream = StringIO()
    import_module("xdsl.printer").Printer(stream).print_op(parsed)
    return stream.getvalue()
