"""Records the public names and signatures of an installed PyTorch in docs/torch_api.json.

Run it with a Python that has PyTorch; the documents and tests read only what it wrote.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

TARGET = Path(__file__).with_name("torch_api.json")
MODULES = (
    "nn.functional", "linalg", "special", "masked", "fft", "nn", "nn.init", "nn.utils", "optim",
    "optim.lr_scheduler", "autograd", "func", "amp", "utils.data", "distributions",
)  # fmt: skip


def documented(name: str, value: object) -> list[str]:
    """The signatures in the docstring of a built-in function."""
    head = rf"^\s*(?:\.\. \w+:: )?(?:\w+\.)*{re.escape(name)}(\(.*?\))(?:\s*->.*)?\s*$"
    found = re.findall(head, inspect.getdoc(value) or "", re.M)
    # Examples begin alike but hold values.
    return [text for text in found if re.fullmatch(r"\([\w\s,*=.\-'/]*\)", text)]


def from_schemas(torch: Any, name: str, is_method: bool, has_out: bool) -> list[str]:
    """Signatures from the operator's own declarations: what the binding really takes.

    Declarations have more ``out`` than Python does; whether there is one is for the caller to say.
    """
    found: dict[str, None] = {}
    for schema in torch._C._jit_get_schemas_for_operator(f"aten::{name}"):
        text, starred = [], False
        for argument in schema.arguments:
            if argument.is_out:
                continue
            if argument.kwarg_only and not starred:
                starred = True
                text.append("*")
            known = {"self": "self" if is_method else "input"}.get(argument.name, argument.name)
            text.append(known + ("=..." if argument.has_default_value() else ""))
        if is_method and text and text[0] == "self":
            del text[0]
        if has_out and text:
            text += ["out=..."] if starred else ["*", "out=..."]
        found[f"({', '.join(text)})"] = None
    return list(found)


def signatures(torch: Any, name: str, value: object, place: str) -> list[str]:
    """How to call ``value``; nothing where PyTorch does not say."""
    if not callable(value):
        return []
    is_method = place == "Tensor"
    prefix = f"{place}_" if place in ("linalg", "special", "fft") else ""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        # Docstrings come second: some name parameters otherwise than the binding does.
        told = list(dict.fromkeys(documented(name, value)))
        has_out = any(re.search(r"\bout=", text) for text in told)
        return from_schemas(torch, prefix + name, is_method, has_out) or told
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        if p.default is inspect.Parameter.empty
        else p.replace(annotation=inspect.Parameter.empty, default=...)
        for p in found.parameters.values()
        if p.name not in ("self", "cls")
    ]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    text = text.replace("Ellipsis", "...")
    # Decorators that take anything hide what the docstring says.
    return documented(name, value) or [text] if "*args" in text else [text]


def is_public(torch: Any, name: str, value: object) -> bool:
    """Whether a name is PyTorch's own and for users."""
    if name.startswith("_") or isinstance(value, ModuleType):
        return False
    home = getattr(value, "__module__", None)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return True
    if home is None:
        return callable(value)
    hidden = ("torch._jit_internal", "torch.overrides", "torch._torch_docs")
    return str(home).startswith("torch") and home not in hidden


def record() -> dict[str, Any]:
    """Names and signatures by module."""
    torch = importlib.import_module("torch")
    torch.distributions  # noqa: B018  (loads it)
    found: dict[str, Any] = {"version": torch.__version__.split("+")[0]}
    places: dict[str, Any] = {"": torch, "Tensor": torch.Tensor}
    places |= {name: importlib.import_module(f"torch.{name}") for name in MODULES}
    for place, owner in places.items():
        public = dir(owner)
        if place and place not in ("Tensor", "nn"):
            public = getattr(owner, "__all__", public)
        names = {}
        for name in sorted(set(public)):
            value = inspect.getattr_static(owner, name) if place == "Tensor" else None
            if not callable(value):
                value = getattr(owner, name, None) if place != "Tensor" else value
            if place == "Tensor" and name.startswith("_"):
                continue
            if place == "Tensor" or is_public(torch, name, value):
                names[name] = signatures(torch, name, value, place)
        found[place or "torch"] = names
    return found


def write(found: dict[str, Any]) -> str:
    """JSON with a line per name."""
    parts = []
    for place, names in found.items():
        if isinstance(names, str):
            parts.append(f"{json.dumps(place)}: {json.dumps(names)}")
            continue
        lines = [f"  {json.dumps(name)}: {json.dumps(texts)}" for name, texts in names.items()]
        parts.append(f"{json.dumps(place)}: {{\n" + ",\n".join(lines) + "\n}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    text = write(record())
    TARGET.write_text(text, encoding="utf-8")
    print(f"{len(text.splitlines())} lines written to {TARGET.name}", file=sys.stderr)
