"""Records what PyTorch raises for the mistakes of tests/errors, in errors.json beside this file.

Run it from the project's root with a Python that has PyTorch:
``PYTHONPATH=. python tests/recorded/record_errors.py``. Tests read only what it wrote.
"""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path

from tests.errors.mistakes import AREAS, first_sentence, outcome

TARGET = Path(__file__).with_name("errors.json")


def main() -> None:
    """Write the type and the first sentence of every program that raises."""
    torch = importlib.import_module("torch")
    warnings.simplefilter("ignore")
    found: dict[str, list[str]] = {}
    for programs in AREAS.values():
        for program in programs:
            kinds, text = outcome(torch, program)
            if kinds:
                found[program] = [kinds[0], first_sentence(text)]
    lines = [f"{json.dumps(program)}: {json.dumps(raised)}" for program, raised in found.items()]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
