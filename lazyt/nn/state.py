"""State dicts: the parameters and buffers of a module by name, and putting them back."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import lazyt
from lazyt.errors import LazytError
from lazyt.nn.parameter import Parameter, is_uninitialized
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.nn.module import Module


class IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What ``load_state_dict`` returns: names that were not given, and names of nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


def asks_for_dtype(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether the arguments of ``Module.to`` name a dtype, rather than just a device."""
    if kwargs.get("dtype") is not None:
        return True
    return any(isinstance(a, (lazyt.dtype, Tensor)) for a in args)


def _own_items(module: Module) -> list[tuple[str, Tensor]]:
    """The module's own parameters and persistent buffers."""
    buffers = {n: b for n, b in module._buffers.items() if n not in module._transient}
    items = itertools.chain(module._parameters.items(), buffers.items())
    return [(name, tensor) for name, tensor in items if tensor is not None]


def state_dict(
    self: Module,
    destination: dict[str, Any] | None = None,
    prefix: str = "",
    keep_vars: bool = False,
) -> dict[str, Any]:
    """All parameters and persistent buffers by dotted name, sharing memory with the module.

    Args:
        destination: a dict to fill instead of a new one.
        prefix: goes before every name.
        keep_vars: give the parameters themselves instead of detached tensors.
    """
    found: dict[str, Any] = OrderedDict() if destination is None else destination
    for name, tensor in _own_items(self):
        plain = keep_vars or is_uninitialized(tensor)
        found[prefix + name] = tensor if plain else tensor.detach()
    for name, child in self._modules.items():
        if child is not None:
            child.state_dict(destination=found, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    return found


class _Report:
    """What went wrong while loading."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.errors: list[str] = []


def load_state_dict(
    self: Module, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
) -> IncompatibleKeys:
    """Take parameters and buffers from a ``state_dict``.

    Args:
        strict: whether the names have to be exactly the module's.
        assign: take over the tensors themselves instead of copying their values.

    Returns: names that are missing and names that are unexpected.

    Raises LazytError (a RuntimeError) for wrong names under ``strict`` and for wrong shapes, after
    loading all that fits; TypeError for what is no mapping.
    """
    if not isinstance(state_dict, Mapping):
        raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
    report = _Report()
    known: set[str] = set()
    for path, module in self.named_modules(remove_duplicate=False):
        prefix = f"{path}." if path else ""
        known.update(prefix + name for name, _ in _own_items(module))
        module._load_own(state_dict, prefix, assign, report)
    unexpected = [name for name in state_dict if name not in known]
    errors = list(report.errors)
    if strict:
        if unexpected:
            errors.insert(0, f"Unexpected key(s) in state_dict: {_quoted(unexpected)}. ")
        if report.missing:
            errors.insert(0, f"Missing key(s) in state_dict: {_quoted(report.missing)}. ")
    if errors:
        raise LazytError(
            f"Error(s) in loading state_dict for {type(self).__name__}:\n\t" + "\n\t".join(errors)
        )
    return IncompatibleKeys(report.missing, unexpected)


def _quoted(names: list[str]) -> str:
    return ", ".join(f'"{name}"' for name in names)


def load_own(
    self: Module, given: Mapping[str, Any], prefix: str, assign: bool, report: _Report
) -> None:
    """Load what belongs to this very module; problems go to ``report``."""
    for name, own in _own_items(self):
        key = prefix + name
        if key not in given:
            report.missing.append(key)
            continue
        value = given[key]
        if is_uninitialized(value) and is_uninitialized(own):
            continue
        if isinstance(value, Tensor) and is_uninitialized(own):
            own.materialize(value.shape)
        if not isinstance(value, Tensor):
            report.errors.append(
                f'While copying the parameter named "{key}", expected lazyt.Tensor or Tensor-like '
                f"object from checkpoint but received {type(value)}"
            )
        elif value.shape != own.shape:
            report.errors.append(
                f"size mismatch for {key}: copying a param with shape {value.shape} from "
                f"checkpoint, the shape in current model is {own.shape}."
            )
        elif assign:
            _take(self, name, own, value)
        else:
            with lazyt.no_grad():
                own.copy_(value)


def _take(module: Module, name: str, own: Tensor, value: Tensor) -> None:
    if isinstance(own, Parameter):
        taken = value if isinstance(value, Parameter) else Parameter(value, own.requires_grad)
        module._parameters[name] = taken
    else:
        module._buffers[name] = value
