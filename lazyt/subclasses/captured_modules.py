"""Modules whose calls are captured: what ``lazyt.jit`` and ``torch.compile`` make of a module."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from lazyt.nn.module import Module
from lazyt.tracing.jit import Captured

__all__ = ["CapturedModule"]


class CapturedModule(Module):
    """A module whose calls are captured and replayed.

    It has one submodule, ``_orig_mod``, that it was made from, so that names of parameters and
    keys of ``state_dict()`` begin with that. Other attributes are those of the module.

    Args:
        module: the module.
        captured: what its calls run.
    """

    _unwatched = frozenset({"_captured", "_modules"})

    def __init__(self, module: Module, captured: Captured) -> None:
        vars(self).update(_orig_mod=module, _captured=captured)
        super().__init__()
        self._modules["_orig_mod"] = module
        del vars(self)["training"]  # it is the module's

    def _watched_state(self) -> Iterator[tuple[Any, Any, str]]:
        yield vars(self), "_orig_mod", "_orig_mod"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        own = vars(self)
        if own["_hooks"] is None:
            return own["_captured"](*args, **kwargs)
        return super().__call__(*args, **kwargs)  # with the hooks of this module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result."""
        return vars(self)["_captured"](*args, **kwargs)

    def why(self) -> list[str]:
        """What happened so far and why: captures, and reasons why calls ran as always."""
        return list(vars(self)["_captured"].why())

    def explain(self) -> Any:
        """The kernels of the plan that the last capture replays; see ``lazyt.explain``."""
        return vars(self)["_captured"].explain()

    def train(self, mode: bool = True) -> Any:
        """Set the mode of the module; returns this one."""
        vars(self)["_orig_mod"].train(mode)
        return self

    @property
    def training(self) -> bool:
        """The mode of the module."""
        found: bool = vars(self)["_orig_mod"].training
        return found

    @training.setter
    def training(self, mode: bool) -> None:
        vars(self)["_orig_mod"].training = mode

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # of copies and pickles, which begin without attributes
            raise AttributeError(name)
        return getattr(vars(self)["_orig_mod"], name)

    def __deepcopy__(self, memo: dict[int, Any]) -> CapturedModule:
        """A copy of the module, which is captured anew."""
        own = vars(self)
        module = copy.deepcopy(own["_orig_mod"], memo)
        return CapturedModule(module, own["_captured"].of(module))

    def __reduce__(self) -> Any:
        own = vars(self)
        return CapturedModule._renewed, (own["_orig_mod"], own["_captured"].fullgraph)

    @staticmethod
    def _renewed(module: Any, fullgraph: bool) -> CapturedModule:
        return CapturedModule(module, Captured(module, fullgraph))

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self) or name == "training" or name in _OWN:
            object.__setattr__(self, name, value)
        else:
            setattr(vars(self)["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(vars(self)["_orig_mod"], name)


#: Attributes that every module has.
_OWN = frozenset(vars(Module()))
