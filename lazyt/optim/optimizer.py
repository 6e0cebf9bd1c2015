"""What all optimizers share: groups of parameters, their state, and taking it elsewhere.

A step only adds its updates to the graph, where they fuse with the gradients. The next
``zero_grad`` (or the next step, where that comes first) computes what is still pending: a loop that
looks at nothing then runs one plan per step, the same every time, instead of piling up steps, and
gradients that are forgotten are not stored. Numbers that change from step to step, such as the
learning rate, enter as leaves, so that they do not change the plan.
"""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator
from typing import Any

import numpy as np

import lazyt
from lazyt.errors import LazytError
from lazyt.functional.updates import python_number
from lazyt.guards import SIZE
from lazyt.tensor import Tensor
from lazyt.watching import each_call

Group = dict[str, Any]


class SettingError(LazytError, ValueError):
    """A setting of an optimizer outside of what is allowed."""


def check_setting(allowed: bool, title: str, value: Any) -> None:
    """Raise SettingError (a ValueError) in PyTorch's words unless ``allowed``."""
    if not allowed:
        raise SettingError(f"Invalid {title}: {value}")


class Optimizer:
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
    _unwatched = frozenset({"_numbers", "_step_count", "param_groups", "state"})

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or "
                f"dicts, but got {params.type()}"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        groups = list(params)
        if not groups:
            raise SettingError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._numbers: dict[tuple[float, Any], Tensor] = {}
        self._step_count = 0
        self._compute_pending()

    def add_param_group(self, param_group: Group) -> None:
        """Add parameters, with settings of their own. Raises as the constructor."""
        group = dict(param_group)
        given = group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the "
                "ordering of tensors in sets will change between runs. Please use a list instead."
            )
        given = [given] if isinstance(given, Tensor) else list(given)
        if given and isinstance(given[0], tuple):
            group["param_names"] = [name for name, _ in given]
            given = [parameter for _, parameter in given]
        known = {p for other in self.param_groups for p in other["params"]}
        for parameter in given:
            if not isinstance(parameter, Tensor):
                raise TypeError(
                    f"optimizer can only optimize Tensors, but one of the params is "
                    f"{type(parameter).__name__}"
                )
            if not parameter.is_leaf:
                raise SettingError("can't optimize a non-leaf Tensor")
        if len(set(given)) != len(given) or known & set(given):
            raise SettingError("some parameters appear in more than one parameter group")
        group["params"] = given
        for name, value in self.defaults.items():
            group.setdefault(name, value)
        self.param_groups.append(group)

    # ------------------------------------------------------------------ stepping

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient.

        Args:
            closure: computes the loss anew and its gradients; called first.

        Returns: the closure's loss, None without one.
        """
        loss = None
        if closure is not None:
            with lazyt.enable_grad():
                loss = closure()
        each_call(self._count_step)
        self._compute_pending()
        with lazyt.no_grad():
            for group in self.param_groups:
                self._update(group, [p for p in group["params"] if p.grad is not None])
        return loss

    def _count_step(self) -> None:
        self._step_count += 1

    def _compute_pending(self) -> None:
        parameters = [p for group in self.param_groups for p in group["params"]]
        states = [v for s in self.state.values() for v in s.values() if isinstance(v, Tensor)]
        lazyt.realize(*parameters, *states)

    def _update(self, group: Group, parameters: list[Tensor]) -> None:
        """One step of one group; every parameter has a gradient."""
        raise NotImplementedError(f"{type(self).__name__} does not define a step")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zero; then compute what the last
        step left pending."""
        for group in self.param_groups:
            for parameter in group["params"]:
                grad = parameter.grad
                if set_to_none:
                    parameter.grad = None
                elif grad is not None:
                    grad.detach_()
                    grad.zero_()
        self._compute_pending()

    # ------------------------------------------------------------------ for the formulas

    def number(self, compute: Callable[[], float], like: Tensor, key: Hashable) -> Tensor:
        """A number that Python computes at every step, as a leaf that calculates with ``like``.

        A leaf rather than a constant: the plan does not depend on its value. Calls of one step
        with an equal ``key`` give the same number.
        """
        dtype = lazyt.float64 if like.dtype is lazyt.float64 else lazyt.float32
        return python_number(lambda: self._leaf(compute(), dtype), (id(self), dtype, key))

    def _leaf(self, value: float, dtype: Any) -> Tensor:
        found = self._numbers.get((value, dtype))
        if found is None:
            if len(self._numbers) > 64:  # values of steps long past
                self._numbers.clear()
            found = self._numbers[value, dtype] = lazyt.tensor(value, dtype=dtype)
        return found

    def rate(self, group: Group, like: Tensor) -> Tensor:
        """The learning rate of a group, as ``number``."""
        return self.number(lambda: float(group["lr"]), like, id(group))

    def count(self, parameter: Tensor) -> float:
        """Counts a step of a parameter, now and at every replay; returns how many there were."""
        state = self.state[parameter]

        def advance() -> float:
            state["step"] = count = float(state.get("step", 0.0)) + 1
            return count

        return each_call(advance)

    def _watched_state(self) -> Iterator[tuple[Any, Any, str]]:
        """What a captured step depends on, but not the numbers that change from step to step."""
        yield self.param_groups, SIZE, "param_groups"
        yield self.state, SIZE, "state"
        for number, group in enumerate(self.param_groups):
            for key in group:
                if key not in ("lr", "initial_lr"):
                    yield group, key, f"param_groups[{number}][{key!r}]"
            for place, parameter in enumerate(group["params"]):
                state = self.state.get(parameter)
                if state is not None:
                    yield state, SIZE, f"state[{place}]"
                    for key in state:
                        if key != "step":
                            yield state, key, f"state[{place}][{key!r}]"

    def slot(self, parameter: Tensor, name: str) -> Tensor:
        """The state called ``name`` of a parameter, zeros at first."""
        state = self.state[parameter]
        found = state.get(name)
        if found is None:
            # Values in memory, not a pending fill: the first step is like all others.
            dtype = parameter.dtype
            values = np.zeros(tuple(parameter.shape), getattr(np, dtype.name, np.float32))
            found = lazyt.tensor(values).to(dtype)
            lazyt.realize(found)
            state[name] = found
        return found  # type: ignore[no-any-return]

    # ------------------------------------------------------------------ taking state elsewhere

    def state_dict(self) -> dict[str, Any]:
        """State and settings, with parameters by number: ``{"state": ..., "param_groups": ...}``.

        Tensors are the optimizer's own; copy them before the next step if they are to stay.
        """
        numbers: dict[Tensor, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers.setdefault(parameter, len(numbers))
            packed = {name: value for name, value in group.items() if name != "params"}
            packed["params"] = [numbers[p] for p in group["params"]]
            groups.append(packed)
        state = {numbers[p]: values for p, values in self.state.items() if p in numbers}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take state and settings from a ``state_dict`` of an optimizer of the same kind.

        Raises SettingError (a ValueError) for groups of other sizes.
        """
        saved = copy.deepcopy(state_dict)
        groups = saved["param_groups"]
        if len(groups) != len(self.param_groups):
            raise SettingError("loaded state dict has a different number of parameter groups")
        parameters: dict[int, Tensor] = {}
        for own, given in zip(self.param_groups, groups, strict=True):
            if len(own["params"]) != len(given["params"]):
                raise SettingError(
                    "loaded state dict contains a parameter group that doesn't match the size of "
                    "optimizer's group"
                )
            parameters.update(zip(given["params"], own["params"], strict=True))
        for own, given in zip(self.param_groups, groups, strict=True):
            own.update({name: value for name, value in given.items() if name != "params"})
        self.state.clear()
        for number, values in saved["state"].items():
            parameter = parameters[int(number)]
            self.state[parameter] = {n: _fitted(n, v, parameter) for n, v in values.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_numbers": {}}

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            text += f"\nParameter Group {number}\n"
            for name in sorted(group):
                if name != "params":
                    text += f"    {name}: {group[name]}\n"
        return text + ")"


def _fitted(name: str, value: Any, parameter: Tensor) -> Any:
    """A loaded state: values in the parameter's dtype, the count of steps as a number."""
    if name == "step":
        return float(value)
    if not isinstance(value, Tensor) or parameter.dtype.kind != "f":
        return value
    return value.to(parameter.dtype)


def unused_settings(**given: Any) -> dict[str, Any]:
    """Settings that only say how PyTorch should compute, kept so that state dicts look alike.

    Raises SettingError for ``differentiable``, which would change what is computed.
    """
    if given.get("differentiable"):
        raise SettingError("differentiable=True is not supported")
    return given
