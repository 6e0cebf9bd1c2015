"""The target of the documentation, which prints NumPy: whole programs on it have lazyt's bits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt import compiler
from lazyt.config import config
from lazyt.errors import ArgumentError
from lazyt.plan import planning
from lazyt.runtime.cpu import compile

FILE = Path(__file__).resolve().parents[2] / "docs" / "research" / "numpy_target.py"
F = lt.nn.functional
pytestmark = pytest.mark.skipif(not compile.available(), reason="compares with C")


@pytest.fixture(scope="module", autouse=True)
def module() -> Iterator[ModuleType]:
    found = compiler.load(str(FILE))
    yield found
    from lazyt import extensions

    extensions._take_back(str(FILE))


def values(*shape: int) -> lt.Tensor:
    count = int(np.prod(shape))
    return (lt.linspace(-2, 3, count).reshape(shape) * 1.37).realize()


def written() -> lt.Tensor:
    y = values(6, 8).clone()
    y[1:3, 2:5] = 7
    y[:, ::2] += 1
    return y


def trained() -> lt.Tensor:
    x, model = values(6, 8), lt.nn.Linear(8, 3)
    for p in model.parameters():
        p.data = values(*p.shape)
    optimizer = lt.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(4):
        optimizer.zero_grad()
        (model(x) ** 2).mean().backward()
        optimizer.step()
    return model.weight.detach()


#: Programs whose results have the bits of the kernels in C.
EXACT: dict[str, Callable[[], lt.Tensor]] = {
    "layer_norm": lambda: F.layer_norm(values(6, 8), (8,)),
    "gather": lambda: values(6, 8)[lt.tensor([3, 0, 2, 2])],
    "index_add": lambda: lt.zeros(4, 8).index_add(0, lt.tensor([3, 0, 2, 2]), values(4, 8)),
    "cumsum": lambda: values(6, 8).cumsum(1).cumprod(0),
    "conv": lambda: F.conv2d(values(2, 3, 6, 6), values(4, 3, 3, 3), padding=1).relu(),
    "matmul": lambda: values(6, 8) @ values(8, 5),
    "batches": lambda: values(3, 4, 4) @ values(3, 4, 4),
    "float64": lambda: values(6, 8).double() @ values(8, 5).double(),
    "extremes": lambda: values(6, 8).argmin(1) + values(6, 8).argmax(1),
    "where": lambda: lt.where(values(6, 8) > 0, values(6, 8), 0.5),
    "half": lambda: (values(6, 8).half() * 2 + 1).sum(0),
    "integers": lambda: (values(6, 8) * 10).to(lt.int32).sum(1) % 7,
    "bits": lambda: values(6, 8).view(lt.int32) >> 3,
    "any": lambda: (values(6, 8) > 1).any(0),
    "long_sum": lambda: (lt.arange(5000.0) * 0.1).sum(),
    "moves": lambda: values(6, 8).roll(3, 1).flip(0).T.contiguous(),
    "writes": written,
    "pool": lambda: F.max_pool2d(values(2, 3, 6, 6), 2),
    "infinity": lambda: lt.full((3,), float("inf")) - lt.tensor([1.0, float("inf"), float("nan")]),
    "training": trained,
}


@pytest.mark.parametrize("name", EXACT)
def test_programs_have_the_bits_of_c(name: str) -> None:
    expected = EXACT[name]().numpy()
    started = compile.started
    with compiler.using(target="numpy"):
        found = EXACT[name]().numpy()
    assert found.dtype == expected.dtype and found.tobytes() == expected.tobytes()
    assert compile.started == started


def test_captured_functions_run_on_it() -> None:
    w = values(8, 5)
    function: Any = lt.jit(lambda x: (x @ w).relu().softmax(1))
    x = values(6, 8)
    expected = function(x).numpy()
    with compiler.using(target="numpy"):
        found = [function(x).numpy() for _ in range(4)]
    np.testing.assert_allclose(found[3], expected, rtol=1e-5)
    assert found[0].tobytes() == found[3].tobytes() and function(x).numpy().tobytes() == (
        expected.tobytes()
    )


def test_its_plans_are_on_disk_and_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "cache_dir", str(tmp_path))
    monkeypatch.setattr(config, "disk_cache", True)
    printed: list[str] = []
    target = sys.modules["numpy_target"].NumpyTarget

    def count(self: Any, kernel: Any) -> str:
        printed.append(kernel.name)
        text: str = usual(self, kernel)
        return text

    usual = target.print_kernel
    monkeypatch.setattr(target, "print_kernel", count)
    x = values(6, 8)
    for expected in (1, 1):
        with compiler.using(target="numpy"):
            assert (x * 3).tolist() == (x.numpy() * np.float32(3)).tolist()
        assert len(printed) == expected
        planning.clear()
    assert (x * 3).tolist() == (x.numpy() * np.float32(3)).tolist() and len(printed) == 1


def test_what_it_lacks_is_named() -> None:
    unsupported = sys.modules["numpy_target"].Unsupported
    short = values(6, 8).bfloat16().realize()
    with compiler.using(target="numpy"):
        with pytest.raises(unsupported, match="the routine sort_values"):
            values(6, 8).sort(1)[0].tolist()
        with pytest.raises(unsupported, match="bfloat16, which NumPy lacks"):
            (short * 2).float().tolist()
        assert (values(3) + 1).tolist()  # and nothing is broken


class Silent:
    """A target that prints nothing of use."""

    def print_kernel(self, kernel: Any) -> Any:
        return 3

    def load(self, program: Any) -> Any:
        return {}


class Forgetful(Silent):
    """A target that loads nothing."""

    def print_kernel(self, kernel: Any) -> Any:
        return f"{kernel.name}()"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (Silent(), "print_kernel has to return text with a function called lz_kernel, not 3"),
        (Forgetful(), "load has to return a function for each kernel by its name, such as lz_map_"),
    ],
)
def test_garbage_of_a_target_is_named(target: Any, message: str) -> None:
    x = values(3)
    with (
        compiler.register_target("broken", target),
        compiler.using(target="broken"),
        pytest.raises(ArgumentError, match=f"target broken: {message}"),
    ):
        (x + 19).tolist()


class Deaf(Silent):
    """A target whose method takes nothing."""

    def load(self) -> Any:  # type: ignore[override]
        return {}


@pytest.mark.parametrize(
    ("name", "target", "error", "message"),
    [
        ("numpy", Silent(), ArgumentError, "a target called 'numpy' already"),
        ("two words", Silent(), ArgumentError, "has to be a word"),
        ("mine", object(), TypeError, "object has no method print_kernel"),
        (
            "mine",
            type("Mine", (Silent,), {"load": lambda self: None})(),
            TypeError,
            "load of target",
        ),
    ],
)
def test_what_is_no_target_is_refused(name: str, target: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        compiler.register_target(name, target)


def test_the_file_is_as_long_as_the_page_says() -> None:
    lines = FILE.read_text(encoding="utf-8").split("if __name__")[0].splitlines()
    code = [line for line in lines if line.strip()]
    assert len(code) < 200
