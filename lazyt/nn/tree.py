"""Modules as a tree: what a module holds by name, and what is below it."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lazyt.nn.hooks import HookTable
from lazyt.nn.parameter import Parameter
from lazyt.tensor import Tensor

if TYPE_CHECKING:
    from lazyt.nn.module import Module


class ModuleTree:
    """The tables of a module, and walks over them and those of the modules below."""

    training: bool
    if TYPE_CHECKING:  # not for typing.get_type_hints of subclasses, which would look for the names
        _parameters: dict[str, Parameter | None]
        _buffers: dict[str, Tensor | None]
        _modules: dict[str, Module | None]
        _non_persistent_buffers_set: set[str]
        _hooks: HookTable | None

    def _get_name(self) -> str:
        """What the module is called when it is printed."""
        return type(self).__name__

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

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """This module and all below it."""
        return (module for _, module in self.named_modules(remove_duplicate=remove_duplicate))

    def named_modules(
        self, memo: set[Any] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Any]]:
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
        self, get_members_fn: Any, prefix: str = "", recurse: bool = True,
        remove_duplicate: bool = True,
    ) -> Iterator[tuple[str, Any]]:  # fmt: skip
        owners: Any = [(prefix, self)]
        if recurse:
            owners = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
        seen: set[Any] = set()
        for path, module in owners:
            for name, value in get_members_fn(module):
                if value is None or value in seen:
                    continue
                if remove_duplicate:
                    seen.add(value)
                yield f"{path}.{name}" if path else name, value

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """The parameters with dotted names, each once unless ``remove_duplicate`` is off."""
        yield from self._named_members(
            lambda module: module._parameters.items(), prefix, recurse, remove_duplicate
        )

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters of this module and, with ``recurse``, of all below it."""
        for _, value in self.named_parameters(recurse=recurse):
            yield value

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """The buffers with dotted names."""
        yield from self._named_members(
            lambda module: module._buffers.items(), prefix, recurse, remove_duplicate
        )

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The buffers of this module and, with ``recurse``, of all below it."""
        for _, value in self.named_buffers(recurse=recurse):
            yield value

    def get_submodule(self, target: str) -> Any:
        """The module of a dotted name. Raises AttributeError."""
        found: Any = self
        for part in target.split(".") if target else ():
            found = _part_of(found, part, ModuleTree, "an nn.Module")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a dotted name. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        found: Parameter = _part_of(self.get_submodule(path), name, Parameter, "an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a dotted name. Raises AttributeError."""
        path, _, name = target.rpartition(".")
        owner = self.get_submodule(path)
        found: Tensor = _part_of(owner, name, object, "a buffer")
        if name not in owner._buffers:
            raise AttributeError(f"`{name}` is not a buffer")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put ``module`` in the place of the one of a dotted name.

        Args:
            strict: whether there has to be one already.

        Raises ValueError for no name and for what is no module, AttributeError for names of
        nothing, or of something else.
        """
        if target == "":
            raise ValueError("Cannot set the submodule without a target name!")
        if not isinstance(module, ModuleTree):
            raise ValueError(f"`module` is not an nn.Module, found {builtins.type(module)}")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict or hasattr(parent, name):
            _part_of(parent, name, ModuleTree, "an nn.Module")
        setattr(parent, name, module)


def _part_of(owner: Any, name: str, kind: type, title: str) -> Any:
    """The attribute of this kind. Raises AttributeError."""
    if not hasattr(owner, name):
        raise AttributeError(f"{owner._get_name()} has no attribute `{name}`")
    found = getattr(owner, name)
    if not isinstance(found, kind):
        raise AttributeError(f"`{name}` is not {title}")
    return found
