"""Digests of the sample calls of every public function (``tests/functional/samples.py``), with
gradients: ``python -m tests.digests.sample_digests`` writes them anew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import lazyt
from lazyt.errors import ReproducibilityError
from lazyt.testing.digests import golden
from lazyt.testing.digests.programs import Program
from tests.functional.samples import (
    Sample,
    all_samples,
    gradients,
    has,
    perform,
    tensors_in,
)

FILE = Path(__file__).with_name("sample_digests.json")
#: What stands for the digest of samples that LAPACK computes.
REFUSED = "LAPACK"
#: What is no value: memory that nobody has set.
WITHOUT = """
    empty empty_like empty_strided empty_permuted new_empty new_empty_strided resize_"""


def sample_programs() -> list[Program]:
    """A program for each sample that works in float32 or, where it does not, in int64 or bool."""
    return [
        Program(str(sample), lambda s=sample: _results(s))  # type: ignore[misc]
        for sample in all_samples()
        if has(lazyt, sample) and sample.name not in WITHOUT.split()
    ]


def _results(sample: Sample) -> list[Any]:
    """Values of the sample's dtype, and the gradients that there are, in float64."""
    for dtype in ("float32", "int64", "bool"):
        try:
            lazyt.manual_seed(5)
            found, _ = perform(lazyt, sample, dtype)
            break
        except ReproducibilityError:
            raise
        except (TypeError, RuntimeError, ValueError, NotImplementedError):
            continue  # the next dtype, or nothing
    else:
        return []
    results = [each.detach() for each in tensors_in(lazyt, found)]
    if isinstance(found, (bool, int, float)):
        results.append(lazyt.tensor(found))
    try:
        lazyt.manual_seed(5)
        return results + (gradients(lazyt, sample) or [])
    except ReproducibilityError:
        raise
    except (TypeError, RuntimeError, ValueError, NotImplementedError):
        return results  # it has none


def main() -> None:
    with lazyt.config.override(tier=0, exact=True):
        found = golden.digests(sample_programs())
    refused = [name for name, text in found.items() if text.startswith("Reproducibility")]
    found |= dict.fromkeys(refused, REFUSED)
    lines = [f"{json.dumps(name)}:{json.dumps(text)}" for name, text in found.items()]
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
