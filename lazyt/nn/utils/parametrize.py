"""Parameters that are computed from others: a module before the tensor.

``register_parametrization(layer, "weight", P)`` makes ``layer.weight`` be ``P(original)``; the
original is what is learned. Assigning to ``layer.weight`` goes through ``P.right_inverse``.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.pytree import Identity
from lazyt.handle.tensor import Tensor
from lazyt.nn.containers import ModuleDict, ModuleList
from lazyt.nn.module import Module
from lazyt.nn.parameter import Parameter

__all__ = [
    "ParametrizationList", "cached", "is_parametrized", "register_parametrization",
    "remove_parametrizations", "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]  # fmt: skip


class _Cache:
    """Values computed within ``cached()``, by module and name."""

    depth = 0
    values: dict[tuple[Identity, str], Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Within it every parametrized tensor is computed once, however often it is read."""
    _Cache.depth += 1
    try:
        yield
    finally:
        _Cache.depth -= 1
        if not _Cache.depth:
            _Cache.values = {}


def _keep(module: Module, name: str, value: Tensor) -> None:
    if isinstance(value, Parameter):
        module.register_parameter(name, value)
    else:
        module.register_buffer(name, value)


def _inverse(step: Any, value: Any) -> Any:
    """Through ``right_inverse``, where there is one."""
    if not hasattr(step, "right_inverse"):
        return value
    try:
        return step.right_inverse(value)
    except NotImplementedError:
        return value


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, the first applied first, and the original(s).

    Attributes:
        original: what is learned; ``original0``, ``original1``, ... where ``right_inverse`` gives
            several tensors.

    Raises ValueError for what a parametrization must not do.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        shape, dtype = original.shape, original.dtype
        with lazyt.no_grad():
            new: Any = original
            for step in reversed(list(self)):
                new = _inverse(step, new)
        if not isinstance(new, (Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, Tensor)
        self.ntensors = 1 if self.is_tensor else len(new)
        if isinstance(new, Tensor):
            if new.dtype is not dtype:
                raise ValueError(
                    "When `right_inverse` outputs one tensor, it may not change the dtype.\n"
                    f"original.dtype: {dtype}\nright_inverse(original).dtype: {new.dtype}"
                )
            if new is not original:
                original.data = new.detach()
            _keep(self, "original", original)
        else:
            self._keep_several(original, new)
        if not unsafe:
            self._check(shape, dtype)

    def _keep_several(self, original: Tensor, parts: Sequence[Any]) -> None:
        for number, part in enumerate(parts):
            if not isinstance(part, Tensor):
                raise ValueError(
                    "'right_inverse' must return a Tensor or a Sequence of tensors (list, "
                    f"tuple...). Got element {number} of the sequence with type "
                    f"{type(part).__name__}."
                )
            if isinstance(original, Parameter):
                part = Parameter(part, original.requires_grad)
            part.requires_grad_(original.requires_grad)
            _keep(self, f"original{number}", part)

    def _check(self, shape: Any, dtype: Any) -> None:
        found = self()
        if not isinstance(found, Tensor):
            raise ValueError(f"A parametrization must return a tensor. Got {type(found).__name__}.")
        for kind, before, after in (("dtype", dtype, found.dtype), ("shape", shape, found.shape)):
            if before != after:
                raise ValueError(
                    f"Registering a parametrization may not change the {kind} of the tensor, "
                    f"unless `unsafe` flag is enabled.\nunparametrized {kind}: {before}\n"
                    f"parametrized {kind}: {after}"
                )

    def right_inverse(self, value: Tensor) -> None:
        """Make the tensor be ``value``, if the parametrizations can be inverted.

        Raises LazytError where one cannot, ValueError for what an inverse must not return.
        """
        with lazyt.no_grad():
            new: Any = value
            for step in reversed(list(self)):
                if not hasattr(step, "right_inverse"):
                    raise LazytError(
                        f"parametrization {type(step).__name__} does not implement right_inverse."
                    )
                new = step.right_inverse(new)
            if self.is_tensor:
                if not isinstance(new, Tensor):
                    raise ValueError(
                        f"`right_inverse` should return a tensor. Got {type(new).__name__}"
                    )
                if new.dtype is not self.original.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype} while "
                        f"`original` has dtype {self.original.dtype}"
                    )
                self.original.data = new.detach()
                return
            self._take_several(new)

    def _take_several(self, parts: Any) -> None:
        if not isinstance(parts, Sequence):
            raise ValueError(
                f"'right_inverse' must return a sequence of tensors. Got {type(parts).__name__}."
            )
        if len(parts) != self.ntensors:
            raise ValueError(
                "'right_inverse' must return a sequence of tensors of length "
                f"{self.ntensors}. Got a sequence of length {len(parts)}."
            )
        for number, part in enumerate(parts):
            own = getattr(self, f"original{number}")
            if part.dtype is not own.dtype:
                raise ValueError(
                    f"Tensor {number} returned by `right_inverse` has dtype {part.dtype} while "
                    f"`original{number}` has dtype {own.dtype}"
                )
            own.data = part.detach()

    def forward(self) -> Any:
        """The parametrized tensor."""
        steps = list(self)
        if self.is_tensor:
            value = steps[0](self.original)
        else:
            value = steps[0](*(getattr(self, f"original{i}") for i in range(self.ntensors)))
        for step in steps[1:]:
            value = step(value)
        return value


class _Parametrized:
    """What the class of a parametrized module has besides its own."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        # __getstate__, which copying would use, is refused.
        made = self.__class__.__new__(self.__class__)
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __getstate__(self) -> Any:
        raise LazytError(
            "Serialization of parametrized modules is only supported through state_dict(). See:\n"
            "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
            "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
        )


def _give_own_class(module: Module) -> None:
    """A class of the module alone, so that properties can be added."""
    base = type(module)
    body = {name: _Parametrized.__dict__[name] for name in ("__deepcopy__", "__getstate__")}
    # mypy knows no assignment of a class that is made here.
    module.__class__ = type(f"Parametrized{base.__name__}", (base,), body)


def _add_property(module: Module, name: str) -> None:
    def read(self: Module) -> Tensor:
        steps = self.parametrizations[name]
        if not _Cache.depth:
            return steps()  # type: ignore[no-any-return]
        key = (Identity(self), name)
        if key not in _Cache.values:
            _Cache.values[key] = steps()
        return _Cache.values[key]

    def write(self: Module, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    setattr(type(module), name, property(read, write))


def _check_next(module: Module, name: str, step: Module) -> None:
    """Whether one more parametrization keeps shape and dtype. Raises ValueError."""
    before = getattr(module, name)
    after = step(before)
    if not isinstance(after, Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    back = _inverse(step, after)
    for kind in ("dtype", "shape"):
        own, new = getattr(before, kind), getattr(after, kind)
        if own != new:
            raise ValueError(
                f"Registering a parametrization may not change the {kind} of the tensor, unless "
                f"the `unsafe` flag is enabled.\nmodule.{name}.{kind}: {own}\n"
                f"parametrization(module.{name}).{kind}: {new}"
            )
    if not isinstance(back, Tensor):
        raise ValueError(
            f"parametrization.right_inverse must return a tensor. Got: {type(back).__name__}"
        )
    for kind in ("dtype", "shape"):
        own, new = getattr(before, kind), getattr(back, kind)
        if own != new:
            raise ValueError(
                "The tensor returned by parametrization.right_inverse must have the same "
                f"{kind} as module.{name}, unless the `unsafe` flag is enabled.\n"
                f"module.{name}.{kind}: {own}\nreturned {kind}: {new}"
            )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Compute a parameter or buffer by ``parametrization`` from now on, after those before.

    Args:
        unsafe: whether it may change shape and dtype; then nothing is checked.

    Returns the module. Raises ValueError for no such tensor and for what it must not do.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_next(module, tensor_name, parametrization)
        steps = module.parametrizations[tensor_name]
        steps.append(parametrization)
        steps.unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        original = getattr(module, tensor_name)
        steps = ParametrizationList([parametrization], original, unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_own_class(module)
            module.parametrizations = ModuleDict()
        _add_property(module, tensor_name)
        module.parametrizations[tensor_name] = steps
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element "
            f"with name '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Whether a tensor of the module, or the one of this name, is parametrized."""
    found = getattr(module, "parametrizations", None)
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(
    module: Module, tensor_name: str, leave_parametrized: bool = True
) -> Module:
    """Make a tensor a plain parameter or buffer again.

    Args:
        leave_parametrized: with the value that it has, rather than with the original's.

    Returns the module. Raises ValueError for what is not parametrized, and for several originals
    without ``leave_parametrized``.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    steps = module.parametrizations[tensor_name]
    value = getattr(module, tensor_name)
    if steps.is_tensor:
        original = steps.original
        if leave_parametrized:
            original.data = value.detach()
    elif leave_parametrized:
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is "
            "parametrized in terms of a sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    _keep(module, tensor_name, original)
    if not is_parametrized(module):
        del module.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that the module has, or had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give ``to_module`` the parametrizations and originals of ``from_module``; returns it.

    Args:
        tensor_name: of this tensor only.
    """
    if is_parametrized(from_module):
        names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
        for name in names:
            if not hasattr(to_module, name):
                setattr(to_module, name, Parameter(getattr(from_module, name)))
            source = from_module.parametrizations[name]
            for step in source:
                register_parametrization(to_module, name, step)
            for kept, value in source._parameters.items():
                setattr(to_module.parametrizations[name], kept, value)
    return to_module


_explain_absence(__name__)
