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
_ONE_EACH = "functions of several views make a grad_fn for each"
_ADVICE = "the message names the user and the way out"
_NO_VIEW = "a custom function's result is no view"
_MORE = "lazyt can do it"
_NOT_SAVED = "values that functions of the library need are part of the graph, and not saved"
_LINE = "the message names the line"
#: What lazyt shows on purpose as it does, with the reason.
DIFFERENT = {
    "compositions": {"e8": _OWN_LEAF},
    "graph_nodes": {
        "fn hook unbind": _ONE_EACH,
        **dict.fromkeys(("saved attr", "saved result", "saved dim", "saved freed", "raw saved",
                         "node api"), "grad_fns hold no values: the graph does"),
    },
    "modes": {
        "inf view outside": "a view made outside of inference mode is _is_view() here",
        "inf mode normal in": "a view made in inference mode requires no gradient",
        "inf enable_grad": "enable_grad turns gradients on, in inference mode too",
        "inf linear": "what a product of a vector saved is not looked at",
        **dict.fromkeys(("version err exp", "version err mul", "version err view",
                         "version err const"), _ADVICE),
        "grad dtype": "tensors have no grad_dtype", "deepcopy nonleaf": _ADVICE,
    },
    "own_functions": {
        "ident": _NO_VIEW, "viewf": _NO_VIEW,
        "old under grad": _MORE, "old under vmap": _MORE, "no vmap": _MORE,
        "gen and vmap": "no link to PyTorch's pages", "saved overwritten": _ADVICE,
        "ctx attrs": "mark_shared_storage has done nothing since PyTorch 0.4",
        "function names": "names of PyTorch's own machinery",
    },
    "vmapping": {
        **dict.fromkeys(("bernoulli same", "multinomial same", "uniform_ unb different",
                         "ip new setitem", "ip new add", "ip new copy", "mask setitem"), _MORE),
        **dict.fromkeys(("ip unb", "allclose", "equal", "vmap bn train"),
                        "refused in the words for all functions"),
        "contig": "examples are tensors of their own",
        "autograd.grad in": "the first of two reasons is another",
        "torch.func all": "lazyt has no batched tensors to unwrap",
    },
    "autograd_tools": {
        "view copy": "overlapping memory is read as it was before",
        "detach write version": _ADVICE, "acc inplace": "one write is one version",
        "saved hooks": _NOT_SAVED, "saved hooks change": _NOT_SAVED,
        "anomaly nan": _LINE, "anomaly nan2": _LINE, "jacobian fwd": _FORWARD,
        "hessian fwd": _FORWARD, "names autograd": "names of PyTorch's own machinery",
        "names graph": "switches of PyTorch's streams",
    },
    "functional": {
        "TrueFalse True jac2": _CONSTANT, "TrueFalse True hess2": _CONSTANT,
        "hf": _FORWARD, "hf2": _FORWARD,
    },
}  # fmt: skip


# Under LAZYT_EAGER what a transform hands through as aux keeps its requires_grad.
UNLIKE_EAGER = {"vmapping"}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.lazy) if n in UNLIKE_EAGER else n for n in NAMES],
)
def test_program_shows_what_it_shows_on_pytorch(name: str) -> None:
    recorded = json.loads(RECORDED.read_text("utf-8"))[name]
    # Only compiled functions are captured.
    plain = lazyt.config.override(interpret=name != "captured")
    with warnings.catch_warnings(), plain:
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
