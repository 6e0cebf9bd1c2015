"""Nested tensors: the values of a batch one behind the other, and where each begins.

A nested tensor is a Tensor over its values, so that gradients, in-place writes and memory are
those of the values. Functions come here by ``__torch_function__``: elementwise ones run on the
values, a few others have rules in ``functions``, and what has none is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

from lazyt.compat.served.choices import LAYOUT_JAGGED
from lazyt.errors import ArgumentError, DTypeError, LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.functional.overriding import Disabled
from lazyt.functional.subclasses import as_class
from lazyt.handle.layout import strided
from lazyt.handle.tensor import Tensor

__all__ = ["NestedInt", "NestedTensor", "Raggedness", "jagged", "plain", "rule", "rules"]

#: The layout of nested tensors with one dimension of several lengths.
jagged = LAYOUT_JAGGED

#: By the name of a function, what it does with nested tensors.
rules: dict[str, Callable[..., Any]] = {}


def rule(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers what functions of these names do."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            rules[name] = function
        return function

    return register


class NestedInt:
    """The size of a dimension that has several: equal to that of the same offsets alone.

    Args:
        ragged: whose size it is.
        factor: how often it is taken.
    """

    def __init__(self, ragged: Raggedness, factor: int = 1) -> None:
        self.ragged, self.factor = ragged, factor

    def __repr__(self) -> str:
        return f"j{self.ragged.number}" if self.factor == 1 else f"{self.factor}*j{self.ragged}"

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, NestedInt)
            and other.ragged is self.ragged
            and other.factor == self.factor
        )

    def __hash__(self) -> int:
        return hash((id(self.ragged), self.factor))

    def __mul__(self, factor: int) -> NestedInt:
        return NestedInt(self.ragged, self.factor * factor)

    __rmul__ = __mul__

    def __gt__(self, other: int) -> bool:
        return not isinstance(other, NestedInt) and other < 2

    def __ge__(self, other: int) -> bool:
        return isinstance(other, NestedInt) or other <= 2

    def __lt__(self, other: int) -> bool:
        return False

    def __le__(self, other: int) -> bool:
        return isinstance(other, NestedInt)


_count = [0]


class Raggedness:
    """Where the tensors of a batch begin, and how long they are.

    Args:
        offsets: where each begins in the values, and the end of the last.
        lengths: how long each is, where there is room between them.
    """

    def __init__(self, offsets: Tensor, lengths: Tensor | None = None) -> None:
        self.offsets, self.given_lengths = offsets, lengths
        self._spans: list[tuple[int, int]] | None = None
        _count[0] += 1
        self.number = _count[0]

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Beginning and length of each tensor."""
        if self._spans is None:
            starts = [int(n) for n in self.offsets.tolist()]
            if self.given_lengths is not None:
                sizes = [int(n) for n in self.given_lengths.tolist()]
                starts = starts[: len(sizes)]
            else:
                sizes = [b - a for a, b in pairwise(starts)]
                starts = starts[:-1]
            self._spans = list(zip(starts, sizes))
        return self._spans

    @property
    def longest(self) -> int:
        """The largest length."""
        return max((size for _, size in self.spans), default=0)

    @property
    def is_dense(self) -> bool:
        """Whether there is no room between the tensors."""
        return self.given_lengths is None

    def owners(self) -> Tensor:
        """Which tensor of the batch each row of the values belongs to."""
        sizes = lazyt.tensor([size for _, size in self.spans], dtype=lazyt.int64)
        return lazyt.repeat_interleave(lazyt.arange(len(self.spans)), sizes)

    def positions(self) -> Tensor:
        """Where each row is in a padded batch whose first two dimensions are one."""
        longest = self.longest
        found = [
            number * longest + place
            for number, (_, size) in enumerate(self.spans)
            for place in range(size)
        ]
        return lazyt.tensor(found, dtype=lazyt.int64)


def plain(tensor: Tensor) -> Tensor:
    """The values of a nested tensor, as a plain tensor with its gradient history."""
    with Disabled():
        return as_class(tensor, Tensor)


class NestedTensor(Tensor):
    """A batch of tensors of several lengths; made by ``torch.nested.nested_tensor``.

    Of the layout ``jagged``, the values are one tensor whose dimension ``ragged_at - 1`` has the
    lengths of all tensors one behind the other. Of the strided layout, which leaves every size
    open, they are a vector.
    """

    _asks_when_made = True
    ragged: Raggedness
    ragged_at: int
    shapes: list[tuple[int, ...]] | None

    @classmethod
    def over(
        cls, values: Tensor, ragged: Raggedness, at: int = 1,
        shapes: Sequence[tuple[int, ...]] | None = None,
    ) -> NestedTensor:  # fmt: skip
        """A nested tensor over values."""
        with Disabled():
            made: Any = as_class(values, cls)
        made.ragged, made.ragged_at = ragged, at
        made.shapes = None if shapes is None else [tuple(shape) for shape in shapes]
        return made  # type: ignore[no-any-return]

    def like(self, values: Tensor) -> NestedTensor:
        """A nested tensor of the same lengths over other values."""
        return NestedTensor.over(values, self.ragged, self.ragged_at, self.shapes)

    # ------------------------------------------------------------------ what it is

    @property
    def is_nested(self) -> bool:
        """True."""
        return True

    @property
    def layout(self) -> Any:
        """``torch.jagged`` or ``torch.strided``."""
        return jagged if self.shapes is None else strided

    @property
    def count(self) -> int:
        """How many tensors there are."""
        return len(self.ragged.spans if self.shapes is None else self.shapes)

    @property
    def ndim(self) -> int:
        """The number of dimensions, with that of the batch."""
        if self.shapes is not None:
            return 1 + (len(self.shapes[0]) if self.shapes else 0)
        return 1 + len(plain(self).shape)

    @property
    def shape(self) -> Any:
        """The sizes; the one of several lengths is a symbol. Raises LazytError for the strided
        layout."""
        if self.shapes is not None:
            raise LazytError("Internal error: NestedTensorImpl doesn't support sizes.")
        sizes: list[Any] = [len(self.ragged.spans), *plain(self).shape]
        sizes[self.ragged_at] = NestedInt(self.ragged)
        return NestedSize(sizes)

    def size(self, dim: int | None = None) -> Any:
        """All sizes, or that of one dimension; raises LazytError for one that is irregular."""
        if dim is None:
            return self.shape
        if self.shapes is None:
            return self.shape[dim]
        at = dim % self.ndim
        if at == 0:
            return len(self.shapes)
        found = {shape[at - 1] for shape in self.shapes}
        if len(found) > 1:
            raise LazytError(f"Given dimension {at} is irregular and does not have a size.")
        return found.pop()

    def dim(self) -> int:
        """The number of dimensions."""
        return self.ndim

    def numel(self) -> int:
        """How many elements there are."""
        return int(sum(part.numel() for part in self.parts()))

    def __len__(self) -> int:
        return self.count

    def offsets(self) -> Tensor:
        """Where each tensor begins, and the end of the last."""
        self._check_jagged("offsets")
        return self.ragged.offsets

    def lengths(self) -> Tensor | None:
        """How long the tensors are, where there is room between them, else None."""
        self._check_jagged("lengths")
        return self.ragged.given_lengths

    def values(self) -> Tensor:
        """All values, one tensor behind the other."""
        return plain(self)

    _values = property(values)

    def _check_jagged(self, name: str) -> None:
        if self.shapes is not None:
            raise LazytError(f"{name}() is for nested tensors of the layout torch.jagged")

    # ----------------------------------------------------------------- its tensors

    def parts(self) -> list[Tensor]:
        """The tensors, as views of the values."""
        values = plain(self)
        if self.shapes is None:
            at = self.ragged_at - 1
            return [values.narrow(at, start, size) for start, size in self.ragged.spans]
        pairs = zip(self.ragged.spans, self.shapes)
        return [values.narrow(0, start, n).reshape(shape) for (start, n), shape in pairs]

    def unbind(self, dim: int = 0) -> tuple[Tensor, ...]:
        """The tensors. Raises LazytError for another dimension."""
        if dim % self.ndim:
            raise LazytError(f"NestedTensor can only be unbound along dimension 0 got dim={dim}")
        return tuple(self.parts())

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self.parts())

    def to_padded_tensor(self, padding: float, output_size: Sequence[int] | None = None) -> Tensor:
        """A plain tensor of all, with ``padding`` where one is shorter than the longest.

        Raises ShapeError where ``output_size`` is smaller than that.
        """
        parts = self.parts()
        rank = self.ndim - 1
        largest = [max((p.shape[d] for p in parts), default=0) for d in range(rank)]
        if output_size is not None:
            wanted = list(output_size)[1:]
            if any(w < n for w, n in zip(wanted, largest)):
                raise ShapeError(
                    "Value in output_size is less than NestedTensor padded size. Truncation is "
                    "not supported."
                )
            largest = wanted
        if not parts:
            return plain(self).new_empty((0, *largest))
        padded = []
        for part in parts:
            around = [pad for d in reversed(range(rank)) for pad in (0, largest[d] - part.shape[d])]
            short = any(around)
            padded.append(_pad(part, around, padding) if short else part)
        return lazyt.stack(padded)

    # ----------------------------------------------------------------- functions

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        if self.shapes is None:
            tail = (
                f", grad_fn={_history(self)}"
                if plain(self).grad_fn is not None
                else (", requires_grad=True" if plain(self).requires_grad else "")
            )
            return (
                f"NestedTensor(size={tuple(self.shape)!r}, offsets={self.ragged.offsets}"
                f"{tail}, contiguous={self.ragged.is_dense and self.ragged_at == 1})"
            )
        lines = [
            "\n".join("  " + line for line in repr(part.detach()).splitlines())
            for part in self.parts()
        ]
        tail = ", requires_grad=True" if plain(self).requires_grad else ""
        return "nested_tensor([\n" + ",\n".join(lines) + "\n]" + tail + ")"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = memo.get(id(self))
        if made is None:
            values = plain(self)
            copied = values.detach().clone().requires_grad_(values.requires_grad)
            made = memo[id(self)] = self.like(copied)
        return made

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        owner = getattr(func, "__self__", None)
        if isinstance(owner, property):
            return _attribute(func, owner, args)
        name = func.__name__
        found = rules.get(name)
        if found is not None:
            with Disabled():
                return found(func, *args, **kwargs)
        raise LazytError(
            f"{name} does not take nested tensors: take nested.unbind(), or "
            "nested.to_padded_tensor(0), and a mask"
        )


def _history(tensor: Tensor) -> str:
    return f"<{type(plain(tensor).grad_fn).__name__}>"


def _pad(part: Tensor, around: list[int], padding: float) -> Tensor:
    from lazyt.nn.functional import pad

    return pad(part, around, value=padding)


class NestedSize(tuple[Any, ...]):
    """The shape of a nested tensor."""

    def __repr__(self) -> str:
        return f"torch.Size([{', '.join(map(repr, self))}])"

    def numel(self) -> int:
        """Raises LazytError: one size is a symbol."""
        raise LazytError("the number of elements of a nested tensor is nested.numel()")


def _attribute(func: Any, owner: Any, args: Any) -> Any:
    """The reading or writing of an attribute: of the values, and a gradient is nested."""
    self = args[0]
    if not isinstance(self, NestedTensor):
        raise DTypeError("a nested tensor cannot be an attribute of a plain one")
    with Disabled():
        if func.__name__ != "__get__":
            return func(*args)
        if owner is Tensor.grad:
            found: Any = func(self)
            return None if found is None else self.like(found)
        if owner in (Tensor.data,):
            return self.like(plain(self).detach())
        if owner in (Tensor.T, Tensor.mT, Tensor.H, Tensor.mH):
            if owner is Tensor.mT:
                return rules["transpose"](Tensor.transpose, self, -2, -1)
            raise ArgumentError("nested tensors have no .T; call transpose(dim0, dim1)")
        return func(*args)
