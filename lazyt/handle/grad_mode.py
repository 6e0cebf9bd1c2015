"""Whether results remember how to differentiate: a flag of each thread, and its switches.

The classes work as context managers and as decorators, as PyTorch's do.
"""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Generator
from typing import Any, TypeVar, cast

from lazyt.errors import warn
from lazyt.runtime.cpython import forks

F = TypeVar("F", bound=Callable[..., Any])


class _Mode(threading.local):
    """The flags of one thread. Every thread starts with gradients on."""

    enabled = True
    inference = False


mode = _Mode()

#: The version of a storage that was made in inference mode, which counts none: far below zero.
INFERENCE = -(1 << 60)


class _Blocks:
    """How many inference blocks are open in all threads: only then do new storages ask which."""

    __slots__ = ("lock", "open")

    def __init__(self) -> None:
        self.open = 0
        self.lock = forks.guarded(threading.Lock())


blocks = _Blocks()


def first_version() -> int:
    """The version that a new storage of this thread begins with."""
    return INFERENCE if mode.inference else 0


def is_grad_enabled() -> bool:
    """Whether this thread records gradients now."""
    return mode.enabled


def is_inference_mode_enabled() -> bool:
    """Whether this thread is inside ``inference_mode``."""
    return mode.inference


class DecoratorContext:
    """A ``with`` block that is a decorator, too: of functions, and of each step of generators."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *_: object) -> Any:
        raise NotImplementedError

    def clone(self) -> DecoratorContext:
        """A fresh one, made without arguments unless a derived class says otherwise."""
        return type(self)()

    def __call__(self, function: F) -> F:
        if isinstance(function, type):
            warn(
                "Decorating classes is deprecated and will be disabled in future versions. You "
                "should only decorate functions or methods. To preserve the current behavior of "
                "class decoration, you can directly decorate the `__init__` method and nothing "
                "else.",
                FutureWarning,
            )
        if inspect.isgeneratorfunction(function):
            return cast(F, _each_step(function, self.clone))

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():  # a fresh one, because calls may nest and cross threads
                return function(*args, **kwargs)

        return cast(F, inside)


class NoParameterDecoratorContext(DecoratorContext):
    """The same where the class itself may be the decorator, without parentheses."""

    def __new__(cls, orig_func: Any = None) -> Any:
        """An object of the class, or the decorated function."""
        made = super().__new__(cls)
        return made if orig_func is None else cls()(orig_func)


class _Switch(DecoratorContext):
    """Sets the flags for the length of a ``with`` block, or of each call of what it decorates."""

    def __init__(self, enabled: bool, inference: bool | None = None) -> None:
        self._enabled = enabled
        self._inference = inference
        self._outer: list[tuple[bool, bool]] = []

    def clone(self) -> _Switch:
        """One with the same flags."""
        return _Switch(self._enabled, self._inference)

    def __enter__(self) -> None:
        self._outer.append((mode.enabled, mode.inference))
        mode.enabled = self._enabled
        if self._inference is not None:
            mode.inference = self._inference

    def __exit__(self, *_: object) -> None:
        mode.enabled, mode.inference = self._outer.pop()


def _each_step(
    function: Callable[..., Any], switch: Callable[[], DecoratorContext]
) -> Callable[..., Any]:
    """The generator ``function`` with a switch that is on while it runs, not while it waits."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        steps = function(*args, **kwargs)
        try:
            with switch():
                response = steps.send(None)
            while True:
                try:
                    request = yield response
                except GeneratorExit:
                    with switch():
                        steps.close()
                    raise
                except BaseException as error:
                    with switch():
                        response = steps.throw(error)
                else:
                    with switch():
                        response = steps.send(request)
        except StopIteration as end:
            return end.value

    return inside


class no_grad(_Switch):
    """Results made inside do not require gradients."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is not None:  # used as @no_grad without parentheses
            return no_grad()(function)
        return super().__new__(cls)

    def __init__(self) -> None:
        super().__init__(False)


class enable_grad(_Switch):
    """Results made inside require gradients again, inside of ``no_grad``."""

    def __new__(cls, function: Callable[..., Any] | None = None) -> Any:
        if function is not None:
            return enable_grad()(function)
        return super().__new__(cls)

    def __init__(self) -> None:
        super().__init__(True)


class inference_mode(_Switch):
    """As ``no_grad``, and what is made inside stays closed to autograd: an inference tensor.

    Such a tensor counts no versions, cannot be kept for a gradient and is not changed in place
    outside, which raises GradientError. ``inference_mode(False)`` leaves gradients on.
    """

    def __new__(cls, mode: bool | Callable[..., Any] = True) -> Any:
        if not isinstance(mode, bool):
            return inference_mode()(mode)
        return super().__new__(cls)

    def __init__(self, mode: bool = True) -> None:
        super().__init__(not mode, mode)

    def clone(self) -> _Switch:
        """One with the same flags."""
        return cast(_Switch, inference_mode(bool(self._inference)))

    def __enter__(self) -> None:
        with blocks.lock:
            blocks.open += 1
        super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        with blocks.lock:
            blocks.open -= 1


_current = mode


class set_grad_enabled(_Switch):
    """Takes effect at once; as a context manager it is undone at the end of the block."""

    def __init__(self, mode: bool) -> None:
        if not isinstance(mode, bool):
            raise TypeError(
                "set_grad_enabled(): argument 'enabled' (position 1) must be bool, not "
                f"{type(mode).__name__}"
            )
        super().__init__(mode)
        self._before = (_current.enabled, _current.inference)
        _current.enabled = bool(mode)

    def __enter__(self) -> None:
        self._outer.append(self._before)
        mode.enabled = self._enabled

    def __call__(self, function: F) -> F:
        mode.enabled = self._before[0]  # as a decorator it acts during calls only
        return super().__call__(function)
