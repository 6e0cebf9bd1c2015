"""Subclasses that override what PyTorch lets them, and patches of ``nn.functional``, are used."""

from __future__ import annotations

import importlib
import inspect
import json
import typing
from collections.abc import Iterator
from typing import Any

import pytest

import lazyt
from lazyt.config import config
from tests.overrides import class_uses as uses
from tests.overrides.record_overrides import FILE
from tests.overrides.watching import watch_functions, watch_methods

RECORDED: dict[str, Any] = json.loads(FILE.read_text())
GROUPS = {
    "layers": uses.module_uses,
    "tree": uses.tree_uses,
    "optimizers": uses.optimizer_uses,
    "schedules": uses.schedule_uses,
    "data": uses.data_uses,
    "distributions": uses.distribution_uses,
}
#: What is not called here, and why.
EXCUSED = {
    "_update_flat_weights": "the weights of an RNN are looked up at every call",
    "_weights_have_changed": "the weights of an RNN are looked up at every call",
    "profile_hook_step": "steps get their hooks when the class is made, not with the first object",
    "_accelerator_graph_capture_health_check": "there are no CUDA graphs to check for",
    "_mean_carrier_measure (by ExponentialFamily.entropy)": "Poisson has no entropy in PyTorch",
    "event_dim (by AffineTransform.with_cache)": "transforms are copied whole",
}
#: Classes that lazyt does not have (docs/reference/coverage.md).
ABSENT = {
    "distributions.GeneralizedPareto",
}  # fmt: skip
#: Functions that ``nn.functional`` itself calls in PyTorch, where one graph computes it all here.
_ONE_STEP = {
    "lp_pool1d", "lp_pool2d", "lp_pool3d", "local_response_norm", "multilabel_soft_margin_loss",
    "linear_cross_entropy", "_adaptive_max_pool1d", "_adaptive_max_pool2d", "_adaptive_max_pool3d",
    "_fractional_max_pool2d", "_fractional_max_pool3d",
}  # fmt: skip
#: Classes that only PyTorch's own code has a use for, by module.
_INTERNAL = {
    "nn.modules._functions", "nn.modules.linear_cross_entropy", "nn.modules.lazy._LazyProtocol",
    "nn.modules.linear_cross_entropy_options._AutoDefault", "nn.modules.module._WrappedHook",
    "nn.modules.adaptive._ASMoutput",
}  # fmt: skip
#: Deprecated long since, and without a use.
_INTERNAL |= {"nn.modules.container.Container"}


@pytest.fixture(autouse=True)
def interpreted() -> Iterator[None]:
    """What is called does not depend on how graphs are computed."""
    with config.override(interpret=True):
        yield


def cases(group: str, source: str) -> list[Any]:
    """One case a use, with what was recorded for it."""
    recorded, made = RECORDED[source], list(GROUPS[group](lazyt))
    assert [entry["path"] for entry in recorded] == [use.path for use in made]
    return [
        pytest.param(use, entry, id=f"{place}-{use.path}")
        for place, (use, entry) in enumerate(zip(made, recorded, strict=True))
        if use.path not in ABSENT
    ]


def missing(wanted: dict[str, dict[str, str]], seen: dict[str, dict[str, str]]) -> list[str]:
    """What PyTorch calls and lazyt does not."""
    return [
        f"{phase}: {name} (by {caller})"
        for phase, names in wanted.items()
        for name, caller in names.items()
        if name not in seen.get(phase, {})
        and not {name, f"{name} (by {caller})"} & EXCUSED.keys()
        and caller not in _ONE_STEP
    ]


@pytest.mark.parametrize(
    ("use", "entry"), [case for group in GROUPS for case in cases(group, group)]
)
def test_overridden_methods_are_called(use: uses.Use, entry: Any) -> None:
    names = sorted({name for phase in entry["seen"].values() for name in phase})
    watch = watch_methods(lazyt, use, names, (object,))
    assert missing(entry["seen"], watch.seen) == []
    assert watch.failed == entry["failed"]


@pytest.mark.parametrize(("use", "entry"), cases("layers", "functions"))
def test_patched_functions_are_called(use: uses.Use, entry: Any) -> None:
    names = sorted({name for phase in entry["seen"].values() for name in phase})
    watch = watch_functions(lazyt, use, names)
    assert missing(entry["seen"], watch.seen) == []


def modules_with_classes() -> list[str]:
    """PyTorch's modules that lazyt has by the same name."""
    return [n for n in RECORDED["bases"] if n.startswith("nn.") and n not in _INTERNAL]


@pytest.mark.parametrize("home", modules_with_classes())
def test_classes_have_their_bases_and_signatures(home: str) -> None:
    module = importlib.import_module(f"lazyt.{home}")
    for name, recorded in RECORDED["bases"][home].items():
        if f"{home}.{name}" in _INTERNAL:
            continue
        cls = getattr(module, name)
        have = [base.__name__ for base in cls.__mro__]
        assert [base for base in recorded["bases"] if base not in have] == [], name
        if recorded["signature"] != ["args", "kwargs"]:
            assert list(inspect.signature(cls).parameters) == recorded["signature"], name


@pytest.mark.parametrize(
    "base",
    ["nn.Module", "nn.Linear", "nn.Sequential", "Tensor", "nn.Parameter", "optim.Optimizer",
     "optim.lr_scheduler.LRScheduler", "utils.data.Dataset", "utils.data.DataLoader",
     "utils.data.Sampler", "distributions.Distribution", "autograd.Function", "device"],
)  # fmt: skip
def test_annotations_of_subclasses_are_found(base: str) -> None:
    cls = uses.find(lazyt, base)
    if base != "device":
        cls = type("Own", (cls,), {"__annotations__": {"layer": "int"}, "__module__": __name__})
        assert typing.get_type_hints(cls)["layer"] is int
    typing.get_type_hints(cls)
