"""Parts of random programs, captured, do what they do without capture.

The programs are those of ``tests/differential``; ``lazyt.testing.programs.captured`` makes
functions of their statements and says what is compared. Plans are interpreted, and a few compiled.
"""

from __future__ import annotations

import random

import pytest

import lazyt as lt
from lazyt.testing.programs.captured import Stage, difference, report, run_statements, stages
from lazyt.testing.programs.program import load
from tests.differential.staged import interpreted
from tests.differential.test_differential import RECORD


def check(first: int, count: int) -> int:
    """Functions of some recorded programs; returns how many were replayed."""
    replayed = 0
    for program in load(RECORD)[first : first + count]:
        with interpreted():
            for stage in stages(program.steps, random.Random(program.seed), 1):
                found, why = difference(stage)
                assert found is None, report(stage, found, why)
                replayed += bool(why) and why[-1] == "captured"
    return replayed


@pytest.mark.lazy
@pytest.mark.parametrize("part", range(4))
def test_functions_made_of_programs_do_the_same_when_captured(part: int) -> None:
    assert check(20 * part, 20) >= 1


def stage(before: list[str], *steps: str) -> Stage:
    """A function of these statements."""
    return Stage(before, steps, run_statements(before))


FOUND = {
    "two writes count twice": (["t1 = torch.zeros(3)"], "t1.add_(1)", "t1.mul_(2)"),
    "a silent write does not count": (["t1 = torch.zeros(3)"], "t1.data.add_(1)"),
    "a write of nothing counts": (["t1 = torch.zeros(0)"], "t1.add_(1)"),
    "a result's versions": (["t1 = torch.zeros(3)"], "t2 = t1 + 1", "t2.add_(1)"),
    "a result in memory from outside": (["t1 = torch.arange(3)"], "t2 = t1.detach()"),
    "a silent write to a leaf": (
        ["t1 = torch.ones(3, requires_grad=True)"],
        "with torch.no_grad():\n    t1.mul_(2)",
        "t2 = t1 * t1",
    ),
    "a leaf in memory that NumPy sees": (
        ["t1 = torch.from_numpy(np.ones(3, np.float32))"],
        "t1.requires_grad = True",
    ),
    "a view made without gradients": (
        ["t1 = torch.ones(4, requires_grad=True)"],
        "with torch.no_grad():\n    t2 = t1[1:]",
        "t3 = (t1 * 2)[1:]",
    ),
    "what has no gradient": (["t1 = torch.ones(3, requires_grad=True)"], "t2 = t1 // 2"),
    "a part that nothing is done with": (
        ["t1 = torch.arange(4.0).reshape(4, 1)", "t2 = t1.clone().requires_grad_()"],
        "t3 = t1.clone()",
    ),
    "two results in one memory": (["t1 = torch.arange(3)"], "t2 = t1 + 1", "t3 = t2.detach()"),
    "a view of what NumPy sees": (
        ["t1 = torch.zeros(3)", "a1 = t1.numpy()"],
        "t2 = t1.view(3, 1)",
    ),
    "a write to what NumPy sees": (["t1 = torch.zeros(3)", "a1 = t1.numpy()"], "t1.add_(1)"),
    "a silent write to what NumPy sees": (
        ["t1 = torch.arange(3.0)", "a1 = t1.numpy()"],
        "t1.data.zero_()",
    ),
    "a gradient that goes further": (
        ["t1 = torch.ones(3, requires_grad=True)", "t2 = t1 * 2"],
        "(t2 * t2).sum().backward(retain_graph=True)",
        "t3 = t2 + 1",
    ),
    "a write to what no gradient needs": (
        ["t1 = torch.ones(3, requires_grad=True)", "t2 = torch.ones(3)"],
        "t3 = t1 * 1.5",
        "t2.add_(t2)",
    ),
    "a write to what a gradient needs": (
        ["t1 = torch.ones(3, requires_grad=True)", "t2 = torch.ones(3)"],
        "t3 = t1 * t2",
        "t2.add_(t2)",
    ),
}


@pytest.mark.lazy
@pytest.mark.parametrize("name", FOUND)
def test_what_random_programs_found(name: str) -> None:
    before, *steps = FOUND[name]
    with interpreted():
        made = stage(list(before), *map(str, steps))
        found, why = difference(made)
    assert found is None, report(made, found, why)


@pytest.mark.lazy
@pytest.mark.parametrize("name", ["two writes count twice", "a write to what a gradient needs"])
def test_the_same_when_compiled(name: str) -> None:
    before, *steps = FOUND[name]
    found, why = difference(stage(list(before), *map(str, steps)))
    assert found is None and why == ["captured"], found


@pytest.mark.lazy
def test_hooks_that_come_later_are_called() -> None:
    def function(w: lt.Tensor) -> lt.Tensor:
        (w * w).sum().backward()
        return w * 2

    captured, w = lt.jit(function), lt.ones(2, requires_grad=True)
    for _ in range(3):
        captured(w)
    assert captured.why() == ["captured"]
    handle = w.register_hook(lambda g: g * 3)
    w.grad = None
    captured(w)
    assert w.grad is not None and w.grad.tolist() == [6, 6]
    handle.remove()
    w.grad = None
    captured(w)
    assert w.grad.tolist() == [2, 2]
