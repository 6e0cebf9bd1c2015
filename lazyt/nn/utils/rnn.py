"""Sequences of different lengths: padded to one length, or packed without padding.

A packed sequence holds the first elements of all sequences, then the second elements of those that
have one, and so on; the longest sequence comes first.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.errors import LazytError, ShapeError
from lazyt.functional import namespace as lazyt
from lazyt.functional.shapes.joining import pad_rows
from lazyt.handle.tensor import Tensor

__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence",
    "pad_packed_sequence", "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip


class _Parts(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Parts):
    """Sequences without padding, as ``pack_padded_sequence`` makes them.

    Attributes:
        data: [sum of lengths, *], time by time.
        batch_sizes: int64 [longest length], how many sequences reach each time.
        sorted_indices: where each sequence was before sorting by length; None if none was sorted.
        unsorted_indices: the inverse of that.
    """

    def __new__(
        cls,
        data: Any,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        if batch_sizes is None:
            if not (isinstance(data, (list, tuple)) and len(data) == 2):
                raise AssertionError("Expected data to be a list or tuple of length 2")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be "
                "created manually. They should be instantiated by functions like pack_sequence and "
                "pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with(self, data: Tensor) -> PackedSequence:
        if data is self.data:
            return self
        order, back = (
            None if t is None else t.to(data.device)
            for t in (self.sorted_indices, self.unsorted_indices)
        )
        return type(self)(data, self.batch_sizes, order, back)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """With the data converted as by ``Tensor.to``; itself where that changes nothing."""
        return self._with(self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """On a GPU. Raises DeviceError without one."""
        return self._with(self.data.cuda(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """On the CPU."""
        return self._with(self.data.cpu())

    def pin_memory(self) -> PackedSequence:
        """In memory that a GPU copies from at full speed."""
        return self._with(self.data.pin_memory())

    def double(self) -> PackedSequence:
        """With the data as float64."""
        return self.to(dtype=lazyt.float64)

    def float(self) -> PackedSequence:
        """With the data as float32."""
        return self.to(dtype=lazyt.float32)

    def half(self) -> PackedSequence:
        """With the data as float16."""
        return self.to(dtype=lazyt.float16)

    def long(self) -> PackedSequence:
        """With the data as int64."""
        return self.to(dtype=lazyt.int64)

    def int(self) -> PackedSequence:
        """With the data as int32."""
        return self.to(dtype=lazyt.int32)

    def short(self) -> PackedSequence:
        """With the data as int16."""
        return self.to(dtype=lazyt.int16)

    def char(self) -> PackedSequence:
        """With the data as int8."""
        return self.to(dtype=lazyt.int8)

    def byte(self) -> PackedSequence:
        """With the data as uint8."""
        return self.to(dtype=lazyt.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a GPU."""
        return bool(self.data.is_cuda)

    def is_pinned(self) -> bool:
        """Whether the data is in pinned memory."""
        return bool(self.data.is_pinned())


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """The permutation [N] that undoes this one; None for None."""
    if permutation is None:
        return None
    places = lazyt.arange(permutation.numel(), device=permutation.device)
    inverse: Tensor = lazyt.empty_like(permutation).scatter_(0, permutation, places)
    return inverse


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Padded sequences [L, N, *] ([N, L, *] with ``batch_first``) without the padding.

    Args:
        lengths: of the N sequences; looked at, because the result's size depends on it.
        enforce_sorted: whether they have to fall; else the sequences are sorted by length.

    Raises LazytError for lengths that are zero, too many or in the wrong order, IndexError for ones
    longer than the padded sequences.
    """
    if isinstance(lengths, Tensor):
        known = lengths.to(dtype=lazyt.int64)
    else:
        known = lazyt.as_tensor(lengths, dtype=lazyt.int64)
    order = None
    if not enforce_sorted:
        known, order = lazyt.sort(known, descending=True)
        input = input.index_select(0 if batch_first else 1, order)
    if batch_first:
        input = input.transpose(0, 1)
    counts = _checked_lengths(known, input, order is None)
    sizes = [sum(n > time for n in counts) for time in range(counts[0])]
    data = lazyt.cat([input.select(0, time)[:size] for time, size in enumerate(sizes)])
    return PackedSequence(data, lazyt.tensor(sizes), order, None)


def _checked_lengths(lengths: Tensor, input: Tensor, sorted_before: bool) -> list[int]:
    """Raises LazytError or ShapeError."""
    if input.numel() == 0:
        raise LazytError("Cannot pack empty tensors.")
    if lengths.ndim != 1:
        raise ShapeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.ndim}D "
            "cpu Long tensor"
        )
    if lengths.shape[0] != input.shape[1]:
        raise ShapeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.shape[0]} "
            f"(batch_size={input.shape[1]})"
        )
    counts = [int(n) for n in lengths.tolist()]
    if counts[-1] <= 0:
        raise LazytError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' "
            "that is <= 0"
        )
    if sorted_before and any(a < b for a, b in pairwise(counts)):
        raise LazytError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You "
            "can pass `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to "
            "sidestep this requirement if you do not need ONNX exportability."
        )
    return counts


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Packed sequences padded to [L, N, *] ([N, L, *] with ``batch_first``), and their lengths [N].

    Args:
        total_length: L, the longest length by default.

    Raises ValueError for a ``total_length`` below that.
    """
    sizes = [int(n) for n in sequence.batch_sizes.tolist()]
    total = len(sizes) if total_length is None else total_length
    if total < len(sizes):
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but "
            f"got total_length={total_length} and max sequence length being {len(sizes)}"
        )
    data, count = sequence.data, sizes[0]
    padding = data.new_full((count, *data.shape[1:]), padding_value)
    parts = zip(data.split(sizes), sizes)
    rows = [x if n == count else lazyt.cat([x, padding[n:]]) for x, n in parts]
    rows += [padding] * (total - len(sizes))
    padded = lazyt.stack(rows)
    if batch_first:
        padded = padded.transpose(0, 1)
    lengths = lazyt.tensor([sum(n > place for n in sizes) for place in range(count)])
    back = sequence.unsorted_indices
    if back is None:
        return padded, lengths
    return padded.index_select(0 if batch_first else 1, back), lengths[back.cpu()]


def pad_sequence(
    sequences: Any,
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Sequences [length, *] as one tensor [L, N, *] ([N, L, *] with ``batch_first``).

    Args:
        padding_side: "right" or "left" of the elements.

    Raises LazytError for no sequences and for another side, ShapeError where the other dimensions
    differ.
    """
    if not isinstance(sequences, Iterable):
        raise LazytError(
            "pad_sequence: Expected iterable for input sequences, but got arg of type: "
            f"{type(sequences)}"
        )
    given = tuple(sequences)
    if not given:
        raise LazytError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise LazytError(
            "Expected padding_side to be one of left or right, but got " + padding_side + "."
        )
    total = max(len(x) for x in given)
    rest = given[0].shape[1:]
    rows = []
    for x in given:
        _check_rest(rest, x.shape[1:])
        rows.append(x.to(given[0].dtype).expand(len(x), *rest))
    left, axis = padding_side == "left", 0 if batch_first else 1
    if not (lazyt.is_grad_enabled() and any(x.requires_grad for x in rows)):
        return pad_rows(rows, total, padding_value, left, axis)
    for number, x in enumerate(rows):
        padding = x.new_full((total - len(x), *rest), padding_value)
        if len(x) < total:
            rows[number] = lazyt.cat([padding, x] if left else [x, padding])
    return lazyt.stack(rows, axis)


def _check_rest(wanted: tuple[int, ...], given: tuple[int, ...]) -> None:
    """Raises ShapeError where all dimensions but the first do not fit, in PyTorch's words."""
    if len(wanted) != len(given):
        raise ShapeError(
            f"The number of dimensions must match: expected {len(wanted) + 1}, got {len(given) + 1}"
        )
    for axis in reversed(range(len(wanted))):
        if given[axis] not in (1, wanted[axis]):
            raise ShapeError(
                f"The size of tensor a ({wanted[axis]}) must match the size of tensor b "
                f"({given[axis]}) at non-singleton dimension {axis + 1}"
            )


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Padded sequences as a list of tensors [length, *]; the lengths are looked at.

    Without ``batch_first`` the given tensor itself is transposed, as PyTorch does it.
    Raises ValueError for another number of lengths than of sequences.
    """
    if not batch_first:
        padded_sequences.transpose_(0, 1)
    longest = padded_sequences.shape[1]
    counts = [min(max(int(n), 0), longest) for n in lengths.tolist()]
    return [x[:n].clone() for x, n in zip(padded_sequences, counts, strict=True)]


def pack_sequence(sequences: list[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Sequences [length, *] as one PackedSequence; see ``pack_padded_sequence``."""
    lengths = [len(x) for x in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """The sequences [length, *] of a PackedSequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


_explain_absence(__name__)
