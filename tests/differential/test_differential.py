"""Random programs show the same on lazyt as they showed on PyTorch.

``recorded.xz`` holds a thousand programs with what PyTorch 2.13 showed. They are replayed with the
interpreter, because compiling every graph of every program would take many minutes; some short
ones are compiled. Where PyTorch can be imported, new programs run on both.

``LAZYT_DIFFERENTIAL`` is the range of seeds for the live test, such as ``0:5000``;
``LAZYT_DIFFERENTIAL_COMPILED`` is how many recorded programs are compiled (default 60).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from pathlib import Path

import pytest

import lazyt
from lazyt.testing.programs.comparing import Difference, first_difference
from lazyt.testing.programs.machine import Machine
from lazyt.testing.programs.making import make_program
from lazyt.testing.programs.minimizing import difference_between, minimize
from lazyt.testing.programs.program import Facts, Program, load, save

RECORD = Path(__file__).with_name("recorded.xz")
CHUNKS = 20
COMPILED = int(os.environ.get("LAZYT_DIFFERENTIAL_COMPILED", "60"))
LIVE = os.environ.get("LAZYT_DIFFERENTIAL", "100000:100040")


def report(program: Program, found: Difference) -> str:
    return f"seed {program.seed}:\n{program}\n{found}"


def differences(programs: list[Program]) -> list[str]:
    """Reports of what differs, besides one program with another of two mistakes refused."""
    wrong, worded = [], []
    for program in programs:
        shown = Machine(lazyt).run(program.steps)
        found = first_difference(program.facts, shown)
        if found is not None and found.kind == "message":
            worded.append(report(program, found))
            found = first_difference(program.facts, shown, messages=False)
        if found is not None:
            wrong.append(report(program, found))
    return wrong + worded[1:]


@pytest.mark.turns
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_recorded_programs_show_what_pytorch_showed(chunk: int) -> None:
    programs = load(RECORD)[chunk::CHUNKS]
    assert len(programs) >= 40
    with lazyt.config.override(interpret=True):
        wrong = differences(programs)
    assert not wrong, "\n\n".join(wrong[:3])


def test_compiled_programs_show_what_pytorch_showed() -> None:
    looks = [(p.steps.count("look()"), len(p.steps), p.seed) for p in load(RECORD)]
    chosen = {seed for _, _, seed in sorted(looks)[:COMPILED]}
    wrong = differences([p for p in load(RECORD) if p.seed in chosen])
    assert not wrong, "\n\n".join(wrong[:3])


@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="PyTorch is not installed")
def test_new_programs_show_the_same_on_both() -> None:
    torch = importlib.import_module("torch")
    first, _, end = LIVE.partition(":")
    with lazyt.config.override(interpret=True):
        programs = [make_program(seed, torch) for seed in range(int(first), int(end))]
        wrong = differences(programs)
    assert not wrong, "\n\n".join(wrong[:3])


# ---------------------------------------------------------------------- the tools themselves


def test_a_seed_is_one_program_and_survives_a_file(tmp_path: Path) -> None:
    with lazyt.config.override(interpret=True):
        one, same, other = (make_program(seed, lazyt) for seed in (7, 7, 8))
    assert one == same
    assert one.steps != other.steps
    save([one, other], tmp_path / "programs.xz")
    assert [p.steps for p in load(tmp_path / "programs.xz")] == [one.steps, other.steps]


STEPS = ("t1 = torch.arange(4)", "t2 = t1[1:]", "t3 = t1 / 3", "t2.add_(1)", "t1[9]")


def facts_of(*steps: str) -> list[Facts]:
    with lazyt.config.override(interpret=True):
        return list(Machine(lazyt, reference=True).run(steps))


@pytest.mark.parametrize(
    ("change", "kind"),
    [
        ("t1 = torch.arange(1, 5)", "value"),
        ("t1 = torch.arange(4, dtype=torch.int32)", "description"),
        ("t1 = torch.arange(8)[::2]", "description"),
        ("t1 = torch.arange(10)", "description"),
        ("t1 = torch.arrange(4)", "error"),
    ],
)
def test_differences_are_seen(change: str, kind: str) -> None:
    assert first_difference(facts_of(*STEPS), facts_of(*STEPS)) is None
    found = first_difference(facts_of(*STEPS), facts_of(change, *STEPS[1:]))
    assert found is not None and found.kind == kind


def test_sharing_and_errors_are_seen() -> None:
    copied = facts_of(*STEPS[:1], "t2 = t1[1:].clone()", *STEPS[2:])
    found = first_difference(facts_of(*STEPS), copied)
    assert found is not None and found.step == 1 and "of t1" in found.wanted
    other = facts_of(*STEPS[:4], "t1[0, 0]")
    found = first_difference(facts_of(*STEPS), other)
    assert found is not None and found.kind == "message"


def test_rounding_is_no_difference_but_only_where_values_are_rounded() -> None:
    steps = ("t1 = torch.tensor([0.5, 1.0])", "t2 = t1.exp()")
    near = ("t1 = torch.tensor([0.5, 1.0000001])", "t2 = t1.exp()")
    found = first_difference(facts_of(*steps), facts_of(*near))
    assert found is not None and found.name == "t1"
    far = (steps[0], "t2 = t1.exp() * 1.0000002")
    assert first_difference(facts_of(*steps), facts_of(*far)) is None


def test_programs_are_made_short() -> None:
    class Broken:
        """lazyt, but the negative of a tensor is the tensor."""

        def __getattr__(self, name: str) -> object:
            return (lambda x: x) if name == "neg" else getattr(lazyt, name)

    steps = (*STEPS, "t4 = torch.neg(t2)", "t5 = t4 + 1", "t6 = t5.sum()")
    with lazyt.config.override(interpret=True):
        program, found = minimize(
            Program(0, steps), lambda tried: difference_between(tried, lazyt, Broken())
        )
    assert found.kind == "description"  # the result shares its operand's memory
    assert program.steps == ("t1 = torch.arange(4)", "t2 = t1[1:]", "t4 = torch.neg(t2)")
