"""What all optimizers share: groups of parameters, their state, and taking it elsewhere.

A step only adds its updates to the graph, where they fuse with the gradients. The next
``zero_grad`` (or the next step, where that comes first) computes what is still pending: a loop that
looks at nothing then runs one plan per step, the same every time, instead of piling up steps, and
gradients that are forgotten are not stored. Numbers that change from step to step, such as the
learning rate, enter as leaves, so that they do not change the plan.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.creation.creation import in_memory
from lazyt.functional.updates import (
    advance_counts,
    become_count,
    count_of,
    is_count,
    new_count,
    python_number,
)
from lazyt.handle.hooks import capturing, counted, each_call
from lazyt.handle.pytree import Identity
from lazyt.handle.tape import RemovableHandle
from lazyt.handle.tensor import Tensor
from lazyt.tracing.guards import ELEMENTS, KEYS, SIZE, Itself

if TYPE_CHECKING:
    from lazyt.tracing.jit import Captured

__all__ = [
    "Group", "Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook",
]  # fmt: skip


# Checks of the settings that optimizers share, in PyTorch's words.


#: What ``defaults`` holds for a setting that every group has to give.
required = object()


class SettingError(LazytError, ValueError):
    """A setting of an optimizer outside of what is allowed."""


def check_setting(allowed: Any, title: str, value: Any) -> None:
    """Raise SettingError (a ValueError) in PyTorch's words unless ``allowed``."""
    if not allowed:
        raise SettingError(f"Invalid {title}: {value}")


def check_rate(lr: Any, **how: Any) -> None:
    """Raise SettingError (a ValueError) for a learning rate below 0 or a tensor of several.

    Args:
        how: settings beside it; ``foreach`` does not take a tensor without ``capturable``.
    """
    if isinstance(lr, Tensor):
        if how.get("foreach") and not how.get("capturable", False):
            raise SettingError(
                "lr as a Tensor is not supported for capturable=False and foreach=True"
            )
        if lr.numel() != 1:
            raise SettingError("Tensor lr must be 1-element")
    check_setting(lr >= 0, "learning rate", lr)


def check_betas(betas: Any) -> None:
    """Raise SettingError (a ValueError) for shares that are not in [0, 1)."""
    for index, beta in enumerate(betas):
        check_setting(0 <= beta < 1, f"beta parameter at index {index}", beta)


def check_moments(
    lr: Any, betas: tuple[Any, Any], eps: float, weight_decay: float, **how: Any
) -> None:
    """Raise SettingError (a ValueError) for what is out of range in the settings of Adam and those
    derived from it; ``how`` as for ``check_rate``."""
    check_rate(lr, **how)
    check_setting(eps >= 0, "epsilon value", eps)
    check_betas(betas)
    check_setting(weight_decay >= 0, "weight_decay value", weight_decay)


def check_fused(fused: bool | None, foreach: bool | None, differentiable: bool) -> None:
    """Raise LazytError (a RuntimeError) where ``fused`` is not alone."""
    if fused and differentiable:
        raise LazytError("`fused` does not support `differentiable`")
    if fused and foreach:
        raise LazytError("`fused` and `foreach` cannot be `True` together.")


# An optimizer's state on its way into a file and back, in the form that PyTorch gives it.


class StateError(LazytError, ValueError):
    """A state dict that belongs to another optimizer."""


def pack(state: Mapping[Any, dict[str, Any]], groups: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """``{"state": ..., "param_groups": ...}`` with parameters by number.

    Args:
        state: by parameter. What belongs to no parameter stays as it is.
    """
    numbers: dict[Tensor, int] = {}
    packed_groups = []
    for group in groups:
        for parameter in group["params"]:
            numbers.setdefault(parameter, len(numbers))
        packed = {name: value for name, value in group.items() if name != "params"}
        packed["params"] = [numbers[p] for p in group["params"]]
        packed_groups.append(packed)
    packed_state: dict[Any, Any] = {}
    for owner, values in state.items():
        if isinstance(owner, Tensor):
            if owner not in numbers:
                continue
            packed_state[numbers[owner]] = values
        else:
            packed_state[owner] = values
    return {"state": packed_state, "param_groups": packed_groups}


def unpack(
    saved: dict[str, Any], groups: Sequence[dict[str, Any]], fit: Callable[..., Tensor]
) -> dict[Any, dict[str, Any]]:  # fmt: skip
    """State by parameter; settings go into ``groups``. Nothing is shared with ``saved``.

    Args:
        fit: gives a parameter, a tensor of its state, its number, the loaded groups and ``key=``
            the name of the state, the tensor as it is to be.

    Raises StateError (a ValueError) for groups of other sizes; nothing is changed then.
    """
    given = copy.deepcopy(saved["param_groups"])
    if len(groups) != len(given):
        raise StateError("loaded state dict has a different number of parameter groups")
    owners: dict[Any, Tensor] = {}
    for own, other in zip(groups, given, strict=True):
        if len(own["params"]) != len(other["params"]):
            raise StateError(
                "loaded state dict contains a parameter group that doesn't match the size of "
                "optimizer's group"
            )
        owners.update(zip(other["params"], own["params"], strict=True))
    state: dict[Any, dict[str, Any]] = {}
    for number, values in copy.deepcopy(saved["state"]).items():
        owner = owners.get(number)
        if owner is None:
            state[number] = values
        else:
            state[owner] = {n: _fitted(v, owner, number, given, fit, n) for n, v in values.items()}
    for own, other in zip(groups, given, strict=True):
        own.update({name: value for name, value in other.items() if name != "params"})
    return state


def _fitted(
    value: Any, owner: Tensor, number: int, groups: list[dict[str, Any]],
    fit: Callable[..., Tensor], key: Any,
) -> Any:  # fmt: skip
    """Loaded state of a parameter, with tensors as ``fit`` gives them."""

    def inner(item: Any, name: Any) -> Any:
        return _fitted(item, owner, number, groups, fit, name)

    if isinstance(value, Tensor):
        return fit(owner, value, number, groups, key=key)
    if isinstance(value, dict):
        return {name: inner(item, name) for name, item in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return type(value)(inner(item, key) for item in value)  # type: ignore[call-arg]
    return value


# Functions that users hang into an optimizer: around steps, and around taking its state along.


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


T = TypeVar("T")
Group = dict[str, Any]
#: What an optimizer is made of, for annotations.
ParamsT = Iterable[Tensor] | Iterable[dict[str, Any]] | Iterable[tuple[str, Tensor]]


def _use_grad_for_differentiable(func: Callable[..., Any]) -> Callable[..., Any]:
    """A ``step`` of one's own that records for gradients where ``differentiable`` is set."""

    @functools.wraps(func)
    def stepping(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        with lazyt.set_grad_enabled(bool(self.defaults["differentiable"])):
            return func(self, *args, **kwargs)

    return stepping


def _get_value(x: Any) -> Any:
    """A tensor of one element as a number."""
    return x.item() if isinstance(x, Tensor) else x


class CapturedSteps:
    """The captured steps of optimizers. They refer to what an optimizer has, not to itself.

    Attributes:
        known: by optimizer. Which there are matters to no captured function.
    """

    _unwatched = frozenset({"known"})

    def __init__(self) -> None:
        self.known: WeakKeyDictionary[Optimizer, Captured] = WeakKeyDictionary()

    def of(self, optimizer: Optimizer) -> Captured:
        """The captured step of an optimizer."""
        found = self.known.get(optimizer)
        if found is None:
            from lazyt.tracing.jit import Captured

            found = self.known[optimizer] = Captured(_step_groups, is_silent=True)
        return found


captured_steps = CapturedSteps()


def _step_groups(optimizer: Optimizer) -> None:
    optimizer._step_groups()


class Optimizer(Hooked):
    """Base of all optimizers.

    Args:
        params: tensors, pairs of name and tensor, or dicts with ``"params"`` and settings of
            their own.
        defaults: the settings of groups that do not give theirs.

    Initial values of parameters that are still pending are computed here, together, so that
    every training step is the same graph.

    Raises TypeError for what is no leaf tensor and SettingError (a ValueError) for no parameters,
    or one in two groups.
    """

    #: State that captured functions do not compare: see ``_watched_state``.
    _unwatched = frozenset({"_complex_of", "_numbers", "_step_count", "param_groups", "state"})
    #: Whether the formula holds for complex numbers as it is written. Other formulas see pairs of
    #: real numbers.
    _takes_complex = False
    #: Complex parameters by the pairs of real numbers that a formula sees instead, during a step.
    _complex_of: Mapping[Tensor, Tensor] = MappingProxyType({})
    #: Settings of groups that schedules of momentum change: numbers, not constants, then.
    _cycled: frozenset[str] = frozenset()
    #: State that Python counts with: tensors of one number, which change at every step.
    _scalars = frozenset({"step"})
    #: Whether each step adds 1 to ``"step"``, before the update.
    _counting = False
    #: How many lists of state PyTorch's ``_init_group`` fills.
    _state_lists = 0
    #: Gradients that ``_init_group`` gives instead of the parameters' own.
    _given_grads: dict[Tensor, Tensor] | None = None

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        super().__init__()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {params.type()}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._numbers: dict[tuple[float, Any], Tensor] = {}
        groups = list(params)
        if not groups:
            raise SettingError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._compute_pending()
        self._patch_step_function()

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters, with settings of their own.

        Args:
            param_group: ``"params"`` and settings; becomes the group, filled up with defaults.

        Raises as the constructor.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        given = param_group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        given = [given] if isinstance(given, Tensor) else list(given)
        names = [item[0] for item in given if isinstance(item, tuple)]
        given = [item[1] if isinstance(item, tuple) else item for item in given]
        param_group["params"] = given
        if names:
            if len(names) != len(given):
                raise SettingError(
                    "all optimizer params should be with/without names. Some param names are "
                    "missing"
                )
            param_group["param_names"] = names
        self._check_parameters(given)
        for name, value in self.defaults.items():
            if value is required and name not in param_group:
                raise SettingError(
                    "parameter group didn't specify a value of required optimization parameter "
                    f"{name}"
                )
            param_group.setdefault(name, value)
        self._check_group(param_group)
        self.param_groups.append(param_group)

    def _check_parameters(self, given: list[Any]) -> None:
        for parameter in given:
            if not isinstance(parameter, Tensor):
                kind = type(parameter)
                module = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
                raise TypeError(
                    "optimizer can only optimize Tensors, but one of the params is "
                    f"{module}{kind.__qualname__}"
                )
            computed = not (parameter.is_leaf or parameter.retains_grad)
            if computed and not self.defaults.get("differentiable"):
                raise SettingError("can't optimize a non-leaf Tensor")

    def _check_group(self, group: Group) -> None:
        """Raise SettingError for a group that does not go with those before."""
        given = group["params"]
        if len(set(given)) != len(given):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this "
                "will cause an error; see github.com/pytorch/pytorch/issues/40967 for more "
                "information"
            )
        named = "param_names" in group
        if any(named != ("param_names" in other) for other in self.param_groups):
            raise SettingError(
                "all optimizer param groups should be with/without names. cannot add param group "
                f"{'with names' if named else 'without names'} to the optimizer"
            )
        if {p for other in self.param_groups for p in other["params"]} & set(given):
            raise SettingError("some parameters appear in more than one parameter group")

    # ------------------------------------------------------------------ stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss anew and its gradients; called first.

        Returns: the closure's loss, None without one.

        Raises NotImplementedError where no class defines a step.
        """
        if type(self) is Optimizer:
            raise NotImplementedError("Optimizer is the base of all optimizers: it has no step")
        loss = None
        if closure is not None:
            with lazyt.enable_grad():
                loss = closure()
        if self.defaults.get("differentiable"):
            self._compute_pending()
            with lazyt.set_grad_enabled(True):
                self._renew_state()
                for group in self.param_groups:
                    self._step_group(group)
        elif capturing() is None and self._has_computed_gradients():
            captured_steps.of(self)(self)
        else:
            self._step_groups()
        return loss

    def _has_computed_gradients(self) -> bool:
        """Whether gradients are in memory, as the backward of a captured function leaves them: the
        step is a graph by itself then, the same each time, and is captured.

        The first gradient stands for all."""
        for group in self.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if grad is not None:
                    if grad.layout is not lazyt.strided:
                        return False
                    node = grad.node
                    return grad._view is None and node.data is not None and not node.inputs
        return False

    def _step_groups(self) -> None:
        self._compute_pending()
        with lazyt.no_grad():
            for group in self.param_groups:
                self._step_group(group)

    def _step_group(self, group: Group) -> None:
        parameters: list[Tensor] = []
        grads: list[Tensor] = []
        self._init_group(group, parameters, grads, *([] for _ in range(self._state_lists)))
        given = dict(zip(parameters, grads, strict=True))
        for parameter, grad in given.items():
            if type(grad) is not Tensor and grad.layout is not lazyt.strided:
                self._update_sparse(group, parameter, grad)
                parameters = [other for other in parameters if other is not parameter]
        if all(parameter.grad is grad for parameter, grad in given.items()):
            self._update(group, parameters)
            return
        self._given_grads = given
        try:
            self._update(group, parameters)
        finally:
            self._given_grads = None

    def _init_group(
        self, group: Group, params: list[Tensor], grads: list[Tensor], *states: list[Any]
    ) -> Any:
        """Append the parameters of a group that this step updates, and their gradients.

        Subclasses may leave some out, or give other gradients. The lists of ``states``, as many as
        PyTorch has, stay as they are: state is made where it is first needed.
        """
        for parameter in group["params"]:
            if parameter.grad is not None:
                params.append(parameter)
                grads.append(parameter.grad)
        return False

    def _renew_state(self) -> None:
        """Copies of the state that has gradients: what this step writes may be needed later."""
        for state in self.state.values():
            if not isinstance(state, dict):  # optimizers of users put numbers and tensors here, too
                continue
            for name, value in state.items():
                if isinstance(value, Tensor) and value.requires_grad:
                    state[name] = value.clone()

    def _compute_pending(self) -> None:
        parameters = [p for group in self.param_groups for p in group["params"]]
        states = [
            v for s in self.state.values() for v in (s.values() if isinstance(s, dict) else (s,))
            if isinstance(v, Tensor) and not is_count(v)
        ]  # fmt: skip
        lazyt.realize(*parameters, *states)

    def _update(self, group: Group, parameters: list[Tensor]) -> None:
        """One step of one group; every parameter has a gradient."""
        if self._counting:
            self._count(parameters)
        for parameter in parameters:
            if parameter.dtype.kind != "c" or self._takes_complex:
                self._update_one(group, parameter)
                continue
            pairs = lazyt.view_as_real(parameter)
            self._complex_of = {pairs: parameter}
            try:
                self._update_one(group, pairs)
            finally:
                del self._complex_of

    def _update_one(self, group: Group, parameter: Tensor) -> None:
        """One step of one parameter, which has a gradient.

        A complex parameter comes as its real view, an axis of 2 at the end, and so do its gradient
        and its state.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define a step")

    def _update_sparse(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        """One step of one parameter whose gradient is sparse. Raises LazytError where the formula
        is for dense ones alone."""
        raise LazytError(f"{type(self).__name__} does not support sparse gradients")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zero; then compute what the last
        step left pending."""
        for group in self.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if set_to_none:
                    parameter.grad = None
                elif grad is not None:
                    if grad.grad_fn is not None:
                        grad.detach_()
                    else:
                        grad.requires_grad_(False)
                    grad.zero_()
        self._compute_pending()

    # ------------------------------------------------------------------ for the formulas

    def number(
        self, compute: Callable[[], float], like: Tensor, group: Group, key: Hashable
    ) -> Tensor:
        """A number that Python computes at every step, as a leaf that calculates with ``like``.

        A leaf rather than a constant: the plan does not depend on its value. Calls of one step for
        one group with an equal ``key`` give the same number; ``count_key`` gives keys for numbers
        that depend on counts.
        """
        dtype = _wide(like)
        if capturing() is not None:  # numbers that are equal now need not be so at a replay
            return python_number(compute, dtype, (Identity(self), dtype, Identity(group), key))
        value = compute()
        found = self._numbers.get((value, dtype))
        if found is None:
            if len(self._numbers) > 64:  # values of steps long past
                self._numbers.clear()
            found = self._numbers[value, dtype] = python_number(lambda: value, dtype, key)
        return found

    def rate(
        self, group: Group, like: Tensor, factor: Callable[[], float] | None = None,
        key: Hashable = None,
    ) -> Tensor:  # fmt: skip
        """The learning rate of a group, times what ``factor`` gives at each step, as ``number``.

        Args:
            key: what the factor depends on besides the group.

        A rate that is a tensor is read when the step is computed.
        """
        if isinstance(group["lr"], Tensor):
            given = group["lr"] if lazyt.is_grad_enabled() else group["lr"].detach()
            lr: Tensor = given.reshape(()).to(_wide(like))
            if factor is None:
                return lr
            scaled: Tensor = lr * self.number(factor, like, group, ("share", key))
            return scaled
        if factor is None:
            return self.number(lambda: float(group["lr"]), like, group, "lr")
        return self.number(lambda: float(group["lr"]) * factor(), like, group, ("rate", key))

    def cycled(
        self, group: Group, like: Tensor, read: Callable[[], float], key: Hashable
    ) -> float | Tensor:
        """A setting among ``_cycled``: a number where a schedule changes it, else a constant."""
        if "base_momentum" not in group:
            return read()
        return self.number(read, like, group, ("cycled", key))

    def decay_factor(self, group: Group, like: Tensor, decay: float) -> Tensor:
        """``1 - lr * decay``, what is left of a parameter that shrinks at every step."""
        if isinstance(group["lr"], Tensor):
            return 1 - self.rate(group, like) * decay
        return self.number(lambda: 1 - float(group["lr"]) * decay, like, group, ("keep", decay))

    def _grad(self, parameter: Tensor) -> Tensor:
        owner = self._complex_of.get(parameter, parameter)
        grad = owner.grad if self._given_grads is None else self._given_grads[owner]
        assert grad is not None
        return grad if owner is parameter else lazyt.view_as_real(grad.resolve_conj())

    def gradient(self, group: Group, parameter: Tensor, decayed: bool = True) -> Tensor:
        """The gradient, negated for ``maximize`` and, if ``decayed``, with weight decay."""
        grad = self._grad(parameter)
        if group["maximize"]:
            grad = -grad
        decay = group.get("weight_decay", 0)
        if decayed and isinstance(decay, Tensor):
            grad = grad + decay.to(grad.dtype) * parameter
        elif decayed and decay:
            grad = grad.add(parameter, alpha=decay)
        return grad

    def _count(self, parameters: list[Tensor]) -> None:
        """Count a step of each parameter, now and at every replay."""
        states = [self.state[parameter] for parameter in parameters]
        self.renewed(states, ("step",), lambda: advance_counts(states, "step"))

    @staticmethod
    def renewed(
        states: Iterable[dict[str, Any]], names: Iterable[str], advance: Callable[[], T]
    ) -> T:
        """``advance()``, which gives ``state[name]`` of these names other values, now and at every
        replay; what it returns."""
        found = each_call(advance)
        watcher = capturing()
        if watcher is not None:
            for state in states:
                for name in names:
                    watcher.renewed(state[name]._storage, f"state[{name!r}]")
        return found

    def count_key(self, parameter: Tensor) -> Hashable:
        """A key for numbers that depend on how many steps of a parameter were counted."""
        state = self.state_of(parameter)
        return counted(state, ("step",), count_of(state["step"]))

    def _watched_state(self) -> Iterator[tuple[Any, Any, str]]:
        """What a captured step depends on, but not the numbers that change from step to step."""
        for name in ("param_groups", "state"):
            yield vars(self), Itself(name), name
        yield self.param_groups, ELEMENTS, "param_groups"
        yield self.state, SIZE, "state"
        yield self.state, KEYS, "state"
        for hooks, name in self._hooks_to_watch():
            yield hooks, SIZE, name
            yield from ((hooks, key, name) for key in hooks)
        for number, group in enumerate(self.param_groups):
            for key in group:
                if "base_momentum" in group and key in self._cycled:
                    continue
                if key not in ("lr", "initial_lr") or isinstance(group[key], Tensor):
                    yield group, key, f"param_groups[{number}][{key!r}]"
            for place, parameter in enumerate(group["params"]):
                state = self.state.get(parameter)
                yield self.state, Itself(parameter), f"state[{place}]"
                if state is not None:
                    yield state, SIZE, f"state[{place}]"
                    for key in state:
                        if key not in self._scalars:
                            yield state, key, f"state[{place}][{key!r}]"

    def _refuse_complex(self, parameter: Tensor) -> None:
        if parameter in self._complex_of:
            raise LazytError(f"{type(self).__name__} does not support complex parameters")

    def state_of(self, parameter: Tensor) -> dict[str, Any]:
        """The state of a parameter that a formula sees."""
        return self.state[self._complex_of.get(parameter, parameter)]

    def slot(self, parameter: Tensor, name: str, start: float = 0.0, shape: Any = None) -> Tensor:
        """The state called ``name`` of a parameter: at first ``start`` everywhere, in the
        parameter's shape unless another is given. The state of complex parameters is complex, too,
        and ``start`` then stands for both parts."""
        owner = self._complex_of.get(parameter)
        if owner is not None:
            return lazyt.view_as_real(self.slot(owner, name, start, shape))
        state = self.state[parameter]
        found = state.get(name)
        if found is None:
            sizes = tuple(parameter.shape if shape is None else shape)
            value = complex(start, start) if parameter.dtype.kind == "c" else start
            own = getattr(type(parameter), "filled_like", None)  # of one that ranks have parts of
            if own is None:
                found = in_memory(sizes, value, parameter.dtype, parameter.device)
            else:
                found = own(parameter, value, sizes)
            state[name] = found
        return found

    @staticmethod
    def old(value: Tensor) -> Tensor:
        """State that is read and then overwritten; a copy where its gradient may need it."""
        return value.clone() if lazyt.is_grad_enabled() else value

    # ------------------------------------------------------------------ taking state elsewhere

    def state_dict(self) -> dict[str, Any]:
        """State and settings, with parameters by number: ``{"state": ..., "param_groups": ...}``.

        Tensors are the optimizer's own; copy them before the next step if they are to stay.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        packed = pack(self.state, self.param_groups)
        for hook in self._optimizer_state_dict_post_hooks.values():
            changed = hook(self, packed)
            packed = packed if changed is None else changed
        return packed

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and settings from a ``state_dict`` of an optimizer of the same kind.

        Raises SettingError (a ValueError) for groups of other sizes.
        """
        saved = dict(state_dict)
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            changed = hook(self, saved)
            saved = saved if changed is None else changed
        state = unpack(saved, self.param_groups, self._process_value_according_to_param_policy)
        self.state.clear()
        self.state.update(state)
        self.__setstate__({"state": self.state, "param_groups": self.param_groups})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    def __getstate__(self) -> dict[str, Any]:
        own = {k: v for k, v in self.__dict__.items() if k not in vars(Hooked())}
        return {**own, "_numbers": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take over attributes; after loading too, for subclasses that add settings to groups."""
        self.__dict__.update(state)
        for name, value in vars(Hooked()).items():
            self.__dict__.setdefault(name, value)
        self._patch_step_function()
        for values in self.state.values():
            for name in self._scalars & values.keys():
                if isinstance(values[name], Tensor):
                    become_count(values[name])
                else:
                    values[name] = new_count(float(values[name]))

    @staticmethod
    def _process_value_according_to_param_policy(
        param: Tensor,
        value: Tensor,
        param_id: int,
        param_groups: list[dict[Any, Any]],
        key: Hashable = None,
    ) -> Tensor:
        """Loaded state of a parameter, in the dtype and on the device that it is to have.

        Args:
            param_id: the parameter's number.
            param_groups: the loaded groups.
            key: the name of the state.
        """
        if key == "step":
            return value
        dtype = param.dtype if param.dtype.kind == "f" else value.dtype
        return value.to(param.device, dtype)

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            for name in sorted(group):
                if name != "params":
                    text += f"    {name}: {group[name]}\n"
        return text + ")"


def _wide(like: Tensor) -> Any:
    """The dtype that updates of a parameter compute in."""
    return lazyt.float64 if like.dtype is lazyt.float64 else lazyt.float32
