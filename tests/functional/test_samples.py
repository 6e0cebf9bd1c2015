"""Every public function, called with samples: results, gradients and names against PyTorch's.

What PyTorch did is recorded in tests/recorded/samples.json, names in docs/torch_api.json.
"""

from __future__ import annotations

import functools
import json
import math
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import lazyt
from tests.functional import known_differences as known
from tests.functional.samples import (
    Sample,
    all_samples,
    compared,
    gradients,
    has,
    layouts,
    numbers,
    outcome,
    owner_of,
    perform,
    same_outcome,
    tensors_in,
)
from tests.functional.samples_methods import WITHOUT_METHODS
from tests.functional.samples_nn import WITHOUT_LINALG, WITHOUT_MODULES
from tests.functional.samples_torch import WITHOUT

RECORDED: dict[str, dict[str, Any]] = json.loads(
    Path(__file__).parents[1].joinpath("recorded", "samples.json").read_text(encoding="utf-8")
)
API: dict[str, Any] = json.loads(
    Path(__file__).parents[2].joinpath("docs", "torch_api.json").read_text(encoding="utf-8")
)
_FACTS = ("values", "layouts", "gradients", "no gradient")


def recorded() -> Iterator[tuple[Sample, dict[str, Any]]]:
    """The samples of functions that both have, with what PyTorch did."""
    for sample in all_samples():
        if has(lazyt, sample) and str(sample) in RECORDED:
            yield sample, RECORDED[str(sample)]


def outcomes(facts: dict[str, Any]) -> dict[str, str]:
    """PyTorch's outcome by dtype."""
    return {d: text for text, kinds in facts.items() if text not in _FACTS for d in kinds.split()}


def kind_of(facts: dict[str, Any]) -> str:
    """The dtype in which values were recorded."""
    works = {dtype for dtype, text in outcomes(facts).items() if text[0] not in "!?"}
    return next(dtype for dtype in ("float32", "int64", "bool") if dtype in works)


def close(got: list[float], wanted: list[str], relative: float, absolute: float) -> bool:
    """Whether numbers agree; NaN is NaN."""
    return len(got) == len(wanted) and all(
        math.isclose(a, b, rel_tol=relative, abs_tol=absolute) or (a != a and b != b)
        for a, b in zip(got, map(float, wanted))
    )


def compare(
    check: Callable[[Sample, dict[str, Any]], str], explained: list[tuple[str, str]]
) -> None:
    """Fails for samples where ``check`` finds a difference that no reason is given for."""
    different = {}
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        for sample, facts in recorded():
            found = check(sample, facts)
            if found:
                different[str(sample)] = found
    texts = [
        f"{name}: {found}"
        for name, found in different.items()
        if not any(re.fullmatch(pattern, name) for pattern, _ in explained)
    ]
    assert not texts, "\n".join(texts)
    lasting = [pattern for pattern, reason in explained if not reason.endswith("yet")]
    stale = [p for p in lasting if not any(re.fullmatch(p, name) for name in different)]
    assert not stale, f"known differences that are none: {stale}"


def test_shapes_dtypes_and_errors_are_pytorchs() -> None:
    def check(sample: Sample, facts: dict[str, Any]) -> str:
        wrong: dict[str, list[str]] = {}
        for dtype, wanted in outcomes(facts).items():
            lazyt.manual_seed(0)
            got = outcome(lazyt, sample, dtype)
            if wanted != "?" and not same_outcome(wanted, got):
                wrong.setdefault(f"{got} instead of {wanted}", []).append(dtype)
        return "; ".join(f"{text} in {', '.join(kinds)}" for text, kinds in wrong.items())

    compare(check, known.OUTCOMES)


def test_values_are_pytorchs() -> None:
    def check(sample: Sample, facts: dict[str, Any]) -> str:
        if "values" not in facts:
            return ""
        try:
            found = tensors_in(lazyt, perform(lazyt, sample, kind_of(facts))[0])
            got = numbers(compared(sample, found))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        # PyTorch's sums are float32, too, and in another order.
        return "" if close(got, facts["values"], 1e-4, 1e-5) else f"{got}, not {facts['values']}"

    compare(check, known.VALUES)


def test_strides_are_pytorchs() -> None:
    def check(sample: Sample, facts: dict[str, Any]) -> str:
        if "layouts" not in facts:
            return ""
        try:
            got = layouts(tensors_in(lazyt, perform(lazyt, sample, kind_of(facts))[0]))
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return "" if got == facts["layouts"] else f"{got}, not {facts['layouts']}"

    compare(check, known.LAYOUTS)


def test_gradients_are_pytorchs() -> None:
    def check(sample: Sample, facts: dict[str, Any]) -> str:
        wanted = facts.get("gradients")
        if wanted is None:  # lazyt may know derivatives that PyTorch does not
            return ""
        try:
            got = numbers(gradients(lazyt, sample) or [])
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        if not got and not any(map(float, wanted)):
            return ""  # no gradient at all, where PyTorch has zeros
        return "" if close(got, wanted, 1e-6, 1e-7) else f"{got}, not {wanted}"

    compare(check, known.GRADIENTS)


def results(chosen: list[tuple[Sample, dict[str, Any]]]) -> list[tuple[Sample, Any]]:
    """The tensors that samples make, not computed yet."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            (sample, tensor)
            for sample, facts in chosen
            for tensor in tensors_in(lazyt, perform(lazyt, sample, kind_of(facts))[0])
        ]


@pytest.mark.fused_values
def test_compiled_results_are_the_interpreters() -> None:
    # One sample of each function; in-place forms are the same function.
    first = {(s.place, s.name): (s, f) for s, f in reversed([*recorded()]) if "values" in f}
    chosen = [found for (_, name), found in first.items() if not name.endswith("_")]
    compiled = results(chosen)
    with lazyt.config.override(interpret=True):
        meant = results(chosen)
        lazyt.realize(*[tensor for _, tensor in meant])
    step = 120
    for at in range(0, len(compiled), step):
        lazyt.realize(*[tensor for _, tensor in compiled[at : at + step]])
    wrong = []
    for (sample, got), (_, wanted) in zip(compiled, meant, strict=True):
        texts = [repr(value) for value in numbers([wanted])]
        if not close(numbers([got]), texts, 1e-5, 1e-6):
            wrong.append(f"{sample}: {numbers([got])}, not {texts}")
    assert not wrong, "\n".join(wrong)


def public(place: str) -> list[str]:
    """The public functions, methods or modules that lazyt has in a place."""
    owner = owner_of(lazyt, place)
    names = [name for name in dir(owner) if not name.startswith("_")]
    if place == "nn":
        return [n for n in names if isinstance(getattr(owner, n), type)]
    home = [n for n in names if isinstance(getattr(owner, n), FunctionType)]
    return [n for n in home if getattr(owner, n).__module__.startswith("lazyt")]


@functools.cache
def sampled(place: str) -> frozenset[str]:
    """Names with a sample, or with a reason to have none."""
    found = {sample.name for sample in all_samples() if sample.place == place}
    if place == "torch":  # torch.abs_ is the method, and other names are there as well
        found |= sampled("Tensor") | sampled("nn.functional")
    if place == "special":  # helpers of the same name as in torch
        found |= sampled("torch")
    texts = {"torch": WITHOUT, "Tensor": WITHOUT_METHODS, "nn": WITHOUT_MODULES}
    texts["linalg"] = WITHOUT_LINALG
    return frozenset(found | set(texts.get(place, "").split()))


def test_every_sample_is_recorded() -> None:
    known_there = {(place, name) for place, names in API.items() for name in names}
    missing = [
        str(sample)
        for sample in all_samples()
        if has(lazyt, sample) and (sample.place, sample.name) in known_there
        if str(sample) not in RECORDED
    ]
    assert not missing, f"run tests/recorded/record_samples.py: {missing}"


def test_every_public_function_has_a_sample() -> None:
    missing = []
    for place in ("torch", "nn.functional", "linalg", "special", "masked", "nn"):
        if owner_of(lazyt, place) is not None:
            missing += [f"{place}.{n}" for n in public(place) if n not in sampled(place)]
    methods = sampled("Tensor") | sampled("torch")
    missing += [f"Tensor.{name}" for name in public("Tensor") if name not in methods]
    assert not missing, (
        f"give these a sample in tests/functional/samples_*.py: {missing}. Functions that PyTorch "
        "does not have need one, too: the reference and the coverage are made of samples. Nothing "
        "is recorded for those, so that a test of their own has to check values and gradients. "
        "What is not called with tensors goes into WITHOUT"
    )
