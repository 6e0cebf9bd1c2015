"""Modules: trees of parameters and buffers with a forward function."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any

from lazyt.absent import known_as
from lazyt.nn import hooks, registration
from lazyt.nn.conversion import ConvertibleModule
from lazyt.nn.hooks import EVERYWHERE
from lazyt.nn.module_text import module_text
from lazyt.nn.parameter import Buffer, Parameter
from lazyt.nn.registration import TABLES, title
from lazyt.nn.state import StatefulModule
from lazyt.tensor import Tensor


class Module(ConvertibleModule, StatefulModule):
    """Base of all layers and networks, as PyTorch's ``nn.Module``.

    Subclasses call ``super().__init__()``, then assign parameters and other modules as attributes,
    and define ``forward``. Calling the module runs ``forward`` between its hooks.

    Attributes:
        training: whether the module is in training mode; see ``train`` and ``eval``.
    """

    dump_patches = False
    call_super_init = False
    _compiled_call_impl: Callable[..., Any] | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        passes_on = self.call_super_init
        if kwargs and not passes_on:
            raise TypeError(
                f"{type(self).__name__}.__init__() got an unexpected keyword argument "
                f"'{next(iter(kwargs))}'"
            )
        if args and not passes_on:
            raise TypeError(
                f"{type(self).__name__}.__init__() takes 1 positional argument but "
                f"{len(args) + 1} were given"
            )
        self.__dict__.update(_blank())  # attributes of their own, past __setattr__
        if passes_on:
            super().__init__(*args, **kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._compiled_call_impl is not None:
            return self._compiled_call_impl(*args, **kwargs)
        return self._call_impl(*args, **kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        if self._hooks is None and not EVERYWHERE:
            return self.forward(*args, **kwargs)
        return hooks.Call(self, args, kwargs).run()

    def _forward_unimplemented(self, *input: Any) -> None:
        raise NotImplementedError(
            f'Module [{builtins.type(self).__name__}] is missing the required "forward" function'
        )

    forward: Callable[..., Any] = _forward_unimplemented

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """From now on run calls of this module as ``lazyt.compile`` would; takes its arguments."""
        from lazyt import compiling  # and all of jit with it: most modules are never compiled

        compiled = compiling.compile(self._call_impl, *args, **kwargs)
        self.__dict__["_compiled_call_impl"] = compiled

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        state.pop("_compiled_call_impl", None)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(_blank() | state)

    # ------------------------------------------------------------------ attributes

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if isinstance(value, (Parameter, Module)):
            kept = "_parameters" if isinstance(value, Parameter) else "_modules"
            if "_parameters" not in tables:
                kind = "parameters" if kept == "_parameters" else "module"
                raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
            self._forget(name, kept)
            if isinstance(value, Parameter):
                self.register_parameter(name, value)
                return
            value = registration.announced(kept, self, name, value)
            tables[kept][name] = value  # where it was, if it was there
            return
        if isinstance(value, Buffer) and "_buffers" in tables:
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        for table in TABLES:
            if name in tables.get(table, ()):
                if value is not None and not (table == "_buffers" and isinstance(value, Tensor)):
                    raise registration.refusal(table, name, value)
                tables[table][name] = registration.announced(table, self, name, value)
                return
        object.__setattr__(self, name, value)

    def _forget(self, name: str, kept: str) -> None:
        """Make room for this name in the table ``kept``."""
        self.__dict__.pop(name, None)
        for table in TABLES:
            if table != kept:
                self.__dict__[table].pop(name, None)
        self._non_persistent_buffers_set.discard(name)

    def __getattr__(self, name: str) -> Any:
        for table in TABLES:
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"'{builtins.type(self).__name__}' object has no attribute '{name}'")

    def __delattr__(self, name: str) -> None:
        for table in TABLES:
            if name in self.__dict__.get(table, {}):
                del self.__dict__[table][name]
                self._non_persistent_buffers_set.discard(name)
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = set(super().__dir__())
        for table in TABLES:
            names.update(self.__dict__.get(table, {}))
        return sorted(name for name in names if not name[0].isdigit())

    # ------------------------------------------------------------------ registering

    def _check_name(self, name: str, kind: str, table: str) -> None:
        if table not in self.__dict__:
            raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {builtins.type(name).__name__}")
        if hasattr(self, name) and name not in self.__dict__[table] and kind == "module":
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            what = f", got: {name}" if kind == "module" else ""
            raise KeyError(f'{kind} name can\'t contain "."{what}')
        if not name:
            raise KeyError(f'{kind} name can\'t be empty string ""')
        if name not in self.__dict__[table] and hasattr(self, name):
            raise KeyError(f"attribute '{name}' already exists")

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter, or None to say that there is none of this name.

        Raises KeyError for a bad or taken name, TypeError for what is no Parameter, ValueError for
        one that was computed.
        """
        self._check_name(name, "parameter", "_parameters")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(
                f"cannot assign '{title(param)}' object to parameter '{name}' "
                f"({known_as('lazyt.nn.Parameter')} or None required)"
            )
        if param is not None and param.grad_fn is not None:
            raise ValueError(
                f"Cannot assign non-leaf Tensor to parameter '{name}'. Model parameters must be "
                f"created explicitly. To express '{name}' as a function of another Tensor, compute "
                "the value in the forward() method."
            )
        self._parameters[name] = registration.announced("_parameters", self, name, param)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a tensor that is part of the module but not learned, such as a running mean.

        Args:
            persistent: whether it belongs to the ``state_dict``.

        Raises KeyError for a bad or taken name, TypeError for what is no tensor.
        """
        self._check_name(name, "buffer", "_buffers")
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"cannot assign '{title(tensor)}' object to buffer '{name}' "
                "(lazyt Tensor or None required)"
            )
        self._buffers[name] = registration.announced("_buffers", self, name, tensor)
        hidden = self._non_persistent_buffers_set
        (hidden.discard if persistent else hidden.add)(name)

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child. Raises KeyError for a bad or taken name, TypeError for no Module."""
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{title(module)} is not a Module subclass")
        self._check_name(name, "module", "_modules")
        self._modules[name] = registration.announced("_modules", self, name, module)

    def register_module(self, name: str, module: Module | None) -> None:
        """The same as ``add_module``."""
        self.add_module(name, module)

    # ------------------------------------------------------------------ hooks

    register_forward_pre_hook = hooks.register_forward_pre_hook
    register_forward_hook = hooks.register_forward_hook
    register_full_backward_pre_hook = hooks.register_full_backward_pre_hook
    register_full_backward_hook = hooks.register_full_backward_hook
    register_backward_hook = hooks.register_backward_hook

    _forward_pre_hooks = hooks.hook_dict("before")
    _forward_hooks = hooks.hook_dict("after")
    _backward_pre_hooks = hooks.hook_dict("backward_before")
    _backward_hooks = hooks.hook_dict("backward")
    _state_dict_pre_hooks = hooks.hook_dict("before_saving", "_state_table")
    _state_dict_hooks = hooks.hook_dict("after_saving", "_state_table")
    _load_state_dict_pre_hooks = hooks.hook_dict("before_loading", "_state_table")
    _load_state_dict_post_hooks = hooks.hook_dict("after_loading", "_state_table")

    @property
    def _is_full_backward_hook(self) -> bool | None:
        return None if self._hooks is None else self._hooks.full

    # ------------------------------------------------------------------ printing

    def extra_repr(self) -> str:
        """What stands between the parentheses when the module is printed."""
        return ""

    __repr__ = module_text


def _blank() -> dict[str, Any]:
    """The attributes of a module that holds nothing."""
    return {
        "training": True,
        "_parameters": {},
        "_buffers": {},
        "_non_persistent_buffers_set": set(),
        "_hooks": None,
        "_state_hooks": None,
        "_modules": {},
    }
