"""docs/reference/coverage.md: what of PyTorch's API there is, in which dtypes, and gradients.

Nothing in the tables is written by hand: every function is called with the samples of
tests/functional, in every dtype, and asked for a gradient. What is missing is found by comparing
with the names that docs/record_torch.py recorded.
"""

from __future__ import annotations

import importlib
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch_groups

import lazyt
from lazyt.errors import LazytError
from tests.functional.sample_values import DTYPES, FLOATS, Operands
from tests.functional.samples import (
    Sample,
    all_samples,
    has,
    owner_of,
    perform,
    tensors_in,
    weighted,
)
from tests.peer_samples import exceptions, test_derivatives

CALLED = ("torch", "nn.functional", "linalg", "special", "masked", "nn", "Tensor")
LISTED = ("nn.init", "nn.utils", "optim", "optim.lr_scheduler", "autograd", "func", "amp",
          "utils.data", "distributions", "fft")  # fmt: skip
INTS = DTYPES[4:9]
TITLES = {"torch": "lazyt", "Tensor": "Methods of Tensor"}


def accepted(samples: list[Sample]) -> list[str]:
    """The dtypes in which one of the calls succeeds."""
    found = []
    for dtype in DTYPES:
        for sample in samples:
            try:
                perform(lazyt, sample, dtype)
            except Exception:  # whatever it says, the dtype is refused
                continue
            found.append(dtype)
            break
    return found


def dtypes_text(found: list[str]) -> str:
    """Dtypes in words: ``float`` and ``int`` stand for all of their kind."""
    if len(found) == len(DTYPES):
        return "all"
    words = []
    for name, group in (("float", FLOATS), ("int", INTS), ("bool", ("bool",))):
        there = [dtype for dtype in group if dtype in found]
        words += [name] if len(there) == len(group) else there
    return ", ".join(words) or "none"


def gradient_of(sample: Sample) -> str:
    """Whether the results of a call can be differentiated, or why not."""
    try:
        result, names = perform(lazyt, sample, "float32", gradients=True)
    except Exception as error:
        return f"no: {str(error).splitlines()[0]}"
    tensors = tensors_in(lazyt, result)
    if not tensors:
        return "no: the result is no tensor"
    if not any(tensor.is_floating_point() for tensor in tensors):
        return "no: the result is not floating point"
    loss = weighted(lazyt, tensors)
    if loss is None:
        return reason_without(names)
    given = [leaf for leaf in names.leaves.values() if leaf.requires_grad]
    if not given:
        return "yes, in the parameters"
    try:
        lazyt.autograd.grad(loss, given, allow_unused=True)
    except LazytError as error:
        return f"no: {str(error).splitlines()[0]}"
    return "yes"


def reason_without(names: Operands) -> str:
    """Why results have no history."""
    if any(leaf.requires_grad for leaf in names.leaves.values()):
        return "no: the result does not change with the values"
    return "no: there is nothing to differentiate by"


def gradient_text(samples: list[Sample]) -> str:
    """The best answer of any call."""
    answers = [gradient_of(sample) for sample in samples]
    return min(answers, key=lambda text: (not text.startswith("yes"), answers.index(text)))


def by_name(place: str) -> dict[str, list[Sample]]:
    """The samples of each function that lazyt has."""
    found: dict[str, list[Sample]] = {}
    for sample in all_samples():
        if sample.place == place and has(lazyt, sample):
            found.setdefault(sample.name, []).append(sample)
    return dict(sorted(found.items()))


def table(place: str) -> Iterator[str]:
    """A row per function."""
    methods = dir(lazyt.Tensor)
    head = "| name | method | dtypes | gradient |" if place == "torch" else "| name | dtypes | "
    yield head if place == "torch" else head + "gradient |"
    yield "|---|---|---|---|" if place == "torch" else "|---|---|---|"
    for name, samples in by_name(place).items():
        cells = [f"`{name}`"]
        if place == "torch":
            forms = [form for form in (name, f"{name}_") if form in methods]
            cells.append(", ".join(f"`{form}`" for form in forms))
        cells += [dtypes_text(accepted(samples)), gradient_text(samples).replace("|", "\\|")]
        yield f"| {' | '.join(cells)} |"


def missing(place: str) -> list[str]:
    """Names of PyTorch's dense API that lazyt lacks in a place."""
    owner = owner_of(lazyt, place)
    names = torch_groups.dense_names(place)
    return [name for name in names if owner is None or not hasattr(owner, name)]


def listed(names: list[str]) -> str:
    """Names for a paragraph."""
    return ", ".join(f"`{name}`" for name in names) or "nothing"


def summary() -> Iterator[str]:
    """How much there is of each module."""
    yield "| module | there | of |"
    yield "|---|---|---|"
    for place in (*CALLED, *LISTED):
        total, lacking = len(torch_groups.dense_names(place)), len(missing(place))
        if total:
            yield f"| {place} | {total - lacking} | {total} |"


def left_out() -> Iterator[str]:
    """The groups that are no part of a dense tensor library, with those of their names that lazyt
    does not have."""
    counts: dict[str, int] = {}
    absent: dict[str, list[str]] = {}
    for place in (*CALLED, *LISTED):
        for name in torch_groups.API[place]:
            reason = torch_groups.group_of(place, name)
            if reason is not None:
                counts[reason] = counts.get(reason, 0) + 1
                if not hasattr(owner_of(lazyt, place), name):
                    shown = name if place == "torch" else f"{place}.{name}"
                    absent.setdefault(reason, []).append(shown)
    for reason, count in counts.items():
        yield f"- {reason} ({count} names). Not there: {listed(absent.get(reason, []))}"


def derivatives() -> Iterator[str]:
    """How many derivatives are held against PyTorch's, and those that differ, with reasons."""
    rows = test_derivatives.load().values()
    second, moved = (sum(kind in row for row in rows) for kind in ("second", "moved"))
    yield f"""
`tests/peer_samples/test_derivatives.py` holds the gradients of {len(rows)} operators of PyTorch's
own test database against PyTorch's, of {second} those of second order too, and of {moved} the
derivatives in forward mode; and what `vmap` gives for two examples against a loop. These differ:
"""
    yield "| operators | derivatives | reason |"
    yield "|---|---|---|"
    words = {"first": "first", "second": "second", "moved": "forward mode", "error": "refused"}
    for names, kinds, reason in (*exceptions.EXCEPTIONS, *exceptions.AT_POINTS):
        listed_kinds = ", ".join(words[kind] for kind in kinds.split())
        plain = names.replace("\\", "").replace("|", " \\| ")
        yield f"| {plain} | {listed_kinds} | {reason} |"
    yield f"\nPyTorch has no derivatives where lazyt has them: {exceptions.MORE}."


def page() -> str:
    """The page."""
    for name in ("nn", "optim", "utils.data"):
        importlib.import_module(f"lazyt.{name}")
    version = torch_groups.API["version"]
    lines = [
        "# Coverage of PyTorch's API\n",
        f"Written by `make generate`. Names are compared with those of PyTorch {version}, which",
        "`docs/record_torch.py` recorded. Dtypes and gradients were found by calling every",
        "function with the samples in `tests/functional`: a dtype is named when a call succeeds",
        "in it; `float` stands for float16, bfloat16, float32 and float64, `int` for int8 to",
        "int64 and uint8, `all` for these and bool. `tests/functional/test_samples.py` holds",
        "results and gradients of the same calls against PyTorch's.\n",
        "## How much there is\n",
        *summary(),
        "\nNot counted are [names that a dense tensor library has no use for](#not-counted).\n",
        "## What is missing\n",
    ]
    for place in (*CALLED, *LISTED):
        if missing(place):
            lines.append(f"- {place}: {listed(missing(place))}")
    lines += ["\n## Derivatives\n", *derivatives()]
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        lazyt.manual_seed(0)
        for place in CALLED:
            if by_name(place):
                lines += [f"\n## {TITLES.get(place, f'lazyt.{place}')}\n", *table(place)]
    lines += ["\n## Not counted\n", "A dense tensor library on one machine has no use for them.\n"]
    lines += left_out()
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(), end="")
