"""Writes what is generated and committed: tables of settings, numbers and coverage, and stubs.

``make generate`` runs it.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import coverage_page  # noqa: E402
import method_stubs  # noqa: E402
import torch_names_page  # noqa: E402

import lazyt  # noqa: E402
from lazyt.config import Config  # noqa: E402
from tests.functional.sample_values import DTYPES  # noqa: E402


def settings() -> Iterator[tuple[str, str, str]]:
    """Name, meaning and environment variable of every setting, from the class's docstring."""
    body = (inspect.getdoc(Config) or "").split("Attributes:")[1]
    entries = re.findall(r"^    (\w+): (.*?)(?=^    \w+: |\Z)", body, re.M | re.S)
    for name, text in entries:
        words = " ".join(text.split()).rstrip(".")
        inside = re.search(r"\s*\(([^()]*?``(LAZYT_\w+)``.*?)\)", words)
        if inside is None:
            raise ValueError(f"the docstring of {name} names no LAZYT_ variable")
        default = inside.group(1).replace(f"``{inside.group(2)}``", "").strip(", ")
        meaning = words.replace(inside.group(0), "")
        yield name, meaning + (f" ({default})" if default else ""), inside.group(2)


def settings_table() -> str:
    """The settings as a Markdown table."""
    rows = ["| setting | environment | meaning |", "|---|---|---|"]
    rows += [f"| `{name}` | `{variable}` | {text} |" for name, text, variable in settings()]
    return "\n".join(rows).replace("``", "`")


def settings_page() -> str:
    """docs/how-to/settings.md with its table as it should be."""
    text = (ROOT / "docs" / "how-to" / "settings.md").read_text(encoding="utf-8")
    return with_table(text, "settings", settings_table())


def with_table(text: str, name: str, table: str) -> str:
    """A document with what stands between the marks of ``name`` replaced."""
    begin, end = f"<!-- {name}: written by `make generate` -->", f"<!-- end of {name} -->"
    before, rest = text.split(begin)
    return f"{before}{begin}\n\n{table}\n\n{end}{rest.split(end)[1]}"


def promotion_table() -> str:
    """The dtype of an operation on two tensors, for every pair."""
    wide = (DTYPES[9], DTYPES[8], *DTYPES[4:8], *DTYPES[:4])  # from narrow to wide
    kinds = [getattr(lazyt, name) for name in wide]
    rows = [f"| | {' | '.join(k.name for k in kinds)} |", "|---" * (len(kinds) + 1) + "|"]
    for a in kinds:
        cells = [lazyt.promote_types(a, b).name for b in kinds]
        rows.append(f"| **{a.name}** | {' | '.join(cells)} |")
    return "\n".join(rows)


def error_table() -> str:
    """The stated errors of the prelude's functions of floating point."""
    from lazyt.codegen.prelude import ULP

    found: dict[str, dict[str, float]] = {}
    for name, error in ULP.items():
        stem, _, kind = name.removeprefix("lz_").rpartition("_")
        if kind in ("f32", "f64"):
            found.setdefault(stem, {})[kind] = error
    rows = ["| function | float32 | float64 |", "|---|---|---|"]
    for stem, errors_ in sorted(found.items()):
        cells = [f"{errors_[kind]:g}" if kind in errors_ else "" for kind in ("f32", "f64")]
        rows.append(f"| `{stem}` | {' | '.join(cells)} |")
    return "\n".join(rows)


def numbers() -> str:
    """docs/concepts/numbers.md with its tables as they should be."""
    text = (ROOT / "docs" / "concepts" / "numbers.md").read_text(encoding="utf-8")
    text = with_table(text, "promotion", promotion_table())
    return with_table(text, "errors", error_table())


def signature(name: str, function: Callable[..., object]) -> str:
    """How to call it, without types."""
    try:
        found = inspect.signature(function)
    except ValueError:  # some built-in types have none
        return name
    bare = [
        p.replace(annotation=inspect.Parameter.empty)
        for p in found.parameters.values()
        if p.name not in ("self", "cls")
    ]
    text = str(found.replace(parameters=bare, return_annotation=inspect.Signature.empty))
    text = re.sub(r"<(?:class|function) '?([\w.]+)'?[^>]*>", r"\1", text)
    return f"{name}{text}"


def ops_section() -> Iterator[str]:
    """The vocabulary of graphs."""
    from lazyt.ir.graph import NoGradient
    from lazyt.ops.registry import OPS

    for name, op in sorted(OPS.items()):
        without = op.vjp.reason if isinstance(op.vjp, NoGradient) else ""
        fields = ", ".join(getattr(op.params, "__annotations__", {})) if op.params else ""
        yield f"- `{name}({fields})`" + (f": no gradient, {without}" if without else "")


def outputs() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    return {
        ROOT / "docs" / "reference" / "coverage.md": coverage_page.page(),
        ROOT / "docs" / "reference" / "torch-names.md": torch_names_page.page(),
        ROOT / "docs" / "concepts" / "numbers.md": numbers(),
        ROOT / "docs" / "how-to" / "settings.md": settings_page(),
        **method_stubs.outputs(),
    }


def write_changed(files: dict[Path, str]) -> list[Path]:
    """Writes the files that do not hold their text yet; returns those."""
    changed = [
        path
        for path, text in files.items()
        if not path.exists() or path.read_text(encoding="utf-8") != text
    ]
    for path in changed:
        path.write_text(files[path], encoding="utf-8")
    return changed


if __name__ == "__main__":
    changed = write_changed(outputs())
    for path in changed:
        print(f"written: {path.relative_to(ROOT)}")
    if not changed:
        print("all generated files are up to date")
