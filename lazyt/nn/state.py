"""State dicts: the parameters and buffers of a module by name, and putting them back."""

from __future__ import annotations

import itertools
from collections import OrderedDict, namedtuple
from collections.abc import Callable, Mapping
from typing import Any, cast

import lazyt
from lazyt.autograd.handles import RemovableHandle
from lazyt.errors import LazytError, warn
from lazyt.nn.hooks import HookError, register
from lazyt.nn.parameter import Parameter, is_uninitialized
from lazyt.nn.tree import ModuleTree
from lazyt.tensor import Tensor

Hook = Callable[..., Any]
_EXTRA = "_extra_state"


class _IncompatibleKeys(namedtuple("IncompatibleKeys", ("missing_keys", "unexpected_keys"))):
    """What ``load_state_dict`` returns: names that were not given, and names of nothing."""

    __slots__ = ()

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return super().__repr__()

    __str__ = __repr__


class StateHooks:
    """The hooks of one module around its state dict."""

    def __init__(self) -> None:
        self.before_saving: dict[int, Hook] = {}
        self.after_saving: dict[int, Hook] = {}
        self.in_place: set[int] = set()
        self.before_loading: dict[int, Hook] = {}
        self.after_loading: dict[int, Hook] = {}
        self.with_module: set[int] = set()


class StatefulModule(ModuleTree):
    """What gives out and takes in the state of a module."""

    _version: int = 1
    _state_hooks: StateHooks | None

    def _state_table(self) -> StateHooks:
        if self._state_hooks is None:
            self.__dict__["_state_hooks"] = StateHooks()
        assert self._state_hooks is not None
        return self._state_hooks

    def get_extra_state(self) -> Any:
        """What belongs to the state besides tensors; for subclasses that have such."""
        raise RuntimeError(
            "Reached a code path in Module.get_extra_state() that should never be called. Please "
            "file an issue to report this bug."
        )

    def set_extra_state(self, state: Any) -> None:
        """Take what ``get_extra_state`` gave; for subclasses that have such."""
        raise RuntimeError(
            "Reached a code path in Module.set_extra_state() that should never be called. Please "
            "file an issue to report this bug."
        )

    # ------------------------------------------------------------------ saving

    def register_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, prefix, keep_vars)`` before every ``state_dict``."""
        return register(self._state_table().before_saving, hook)

    def register_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata)`` after every ``state_dict``,
        which it may change; it has to return None."""
        table = self._state_table()
        handle = register(table.after_saving, hook)
        table.in_place.add(handle.id)
        return handle

    def _register_state_dict_hook(self, hook: Hook) -> RemovableHandle:
        """As ``register_state_dict_post_hook``; a dict that it returns replaces the state dict."""
        return register(self._state_table().after_saving, hook)

    def _own_state(self) -> list[tuple[str, Tensor]]:
        """The module's own parameters and persistent buffers."""
        hidden = self._non_persistent_buffers_set
        buffers = {n: b for n, b in self._buffers.items() if n not in hidden}
        items = itertools.chain(self._parameters.items(), buffers.items())
        return [(name, tensor) for name, tensor in items if tensor is not None]

    def _save_to_state_dict(
        self, destination: dict[str, Any], prefix: str, keep_vars: bool
    ) -> None:
        """Add what belongs to this very module; subclasses may add more."""
        for name, tensor in self._own_state():
            plain = keep_vars or is_uninitialized(tensor)
            destination[prefix + name] = tensor if plain else tensor.detach()
        if type(self).get_extra_state is not StatefulModule.get_extra_state:
            destination[prefix + _EXTRA] = self.get_extra_state()

    def state_dict(
        self, *args: Any, destination: Any = None, prefix: str = "", keep_vars: bool = False
    ) -> Any:
        """All parameters and persistent buffers by dotted name, sharing memory with the module.

        Args:
            destination: a dict to fill instead of a new one.
            prefix: goes before every name.
            keep_vars: give the parameters themselves instead of detached tensors.
        """
        if args:
            warn(
                "Positional args are being deprecated, use kwargs instead. Refer to "
                "https://pytorch.org/docs/main/generated/torch.nn.Module.html"
                "#torch.nn.Module.state_dict for details.",
                FutureWarning,
            )
            given = dict(zip(("destination", "prefix", "keep_vars"), args))
            destination = given.get("destination") if destination is None else destination
            prefix, keep_vars = given.get("prefix", prefix), given.get("keep_vars", keep_vars)
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        hooks = self._state_hooks or StateHooks()
        for hook in list(hooks.before_saving.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                inner = f"{prefix}{name}."
                child.state_dict(destination=destination, prefix=inner, keep_vars=keep_vars)
        for key, hook in list(hooks.after_saving.items()):
            found = hook(self, destination, prefix, metadata)
            if found is not None and key in hooks.in_place:
                raise HookError("state_dict post-hook must return None")
            destination = destination if found is None else found
        return destination

    # ------------------------------------------------------------------ loading

    def register_load_state_dict_pre_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)`` before this module loads; it may change all of them."""
        return self._register_load_state_dict_pre_hook(hook, True)

    def _register_load_state_dict_pre_hook(
        self, hook: Hook, with_module: bool = False
    ) -> RemovableHandle:
        """As ``register_load_state_dict_pre_hook``, without the module by default."""
        table = self._state_table()
        handle = register(table.before_loading, hook)
        if with_module:
            table.with_module.add(handle.id)
        return handle

    def register_load_state_dict_post_hook(self, hook: Hook) -> RemovableHandle:
        """Call ``hook(module, incompatible_keys)`` after this module and all below it have been
        loaded; it may change the keys and has to return None."""
        return register(self._state_table().after_loading, hook)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], strict: bool,
        missing_keys: list[str], unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Load what belongs to this very module; what is wrong goes to the lists."""
        rest = (state_dict, prefix, local_metadata, strict)
        hooks = self._state_hooks or StateHooks()
        for key, hook in list(hooks.before_loading.items()):
            first = (self,) if key in hooks.with_module else ()
            hook(*first, *rest, missing_keys, unexpected_keys, error_msgs)
        own = dict(self._own_state())
        assign = bool(local_metadata.get("assign_to_params_buffers", False))
        for name, tensor in own.items():
            if prefix + name not in state_dict:
                if strict:
                    missing_keys.append(prefix + name)
                continue
            given = state_dict[prefix + name]
            problem = _load(self, name, prefix + name, (tensor, given), assign)
            if problem:
                error_msgs.append(problem)
        extra = prefix + _EXTRA
        if type(self).set_extra_state is not StatefulModule.set_extra_state:
            if extra in state_dict:
                self.set_extra_state(state_dict[extra])
            elif strict:
                missing_keys.append(extra)
        elif strict and extra in state_dict:
            unexpected_keys.append(extra)
        for key in state_dict if strict else ():
            if key.startswith(prefix) and key != extra:
                first, _, below = key[len(prefix) :].partition(".")
                if first not in (self._modules if below else own):
                    unexpected_keys.append(key)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> _IncompatibleKeys:
        """Take parameters and buffers from a ``state_dict``.

        Args:
            strict: whether the names have to be exactly the module's.
            assign: take over the tensors themselves instead of copying their values.

        Returns: names that are missing and names that are unexpected.

        Raises LazytError (a RuntimeError) for wrong names under ``strict`` and for wrong shapes,
        after loading all that fits; TypeError for what is no mapping.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        keys = _IncompatibleKeys([], [])
        errors: list[str] = []
        metadata = getattr(state_dict, "_metadata", None)
        given: Any = OrderedDict(state_dict)  # hooks may change it
        if metadata is not None:
            given._metadata = metadata
        _load_tree(self, given, "", (metadata, assign), keys, errors)
        if strict:
            for kind, names in (("Unexpected", keys[1]), ("Missing", keys[0])):
                if names:
                    quoted = ", ".join(f'"{name}"' for name in names)
                    errors.insert(0, f"{kind} key(s) in state_dict: {quoted}. ")
        if errors:
            raise LazytError(
                f"Error(s) in loading state_dict for {type(self).__name__}:\n\t"
                + "\n\t".join(errors)
            )
        return keys


def _load_tree(
    module: StatefulModule, given: Mapping[str, Any], prefix: str, how: tuple[Any, bool],
    keys: _IncompatibleKeys, errors: list[str],
) -> None:  # fmt: skip
    """Load a module and all below it."""
    metadata, assign = how
    local = {} if metadata is None else metadata.get(prefix[:-1], {})
    if assign:
        local["assign_to_params_buffers"] = True
    module._load_from_state_dict(given, prefix, local, True, *keys, errors)
    for name, child in module._modules.items():
        if child is not None:
            inner = f"{prefix}{name}."
            part = {k: v for k, v in given.items() if k.startswith(inner)}
            _load_tree(child, part, inner, how, keys, errors)
    hooks = module._state_hooks or StateHooks()
    for hook in list(hooks.after_loading.values()):
        if hook(module, keys) is not None:
            raise AssertionError(
                "Hooks registered with ``register_load_state_dict_post_hook`` are not expected to "
                "return new values, if incompatible_keys need to be modified, it should be done "
                "inplace."
            )


def _load(module: Any, name: str, key: str, pair: tuple[Tensor, Any], assign: bool) -> str | None:
    """Load one tensor; returns what is wrong."""
    own, given = pair
    if is_uninitialized(given) and is_uninitialized(own):
        return None
    if not isinstance(given, Tensor):
        return (
            f'While copying the parameter named "{key}", expected lazyt.Tensor or Tensor-like '
            f"object from checkpoint but received {type(given)}"
        )
    if is_uninitialized(own):
        cast(Any, own).materialize(given.shape)
    if own.ndim == 0 and given.shape == (1,):
        given = given[0]
    if given.shape != own.shape:
        return (
            f"size mismatch for {key}: copying a param with shape {given.shape} from checkpoint, "
            f"the shape in current model is {own.shape}."
        )
    if not assign:
        with lazyt.no_grad():
            own.copy_(given)
        return None
    if isinstance(own, Parameter):
        if isinstance(given, Parameter):
            given.requires_grad_(own.requires_grad)
        else:
            given = Parameter(given, own.requires_grad)
    setattr(module, name, given)
    return None
