"""Random programs do the same with their functions captured as without.

No record is needed: the programs run on lazyt twice, see ``making_objects`` and ``making_steps``.
Most are interpreted, which changes nothing for captures and replays; some are compiled, so that
their later calls take fast paths. ``python -m tests.captures.run_captures`` runs more of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

import lazyt as lt
from lazyt.runtime.cpu import compile
from tests.captures import kinds, making_objects, making_steps
from tests.captures.kinds import KINDS
from tests.captures.run_captures import differences
from tests.differential.staged import interpreted

pytestmark = pytest.mark.lazy
CHUNKS = 10


@pytest.mark.turns
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_objects_that_change_between_calls(chunk: int) -> None:
    with interpreted():
        wrong = differences("objects", range(chunk, 1800, CHUNKS))
    assert not wrong, "\n\n".join(wrong[:3])


def test_training_that_changes_between_steps() -> None:
    with interpreted():
        wrong = differences("steps", range(200))
    assert not wrong, "\n\n".join(wrong[:3])


@pytest.mark.skipif(not compile.available(), reason="needs a C compiler")
@pytest.mark.parametrize("kind, seeds", [("simple", range(60)), ("steps", range(1000, 1012))])
def test_compiled_programs(kind: str, seeds: Iterable[int]) -> None:
    wrong = differences(kind, seeds)
    assert not wrong, "\n\n".join(wrong[:3])


# ---------------------------------------------------------------------- the tools themselves


def test_every_kind_of_object_is_read_as_it_is_made() -> None:
    for name, kind in KINDS.items():
        space: dict[str, Any] = {"torch": lt, "K": kinds, "__name__": "read"}
        for read in kind.read:
            exec(f"h = {kind.make.format(v=3)}", space)
            found = eval(read.format(h="h"), space)
            assert found.shape == (3,) and found.dtype is lt.float32, name


def test_a_seed_is_one_program() -> None:
    one, same, other = (making_objects.make_program(seed) for seed in (7, 7, 8))
    assert one == same != other


def _forgetful(function: Callable[..., Any]) -> Callable[..., Any]:
    """Gives the first result at every call."""
    held: list[Any] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        held.append(function(*args, **kwargs))
        return held[0]

    return call


@pytest.mark.parametrize("making", [making_objects, making_steps])
def test_wrong_results_are_seen(making: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    make = making.make_program if making is making_objects else making.make_training
    monkeypatch.setattr(lt, "jit", _forgetful)
    with interpreted():
        assert sum(making.difference(make(seed)) is not None for seed in range(20)) > 10
