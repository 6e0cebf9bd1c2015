"""Numbers beside tensors: what a type cannot hold is refused or becomes infinite, as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt.errors import LazytError

HALVES = ["float16", "bfloat16"]
LARGE = 1e39


@pytest.fixture(autouse=True)
def interpreted() -> Any:
    with lazyt.config.override(interpret=True):
        yield


def numbers(dtype: str) -> Any:
    return lazyt.tensor([1, 2, 3], dtype=getattr(lazyt, dtype))


def written(x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


MASK = lazyt.tensor([True, False, True])
#: With a number that is converted like a tensor: too large for 16 bits, it is infinite there.
CONVERTED: dict[str, Callable[[Any, Any], Any]] = {
    "where": lambda x, v: lazyt.where(MASK, v, x),
    "by index": lambda x, v: written(x, [0, 2], v),
    "by mask": lambda x, v: written(x, MASK, v),
    "by slice": lambda x, v: written(x, slice(0, 3, 2), v),
}
#: With a number that has to fit into the type of the tensor.
FITTING: dict[str, Callable[[Any, Any], Any]] = {
    "pad": lambda x, v: F.pad(x, (1, 1), value=v),
    "threshold": lambda x, v: F.threshold(x, 0, v),
    "fill_": lambda x, v: x.fill_(v),
    "masked_fill": lambda x, v: x.masked_fill(MASK, v),
    "index_fill": lambda x, v: x.index_fill(0, lazyt.tensor([0]), v),
    "scatter": lambda x, v: x.scatter(0, lazyt.tensor([0]), v),
    "clamp": lambda x, v: x.clamp(max=v),
    "full": lambda x, v: lazyt.full((2,), v, dtype=x.dtype),
    "full out": lambda x, v: lazyt.full((3,), v, out=x),
    "full_like": lazyt.full_like,
    "new_full": lambda x, v: x.new_full((2,), v),
    "fill_diagonal_": lambda x, v: x.expand(3, 3).clone().fill_diagonal_(v),
    "add with alpha": lambda x, v: lazyt.add(x, x, alpha=v),
    "linspace": lambda x, v: lazyt.linspace(0, v, 3, dtype=x.dtype),
    "addr": lambda x, v: lazyt.addr(x[None].expand(3, 3), x, x, alpha=v),
    "index_add": lambda x, v: x.index_add(0, lazyt.tensor([0]), x[:1], alpha=v),
}
#: With a number that has to fit into the type that is computed in.
COMPUTED: dict[str, Callable[[Any, Any], Any]] = {
    "lerp": lambda x, v: x.lerp(x, v),
    "addcmul": lambda x, v: lazyt.addcmul(x, x, x, value=v),
    "leaky_relu": lambda x, v: F.leaky_relu(x, v),
    "elu": lambda x, v: F.elu(x, v),
    "softplus": lambda x, v: F.softplus(x, v),
    "addmm": lambda x, v: lazyt.addmm(x[None], x[None, :1], x[None], alpha=v),
}


@pytest.mark.parametrize("name", CONVERTED)
@pytest.mark.parametrize("dtype", HALVES)
def test_becomes_infinite_where_it_is_converted(dtype: str, name: str) -> None:
    for value in (LARGE, -LARGE):
        found = CONVERTED[name](numbers(dtype), value).float().tolist()
        assert found == [value * 10**300, 2.0, value * 10**300]
    with pytest.raises(LazytError, match="without overflow"):
        CONVERTED[name](numbers("float32"), LARGE)


@pytest.mark.parametrize("name", FITTING)
@pytest.mark.parametrize("dtype", [*HALVES, "float32"])
def test_is_refused_where_it_has_to_fit(dtype: str, name: str) -> None:
    with pytest.raises(LazytError, match="without overflow"):
        FITTING[name](numbers(dtype), LARGE)
    FITTING[name](numbers(dtype), 2.0).tolist()


@pytest.mark.parametrize("name", [n for n in FITTING if n not in ("linspace", "index_add", "addr")])
def test_whole_numbers_fit_into_float16_or_are_refused(name: str) -> None:
    """Up to the largest number of float16; one more would be rounded to it."""
    for value in (65504, -65504):
        FITTING[name](numbers("float16"), value).tolist()
    for value in (65505, -65505, 10**6, 2**62):
        with pytest.raises(LazytError, match="c10::Half without overflow"):
            FITTING[name](numbers("float16"), value)
        assert float(CONVERTED["by index"](numbers("float16"), value)[1]) == 2.0


def test_whole_number_in_a_tensor_fits_into_float16_or_is_refused() -> None:
    x = numbers("float16")
    assert x.masked_fill(MASK, lazyt.tensor(65504)).tolist() == [65504.0, 2.0, 65504.0]
    for value in (65505, -(10**6)):
        with pytest.raises(LazytError, match="c10::Half without overflow"):
            x.masked_fill(MASK, lazyt.tensor(value))


@pytest.mark.parametrize("name", [n for n in FITTING if n not in ("index_add", "addr")])
@pytest.mark.parametrize(("dtype", "value"), [("uint8", 300), ("int8", -129), ("int32", 2**40)])
def test_whole_numbers_do_not_wrap_silently(dtype: str, value: int, name: str) -> None:
    with pytest.raises(LazytError, match="without overflow"):
        FITTING[name](numbers(dtype), value)


@pytest.mark.parametrize("name", COMPUTED)
@pytest.mark.parametrize("dtype", [*HALVES, "float32"])
def test_is_refused_where_float32_cannot_hold_it(dtype: str, name: str) -> None:
    with pytest.raises(LazytError, match="without overflow"):
        COMPUTED[name](numbers(dtype), LARGE)
    COMPUTED[name](numbers(dtype), 1e5).tolist()
    COMPUTED[name](numbers("float64"), LARGE).tolist()
