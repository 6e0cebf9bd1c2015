"""Modules that are wrapped so that backward computes them again
(``torch.distributed.algorithms._checkpoint.checkpoint_wrapper``)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from lazyt.compat.served.choices import CheckpointImpl
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.utils.checkpoint import checkpoint

__all__ = [
    "ActivationWrapper", "CheckpointWrapper", "OffloadWrapper", "apply_activation_checkpointing",
    "checkpoint_wrapper", "offload_wrapper",
]  # fmt: skip

_PREFIX = "_checkpoint_wrapped_module."


class ActivationWrapper(Module):
    """A module around another, which has the other's attributes and names of parameters."""

    def __init__(self, module: Module) -> None:
        super().__init__()
        self._checkpoint_wrapped_module = module
        self.register_state_dict_post_hook(_shorten)
        self.register_load_state_dict_pre_hook(_lengthen)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives."""
        return self._checkpoint_wrapped_module(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_checkpoint_wrapped_module"), name)

    def __getitem__(self, key: int) -> Any:
        inner: Any = self._checkpoint_wrapped_module
        return inner[key]

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
        """The parameters by the names that they have without this wrapper."""
        for name, parameter in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), parameter


def _shorten(module: Module, state: Any, prefix: str, metadata: Any) -> None:
    for name in [n for n in state if n.startswith(prefix + _PREFIX)]:
        state[prefix + name[len(prefix) + len(_PREFIX) :]] = state.pop(name)


def _lengthen(module: Module, state: Any, prefix: str, *rest: Any) -> None:
    for name in [n for n in state if n.startswith(prefix) and _PREFIX not in n[len(prefix) :]]:
        state[prefix + _PREFIX + name[len(prefix) :]] = state.pop(name)


class CheckpointWrapper(ActivationWrapper):
    """A module that saves its arguments alone; backward computes it again.

    Args:
        mod: the module.
        checkpoint_impl: a ``CheckpointImpl``.
        checkpoint_fn: instead of ``utils.checkpoint.checkpoint``.
        checkpoint_fn_args, checkpoint_fn_kwargs: for it.
    """

    def __init__(
        self,
        mod: Module,
        checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
        checkpoint_fn: Callable[..., Any] | None = None,
        *checkpoint_fn_args: Any,
        **checkpoint_fn_kwargs: Any,
    ) -> None:
        super().__init__(mod)
        self.checkpoint_impl = checkpoint_impl
        if checkpoint_fn is None:
            again = checkpoint_impl is CheckpointImpl.REENTRANT
            self.checkpoint_fn: Callable[..., Any] = functools.partial(
                checkpoint, use_reentrant=again, **checkpoint_fn_kwargs
            )
        else:
            self.checkpoint_fn = functools.partial(
                checkpoint_fn, *checkpoint_fn_args, **checkpoint_fn_kwargs
            )

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module gives, with a gradient that computes it again."""
        inner = self._checkpoint_wrapped_module
        return self.checkpoint_fn(functools.partial(inner, **kwargs), *args)


class OffloadWrapper(ActivationWrapper):
    """A module whose saved values are in the host's memory, where they are anyway."""


def offload_wrapper(module: Module) -> Module:
    """``OffloadWrapper(module)``."""
    return OffloadWrapper(module)


def checkpoint_wrapper(
    module: Module,
    checkpoint_impl: CheckpointImpl = CheckpointImpl.NO_REENTRANT,
    checkpoint_fn: Callable[..., Any] | None = None,
    **checkpoint_fn_kwargs: Any,
) -> Module:
    """``CheckpointWrapper(module, ...)``.

    >>> import lazyt
    >>> from lazyt.sharding.checkpoint_wrapper import checkpoint_wrapper
    >>> layer = checkpoint_wrapper(lazyt.nn.Linear(2, 1))
    >>> list(layer.state_dict())
    ['weight', 'bias']
    """
    return CheckpointWrapper(module, checkpoint_impl, checkpoint_fn, **checkpoint_fn_kwargs)


def apply_activation_checkpointing(
    model: Module,
    checkpoint_wrapper_fn: Callable[[Module], Module] = checkpoint_wrapper,
    check_fn: Callable[[Module], bool] = lambda _: True,
    auto_wrap_policy: Callable[..., bool] | None = None,
) -> None:
    """Wraps all modules inside of a model that ``check_fn`` chooses, in place.

    Args:
        auto_wrap_policy: chooses instead, as ``auto_wrap_policy(module=, recurse=False,
            nonwrapped_numel=)``.
    """

    def chosen(module: Module) -> bool:
        if auto_wrap_policy is None:
            return check_fn(module)
        size = sum(p.numel() for p in module.parameters() if isinstance(p, Tensor))
        return auto_wrap_policy(module=module, recurse=False, nonwrapped_numel=size)

    def wrap(module: Module) -> None:
        for name, child in list(module.named_children()):
            wrap(child)
            if chosen(child):
                setattr(module, name, checkpoint_wrapper_fn(child))

    wrap(model)
