"""Halves become floats ahead of a loop, and floats halves behind it: the same values, in bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt as lt
from lazyt.nn import functional as F
from tests.codegen.kernel_corpus import Printed, print_kernels
from tests.codegen.test_check_c import violations


def halves(*shape: int, dtype: lt.dtype = lt.float16) -> lt.Tensor:
    count = int(np.prod(shape))
    values = ((lt.arange(count) * 7919) % 2048).to(lt.float32) / 512 - 2
    return values.to(dtype).reshape(*shape).realize()


def half_and_single(x: lt.Tensor) -> lt.Tensor:
    return (x * x.float().flip(-1)).sum(-1)


CASES: dict[str, tuple[Callable[[lt.Tensor], lt.Tensor], tuple[int, ...]]] = {
    "sum": (lambda x: x.sum(), (5000,)),
    "rows": (lambda x: x.sum(-1), (7, 77)),
    "short rows": (lambda x: x.amax(-1), (50, 33)),
    "positions": (lambda x: x.argmax(-1), (5, 1500)),
    "softmax": (lambda x: F.softmax(x, -1), (3, 200)),
    "norm": (lambda x: F.layer_norm(x, (100,), x[0], x[1]), (6, 100)),
    "part": (lambda x: x[1:, 3:].sum(-1), (9, 83)),
    "windows": (lambda x: x.unfold(0, 40, 1).sum(-1), (120,)),
    "padded": (lambda x: F.pad(x, (5, 3)).sum(-1), (4, 90)),
    "gathered": (lambda x: x[lt.tensor([2, 0, 1, 2])].sum(-1), (3, 70)),
    "by value": (lambda x: x[(lt.arange(80) * 11 % 70)].sum(), (70,)),
    "two of one": (half_and_single, (4, 96)),
    "columns": (lambda x: x.sum(0), (300, 130)),
    "few columns": (lambda x: x.amax(0), (700, 9)),
    "softmax of columns": (lambda x: F.softmax(x, 0), (70, 200)),
    "map": (lambda x: lt.relu(x), (1000,)),
    "map of rows": (lambda x: x * 2 + x[:, :1], (17, 40)),
    "map of a part": (lambda x: x[:, 5:] - x[:, :-5], (9, 600)),
    "map with a choice": (lambda x: lt.where(x > 0, x, x * 0.5), (3, 515)),
    "reversed": (lambda x: x.flip(-1) + x, (4, 520)),
    "in two types": (lambda x: lt.cat([(x + 1).float(), x.float()]).half(), (700,)),
    "side by side": (lambda x: lt.cat([x, x * 2], 1), (20, 30)),
    "running sums": (lambda x: x.cumsum(-1), (3, 100)),
    "written over": (lambda x: x.clone().mul_(2).add_(1), (600,)),
    "columns and a map": (lambda x: lt.cat([(t := x * 2 + 1), t.sum(0, keepdim=True)]), (256, 70)),
    "product": (lambda x: lt.relu(x @ x.T), (20, 33)),
}


def kernels(
    function: Callable[[lt.Tensor], lt.Tensor], *shape: int, dtype: lt.dtype = lt.float16
) -> list[Printed]:
    return print_kernels([function(halves(*shape, dtype=dtype)).node])


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_the_same_values_as_without_a_compiler(name: str, dtype: lt.dtype) -> None:
    function, shape = CASES[name]
    found = function(halves(*shape, dtype=dtype)).float().numpy()
    with lt.config.override(interpret=True):
        wanted = function(halves(*shape, dtype=dtype)).float().numpy()
    # Exponentials of the compiler and of the interpreter may differ in their last bit.
    digits = 0 if name not in ("softmax", "softmax of columns", "norm") else lt.finfo(dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=digits)
    for printed in kernels(function, *shape, dtype=dtype):
        assert not violations(printed), printed.c.source.text


@pytest.mark.parametrize(
    "values",
    [
        [2.0**-24, -(2.0**-24), 2.0**-14, 1023 * 2.0**-24],
        [65504.0, -65504.0, float("inf"), 1.0],
        [float("nan"), 1.0, 0.0, -0.0],
    ],
    ids=["subnormal", "large", "nan"],
)
def test_every_kind_of_number_is_read(values: list[float]) -> None:
    x = lt.tensor(values * 32, dtype=lt.float16).reshape(2, 64).realize()
    wide = lt.tensor(values * 32, dtype=lt.float32).reshape(2, 64).realize()
    for fold in (lt.amax, lt.amin, lambda t, dim: (t * 1.0).sum(dim, dtype=lt.float32)):
        np.testing.assert_array_equal(fold(x, dim=-1).float().numpy(), fold(wide, dim=-1).numpy())


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16], ids=["float16", "bfloat16"])
def test_every_kind_of_number_is_written_as_one_by_one(dtype: lt.dtype) -> None:
    bits = np.arange(0, 1 << 32, 65_537 * 3 + 2, dtype=np.uint64).astype(np.uint32)
    wide = lt.tensor(bits.view(np.float32))
    whole = wide.to(dtype).view(lt.int16).numpy()
    # Every other result is written by itself, as no vector store is made of it.
    apart = lt.zeros(2 * len(bits), dtype=dtype)
    apart[::2] = wide.to(dtype)
    np.testing.assert_array_equal(whole, apart[::2].clone().view(lt.int16).numpy())


def test_only_neighbours_that_are_always_read_are_converted_together() -> None:
    def conversions(function: Callable[[lt.Tensor], lt.Tensor], *shape: int) -> int:
        return sum(p.c.source.text.count("lz_widen_f16(32") for p in kernels(function, *shape))

    assert conversions(lambda x: x.sum(-1), 7, 96) == 1
    assert conversions(lambda x: x[:, ::2].sum(-1), 7, 192) == 0
    assert conversions(lambda x: F.pad(x, (5, 3)).sum(-1), 4, 88) == 0
    assert conversions(lambda x: x[(lt.arange(96) * 11 % 70)].sum(), 70) == 0


def test_a_conversion_that_reaches_too_far_is_seen() -> None:
    (printed,) = kernels(lambda x: x.sum(-1), 7, 96)
    text = printed.c.source.text
    assert violations(printed, text.replace("lz_widen_f16(32,", "lz_widen_f16(33,"))
    assert violations(printed, text.replace("h0[32]", "h0[31]"))


MOVED: dict[str, tuple[Callable[[lt.Tensor], lt.Tensor], tuple[int, ...]]] = {
    "side by side": (lambda x: lt.cat([x, x.flip(0)], 1), (20, 33)),
    "gathered": (lambda x: x.gather(1, lt.arange(120).reshape(3, 40) * 11 % 70), (3, 70)),
    "rows": (lambda x: x[lt.tensor([2, 0, 1, 2])], (3, 70)),
    "chosen": (lambda x: lt.where(lt.arange(70) % 3 == 0, x, x.flip(1)), (3, 70)),
    "padded": (lambda x: F.pad(x, (5, 3), value=-1.7), (4, 90)),
    "infinite": (lambda x: F.pad(x, (5, 3), value=float("-inf")), (4, 90)),
    "transposed": (lambda x: x.T.contiguous(), (70, 66)),
    "short pieces": (lambda x: lt.stack([x, x.flip(1), x], -1), (9, 30)),
}


@pytest.mark.parametrize("dtype", [lt.float16, lt.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", MOVED)
def test_what_is_only_moved_keeps_every_bit(name: str, dtype: lt.dtype) -> None:
    function, shape = MOVED[name]
    values = halves(*shape, dtype=dtype)
    found = function(values)
    wanted = function(values.float()).to(dtype)
    np.testing.assert_array_equal(found.view(lt.int16).numpy(), wanted.view(lt.int16).numpy())
    for printed in kernels(function, *shape, dtype=dtype):
        text = printed.c.source.text
        assert f"load_{dtype_suffix(dtype)}" not in text, text
        assert f"store_{dtype_suffix(dtype)}" not in text, text
        assert not violations(printed), text


def dtype_suffix(dtype: lt.dtype) -> str:
    return "f16" if dtype is lt.float16 else "bf16"


@pytest.mark.varies
def test_nan_keeps_its_digits_on_the_way() -> None:
    bits = np.arange(0x7C01, 0x7C41, dtype=np.int16)
    x = lt.from_numpy(bits.view(np.float16))
    found = lt.cat([x, x.flip(0)]).numpy().view(np.int16)
    np.testing.assert_array_equal(found, np.concatenate([bits, bits[::-1]]))


def test_what_is_computed_with_is_converted() -> None:
    def text(function: Callable[[lt.Tensor], lt.Tensor]) -> str:
        return "".join(p.c.source.text for p in kernels(function, 4, 70))

    assert "f16(" in text(lambda x: x + 1)
    assert "f16(" in text(lambda x: lt.cat([x, x * 2]))
    assert "f16(" in text(lambda x: lt.where(x > 0, x, x.flip(1)))
    assert "f16(" in text(lambda x: lt.maximum(x, x.flip(1)))
    assert "f16(" in text(lambda x: lt.where((x > 0).flip(0), x.flip(1), 1.0).float())
