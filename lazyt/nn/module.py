"""Modules: trees of parameters and buffers with a forward function."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from lazyt.errors import DTypeError
from lazyt.nn import hooks, state
from lazyt.nn.hooks import HookTable
from lazyt.nn.module_text import module_text
from lazyt.nn.parameter import Buffer, Parameter
from lazyt.tensor import Tensor

M = TypeVar("M", bound="Module")
_WANTED = {
    "_parameters": ("parameter", "lazyt.nn.Parameter"),
    "_buffers": ("buffer", "lazyt.Tensor"),
    "_modules": ("child module", "lazyt.nn.Module"),
}
_TABLES = tuple(_WANTED)


def _title(value: object) -> str:
    return str(value.type()) if isinstance(value, Tensor) else type(value).__name__


class Module:
    """Base of all layers and networks, as PyTorch's ``nn.Module``.

    Subclasses call ``super().__init__()``, then assign parameters and other modules as attributes,
    and define ``forward``. Calling the module runs ``forward`` between its hooks.

    Attributes:
        training: whether the module is in training mode; see ``train`` and ``eval``.
    """

    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]
    _transient: set[str]
    _hooks: HookTable | None
    forward: Callable[..., Any]

    def __init__(self) -> None:
        write = self.__dict__.__setitem__  # attributes of their own, past __setattr__
        write("training", True)
        write("_parameters", {})
        write("_buffers", {})
        write("_modules", {})
        write("_transient", set())
        write("_hooks", None)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None:
            return self.forward(*args, **kwargs)
        return hooks.call_with_hooks(self, self._hooks, args, kwargs)

    # ------------------------------------------------------------------ attributes

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if isinstance(value, (Parameter, Module)):
            if "_parameters" not in tables:
                kind = "parameters" if isinstance(value, Parameter) else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            kept = "_parameters" if isinstance(value, Parameter) else "_modules"
            self._forget(name, kept)
            tables[kept][name] = value  # where it was, if it was there
            return
        if isinstance(value, Buffer) and "_buffers" in tables:
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        for table in _TABLES:
            if name in tables.get(table, ()):
                if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
                    kind, wanted = _WANTED[table]
                    raise TypeError(
                        f"cannot assign '{_title(value)}' as {kind} '{name}' "
                        f"({wanted} or None expected)"
                    )
                tables[table][name] = value
                return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, kept: str) -> None:
        """Make room for this name in the table ``kept``."""
        self.__dict__.pop(name, None)
        for table in _TABLES:
            if table != kept:
                self.__dict__[table].pop(name, None)
        self._transient.discard(name)

    def __getattr__(self, name: str) -> Any:
        for table in _TABLES:
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in _TABLES:
            if name in self.__dict__.get(table, {}):
                del self.__dict__[table][name]
                self._transient.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        for table in _TABLES:
            names.update(self.__dict__.get(table, {}))
        return sorted(names)

    # ------------------------------------------------------------------ registering

    def _check_name(self, name: str, kind: str, table: dict[str, Any]) -> None:
        if "_parameters" not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain "."')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in table and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None to say that there is none of this name.

        Raises KeyError for a bad or taken name, TypeError for what is no Parameter.
        """
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{_title(param)}' object to parameter '{name}' "
                "(lazyt.nn.Parameter or None required)"
            )
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module but not learned, such as a running mean.

        Args:
            persistent: whether it belongs to the ``state_dict``.

        Raises KeyError for a bad or taken name, TypeError for what is no tensor.
        """
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{_title(tensor)}' object to buffer '{name}' "
                "(lazyt.Tensor or None required)"
            )
        self._buffers[name] = tensor
        (self._transient.discard if persistent else self._transient.add)(name)

    def register_module(self, name: str, module: Module | None) -> None:
        """Add a child. Raises KeyError for a bad or taken name, TypeError for no Module."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        self._modules[name] = module

    add_module = register_module

    # ------------------------------------------------------------------ walking

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return (module for _, module in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The children with their names, each once."""
        seen: set[Module] = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def modules(self) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules())

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all below it, with dotted names; ``""`` is this one's."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                inner = f"{prefix}.{name}" if prefix else name
                yield from module.named_modules(memo, inner, remove_duplicate)

    def _named_members(
        self, table: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        owners = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        seen: set[Any] = set()
        for path, module in owners:
            for name, value in module.__dict__[table].items():
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with dotted names, each once unless ``remove_duplicate`` is off."""
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with ``recurse``, of all below it."""
        return (value for _, value in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with dotted names."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with ``recurse``, of all below it."""
        return (value for _, value in self.named_buffers(recurse=recurse))

    def get_submodule(self, target: str) -> Module:
        """The module of a dotted name. Raises AttributeError."""
        found: Any = self
        for part in target.split(".") if target else ():
            below = getattr(found, part, None)
            if not isinstance(below, Module):
                raise AttributeError(f"{type(found).__name__} has no attribute `{part}`")
            found = below
        return found  # type: ignore[no-any-return]

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = owner._parameters.get(name)
        if found is None:
            raise AttributeError(f"{type(owner).__name__} has no parameter `{name}`")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found = owner._buffers.get(name)
        if found is None:
            raise AttributeError(f"{type(owner).__name__} has no buffer `{name}`")
        return found

    # ------------------------------------------------------------------ changing

    def apply(self: M, fn: Callable[[Module], Any]) -> M:
        """Call ``fn`` with every module below, then with this one; returns it."""
        for module in self.children():
            module.apply(fn)
        fn(self)
        return self

    def train(self: M, mode: bool = True) -> M:
        """Put this module and all below it in training mode, or out of it; returns it."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for module in self.children():
            module.train(mode)
        return self

    def eval(self: M) -> M:
        """``train(False)``."""
        return self.train(False)

    def requires_grad_(self: M, requires_grad: bool = True) -> M:
        """Set ``requires_grad`` of every parameter; returns the module."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters, or make them zero."""
        for parameter in self.parameters():
            grad = parameter.grad
            if grad is None:
                continue
            if set_to_none:
                parameter.grad = None
            else:
                grad.detach_()
                grad.zero_()

    def _apply(self: M, fn: Callable[[Tensor], Tensor]) -> M:
        """Replace the values of every parameter, gradient and buffer by ``fn`` of them."""
        for module in self.children():
            module._apply(fn)
        for parameter in self._parameters.values():
            if parameter is not None:
                _convert(parameter, fn)
        for name, buffer in self._buffers.items():
            if buffer is not None:
                self._buffers[name] = fn(buffer)
        return self

    def to(self: M, *args: Any, **kwargs: Any) -> M:
        """Convert floating point parameters and buffers: ``to(dtype)``, ``to(device)``, both,
        or ``to(tensor)``. Changes the module itself and returns it.

        Raises DTypeError for types other than floating point, DeviceError as ``Tensor.to``.
        """
        probe = Tensor([]).to(*args, **kwargs)
        if probe.dtype.kind != "f":
            raise DTypeError(
                "nn.Module.to only accepts floating point or complex dtypes, but got desired "
                f"dtype={probe.dtype}"
            )
        changes = state.asks_for_dtype(args, kwargs)

        def convert(tensor: Tensor) -> Tensor:
            if changes and tensor.dtype.kind == "f":
                return tensor.to(probe.dtype)  # type: ignore[no-any-return]
            return tensor

        return self._apply(convert)

    def type(self: M, dst_type: Any) -> M:
        """Convert all parameters and buffers; returns the module."""
        return self._apply(lambda tensor: tensor.type(dst_type))

    def float(self: M) -> M:
        """Convert floating point parameters and buffers to float32; returns the module."""
        return self._apply(lambda t: t.float() if t.dtype.kind == "f" else t)

    def double(self: M) -> M:
        """Convert floating point parameters and buffers to float64; returns the module."""
        return self._apply(lambda t: t.double() if t.dtype.kind == "f" else t)

    def half(self: M) -> M:
        """Convert floating point parameters and buffers to float16; returns the module."""
        return self._apply(lambda t: t.half() if t.dtype.kind == "f" else t)

    def bfloat16(self: M) -> M:
        """Convert floating point parameters and buffers to bfloat16; returns the module."""
        return self._apply(lambda t: t.bfloat16() if t.dtype.kind == "f" else t)

    def cpu(self: M) -> M:
        """Move everything to the CPU; returns the module."""
        return self._apply(lambda tensor: tensor.cpu())

    def cuda(self: M, device: Any = None) -> M:
        """Move everything to a GPU; returns the module. Raises DeviceError without one."""
        return self._apply(lambda tensor: tensor.cuda(device))

    # ------------------------------------------------------------------ elsewhere

    state_dict = state.state_dict
    load_state_dict = state.load_state_dict
    _load_own = state.load_own

    register_forward_pre_hook = hooks.register_forward_pre_hook
    register_forward_hook = hooks.register_forward_hook
    register_full_backward_pre_hook = hooks.register_full_backward_pre_hook
    register_full_backward_hook = hooks.register_full_backward_hook

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    def _get_name(self) -> str:
        """What the module is called when it is printed."""
        return type(self).__name__

    __repr__ = module_text


def _convert(parameter: Parameter, fn: Callable[[Tensor], Tensor]) -> None:
    grad = parameter.grad
    value = parameter.detach()
    changed = fn(value)
    if changed is value:
        return
    parameter.grad = None  # it may have another dtype than the new values
    parameter.data = changed
    if grad is not None:
        parameter.grad = fn(grad.detach()).requires_grad_(grad.requires_grad)
