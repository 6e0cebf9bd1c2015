"""Programs about hooks, views, writes and second derivatives show what they show on PyTorch."""

from __future__ import annotations

import json
import lzma

import pytest

import lazyt
from tests.func.hook_programs import COUNT, RECORDED, Maker, alike, run

_PARTS = 10


@pytest.mark.parametrize("part", range(_PARTS))
def test_programs_show_what_they_show_on_pytorch(part: int) -> None:
    recorded = json.loads(lzma.decompress(RECORDED.read_bytes()))
    assert len(recorded) == COUNT
    wrong = []
    with lazyt.config.override(interpret=True):
        for number in range(part, COUNT, _PARTS):
            found = json.loads(json.dumps(run(lazyt, number)))
            if not alike(number, found, recorded[number]):
                text = "\n".join(Maker(number).made())
                wrong.append(f"{number}:\n{text}\n{found}\n{recorded[number]}")
    assert not wrong, "\n".join(wrong[:3])
