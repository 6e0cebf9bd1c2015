"""Functions and modules of nn by what PyTorch 2.13 gave for the same programs, gradients too."""

from __future__ import annotations

import json
from typing import Any

import pytest

import lazyt
from tests.nn.recorded_program import FOLDER, Program, lines

RECORDED: dict[str, Any] = json.loads((FOLDER / "layers.json").read_text(encoding="utf-8"))
TOLERANCE = {"float64": 1e-7, "float32": 5e-5, "float16": 4e-3, "bfloat16": 2e-2}
#: One program of each kind runs compiled too; all others in the interpreter, which is the meaning.
COMPILED = [
    "F.max_pool2d(r(1,2,6,7), (3,2), 2, 1, return_indices=True)",
    "F.avg_pool2d(r(1,2,6,7), 3, 2, 1, True, False)",
    "F.adaptive_max_pool2d(r(2,3,7,5), (3,2), True)",
    "F.interpolate(r(2,3,5,4), (7,9), mode='bilinear')",
    "F.grid_sample(r(2,3,5,4), r(2,3,4,2,lo=-4,hi=4), 'bilinear', 'reflection', False)",
    "F.fold(r(2,12,12), (5,6), (2,3), dilation=(2,1), padding=1, stride=(2,1))",
    "F.embedding_bag(ii(7), r(5,4), torch.tensor([0,2,2,5]), mode='sum', per_sample_weights=r(7))",
    "F.ctc_loss(r(6,2,4), ii(5,lo=1,hi=4), (6,5), (3,2), reduction='sum')",
    "F.pad(r(2,3,4,5), (1,-2,-1,3), 'reflect')",
]


def differs(line: str, given: Any, wanted: Any) -> str:
    """How a value differs from the recorded one; nothing where it does not."""
    if not isinstance(given, list) or not isinstance(wanted, list):
        return "" if given == wanted else f"{line}: {given} instead of {wanted}"
    if given[:2] != wanted[:2] or given[4] != wanted[4]:
        return f"{line}: {given} instead of {wanted}"
    room = TOLERANCE.get(wanted[0], 0.0) * (1 + wanted[3])
    close = abs(given[2] - wanted[2]) <= room and abs(given[3] - wanted[3]) <= room
    return "" if close else f"{line}: {given} instead of {wanted}"


def compare(line: str, given: dict[str, Any], wanted: dict[str, Any]) -> list[str]:
    """All differences of one program."""
    if "error" in wanted or "error" in given:
        kinds = given.get("error", ["nothing"])
        if wanted.get("error", ["nothing"])[0] not in kinds:
            return [f"{line}: {given} instead of {wanted}"]
        same = line.startswith("~") or given["words"] == wanted["words"]
        return [] if same else [f"{line}: {given['words']!r} instead of {wanted['words']!r}"]
    found = []
    for part in ("outputs", "gradients"):
        if len(given[part]) != len(wanted[part]):
            found.append(f"{line}: {len(given[part])} {part}")
        found += [differs(line, a, b) for a, b in zip(given[part], wanted[part])]
    return [text for text in found if text]


@pytest.mark.parametrize("share", range(6))
def test_programs_give_what_pytorch_gave(share: int) -> None:
    program = Program("lazyt")
    wrong = []
    with lazyt.config.override(interpret=True):
        for line in lines()[share::6]:
            wrong += compare(line, program.run(line), RECORDED[line])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("line", COMPILED)
def test_compiled_programs_give_it_too(line: str) -> None:
    found = compare(line, Program("lazyt").run(line), RECORDED[line])
    assert not found, "\n".join(found)


def test_every_program_is_recorded() -> None:
    assert sorted(RECORDED) == sorted(set(lines()))
    assert sum("error" not in found for found in RECORDED.values()) > 300
