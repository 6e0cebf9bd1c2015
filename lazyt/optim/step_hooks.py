"""Functions that users hang into an optimizer: around steps, and around taking its state along."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

from lazyt.autograd.handles import RemovableHandle
from lazyt.errors import LazytError
from lazyt.watching import each_call

#: Hooks by the number of their handle, in the order in which they are called.
Hooks = dict[int, Callable[..., Any]]

_before_all: Hooks = {}
_after_all: Hooks = {}


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` before every step of every optimizer."""
    return _register(_before_all, hook)


def register_optimizer_step_post_hook(hook: Callable[..., None]) -> RemovableHandle:
    """Call ``hook(optimizer, args, kwargs)`` after every step of every optimizer."""
    return _register(_after_all, hook)


def _register(hooks: Hooks, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
    handle = RemovableHandle(hooks, hook)
    if prepend:
        for key in [key for key in hooks if key != handle.id]:  # those before go behind
            hooks[key] = hooks.pop(key)
    return handle


def with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` method that calls the hooks around it; a step inside of a step calls none."""

    @functools.wraps(step)
    def stepping(self: Hooked, *args: Any, **kwargs: Any) -> Any:
        if self._stepping:
            return step(self, *args, **kwargs)
        if "_optimizer_step_pre_hooks" not in self.__dict__:
            # A class around another optimizer, which does not call our __init__.
            each_call(self._count_step)
            return step(self, *args, **kwargs)
        self._stepping = True
        try:
            before = (*_before_all.values(), *self._optimizer_step_pre_hooks.values())
            args = (self, *args)  # as PyTorch hands them out
            for hook in before:
                changed = hook(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise LazytError(
                        f"{step} must return None or a tuple of (new_args, new_kwargs), but got "
                        f"{changed}."
                    )
                args, kwargs = changed
            each_call(self._count_step)
            result = step(*args, **kwargs)
            self._optimizer_step_code()
            for hook in (*self._optimizer_step_post_hooks.values(), *_after_all.values()):
                hook(self, args, kwargs)
        finally:
            self._stepping = False
        return result

    stepping.hooked = True  # type: ignore[attr-defined]
    return stepping


class Hooked:
    """What has hooks around ``step``, ``state_dict`` and ``load_state_dict``; see PyTorch's
    Optimizer."""

    _stepping = False
    _step_count = 0
    #: The count of steps when the first schedule came.
    _scheduled_from: int | None = None

    #: Makes a ``step`` one with hooks around it.
    profile_hook_step = staticmethod(with_hooks)

    def __init__(self) -> None:
        self._optimizer_step_pre_hooks: Hooks = {}
        self._optimizer_step_post_hooks: Hooks = {}
        self._optimizer_state_dict_pre_hooks: Hooks = {}
        self._optimizer_state_dict_post_hooks: Hooks = {}
        self._optimizer_load_state_dict_pre_hooks: Hooks = {}
        self._optimizer_load_state_dict_post_hooks: Hooks = {}
        self._stepping = False
        self._step_count = 0
        self._scheduled_from = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls):
            cls.step = cls.profile_hook_step(vars(cls)["step"])  # type: ignore[attr-defined]

    def _patch_step_function(self) -> None:
        """See to it that the ``step`` of this class, which may have been replaced, has hooks."""
        kind: Any = type(self)
        if not getattr(kind.step, "hooked", False):
            kind.step = self.profile_hook_step(kind.step)

    def _optimizer_step_code(self) -> None:
        """Called at the end of every step, for profilers and subclasses."""

    def _count_step(self) -> None:
        self._step_count += 1

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before every step; it may return other arguments.

        Returns: a handle that removes the hook.
        """
        return _register(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., None]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after every step."""
        return _register(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(
        self, hook: Callable[..., None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` before ``state_dict``; first of all hooks with ``prepend``."""
        return _register(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` after ``state_dict``; what it returns, unless it is
        None, is handed out instead."""
        return _register(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer, state_dict)`` before loading; what it returns, unless it is None,
        is loaded instead."""
        return _register(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., None], prepend: bool = False
    ) -> RemovableHandle:
        """Call ``hook(optimizer)`` after loading."""
        return _register(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    def _hooks_to_watch(self) -> Iterator[tuple[Hooks, str]]:
        """The hooks of steps, for captured functions."""
        yield _before_all, "the hooks of all optimizers"
        yield _after_all, "the hooks of all optimizers"
        yield self._optimizer_step_pre_hooks, "_optimizer_step_pre_hooks"
        yield self._optimizer_step_post_hooks, "_optimizer_step_post_hooks"
