"""Every public function takes PyTorch's arguments: by the same names, in the same order."""

from __future__ import annotations

import inspect
import json
import re
from pathlib import Path
from typing import Any

import lazyt
from tests.functional.known_differences import PARAMETERS
from tests.functional.samples import owner_of

API: dict[str, Any] = json.loads(
    Path(__file__).parents[2].joinpath("docs", "torch_api.json").read_text(encoding="utf-8")
)
PLACES = ("torch", "Tensor", "nn.functional", "linalg", "special", "masked", "nn", "nn.init",
          "nn.utils", "optim", "optim.lr_scheduler", "autograd", "func", "utils.data")  # fmt: skip
#: Arguments that are about memory and devices that lazyt has none of; taken where they are used.
OPTIONAL = frozenset({"layout", "pin_memory", "memory_format", "sparse_grad", "output_dtype"})


def parameters(text: str) -> tuple[list[str], list[str], bool]:
    """Positional names and keyword-only names of a signature, and whether it takes ``*args``."""
    positional: list[str] = []
    keyword: list[str] = []
    starred, open_end = False, False
    for part in re.split(r",\s*(?![^(\[]*[)\]])", text[1:-1]):
        name = re.split(r"[=:\s]", part.strip())[0]
        if name == "*":
            starred = True
        elif name.startswith("*"):
            open_end = starred = True
        elif name and name != "/":
            (keyword if starred else positional).append(name)
    return positional, keyword, open_end


def difference(function: Any, text: str) -> str:
    """Why a call by PyTorch's signature would not work, or nothing."""
    try:
        found = [p for n, p in inspect.signature(function).parameters.items() if n != "self"]
    except (TypeError, ValueError):
        return ""
    if any(p.kind is p.VAR_KEYWORD for p in found):
        return ""
    positional, keyword, open_end = parameters(text)
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in found)
    missing = [n for n in keyword if n not in {p.name for p in found} | OPTIONAL]
    if missing:
        return f"no {', '.join(missing)}"
    if not open_end and names[: len(positional)] != positional and not takes_any:
        return f"{names} instead of {positional}"
    return ""


def differences() -> dict[str, str]:
    """All functions that cannot be called by any of PyTorch's signatures."""
    found = {}
    for place in PLACES:
        owner = owner_of(lazyt, place)
        for name, texts in API[place].items():
            function = getattr(owner, name, None)
            if not texts or not callable(function):
                continue
            own = [text.replace("(self, ", "(").replace("(self)", "()") for text in texts]
            if place == "Tensor":
                function = strip_self(function)
            reasons = [difference(function, text) for text in own]
            if all(reasons):
                found[f"{place}.{name}"] = reasons[0]
    return found


def strip_self(function: Any) -> Any:
    """A function that is called as a method, without its first parameter."""
    try:
        found = inspect.signature(function)
    except (TypeError, ValueError):
        return function

    def bound() -> None:
        """Stands for the method."""

    rest = list(found.parameters.values())
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    rest = rest[1:] if rest and rest[0].kind in kinds else rest
    bound.__signature__ = found.replace(parameters=rest)  # type: ignore[attr-defined]
    return bound


def test_parameters_have_pytorchs_names_and_order() -> None:
    found = differences()
    new = [
        f"{name}: {text}"
        for name, text in found.items()
        if not any(re.fullmatch(pattern, name) for pattern, _ in PARAMETERS)
    ]
    assert not new, "\n".join(new)
    lasting = [pattern for pattern, reason in PARAMETERS if not reason.endswith("yet")]
    stale = [p for p in lasting if not any(re.fullmatch(p, name) for name in found)]
    assert not stale, f"known differences that are none: {stale}"


def test_signatures_are_read() -> None:
    assert parameters("(input, dim=(0, 1), *, out=None)") == (["input", "dim"], ["out"], False)
    assert parameters("(*size, dtype=None)") == ([], ["dtype"], True)
    assert parameters("()") == ([], [], False)

    def made(input: int, other: int, *, out: int) -> None:
        """Has three parameters."""

    assert difference(made, "(input, other, *, out=None)") == ""
    assert difference(made, "(input, other, *, alpha=1)") == "no alpha"
    assert "instead of" in difference(made, "(input, dim)")
