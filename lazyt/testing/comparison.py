"""``assert_close``: two results compared, with PyTorch's tolerances and messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from numbers import Number
from typing import Any, NoReturn

import numpy as np

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

# Random tensors for tests.


def _bounds(dtype: Any, low: Any, high: Any) -> tuple[float, float]:
    """The interval of values where it is not given, as PyTorch chooses it."""
    if dtype is lazyt.bool:
        return 0, 2
    if not dtype.is_floating_point:
        least, most = (0, 10) if dtype is lazyt.uint8 else (-9, 10)
    else:
        least, most = -9, 9
    return (least if low is None else low), (most if high is None else high)


def make_tensor(
    *shape: Any, dtype: Any, device: Any = "cpu", low: float | None = None,
    high: float | None = None, requires_grad: bool = False, noncontiguous: bool = False,
    exclude_zero: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of values drawn evenly from [low, high).

    Args:
        shape: numbers, or one sequence of them.
        dtype: bool, a whole or a floating point type.
        low, high: by default [-9, 9), [-9, 10) for signed and [0, 10) for unsigned whole numbers.
        noncontiguous: leave gaps in memory.
        exclude_zero: put the smallest positive number, or 1, in the place of zeros.

    Raises LazytError for an empty interval and for whole numbers that are to have a gradient.
    """
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
    least, most = _bounds(dtype, low, high)
    if not least < most:
        raise LazytError(f"make_tensor: low is below high, but {least} >= {most}")
    wanted = (*sizes[:-1], 2 * sizes[-1]) if noncontiguous and sizes else tuple(sizes)
    if dtype.is_floating_point:
        made = lazyt.empty(wanted, dtype=dtype, device=device).uniform_(least, most)
    else:
        made = lazyt.randint(int(least), int(most), wanted, device=device).to(dtype)
    if noncontiguous and sizes:
        made = made[..., ::2]
    if exclude_zero:
        instead = lazyt.finfo(dtype).tiny if dtype.is_floating_point else 1
        made.masked_fill_(made == 0, instead)
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made


Message = str | Callable[[str], str] | None

#: Relative and absolute tolerance by dtype; PyTorch's table.
_TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7), "complex64": (1.3e-6, 1e-5), "complex128": (1e-7, 1e-7),
}  # fmt: skip


class _Settings:
    """The request for a comparison."""

    def __init__(self, rtol: float | None, atol: float | None, equal_nan: bool, msg: Message,
                 checks: dict[str, bool]) -> None:  # fmt: skip
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.message, self.checks = msg, checks

    def tolerances(self, *dtypes: str) -> tuple[float, float]:
        """Those given, or the larger ones of the dtypes."""
        if self.rtol is not None and self.atol is not None:
            return self.rtol, self.atol
        found = [_TOLERANCES.get(name, (0.0, 0.0)) for name in dtypes]
        return max(f[0] for f in found), max(f[1] for f in found)

    def fail(self, text: str, where: str) -> NoReturn:
        """Raise AssertionError."""
        text += f"\n\nThe failure occurred for item {where}" if where else ""
        if callable(self.message):
            text = self.message(text)
        elif self.message is not None:
            text = self.message
        raise AssertionError(text)


def _kind(tensor: Tensor) -> str:
    return str(tensor.dtype).rpartition(".")[2]


def _number(value: Any) -> Any:
    """A NumPy number as Python's; whole differences stay whole."""
    return value.item() if isinstance(value, np.generic) else value


def _compare_values(
    actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any], rtol: float, atol: float,
    settings: _Settings, where: str,
) -> None:  # fmt: skip
    """Fails unless all elements are close; arrays of one shape and dtype."""
    with np.errstate(all="ignore"):
        if actual.dtype.kind in "bui":
            wide = (actual.astype(object) - expected.astype(object), expected.astype(object))
            # The absolute value of an array of no dimensions is a number.
            gaps, size = (np.asarray(np.abs(part), dtype=object).astype(np.int64) for part in wide)
            close = gaps <= atol + rtol * size
        else:
            gaps, size = np.abs(actual - expected), np.abs(expected)
            close = (actual == expected) | (np.isfinite(expected) & (gaps <= atol + rtol * size))
            if settings.equal_nan:
                close |= np.isnan(actual) & np.isnan(expected)
        if close.all():
            return
        shares = np.abs(gaps / size)
    exact = rtol == 0 == atol
    if not actual.shape:
        _fail_numbers(_number(actual[()]), _number(expected[()]), rtol, atol, settings, where)
    counted = [np.where(close, -1, values) for values in (gaps, shares)]
    spots = [np.unravel_index(int(np.argmax(values)), values.shape) for values in counted]
    lines = [
        f"Tensor-likes are not {'equal' if exact else 'close'}!",
        "",
        f"Mismatched elements: {int((~close).sum())} / {close.size} "
        f"({(~close).sum() / close.size:.1%})",
    ]
    tolerances = (("absolute", gaps, atol), ("relative", shares, rtol))
    for (title, values, tolerance), spot in zip(tolerances, spots):
        index = tuple(int(i) for i in spot)
        limit = "" if exact else f" (up to {tolerance if tolerance else 0} allowed)"
        lines.append(
            f"Greatest {title} difference: {_number(values[spot])} at index {index}{limit}"
        )
    settings.fail("\n".join(lines), where)


def _fail_numbers(
    actual: Any, expected: Any, rtol: float, atol: float, settings: _Settings, where: str
) -> NoReturn:
    exact = rtol == 0 == atol
    gap = abs(actual - expected)
    share = gap / abs(expected) if expected else math.inf
    limits = ["" if exact else f" (up to {t if t else 0} allowed)" for t in (atol, rtol)]
    settings.fail(
        f"Scalars are not {'equal' if exact else 'close'}!\n\n"
        f"Expected {expected} but got {actual}.\n"
        f"Absolute difference: {gap}{limits[0]}\nRelative difference: {share}{limits[1]}",
        where,
    )


def _compare_tensors(actual: Tensor, expected: Tensor, settings: _Settings, where: str) -> None:
    checked: list[tuple[str, str, Any, Any]] = [
        ("", "shape", actual.shape, expected.shape),
        ("check_layout", "layout", actual.layout, expected.layout),
        ("check_device", "device", actual.device, expected.device),
        ("check_dtype", "dtype", actual.dtype, expected.dtype),
    ]
    if actual.layout is expected.layout is lazyt.strided:
        checked.append(("check_stride", "stride()", actual.stride(), expected.stride()))
    for option, title, one, other in checked:
        if (not option or settings.checks[option]) and one != other:
            settings.fail(
                f"The values for attribute '{title}' do not match: {one} != {other}.", where
            )
    actual, expected = actual.to_dense(), expected.to_dense()
    rtol, atol = settings.tolerances(_kind(actual), _kind(expected))
    if actual.dtype is not expected.dtype:
        common = lazyt.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(common), expected.to(common)
    if actual.dtype is lazyt.bfloat16:
        actual, expected = actual.float(), expected.float()
    pair = [t.detach().cpu().numpy() for t in (actual, expected)]
    _compare_values(pair[0], pair[1], rtol, atol, settings, where)


def _compare_numbers(actual: Any, expected: Any, settings: _Settings, where: str) -> None:
    if settings.checks["check_dtype"] and type(actual) is not type(expected):
        settings.fail(f"The (d)types do not match: {type(actual)} != {type(expected)}.", where)
    kinds = ["float64" if isinstance(v, float) else "int64" for v in (actual, expected)]
    rtol, atol = settings.tolerances(*kinds)
    if settings.equal_nan and actual != actual and expected != expected:
        return
    near = math.isfinite(expected) and abs(actual - expected) <= atol + rtol * abs(expected)
    if actual != expected and not near:
        _fail_numbers(actual, expected, rtol, atol, settings, where)


def _compare_mappings(
    actual: Mapping[Any, Any], expected: Mapping[Any, Any], settings: _Settings, where: str
) -> None:
    missing = [k for k in expected if k not in actual]
    extra = [k for k in actual if k not in expected]
    if missing or extra:
        settings.fail(
            "The keys of the mappings do not match:\n"
            f"Missing keys in the actual mapping: {sorted(missing)}\n"
            f"Additional keys in the actual mapping: {sorted(extra)}",
            where,
        )
    for key in sorted(expected, key=repr):
        _compare(actual[key], expected[key], settings, f"{where}[{key!r}]")


def _compare(actual: Any, expected: Any, settings: _Settings, where: str) -> None:
    pair = (actual, expected)
    if all(v is None for v in pair):
        return
    if all(isinstance(v, Mapping) for v in pair):
        _compare_mappings(actual, expected, settings, where)
    elif all(isinstance(v, Sequence) and not isinstance(v, str) for v in pair):
        if len(actual) != len(expected):
            settings.fail(
                f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", where
            )
        for index, (one, other) in enumerate(zip(actual, expected)):
            _compare(one, other, settings, f"{where}[{index}]")
    elif all(isinstance(v, (bool, np.bool_)) for v in pair):
        if actual != expected:
            settings.fail(f"Booleans mismatch: {actual} is not {expected}", where)
    elif all(isinstance(v, Number) for v in pair):
        _compare_numbers(actual, expected, settings, where)
    elif all(isinstance(v, (Tensor, np.ndarray)) for v in pair):
        one, other = (v if isinstance(v, Tensor) else lazyt.as_tensor(v) for v in pair)
        _compare_tensors(one, other, settings, where)
    else:
        raise TypeError(
            "No comparison pair was able to handle inputs of type "
            f"{type(actual)} and {type(expected)}."
        )


def assert_close(
    actual: Any, expected: Any, *, allow_subclasses: bool = True, rtol: float | None = None,
    atol: float | None = None, equal_nan: bool = False, check_device: bool = True,
    check_dtype: bool = True, check_layout: bool = True, check_stride: bool = False,
    msg: Message = None,
) -> None:  # fmt: skip
    """Raise AssertionError unless ``|actual - expected| <= atol + rtol * |expected|`` everywhere.

    Args:
        actual, expected: tensors (sparse ones by their dense values), arrays, numbers, None, or
            sequences and mappings of them.
        rtol, atol: tolerances, given together; by default those of the dtypes, 0 for whole numbers.
        equal_nan: whether NaN is close to NaN.
        check_device, check_dtype, check_layout, check_stride: what else has to be the same.
        msg: the error's message, or a function that makes it of the usual one.

    Raises TypeError for what cannot be compared, ValueError for one tolerance without the other.
    """
    if (rtol is None) is not (atol is None):
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )
    checks = {"check_device": check_device, "check_dtype": check_dtype,
              "check_stride": check_stride, "check_layout": check_layout}  # fmt: skip
    if not allow_subclasses and type(actual) is not type(expected):
        raise TypeError(f"{type(actual)} and {type(expected)} are compared with subclasses only")
    _compare(actual, expected, _Settings(rtol, atol, equal_nan, msg, checks), "")


def assert_allclose(
    actual: Any, expected: Any, rtol: float | None = None, atol: float | None = None,
    equal_nan: bool = True, msg: str = "",
) -> None:  # fmt: skip
    """``assert_close`` under its old name: numbers count as tensors, dtypes may differ."""
    one, other = (v if isinstance(v, Tensor) else lazyt.tensor(v) for v in (actual, expected))
    assert_close(
        one, other, rtol=rtol, atol=atol, equal_nan=equal_nan, check_device=True,
        check_dtype=False, check_stride=False, msg=msg or None,
    )  # fmt: skip
