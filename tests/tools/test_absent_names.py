"""Names that lazyt does not have: the errors name a reason or a similar name; `lazyt.jit` has
what programs use of PyTorch's `torch.jit`."""

from __future__ import annotations

import importlib
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import lazyt
from lazyt import nn
from lazyt.compat import legacy, torch_alias
from lazyt.compat.absent import AbsentName

X = lazyt.ones(2)


@pytest.mark.parametrize(
    ("owner", "name", "said"),
    [
        (lazyt, "segment_reduce", "sparse tensors have coordinates"),
        (lazyt, "quantize_per_tensor", "no quantised tensors"),
        (lazyt.distributed, "Reducer", "parts of the batch"),
        (lazyt, "mtia", "has the CPU and CUDA GPUs"),
        (lazyt, "sotfmax", "Did you mean: 'softmax'?"),
        (lazyt, "Relu", "Did you mean: 'relu'?"),
        (lazyt, "Linear", "Did you mean: 'lazyt.nn.Linear'?"),
        (nn, "Lineer", "module 'lazyt.nn' has no attribute 'Lineer'. Did you mean: 'Linear'?"),
        (nn.functional, "sofmax", "Did you mean: 'softmax'?"),
        (lazyt.optim, "Adm", "Did you mean: 'Adam'?"),
        (lazyt.optim.lr_scheduler, "StepLr", "Did you mean: 'StepLR'?"),
        (lazyt.utils.data, "DataLoder", "Did you mean: 'DataLoader'?"),
        (lazyt.linalg, "nrom", "Did you mean: 'norm'?"),
        (lazyt.cuda, "is_availble", "Did you mean: 'is_available'?"),
        (lazyt.autograd, "gard", "Did you mean: 'grad'?"),
        (X, "chalf", "parts of float32 or float64"),
        (X, "values_copy", "sparse tensors have coordinates"),
        (X, "sigmiod", "'Tensor' object has no attribute 'sigmiod'. Did you mean: 'sigmoid'?"),
        (X, "qqqq", "'Tensor' object has no attribute 'qqqq'"),
    ],
)
def test_the_error_says_why_or_what_was_meant(owner: Any, name: str, said: str) -> None:
    assert not hasattr(owner, name)
    with pytest.raises(AttributeError) as caught:
        getattr(owner, name)
    assert said in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_the_error_names_modules_as_the_program_wrote_them() -> None:
    torch_alias.install()
    try:
        for owner, name in ((nn, "torch.nn"), (lazyt, "torch"), (lazyt.cuda, "torch.cuda")):
            with pytest.raises(AttributeError, match=f"module '{name}' has no attribute"):
                owner.Lineear  # noqa: B018
        with pytest.raises(AttributeError, match=r"Did you mean: 'torch\.nn\.Linear'"):
            lazyt.Linear  # noqa: B018
        with pytest.raises(TypeError, match=r"torch\.nn\.Parameter or None expected"):
            nn.Linear(2, 2).weight = X  # type: ignore[assignment]
        with pytest.raises(TypeError, match=r"torch\.nn\.Parameter or None required"):
            nn.Module().register_parameter("weight", X)  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"must be torch\.dtype, not str"):
            lazyt.ones(2, dtype="float32")
    finally:
        torch_alias.uninstall()


def test_nothing_that_is_there_has_a_reason_for_its_absence() -> None:
    from lazyt.compat.absent import reason

    there = [n for n in dir(lazyt) if n not in legacy.__all__ and not n.startswith("_")]
    assert [n for n in there if reason(n)] == ["distributed"]


def test_the_reason_is_looked_for_when_it_is_shown() -> None:
    looked: list[int] = []

    def known() -> list[str]:
        looked.append(1)
        return ["relu"]

    error = AbsentName("'Tensor' object", "rleu", known)
    assert not looked
    assert "'relu'" in str(error)
    assert looked


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("torch.distributed.fsdp.no_such", "whole models"),
        ("torch.utils.cpp_extension.no_such", "loads no extensions"),
        ("torch.quantization.no_such", "no quantised tensors"),
    ],
)
def test_imports_of_absent_packages_say_why(module: str, said: str) -> None:
    torch_alias.install()
    try:
        with pytest.raises(ImportError, match=said):
            importlib.import_module(module)
    finally:
        torch_alias.uninstall()


def test_script_and_trace_capture_functions() -> None:
    jit: Any = lazyt.jit

    def double(x: lazyt.Tensor) -> lazyt.Tensor:
        return x * 2 if not jit.is_scripting() else x

    makers: list[Callable[[], Any]] = [lambda: jit.script(double), lambda: jit.trace(double, (X,))]
    for make in makers:
        scripted = make()
        assert scripted(X).tolist() == [2.0, 2.0]
        assert hasattr(scripted, "why")
        assert jit.script(scripted) is scripted
    assert jit.ignore(double) is double
    assert jit.ignore(drop=True)(double) is double
    assert jit.unused(double) is jit.export(double) is double
    assert jit.annotate(list[int], [1]) == [1]
    assert jit.isinstance([1], list[int])
    assert not jit.is_tracing()
    with pytest.raises(TypeError):
        jit.script(3)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("lazyt.nested", "nested tensors are there"),
        ("lazyt.onnx", "save weights with lazyt.save"),
    ],
)
def test_imports_of_absent_modules_say_why(name: str, said: str) -> None:
    with pytest.raises(ModuleNotFoundError, match=said) as caught:
        importlib.import_module(name)
    assert caught.value.name == name
    with pytest.raises(ModuleNotFoundError, match=r"No module named 'lazyt\.nowhere'$"):
        importlib.import_module("lazyt.nowhere")


def test_devices_have_to_exist() -> None:
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, meta device type"):
        lazyt.device("metal")
