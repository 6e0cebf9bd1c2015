"""Which pairs of tensors and numbers a function of two operands takes, as PyTorch's forms say."""

from __future__ import annotations

from typing import Any

from lazyt.errors import DTypeError
from lazyt.functional.operands import as_number, pair_nodes, wrong_arguments
from lazyt.ir.dtypes import DType
from lazyt.ir.graph import Node
from lazyt.tensor import Tensor

_TENSORS = "Tensor input, Tensor other, *, Tensor out = None"
_NUMBER_LAST = "Tensor input, Number other, *, Tensor out = None"
_NUMBER_FIRST = "Number self, Tensor other, *, Tensor out = None"
_TENSOR_FIRST = (_TENSORS, _NUMBER_LAST)
_ONE_TENSOR = (_TENSORS, _NUMBER_FIRST, _NUMBER_LAST)
_ONE_TENSOR_PLAIN = (_TENSORS, "Number self, Tensor other", _NUMBER_LAST)
_POWERS = tuple(form.replace("other", "exponent") for form in _ONE_TENSOR)

# The functions with more forms than one; a number may come first where a form says so. The others
# take tensors, and a number in their place.
_FORMS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge", "fmod", "copysign"), _TENSOR_FIRST),
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift",
         "bitwise_right_shift", "remainder"), _ONE_TENSOR_PLAIN,
    ),
    **dict.fromkeys(("xlogy", "special_xlog1py", "special_zeta"), _ONE_TENSOR),
    "pow": _POWERS,
    "float_power": _POWERS,
    "rsub": ("Tensor input, Tensor other, *, Number alpha = 1",
             "Tensor input, Number other, Number alpha = 1"),
}  # fmt: skip


def pair(a: Any, b: Any, function: str) -> tuple[Node, Node, DType]:
    """``pair_nodes``; raises DTypeError for operands that ``function`` does not take."""
    if not isinstance(a, Tensor) and function in _FORMS:
        check_pair(a, b, function)
    found = pair_nodes(a, b)
    if found is None:
        raise _wrong_pair(a, b, function)
    return found


def check_pair(a: Any, b: Any, function: str) -> None:
    """Raise DTypeError unless ``function``, one with several forms, takes these operands."""
    forms = _FORMS.get(function, _ONE_TENSOR)
    number_first = any(form.startswith("Number") for form in forms)
    if isinstance(a, Tensor):
        fits = isinstance(b, Tensor) or as_number(b) is not None
    else:
        fits = number_first and as_number(a) is not None and isinstance(b, Tensor)
    if not fits:
        raise wrong_arguments(function, (a, b), forms)


def _wrong_pair(a: Any, b: Any, function: str) -> DTypeError:
    if function in _FORMS:
        return wrong_arguments(function, (a, b), _FORMS[function])
    position, wrong = (1, a) if as_number(a) is None and not isinstance(a, Tensor) else (2, b)
    name = "input" if position == 1 else "other"
    return DTypeError(
        f"{function}(): argument '{name}' (position {position}) must be Tensor, "
        f"not {type(wrong).__name__}"
    )
