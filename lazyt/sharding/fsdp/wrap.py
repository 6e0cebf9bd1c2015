"""Which modules of a model ``FullyShardedDataParallel`` wraps by themselves
(``torch.distributed.fsdp.wrap``).

A policy is a function of a module, whether its children are to be looked at (``recurse``) or the
module itself is to be wrapped, and how many elements its parameters have that no wrapped child has.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from lazyt.nn.attention import MultiheadAttention
from lazyt.nn.containers import ModuleDict, ModuleList
from lazyt.nn.module import Module

__all__ = [
    "CustomPolicy", "ModuleWrapPolicy", "Policy", "always_wrap_policy", "enable_wrap",
    "lambda_auto_wrap_policy", "or_policy", "size_based_auto_wrap_policy",
    "transformer_auto_wrap_policy", "wrap", "wrap_children",
]  # fmt: skip


def always_wrap_policy(*args: Any, **kwargs: Any) -> bool:
    """Every module is wrapped."""
    return True


def size_based_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    min_num_params: int = int(1e8),
    force_leaf_modules: Collection[type[Module]] | None = None,
    exclude_wrap_modules: Collection[type[Module]] | None = None,
) -> bool:
    """Modules whose parameters have at least ``min_num_params`` elements that no wrapped child has.

    Args:
        module, recurse, nonwrapped_numel: see the top of this module.
        min_num_params: from how many on.
        force_leaf_modules: into which kinds not to look; ``MultiheadAttention`` by default.
        exclude_wrap_modules: which kinds not to wrap; lists and dictionaries of modules by default.
    """
    leaves = {MultiheadAttention} if force_leaf_modules is None else force_leaf_modules
    excluded = {ModuleList, ModuleDict} if exclude_wrap_modules is None else exclude_wrap_modules
    if nonwrapped_numel < min_num_params:
        return False
    return not isinstance(module, tuple(leaves if recurse else excluded))


size_based_auto_wrap_policy.EXCLUDE_WRAP_MODULES = {ModuleList, ModuleDict}  # type: ignore[attr-defined]
size_based_auto_wrap_policy.FORCE_LEAF_MODULES = {MultiheadAttention}  # type: ignore[attr-defined]


def transformer_auto_wrap_policy(
    module: Module,
    recurse: bool,
    nonwrapped_numel: int,
    transformer_layer_cls: Iterable[type[Module]],
) -> bool:
    """Modules of some classes, such as a transformer's layers."""
    return recurse or isinstance(module, tuple(transformer_layer_cls))


def lambda_auto_wrap_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, lambda_fn: Callable[[Module], bool]
) -> bool:
    """Modules of which a function is true."""
    return recurse or lambda_fn(module)


def or_policy(
    module: Module, recurse: bool, nonwrapped_numel: int, policies: Iterable[Callable[..., bool]]
) -> bool:
    """Modules that one of several policies chooses."""
    return any(
        policy(module=module, recurse=recurse, nonwrapped_numel=nonwrapped_numel)
        for policy in policies
    )


class Policy(ABC):
    """A policy that says for a whole model which modules are wrapped, and with which settings."""

    @abstractmethod
    def chosen(self, module: Module) -> dict[str, Any] | None:
        """The settings of a module beside the outer ones, None for one that is not wrapped."""


class ModuleWrapPolicy(Policy):
    """Modules of some classes. It is a policy function, too."""

    def __init__(self, module_classes: Iterable[type[Module]]) -> None:
        self._module_classes = tuple(module_classes)

    def chosen(self, module: Module) -> dict[str, Any] | None:
        """No settings of their own for modules of these classes."""
        return {} if isinstance(module, self._module_classes) else None

    def __call__(self, module: Module, recurse: bool, *args: Any, **kwargs: Any) -> bool:
        return recurse or isinstance(module, self._module_classes)

    def __repr__(self) -> str:
        return f"{super().__repr__()}({set(self._module_classes)})"


class CustomPolicy(Policy):
    """Modules of which a function is true, or gives settings that differ from the outer ones."""

    def __init__(self, lambda_fn: Callable[[Module], bool | dict[str, Any]]) -> None:
        self._lambda_fn = lambda_fn

    def chosen(self, module: Module) -> dict[str, Any] | None:
        """What the function gives. Raises ValueError for another kind of result."""
        found = self._lambda_fn(module)
        if not isinstance(found, (dict, bool)):
            raise ValueError(
                "The lambda_fn passed to CustomPolicy should return False/True or a kwarg dict, "
                f"but it returned {found}"
            )
        if isinstance(found, dict):
            return found
        return {} if found else None


Make = Callable[..., Module]


def wrap_children(module: Module, policy: Any, make: Make, ignored: set[Any]) -> None:
    """Wraps those modules inside of one that a policy chooses, the innermost first.

    Args:
        make: gives a module its wrapper, with settings beside the outer ones.
        ignored: modules and parameters that nobody wraps.
    """
    if isinstance(policy, Policy):
        _wrap_chosen(module, policy, make, ignored)
    else:
        _Walk(policy, make, ignored).inside(module)


def _wrap_chosen(module: Module, policy: Policy, make: Make, ignored: set[Any]) -> None:
    for name, child in list(module.named_children()):
        if child in ignored:
            continue
        _wrap_chosen(child, policy, make, ignored)
        settings = policy.chosen(child)
        if settings is not None:
            setattr(module, name, make(child, **settings))


class _Walk:
    """Modules wrapped by a policy function, which counts elements of parameters."""

    def __init__(self, policy: Callable[..., bool], make: Make, ignored: set[Any]) -> None:
        self._policy, self._make, self._ignored = policy, make, ignored

    def inside(self, module: Module) -> tuple[int, int]:
        """Wraps a module's children. Returns how many elements its parameters have, and how many of
        these wrapped children have."""
        count = sum(p.numel() for p in module.parameters() if p not in self._ignored)
        if not self._policy(module=module, recurse=True, nonwrapped_numel=count):
            return count, 0
        wrapped = 0
        for name, child in list(module.named_children()):
            if child in self._ignored:
                continue
            whole, inner = self.inside(child)
            if self._policy(module=child, recurse=False, nonwrapped_numel=whole - inner):
                setattr(module, name, self._make(child))
                inner = whole
            wrapped += inner
        return count, wrapped


#: Of ``enable_wrap`` blocks: the wrapper and its settings, the innermost last.
_blocks: list[tuple[Make, dict[str, Any]]] = []


@contextmanager
def enable_wrap(*, wrapper_cls: Any, **wrapper_kwargs: Any) -> Iterator[None]:
    """A block in which ``wrap`` wraps modules, with these settings."""
    _blocks.append((wrapper_cls, wrapper_kwargs))
    try:
        yield
    finally:
        _blocks.pop()


def wrap(module: Module, **wrap_overrides: Any) -> Module:
    """A module in the wrapper of the ``enable_wrap`` block that this is in, with its settings
    except for those of ``wrap_overrides``; outside of one the module itself."""
    if not _blocks:
        return module
    make, settings = _blocks[-1]
    return make(module, **{**settings, **wrap_overrides})
