"""State dicts written by PyTorch 2.13 in modules here: same names, results and gradients."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import lazyt
from tests.nn.recorded_states import FOLDER, MODULES, build, run

RESULTS: dict[str, Any] = json.loads((FOLDER / "states.json").read_text(encoding="utf-8"))
STATES: dict[str, Any] = lazyt.load(FOLDER / "states.pt")


@pytest.mark.parametrize("name", MODULES)
def test_states_of_pytorch_give_its_results(name: str) -> None:
    text, sizes = MODULES[name]
    module = build("lazyt", text)
    assert list(module.state_dict()) == list(STATES[name])
    assert repr(module.load_state_dict(STATES[name])) == "<All keys matched successfully>"
    with lazyt.config.override(interpret=True):
        found = run(lazyt, module, sizes)
    for part, wanted in RESULTS[name].items():
        assert len(found[part]) == len(wanted)
        for mine, theirs in zip(found[part], wanted):
            assert (mine is None) == (theirs is None)
            if mine is not None:
                np.testing.assert_allclose(mine, theirs, rtol=2e-4, atol=2e-5, err_msg=part)


def test_a_state_of_another_module_is_refused() -> None:
    with pytest.raises(RuntimeError, match="Missing key"):
        build("lazyt", MODULES["lstm"][0]).load_state_dict(STATES["gru"])
