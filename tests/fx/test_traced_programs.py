"""Graphs and code of traced programs, as PyTorch prints them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import lazyt
from tests.fx.traced_programs import printed

RECORDED = json.loads(Path(__file__).with_name("recorded_graphs.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def ours() -> dict[str, list[str]]:
    return printed(lazyt)


@pytest.mark.parametrize("name", RECORDED)
def test_graphs_and_code_print_as_in_pytorch(name: str, ours: dict[str, list[str]]) -> None:
    for text, recorded in zip(ours[name], RECORDED[name], strict=True):
        # Functions that PyTorch has in inner modules are called by their public names.
        wanted = recorded.replace("torch._C._nn.", "torch.nn.functional.")
        assert text.replace("lazyt", "torch") == wanted
