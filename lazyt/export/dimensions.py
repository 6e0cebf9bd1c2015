"""Which sizes of the arguments may differ from those of the examples."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Any

from lazyt.errors import LazytError
from lazyt.handle.tensor import Tensor
from lazyt.utils import _pytree as pytree

__all__ = ["Dim", "DimHint", "ShapesCollection", "ShapesError", "dims", "sizes_of"]

#: The largest size, and what PyTorch prints for it.
_ENDLESS = 1 << 62


class ShapesError(LazytError, ValueError):
    """Dynamic shapes that do not fit the arguments, or that contradict each other."""


class DimHint(enum.Enum):
    """What may be said of a size instead of a name."""

    AUTO = enum.auto()
    DYNAMIC = enum.auto()
    STATIC = enum.auto()

    def __repr__(self) -> str:
        return f"DimHint({self.name})"

    __str__ = __repr__

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        """The same; PyTorch's takes bounds."""
        return self


class Dim:
    """A size that may differ, by a name: sizes with one name are equal.

    >>> batch = lazyt.export.Dim("batch", min=1, max=64)
    >>> model = lazyt.nn.Linear(3, 2)
    >>> program = lazyt.export.export(model, (lazyt.ones(4, 3),), dynamic_shapes=({0: batch},))
    >>> program.module()(lazyt.ones(7, 3)).shape
    torch.Size([7, 2])

    Raises ShapesError for names that are no identifiers, and bounds in the wrong order.
    """

    AUTO = DimHint.AUTO
    DYNAMIC = DimHint.DYNAMIC
    STATIC = DimHint.STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ShapesError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min = 0 if min is None else min
        self.max = _ENDLESS if max is None else max
        if self.max <= self.min:
            raise ShapesError(f"Cannot create Dim with inconsistent min={self.min}, max={self.max}")

    def __repr__(self) -> str:
        high = "" if self.max == _ENDLESS else f", max={self.max}"
        return f"Dim('{self.__name__}', min={self.min}{high})"

    def check(self, size: int, where: str) -> None:
        """Raises ShapesError for a size that is out of bounds."""
        if not self.min <= size <= self.max:
            sign, limit = ("<=", self.max) if size > self.max else (">=", self.min)
            raise _BoundsError(f"Guard failed: {where} {sign} {limit}, and got {size}")


class _BoundsError(ShapesError, AssertionError):
    """A size that is out of bounds when a program runs."""


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several Dims with the same bounds."""
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Dynamic shapes by the tensors themselves.

    >>> x, shapes = lazyt.ones(4, 3), lazyt.export.ShapesCollection()
    >>> shapes[x] = {0: lazyt.export.Dim("batch")}
    """

    def __init__(self) -> None:
        # By identity, with the tensors, so that no other one takes the place of one that is gone.
        self._shapes: dict[int, tuple[Any, Any]] = {}

    def __setitem__(self, t: Any, shape: Any) -> None:
        self._shapes[id(t)] = t, shape

    def __getitem__(self, t: Any) -> Any:
        return self._shapes.setdefault(id(t), (t, {}))[1]

    def __len__(self) -> int:
        return len(self._shapes)

    def dynamic_shapes(self, m: Any, args: tuple[Any, ...], kwargs: Any = None) -> Any:
        """The shapes as they stand in the arguments of ``export``."""

        def of_leaf(leaf: Any) -> Any:
            return self._shapes.get(id(leaf), (leaf, None))[1]

        return pytree.tree_map(of_leaf, (*args, *(kwargs or {}).values()))


def sizes_of(dynamic_shapes: Any, given: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """For each leaf of the arguments its sizes: a number, or the Dim or DimHint of those that may
    differ; None for what is no tensor.

    Args:
        dynamic_shapes: a sequence with an entry for each argument, or a dict by their names.
        given: the arguments.
        names: their names.

    Raises ShapesError for entries that do not fit the arguments.
    """
    if dynamic_shapes is None:
        told: list[Any] = [None] * len(given)
    elif isinstance(dynamic_shapes, Mapping):
        unknown = [name for name in dynamic_shapes if name not in names]
        if unknown:
            raise ShapesError(
                f"When `dynamic_shapes` is specified as a dict, its top-level keys must be the arg "
                f"names {list(names)} of `inputs`, but here they are {list(dynamic_shapes)}"
            )
        told = [dynamic_shapes.get(name) for name in names]
    else:
        told = list(dynamic_shapes)
        if len(told) != len(given):
            raise ShapesError(
                f"`dynamic_shapes` has {len(told)} entries for {len(given)} arguments"
            )
    found: list[Any] = []
    for name, value, said in zip(names, given, told):
        _add(value, said, name, found)
    _check_names(found, pytree.tree_leaves(tuple(given)))
    return found


def _add(value: Any, said: Any, where: str, found: list[Any]) -> None:
    """Adds the sizes of the leaves of one argument."""
    if isinstance(value, Tensor):
        found.append(_sizes(value, said, where))
        return
    if isinstance(value, Mapping):
        for key, part in value.items():
            _add(part, _part(said, key), f"{where}[{key!r}]", found)
    elif isinstance(value, (list, tuple)):
        for number, part in enumerate(value):
            _add(part, _part(said, number), f"{where}[{number}]", found)
    else:
        found.extend([None] * len(pytree.tree_leaves(value)))


def _part(said: Any, key: Any) -> Any:
    if said is None:
        return None
    if isinstance(said, Mapping):
        return said.get(key)
    if isinstance(said, (list, tuple)) and isinstance(key, int) and key < len(said):
        return said[key]
    raise ShapesError(f"`dynamic_shapes` has {said!r} where an argument has parts")


def _sizes(tensor: Tensor, said: Any, where: str) -> list[Any]:
    sizes: list[Any] = list(tensor.shape)
    if said is None:
        return sizes
    if isinstance(said, Mapping):
        entries = dict(said)
    elif isinstance(said, (list, tuple)):
        if len(said) != len(sizes):
            raise ShapesError(
                f"Expected dynamic shape spec {said} for {where} to have the same length as its "
                f"shape {list(sizes)}"
            )
        entries = dict(enumerate(said))
    else:
        raise ShapesError(f"the dynamic shape of {where} has to be a dict or a sequence")
    for dim, entry in entries.items():
        if entry is None or entry is DimHint.STATIC:
            continue
        if not isinstance(dim, int) or not -len(sizes) <= dim < len(sizes):
            raise ShapesError(f"{where} has no dimension {dim}")
        if isinstance(entry, Dim):
            entry.check(sizes[dim], f"{where}.size()[{dim}]")
        elif isinstance(entry, int) and not isinstance(entry, bool):
            if entry != sizes[dim]:
                raise ShapesError(
                    f"Static shape constraint of {entry} does not match input size of "
                    f"{sizes[dim]}, for {where}.shape[{dim}]"
                )
            continue
        elif entry not in (DimHint.AUTO, DimHint.DYNAMIC):
            raise ShapesError(f"{entry!r} is no Dim, for {where}.shape[{dim}]")
        sizes[dim] = entry
    return sizes


def _check_names(found: Sequence[Any], leaves: Sequence[Any]) -> None:
    """Sizes with one name are equal in the examples."""
    values: dict[str, int] = {}
    for sizes, leaf in zip(found, leaves):
        for dim, size in enumerate(sizes or ()):
            if isinstance(size, Dim):
                known = values.setdefault(size.__name__, leaf.shape[dim])
                if known != leaf.shape[dim]:
                    raise ShapesError(
                        f"Constraints violated ({size.__name__}): it is {known} and "
                        f"{leaf.shape[dim]} in the examples"
                    )
