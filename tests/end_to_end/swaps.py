"""Programs whose plans change tiers at random, and what they compute.

    python -m tests.end_to_end.swaps EXAMPLE SEED     # one of the folder examples, shortly

prints a digest of every value that the example looks at; without SEED all plans stay in tier 0.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import lazyt
from lazyt import Tensor
from lazyt.config import config
from lazyt.plan import build, planning, tiers
from lazyt.plan.build import Code, Plan
from lazyt.testing.programs.machine import Machine
from lazyt.testing.programs.program import Program, load
from tests import recording
from tests.end_to_end.swap_programs import CELLS
from tests.tensor import step_programs

ROOT = Path(__file__).resolve().parents[2]
RECORDED = ROOT / "tests/differential/recorded.xz"
EXAMPLES = (
    "accumulation", "alignment", "autoencoder", "binary_weights", "char_gpt", "digits_cnn",
    "forces", "mixed_precision", "tracking",
)  # fmt: skip
#: How many programs there are of each kind: 300 together.
RANDOM, STEPS, OWN = 160, 90, 43

#: How likely a new plan begins with its kernels, and one in tier 0 gets them at a run.
_AT_ONCE, _AT_A_RUN = 0.3, 0.3


@dataclass
class Counts:
    """What became of plans: how many were tried by instructions for any numbers, began in tier 0 or
    with their kernels, and got them at some run."""

    tried: int = 0
    generic: int = 0
    at_once: int = 0
    swapped: int = 0

    def add(self, other: Counts) -> None:
        """Takes up others."""
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@contextlib.contextmanager
def mixed(seed: int) -> Iterator[Counts]:
    """A block in which every plan begins in a tier that is chosen at random, and one in tier 0 gets
    its kernels at some run: none is taken from disk before."""
    chance, counts, hidden = random.Random(seed), Counts(), [False]
    first_code, trial_of, is_tried = tiers.first_code, tiers.trial_of, tiers._is_tried
    stored: Any = build.Subject.stored

    def begins(subject: build.Subject, *rest: Any) -> Code | None:
        if chance.random() < _AT_ONCE:
            counts.at_once += 1
            return None
        hidden[0] = True
        try:
            code = first_code(subject, *rest)
        finally:
            hidden[0] = False
        counts.generic += code is not None
        return code

    def tries(structure: Any, *rest: Any) -> bool:
        if structure.place or chance.random() < 0.5:
            return False
        with config.override(tier=0):
            return is_tried(structure, *rest)

    def trial(*rest: Any) -> tiers.Trial:
        made = trial_of(*rest)
        counts.tried += not made.is_over
        made.least = chance.choice([0.0, 1e-4, 1e9])
        return made

    def swaps(plan: Plan) -> bool:
        if chance.random() >= _AT_A_RUN:
            return False
        counts.swapped += 1
        return True

    planning.clear()
    with pytest.MonkeyPatch.context() as patched, config.override(tier="auto"):
        patched.setattr(build.Subject, "stored", property(
            lambda subject: None if hidden[0] else stored.fget(subject)
        ))  # fmt: skip
        patched.setattr(tiers, "first_code", begins)
        patched.setattr(tiers, "trial_of", trial)
        patched.setattr(tiers, "_is_tried", tries)
        patched.setattr(tiers, "force", swaps)
        yield counts
    planning.clear()


# ------------------------------------------------------------------ programs and what they show


@dataclass(frozen=True)
class Swapped:
    """A program: its name, and how to run it for what it shows."""

    name: str
    run: Callable[[], Any]


def programs() -> list[Swapped]:
    """All but the examples, which take longer."""
    found: list[Swapped] = []
    recorded = load(RECORDED)
    for program in recorded[:: len(recorded) // RANDOM][:RANDOM]:
        found.append(Swapped(f"random program {program.seed}", functools.partial(_random, program)))
    for seed in range(STEPS):
        found.append(Swapped(f"step program {seed}", functools.partial(_steps, seed)))
    for number in range(OWN):
        cell = CELLS[number % len(CELLS)]
        found.append(Swapped(f"{cell.__name__} {number}", functools.partial(_cell, cell, number)))
    return found


def _random(program: Program) -> Any:
    return Machine(lazyt).run(program.steps)


def _steps(seed: int) -> Any:
    return repr(step_programs.outcome(step_programs.make(seed), lazyt.jit))


def _cell(cell: Callable[..., Sequence[Tensor]], number: int) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = cell(lazyt, random.Random(number))
    return [f"{x.dtype} {[*x.shape]} {x.detach().tolist()}" for x in found]


def shown(program: Swapped) -> Any:
    """What a program shows, from one state of random numbers."""
    lazyt.manual_seed(0)
    return program.run()


def difference(program: Swapped, seed: int, counts: Counts) -> str:
    """How a program shows something else when its plans change tiers, or nothing."""
    with config.override(tier=0):
        wanted = shown(program)
    with mixed(seed) as found:
        have = shown(program)
    counts.add(found)
    if have == wanted:
        return ""
    if isinstance(have, str):
        return f"{program.name}, seed {seed}:\n{have}\ninstead of\n{wanted}"
    for number, (one, other) in enumerate(zip(have, wanted, strict=True)):
        if one != other:
            return f"{program.name}, seed {seed}: {number} is\n{one}\ninstead of\n{other}"
    return ""


def main(name: str, seed: int | None) -> None:
    """Runs an example and prints digests of what it looks at."""
    from lazyt.__main__ import main as command

    path, counts = str(ROOT / "examples" / f"{name}.py"), Counts()
    with tempfile.TemporaryDirectory() as folder, config.override(tier=0):
        recorder = recording.Recorder(Path(folder), False, "main")
        with recording.attached(recorder), contextlib.redirect_stdout(sys.stderr):
            if seed is None:
                command(["run", path, "--short"])
            else:
                with mixed(seed) as counts:
                    command(["run", path, "--short"])
    print(json.dumps([recorder.looks, vars(counts)]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else None)
