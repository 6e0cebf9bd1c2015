"""Programs about derivatives and vmap show what they show on PyTorch."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from tests.func.transform_programs import NAMES, RECORDED, agree, run

_CONSTANT = "a part of the result that does not depend on the inputs requires no gradient"
_OWN_LEAF = "a leaf made inside of a transform is a leaf outside, too"
_FORWARD = "nobody asked for a graph, so the result requires no gradient"
#: What lazyt shows on purpose as it does, with the reason.
DIFFERENT = {
    "compositions": {"e8": _OWN_LEAF},
    "functional": {
        "TrueFalse True jac2": _CONSTANT, "TrueFalse True hess2": _CONSTANT,
        "hf": _FORWARD, "hf2": _FORWARD,
    },
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_program_shows_what_it_shows_on_pytorch(name: str) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))[name]
    with warnings.catch_warnings(), lazyt.config.override(interpret=True):
        warnings.simplefilter("ignore")
        found = run(lazyt, name)
    known = DIFFERENT.get(name, {})
    wrong = {
        title: (found.get(title), wanted)
        for title, wanted in recorded.items()
        if title not in known and not agree(found.get(title), wanted)
    }
    assert not wrong, "\n".join(f"{k}: {got}\n  not {wanted}" for k, (got, wanted) in wrong.items())
    same = [title for title in known if agree(found.get(title), recorded[title])]
    assert not same, f"no longer different: {same}"


@pytest.mark.parametrize(
    ("function", "word"),
    [
        (lambda x: x.nonzero(), "aten::nonzero"),
        (lambda x: x[x > 1], "boolean mask"),
        (lambda x: x.unique(), "aten::_unique2"),
        (lambda x: x.sum().item(), "calling .item()"),
    ],
)
def test_what_looks_at_values_is_named_beneath_a_programs_own_wrapper(
    function: Callable[[lazyt.Tensor], object], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner: Any = lazyt.Tensor
    plain = owner.item
    monkeypatch.setattr(owner, "item", lambda self: plain(self))
    with pytest.raises(RuntimeError, match=word):
        lazyt.vmap(function)(lazyt.ones(2, 3))
