"""The same bits on every machine: digests of what programs give, beside golden ones.

Without fused multiply-adds programs run under ``config.exact``, which is what promises their bits
there; matrix registers are left out (docs/concepts/numbers.md).
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Sequence

import pytest

import lazyt
from lazyt.runtime import doctor
from lazyt.runtime.cpu import compile
from lazyt.testing.digests import golden, training
from lazyt.testing.digests.programs import Program, programs
from tests.digests import sample_digests

#: Programs of a test.
_SHARE = 200
#: What there is no program of, and why.
_WITHOUT = {
    "DataParallel": "it is the module that it holds",
    "LinearCrossEntropyLoss": "a linear layer and a loss that have programs",
    "Module": "a base", "ModuleDict": "a container", "ModuleList": "a container",
    "NLLLoss2d": "an old name", "ParameterDict": "a container", "ParameterList": "a container",
    "RNNBase": "a base", "RNNCellBase": "a base", "Optimizer": "a base",
    "SparseAdam": "for sparse gradients", "Distribution": "a base", "ExponentialFamily": "a base",
}  # fmt: skip
_ALL = programs()


@pytest.fixture(autouse=True)
def same_everywhere() -> Iterator[None]:
    """The setting under which all bits are promised here."""
    if not compile.available():
        pytest.skip("without a compiler the programs take long")
    lacks_fma = any(each.name == "fma" for each in doctor.deviations())
    settings = lazyt.config.override(exact=lacks_fma, matrix_registers=False)
    with settings, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _compare(chosen: Sequence[Program], wanted: dict[str, str]) -> None:
    found = golden.digests(chosen)
    other = golden.differences(found, wanted)
    assert not other, "\n".join(f"{name}: {wanted.get(name)}, here {text}"
                                for name, text in other.items())  # fmt: skip


@pytest.mark.parametrize("first", range(0, len(_ALL), _SHARE))
def test_programs_have_their_golden_digests(first: int) -> None:
    with lazyt.config.override(tier=0):
        _compare(_ALL[first : first + _SHARE], golden.golden())


@pytest.mark.parametrize("kind", ["float32: ", "gradient float32", "training: nn.Sequential(nn.L"])
def test_fused_kernels_give_them_too(kind: str) -> None:
    of_kind = [program for program in _ALL if program.name.startswith(kind)]
    with lazyt.config.override(tier=1):
        _compare(of_kind[:: max(1, len(of_kind) // 3)][:3], golden.golden())


@pytest.mark.parametrize("part", range(4))
def test_every_public_function_gives_its_golden_digest(part: int) -> None:
    wanted = json.loads(sample_digests.FILE.read_text(encoding="utf-8"))
    everything = [p for p in sample_digests.sample_programs() if p.name in wanted]
    assert len(everything) >= 1400  # python -m tests.digests.sample_digests
    chosen = [p for p in everything[part::4] if wanted[p.name] != sample_digests.REFUSED]
    with lazyt.config.override(tier=0):
        _compare(chosen, wanted)


def test_a_bit_that_differs_is_named() -> None:
    def wrong() -> lazyt.Tensor:
        return lazyt.tensor([1.0, 2.0000002])

    right = Program("right", lambda: lazyt.tensor([1.0, float("nan")]))
    found = golden.digests([right, Program("wrong", wrong), Program("raises", lambda: 1 / 0)])
    wanted = golden.digests([right]) | {
        "wrong": golden.digest([lazyt.tensor([1.0, 2.0])]), "raises": found["wrong"],
    }  # fmt: skip
    assert golden.differences(found, wanted).keys() == {"wrong", "raises"}
    assert found["raises"] == "ZeroDivisionError: division by zero"
    negative_nan = -lazyt.tensor([-1.0, float("nan")])
    assert golden.digest([negative_nan]) == found["right"]


def test_no_golden_digest_is_of_an_error() -> None:
    assert not [name for name, text in golden.golden().items() if len(text) != 12]
    assert golden.golden().keys() == {program.name for program in _ALL}


def test_all_modules_optimizers_and_distributions_have_programs() -> None:
    text = " ".join(program.name for program in _ALL) + training.MODULES
    owners = (
        (lazyt.nn, lazyt.nn.Module), (lazyt.optim, lazyt.optim.Optimizer),
        (lazyt.distributions, lazyt.distributions.Distribution),
    )  # fmt: skip
    lacking = {
        name
        for owner, base in owners
        for name, value in vars(owner).items()
        if isinstance(value, type) and issubclass(value, base) and f"{name}(" not in text
    }
    assert lacking == {name for name in _WITHOUT if f"{name}(" not in text}
