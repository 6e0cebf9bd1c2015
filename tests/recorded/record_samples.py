"""Records what PyTorch makes of the sample calls, in samples.json beside this file.

Run it from the project's root with a Python that has PyTorch:
``PYTHONPATH=. python tests/recorded/record_samples.py``. Tests read only what it wrote.
"""

from __future__ import annotations

import importlib
import json
import warnings
from pathlib import Path
from typing import Any

from tests.functional.sample_values import DTYPES
from tests.functional.samples import (
    Sample,
    all_samples,
    compared,
    gradients,
    has,
    layouts,
    numbers,
    outcome,
    perform,
    tensors_in,
)

TARGET = Path(__file__).with_name("samples.json")


def rounded(values: list[float]) -> list[str]:
    """Numbers as text, whole ones short; JSON knows no NaN."""
    return [f"{value:.8g}" for value in values]


def record(torch: Any, sample: Sample) -> dict[str, Any]:
    """Outcomes by dtype, values in float32 (else int64) and gradients in float64."""
    outcomes: dict[str, list[str]] = {}
    for dtype in DTYPES:
        torch.manual_seed(0)
        outcomes.setdefault(outcome(torch, sample, dtype), []).append(dtype)
    found: dict[str, Any] = {text: " ".join(kinds) for text, kinds in outcomes.items()}
    works = [d for text, kinds in outcomes.items() if text[0] not in "!?" for d in kinds]
    kind = next((d for d in ("float32", "int64", "bool") if d in works), None)
    if kind is None or sample.random:
        return found
    tensors = tensors_in(torch, perform(torch, sample, kind)[0])
    found["values"] = rounded(numbers(compared(sample, tensors)))
    found["layouts"] = layouts(tensors)
    if "float64" in works:
        try:
            # Some kernels give zeros without memory; a copy has it.
            slopes = [g.clone() for g in gradients(torch, sample) or []]
        except (RuntimeError, NotImplementedError) as error:
            found["no gradient"] = str(error).split("\n")[0][:60]
        else:
            if slopes:
                found["gradients"] = rounded(numbers(slopes))
    return found


def main() -> None:
    """Writes a line per sample."""
    warnings.simplefilter("ignore")
    torch = importlib.import_module("torch")
    lines = [
        f"{json.dumps(str(sample))}: {json.dumps(record(torch, sample))}"
        for sample in all_samples()
        if has(torch, sample)
    ]
    TARGET.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
