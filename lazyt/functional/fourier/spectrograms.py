"""Spectra of pieces of signals that overlap, and signals made of them again."""

from __future__ import annotations

import math
from typing import Any

from lazyt import ops
from lazyt.errors import DTypeError, LazytError, RankError, ShapeError, warn
from lazyt.functional.elementwise.complex_numbers import view_as_real
from lazyt.functional.fourier.transforms import (
    complex_to_complex,
    complex_to_real,
    real_to_complex,
)
from lazyt.functional.nn.borders import pad
from lazyt.functional.operands import constant_of, expand_to, require_tensor
from lazyt.functional.results import give, known_values
from lazyt.functional.shapes.view_shapes import squeeze, transpose
from lazyt.functional.type_promotion import promote_types, torch_name
from lazyt.handle.function_table import declare_grad_fn, function
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node

__all__ = ["istft", "stft"]

declare_grad_fn("Istft")

#: What the overlap of the squared windows must not fall below, where a signal is divided by it.
_LEAST = 1e-11


def _described(tensor: Tensor, braces: bool = False) -> str:
    """A tensor as PyTorch's messages of these functions tell it."""
    shape = list(tensor.shape)
    return f"torch.{torch_name(tensor.dtype)}Tensor{f'{{{shape}}}' if braces else shape}"


def _flag(value: bool | None) -> str:
    return "None" if value is None else str(int(value))


def _window_text(window: Tensor | None) -> str:
    return "None" if window is None else _described(window, braces=True)


def _whole_window(window: Tensor | None, win_length: int, n_fft: int, dtype: DType) -> Node:
    """The window amid zeros, or ones where there is none, [n_fft]."""
    node = window.node if window is not None else None
    if node is None:
        node = expand_to(constant_of(1, dtype), (win_length,))
    left = (n_fft - win_length) // 2
    return ops.pad(node, (left,), (n_fft - win_length - left,), (0,), 0)


def _product(x: Node, y: Node) -> Node:
    """Both in the dtype that they promote to; ``y`` is broadcast."""
    dtype = promote_types(x.dtype, y.dtype)
    return ops.apply("mul", ops.cast(x, dtype), ops.cast(y, dtype))


@function(method=True)
def stft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, pad_mode: str = "reflect",
    normalized: bool = False, onesided: bool | None = None, return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Tensor:  # fmt: skip
    """Spectra of pieces of ``n_fft`` points, ``hop_length`` apart: the short-time Fourier transform
    of a signal [L], or of a batch [B, L].

    Each piece is multiplied by the ``window`` of ``win_length`` points, which stands in its middle.
    The result is [frequencies, pieces], with the batch before; of real signals and windows it has
    the first ``n_fft // 2 + 1`` frequencies (``onesided``), and with ``return_complex=False`` a
    last dimension of real and imaginary parts.

    Args:
        hop_length: by default a quarter of ``n_fft``.
        win_length: by default ``n_fft``.
        center: whether pieces are around the points ``hop_length * k``; the signal is padded for
            that at both ends as ``pad_mode`` says (``nn.functional.pad``).
        normalized: divide by the square root of ``n_fft``.
        return_complex: has to be said for real signals and windows.
        align_to_window: without ``center``, whether the first window, instead of the first piece,
            begins with the signal.

    Raises ShapeError for a signal of other ranks or shorter than a piece and for a window of
    another size, DTypeError for whole numbers and 16-bit floats, LazytError for other settings that
    do not fit, and what ``pad`` raises.

    Example::

        >>> wave = lazyt.sin(lazyt.arange(64) * (lazyt.pi / 4))
        >>> spectrum = lazyt.stft(wave, 16, window=lazyt.hann_window(16), return_complex=True)
        >>> spectrum.shape, spectrum.abs()[:, 8].argmax().item()
        (lazyt.Size([9, 17]), 2)
    """
    tensor, aligned = require_tensor(input, "stft"), align_to_window
    if center:
        if aligned is not None:
            raise LazytError("stft align_to_window should only be set when center = false")
        tensor = _centered(tensor, n_fft, pad_mode)
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    is_complex = tensor.dtype.kind == "c" or (window is not None and window.dtype.kind == "c")
    if return_complex is None and not is_complex:
        raise LazytError(
            "stft requires the return_complex parameter be given for real inputs, and will further "
            "require that return_complex=True in a future PyTorch release."
        )
    said = (
        f"stft({_described(tensor)}, n_fft={n_fft}, hop_length={hop}, win_length={size}, "
        f"window={_window_text(window)}, normalized={int(normalized)}, onesided={_flag(onesided)}, "
        f"return_complex={_flag(return_complex)}, align_to_window={_flag(aligned)}) : "
    )
    _check_signal(tensor, n_fft, hop, size, window, said)
    onesided = not is_complex if onesided is None else onesided
    if is_complex and onesided:
        raise LazytError("Cannot have onesided output if window or input is complex")
    found = _spectra(tensor, n_fft, hop, size, window, bool(aligned), normalized, onesided)
    return view_as_real(found) if return_complex is False else found


def _centered(tensor: Tensor, n_fft: int, pad_mode: str) -> Tensor:
    """A signal padded by half a piece at both ends."""
    shape = tuple(tensor.shape)
    extended = tensor.reshape(*(1,) * (3 - len(shape)), *shape)
    extended = pad(extended, (n_fft // 2, n_fft // 2), pad_mode)
    found: Tensor = extended.reshape(*shape[:-1], extended.shape[-1])
    return found


def _check_signal(
    tensor: Tensor, n_fft: int, hop: int, size: int, window: Tensor | None, said: str
) -> None:  # fmt: skip
    """Raise ShapeError or DTypeError for what has no spectra."""
    if tensor.dtype.kind not in "fc":
        raise DTypeError(f"{said}expected a tensor of floating point or complex values")
    for item in (tensor, window):
        if item is not None and item.dtype.is_half:
            raise DTypeError(f"Unsupported dtype {torch_name(item.dtype)}")
    if tensor.ndim not in (1, 2):
        raise ShapeError(f"{said}expected a 1D or 2D tensor")
    length = tensor.shape[-1]
    if not 0 < n_fft <= length:
        raise ShapeError(f"{said}expected 0 < n_fft < {length}, but got n_fft={n_fft}")
    if hop <= 0:
        raise ShapeError(f"{said}expected hop_length > 0, but got hop_length={hop}")
    if not 0 < size <= n_fft:
        raise ShapeError(f"{said}expected 0 < win_length <= n_fft, but got win_length={size}")
    if window is not None and tuple(window.shape) != (size,):
        raise ShapeError(
            f"{said}expected a 1D window tensor of size equal to win_length={size}, but got window "
            f"with size {list(window.shape)}"
        )


def _spectra(
    tensor: Tensor, n_fft: int, hop: int, size: int, window: Tensor | None, aligned: bool,
    normalized: bool, onesided: bool,
) -> Tensor:  # fmt: skip
    """[frequencies, pieces], a view of spectra that lie one after another in memory."""
    node = tensor.node
    if tensor.ndim == 1:
        node = ops.reshape(node, (1, *node.shape))
    if aligned:
        before = (n_fft - size) // 2
        node = ops.pad(node, (0, before), (0, n_fft - size - before), (0, 0), 0)
    batch, length = node.shape
    pieces = 1 + (length - n_fft) // hop
    node = ops.window(node, (batch, pieces, n_fft), (length, hop, 1), 0)
    if window is not None or size < n_fft:
        node = _product(node, _whole_window(window, size, n_fft, node.dtype))
    scale = 1 / math.sqrt(n_fft) if normalized else 1.0
    transformed = real_to_complex if onesided else complex_to_complex
    found = transformed(node, (2,), (n_fft,), -1, scale)
    title = "FftR2C" if node.dtype.kind == "f" else "FftC2C"
    result = transpose(give(found, title, (tensor, window)), 1, 2)
    return squeeze(result, 0) if tensor.ndim == 1 else result


# ----------------------------------------------------------------------- and back


@function(method=True)
def istft(
    input: Tensor, n_fft: int, hop_length: int | None = None, win_length: int | None = None,
    window: Tensor | None = None, center: bool = True, normalized: bool = False,
    onesided: bool | None = None, length: int | None = None, return_complex: bool = False,
) -> Tensor:  # fmt: skip
    """The signal [L] of which ``stft`` gives spectra nearest to ``input``, [frequencies, pieces],
    or a batch of them (Griffin and Lim, "Signal estimation from modified short-time Fourier
    transform", 1984).

    Pieces are transformed back, multiplied by the window, added up where they overlap, and divided
    by the overlap of the squared windows, whose values are looked at. Arguments are those of
    ``stft``.

    Args:
        onesided: by default whether there are other than ``n_fft`` frequencies.
        length: of the signal, which zeros lengthen with a warning; by default all that the pieces
            reach, without what ``center`` padded.
        return_complex: whether the signal is complex.

    Raises DTypeError for real spectra and 16-bit floats, ShapeError for other shapes, RankError for
    less than two dimensions, and LazytError where settings do not fit, or windows leave a gap.

    Example::

        >>> wave, window = lazyt.sin(lazyt.arange(64.0)), lazyt.hann_window(16)
        >>> spectrum = lazyt.stft(wave, 16, window=window, return_complex=True)
        >>> lazyt.allclose(lazyt.istft(spectrum, 16, window=window), wave, atol=1e-5)
        True
    """
    tensor = require_tensor(input, "istft")
    hop = n_fft // 4 if hop_length is None else hop_length
    size = n_fft if win_length is None else win_length
    if tensor.dtype.kind != "c":
        raise DTypeError(
            "istft requires a complex-valued input tensor matching the output from stft with "
            "return_complex=True."
        )
    said = (
        f"istft(CPU{torch_name(tensor.dtype)}Type{list(tensor.shape)}, n_fft={n_fft}, "
        f"hop_length={hop}, win_length={size}, window={_window_text(window)}, "
        f"center={int(center)}, normalized={int(normalized)}, onesided={_flag(onesided)}, "
        f"length={length}, return_complex={int(return_complex)})"
    )
    onesided = _check_spectra(tensor, n_fft, hop, size, window, onesided, said)
    if return_complex and onesided:
        raise LazytError("Cannot have onesided output if window or input is complex")
    if not return_complex and window is not None and window.dtype.kind == "c":
        raise LazytError("Complex windows are incompatible with return_complex=False")
    node = _pieces(tensor.node, n_fft, normalized, return_complex)
    total = n_fft + hop * (node.shape[1] - 1)
    start = n_fft // 2 if center else 0
    stop = total - start if length is None else start + length
    whole = _whole_window(window, size, n_fft, tensor.dtype.part)
    signal = _weighted(node, whole, hop, start, min(stop, total), said)
    if stop > total:
        signal = _lengthened(signal, stop - total)
    if tensor.ndim == 2:
        signal = ops.reshape(signal, signal.shape[1:])
    return give(signal, "Istft", (tensor, window))


def _lengthened(signal: Node, count: int) -> Node:
    """So many zeros behind a signal, with a warning."""
    warn(
        "The length of signal is shorter than the length parameter. Result is being padded with "
        "zeros in the tail. Please check your center and hop_length settings."
    )
    return ops.pad(signal, (0, 0), (0, count), (0, 0), 0)


def _weighted(node: Node, window: Node, hop: int, start: int, stop: int, said: str) -> Node:
    """The mean of overlapping pieces, weighted by the square of the window that is in them."""
    _, count, n = node.shape
    signal = _overlapped(_product(node, window), hop, start, stop)
    squares = ops.reshape(ops.apply("mul", window, window), (1, 1, n))
    envelope = _overlapped(ops.expand(squares, (1, count, n)), hop, start, stop)
    _check_envelope(envelope, said)
    dtype = promote_types(signal.dtype, envelope.dtype)
    return ops.apply("div", ops.cast(signal, dtype), ops.cast(envelope, dtype))


def _check_spectra(
    tensor: Tensor, n_fft: int, hop: int, size: int, window: Tensor | None, onesided: bool | None,
    said: str,
) -> bool:  # fmt: skip
    """Whether spectra have only their first half; raises for what they cannot be."""
    if tensor.ndim < 2:
        low = -max(tensor.ndim, 1)
        raise RankError(
            f"Dimension out of range (expected to be in range of [{low}, {-low - 1}], but got -2)"
        )
    if 0 in tensor.shape:
        raise ShapeError(f"{said} : input tensor cannot be empty.")
    if tensor.ndim not in (2, 3):
        raise ShapeError(
            f"{said} : expected a tensor with 3 or 4 dimensions, but got {tensor.ndim + 1}"
        )
    found = tensor.shape[-2]
    half = found != n_fft if onesided is None else bool(onesided)
    if found != (n_fft // 2 + 1 if half else n_fft):
        wanted = "n_fft / 2 + 1 when onesided=True" if half else "n_fft when onesided=False"
        raise ShapeError(
            f"{said} : expected the frequency dimension (3rd to the last) of the input tensor to "
            f"match {wanted}, but got {found}"
        )
    if not 0 < hop <= size:
        raise ShapeError(f"{said} : expected 0 < hop_length <= win_length")
    if not 0 < size <= n_fft:
        raise ShapeError(f"{said} : expected 0 < win_length <= n_fft")
    if window is not None and tuple(window.shape) != (size,):
        raise ShapeError(
            f"{said} : Invalid window shape. window has to be 1D and length of `win_length`"
        )
    if window is not None and window.dtype.is_half:
        raise DTypeError(f"Unsupported dtype {torch_name(window.dtype)}")
    return half


def _pieces(node: Node, n_fft: int, normalized: bool, return_complex: bool) -> Node:
    """Spectra [..., frequencies, pieces] transformed back, [batch, pieces, n_fft]."""
    if len(node.shape) == 2:
        node = ops.reshape(node, (1, *node.shape))
    node = ops.permute(node, (0, 2, 1))
    scale = 1 / math.sqrt(n_fft) if normalized else 1 / n_fft
    transformed = complex_to_complex if return_complex else complex_to_real
    return transformed(node, (2,), (n_fft,), 1, scale)


def _overlapped(node: Node, hop: int, start: int, stop: int) -> Node:
    """The sum of pieces that begin ``hop`` after each other, [batch, pieces, n] to [batch, points],
    from one point to another.

    Parts of ``hop`` points that meet in the sum come to stand below each other when rows that are
    padded to some width are read in rows that are one part shorter.
    """
    batch, count, n = node.shape
    parts = -(-n // hop)
    node = ops.pad(node, (0, 0, 0), (0, 0, parts * hop - n), (0, 0, 0), 0)
    node = ops.permute(ops.reshape(node, (batch, count, parts, hop)), (0, 2, 1, 3))
    node = ops.pad(node, (0,) * 4, (0, 0, parts, 0), (0,) * 4, 0)
    node = ops.reshape(node, (batch, parts * (count + parts) * hop))
    width = count + parts - 1
    node = ops.slice_(node, (0, 0), (batch, parts * width * hop), (1, 1))
    node = ops.reduce_("sum", ops.reshape(node, (batch, parts, width * hop)), (1,))
    if stop <= start:
        raise ShapeError(
            "min(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
        )
    return ops.slice_(node, (0, start), (batch, stop - start), (1, 1))


def _check_envelope(envelope: Node, said: str) -> None:
    """Raise LazytError where the windows leave a gap."""
    if envelope.dtype.kind == "c":
        size = ops.apply("hypot", ops.apply("real", envelope), ops.apply("imag", envelope))
    else:
        size = ops.apply("abs", envelope)
    lowest = ops.reduce_("min", size, range(len(size.shape)))
    values: Any = known_values(lowest, "the overlap of windows is checked")
    if values.item() < _LEAST:
        raise LazytError(f"{said} window overlap add min: 1\n[ CPUBoolType{{}} ]")
