"""Records what PyTorch shows: ``python -m tests.reported.record_reported [CASE ...]``.

Needs PyTorch 2.13. Writes ``recorded/CASE.json.xz``: label, value, tolerances of every program.
"""

from __future__ import annotations

import importlib
import json
import lzma
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.reported.shown import Item, quiet

HERE = Path(__file__).parent


def case_names() -> list[str]:
    """The names of all cases, in order."""
    return sorted(path.stem for path in (HERE / "cases").glob("[a-z]*.py"))


def show(name: str, torch: Any) -> list[Item]:
    """What the programs of a case show on a module with PyTorch's API."""
    module = importlib.import_module(f"tests.reported.cases.{name}")
    with quiet():
        items: list[Item] = module.case(torch)
    return items


def recorded(name: str) -> list[Item]:
    """What PyTorch showed."""
    packed = (HERE / "recorded" / f"{name}.json.xz").read_bytes()
    return [
        (label, value, rtol, atol)
        for label, value, rtol, atol in json.loads(lzma.decompress(packed))
    ]


def main(names: Sequence[str]) -> None:
    """Records the cases with these names."""
    torch = importlib.import_module("torch")
    torch.set_num_threads(1)
    for name in names or case_names():
        items = show(name, torch)
        labels = [label for label, *_ in items]
        assert len(labels) == len({*labels}), f"{name} uses a label twice"
        text = json.dumps(items, separators=(",", ":")).encode()
        path = HERE / "recorded" / f"{name}.json.xz"
        path.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
        print(name, len(items), path.stat().st_size)


if __name__ == "__main__":
    main(sys.argv[1:])
