"""How to choose what is pruned; ``lazyt.nn.utils.prune`` is what people import."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module
from lazyt.nn.utils.convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured",
    "PruningContainer", "RandomStructured", "RandomUnstructured", "custom_from_mask",
    "global_unstructured", "identity", "is_pruned", "l1_unstructured", "ln_structured",
    "random_structured", "random_unstructured", "remove",
]  # fmt: skip


class BasePruningMethod(ABC):
    """How to choose what is pruned: subclasses define ``compute_mask`` and ``PRUNING_TYPE``
    ("unstructured", "structured" with ``dim``, or "global")."""

    _tensor_name: str
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """A mask of the shape of ``t``: ``default_mask`` with more zeros."""

    def apply_mask(self, module: Module) -> Tensor:
        """The original times the mask."""
        mask = getattr(module, self._tensor_name + "_mask")
        original = getattr(module, self._tensor_name + "_orig")
        return mask.to(dtype=original.dtype) * original  # type: ignore[no-any-return]

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None,
        **kwargs: Any,
    ) -> Any:  # fmt: skip
        """Prune the parameter ``name``, after what was pruned before; returns the method.

        Raises AssertionError for scores of another shape.
        """
        method = cls._after_earlier(module, name, cls(*args, **kwargs))
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        if scores.shape != original.shape:
            raise AssertionError(
                "importance_scores should have the same shape as parameter "
                f"{name} of {module}, got {scores.shape} vs {original.shape}"
            )
        first = not isinstance(method, PruningContainer)
        if first:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            default_mask = lazyt.ones_like(original)
        else:
            default_mask = getattr(module, name + "_mask").detach().clone()
        try:
            mask = method.compute_mask(scores, default_mask=default_mask)
        except Exception:
            if first:
                module.register_parameter(name, getattr(module, name + "_orig"))
                del module._parameters[name + "_orig"]
            raise
        module.register_buffer(name + "_mask", mask.detach())
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    @staticmethod
    def _after_earlier(module: Module, name: str, method: BasePruningMethod) -> Any:
        """The method, or a container of it and those that pruned this parameter before."""
        method._tensor_name = name
        found = [k for k, h in module._forward_pre_hooks.items() if prunes(h, name)]
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module "
                f"{module}. Use a PruningContainer."
            )
        if not found:
            return method
        earlier: Any = module._forward_pre_hooks.pop(found[0])
        container = earlier if isinstance(earlier, PruningContainer) else PruningContainer(earlier)
        container.add_pruning_method(method)
        return container

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None,
        importance_scores: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """``t`` with the chosen elements set to zero. Raises AssertionError for other scores."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError(
                "importance_scores should have the same shape as tensor t, got "
                f"{scores.shape} vs {t.shape}"
            )
        start = lazyt.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=start)

    def remove(self, module: Module) -> None:
        """Make the pruned tensor the parameter again, zeros and all."""
        name = self._tensor_name
        value = self.apply_mask(module)
        if hasattr(module, name):
            delattr(module, name)
        original = module._parameters.pop(name + "_orig")
        assert original is not None
        original.data = value.detach()
        del module._buffers[name + "_mask"]
        setattr(module, name, original)


def prunes(hook: Any, name: str) -> bool:
    """Whether a hook prunes the parameter of this name."""
    return isinstance(hook, BasePruningMethod) and hook._tensor_name == name


class PruningContainer(BasePruningMethod):
    """Several methods one after the other; each chooses among what the others left."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[Any, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        """Add a method for the same parameter. Raises TypeError, ValueError."""
        if method is not None and not isinstance(method, BasePruningMethod):
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and self._tensor_name != method._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}' "
                f"to PruningContainer {self}. Found '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: Any) -> Any:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What the last method leaves of ``default_mask``. Raises AttributeError, ValueError."""
        method = self._pruning_methods[-1]
        kept = _part_of(method, t, default_mask)
        mask = default_mask.to(dtype=t.dtype, copy=True)
        found = method.compute_mask(t[kept], default_mask=default_mask[kept])
        mask[kept] = found.to(dtype=mask.dtype)
        return mask


def _part_of(method: Any, t: Tensor, mask: Tensor) -> Any:
    """An index of what a method may choose from: what the mask has left."""
    kind = method.PRUNING_TYPE
    if kind == "unstructured":
        return mask == 1
    if kind == "global":
        return (slice(None),) * t.ndim
    if kind != "structured":
        raise ValueError(f"Unrecognized PRUNING_TYPE {kind}")
    if not hasattr(method, "dim"):
        raise AttributeError(
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.'
        )
    place = method.dim + t.ndim if method.dim < 0 else method.dim
    if place < 0:
        raise IndexError(f"Index is out of bounds for tensor with dimensions {t.ndim}")
    others = [axis for axis in range(t.ndim) if axis != place]
    index: list[Any] = [slice(None)] * t.ndim
    index[place] = mask.sum(dim=others) != 0
    return tuple(index)


class Identity(BasePruningMethod):
    """Prunes nothing: gives the parameter a mask."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask``."""
        return default_mask


class _ByAmount(BasePruningMethod):
    """Methods that prune a number of elements or slices, or a share of them."""

    amount: float

    def __init__(self, amount: float) -> None:
        whole = isinstance(amount, numbers.Integral)
        if not isinstance(amount, numbers.Real):
            raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
        if amount < 0 or (not whole and amount > 1):
            raise ValueError(
                f"amount={amount} should either be a float in the range [0, 1] or a non-negative "
                "integer"
            )
        self.amount = amount

    def _count(self, total: int) -> int:
        """How many of ``total`` are pruned. Raises ValueError for more than there are."""
        whole = isinstance(self.amount, numbers.Integral)
        count = int(self.amount) if whole else round(self.amount * total)
        if count > total:
            raise ValueError(
                f"amount={count} should be smaller than the number of parameters to prune={total}"
            )
        return count


class _Elements(_ByAmount):
    """Methods that prune the elements of the lowest score."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` without the chosen elements."""
        count = self._count(t.numel())
        mask = default_mask.clone(memory_format=lazyt.contiguous_format)
        if count:
            mask.view(-1)[self._scores(t).reshape(-1).topk(count, largest=False).indices] = 0
        return mask

    @abstractmethod
    def _scores(self, t: Tensor) -> Tensor: ...


class RandomUnstructured(_Elements):
    """Prunes any elements: a number of them (int) or a share (float)."""

    def _scores(self, t: Tensor) -> Tensor:
        return lazyt.rand_like(t)


class L1Unstructured(_Elements):
    """Prunes the elements of the smallest size: a number of them (int) or a share (float)."""

    def _scores(self, t: Tensor) -> Tensor:
        return t.abs()


class _Slices(_ByAmount):
    """Methods that prune the slices along ``dim`` of the lowest score."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """``default_mask`` without the chosen slices. Raises ValueError, IndexError."""
        if t.ndim <= 1:
            raise ValueError(
                "Structured pruning can only be applied to multidimensional tensors. Found tensor "
                f"of shape {t.shape} with {t.ndim} dims"
            )
        if self.dim >= t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of size {t.shape}")
        total = t.shape[self.dim]
        count = self._count(total)
        if count == 0:
            return default_mask
        kept = lazyt.ones(total, dtype=t.dtype)
        kept[self._scores(t).topk(count, largest=False).indices] = 0
        shape = [1] * t.ndim
        shape[self.dim] = total
        found: Tensor = default_mask.to(dtype=t.dtype) * kept.view(shape)
        return found

    @abstractmethod
    def _scores(self, t: Tensor) -> Tensor: ...


class RandomStructured(_Slices):
    """Prunes any slices along ``dim``: a number of them (int) or a share (float)."""

    def _scores(self, t: Tensor) -> Tensor:
        return lazyt.rand(t.shape[self.dim])


class LnStructured(_Slices):
    """Prunes the slices along ``dim`` of the smallest ``n``-norm."""

    def __init__(self, amount: float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        others = [axis for axis in range(t.ndim) if axis != self.dim % t.ndim]
        return lazyt.norm(t, p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """Both masks. Raises AssertionError for different shapes."""
        if default_mask.shape != self.mask.shape:
            raise AssertionError(
                f"default_mask shape {default_mask.shape} must match self.mask shape "
                f"{self.mask.shape}"
            )
        return default_mask * self.mask.to(dtype=default_mask.dtype)


# Pruning: parameters of which a part is held at zero by a mask.
#
# A pruned parameter ``weight`` becomes ``weight_orig`` (the parameter) times ``weight_mask`` (a
# buffer), computed before every call. ``remove`` makes the zeros permanent.


M = TypeVar("M", bound=Module)


def identity(module: M, name: str) -> M:
    """Give a parameter a mask that prunes nothing; returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: M, name: str, amount: float) -> M:
    """Prune any elements, a number (int) or share (float) of them; returns the module."""
    RandomUnstructured.apply(module, name, amount=amount)
    return module


def l1_unstructured(
    module: M, name: str, amount: float, importance_scores: Tensor | None = None
) -> M:
    """Prune the smallest elements, by size or by the size of their scores; returns the module."""
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: M, name: str, amount: float, dim: int) -> M:
    """Prune any slices along ``dim``; returns the module."""
    RandomStructured.apply(module, name, amount=amount, dim=dim)
    return module


def ln_structured(
    module: M, name: str, amount: float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> M:
    """Prune the slices along ``dim`` of the smallest ``n``-norm; returns the module."""
    scores = importance_scores
    LnStructured.apply(module, name, amount=amount, n=n, dim=dim, importance_scores=scores)
    return module


def custom_from_mask(module: M, name: str, mask: Tensor) -> M:
    """Prune where ``mask`` is zero; returns the module."""
    CustomFromMask.apply(module, name, mask=mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune several parameters as if they were one.

    Args:
        parameters: pairs of module and name.
        pruning_method: an unstructured method's class; ``kwargs`` are its arguments.
        importance_scores: by pair, instead of the parameters themselves.

    Raises TypeError.
    """
    if not isinstance(parameters, Iterable):
        raise TypeError("global_unstructured(): parameters is not an Iterable")
    scores = {} if importance_scores is None else importance_scores
    if not isinstance(scores, dict):
        raise TypeError("global_unstructured(): importance_scores must be of type dict")
    pairs = [(module, name, getattr(module, name)) for module, name in parameters]
    ranked = parameters_to_vector([scores.get((m, name), value) for m, name, value in pairs])
    masks = [getattr(m, name + "_mask", lazyt.ones_like(value)) for m, name, value in pairs]
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. Found method '
            f"{pruning_method} of type {method.PRUNING_TYPE}"
        )
    method._tensor_name = "all"
    found = PruningContainer(method).compute_mask(ranked, parameters_to_vector(masks))
    parts = found.split([value.numel() for _, _, value in pairs])
    for (module, name, value), part in zip(pairs, parts):
        custom_from_mask(module, name, part.view(value.shape))


def remove(module: M, name: str) -> M:
    """Make pruning permanent; returns the module. Raises ValueError where nothing was pruned."""
    for key, hook in module._forward_pre_hooks.items():
        if prunes(hook, name):
            hook.remove(module)
            del module._forward_pre_hooks[key]
            return module
    raise ValueError(
        f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed"
    )


def is_pruned(module: Module) -> bool:
    """Whether a parameter of the module, or of one below it, is pruned."""
    hooks = (h for m in module.modules() for h in m._forward_pre_hooks.values())
    return any(isinstance(hook, BasePruningMethod) for hook in hooks)


_explain_absence(__name__)
