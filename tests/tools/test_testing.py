"""``lazyt.testing``, and the constants and small modules that programs expect of the package."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import testing

T = lazyt.tensor
NAN = T([lazyt.nan])


@pytest.mark.parametrize(
    ("actual", "expected", "options"),
    [
        (T([1.0, 2.0]), T([1.0, 2.000001]), {}),
        (T([1.0]), T([1.0]).double(), {"check_dtype": False}),
        (NAN, NAN, {"equal_nan": True}),
        ({"a": [1.0, T([2])]}, {"a": [1.0, T([2])]}, {}),
        (T([lazyt.inf]), T([lazyt.inf]), {}),
        (T([1.0, 2.0]).half(), T([1.0, 2.002]).half(), {}),
        (T([1.0]), T([1.5]), {"rtol": 0, "atol": 0.5}),
        (None, None, {}),
        (lazyt.ones(0), lazyt.ones(0), {}),
    ],
)
def test_what_is_close_passes(actual: Any, expected: Any, options: dict[str, Any]) -> None:
    testing.assert_close(actual, expected, **options)


@pytest.mark.parametrize(
    ("actual", "expected", "options", "said"),
    [
        (
            T([1.0, 2, 3]), T([1.0, 2, 4]), {},
            "Tensor-likes are not close!\n\nMismatched elements: 1 / 3 (33.3%)\n"
            "Greatest absolute difference: 1.0 at index (2,) (up to 1e-05 allowed)\n"
            "Greatest relative difference: 0.25 at index (2,) (up to 1.3e-06 allowed)",
        ),
        (
            T([1, 2, 3]), T([1, 2, 4]), {},
            "Tensor-likes are not equal!\n\nMismatched elements: 1 / 3 (33.3%)\n"
            "Greatest absolute difference: 1 at index (2,)\n"
            "Greatest relative difference: 0.25 at index (2,)",
        ),
        (
            T(1.0), T(2.0), {},
            "Scalars are not close!\n\nExpected 2.0 but got 1.0.\n"
            "Absolute difference: 1.0 (up to 1e-05 allowed)\n"
            "Relative difference: 0.5 (up to 1.3e-06 allowed)",
        ),
        (1, 2, {}, "Scalars are not equal!\n\nExpected 2 but got 1.\nAbsolute difference: 1\n"
                   "Relative difference: 0.5"),
        (1, 1.0, {}, "The (d)types do not match: <class 'int'> != <class 'float'>."),
        (True, False, {}, "Booleans mismatch: True is not False"),
        ([1], [1, 2], {}, "The length of the sequences mismatch: 1 != 2"),
        ({"a": 1}, {"b": 1}, {}, "The keys of the mappings do not match:\n"
                                 "Missing keys in the actual mapping: ['b']\n"
                                 "Additional keys in the actual mapping: ['a']"),
        (T([1.0]), T([1.0, 2.0]), {}, "The values for attribute 'shape' do not match: "
                                      "lazyt.Size([1]) != lazyt.Size([2])."),
        (lazyt.ones(2, 3), lazyt.ones(3, 2).t(), {"check_stride": True},
         "The values for attribute 'stride()' do not match: (3, 1) != (1, 2)."),
        (T([1.0]), T([2.0]), {"msg": "mine"}, "mine"),
        (True, False, {"msg": lambda text: f"again: {text}"},
         "again: Booleans mismatch: True is not False"),
    ],
)  # fmt: skip
def test_what_differs_is_said(actual: Any, expected: Any, options: Any, said: str) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.assert_close(actual, expected, **options)
    assert str(caught.value) == said


def test_the_place_of_a_difference_is_said() -> None:
    with pytest.raises(AssertionError, match=r"The failure occurred for item \['a'\]\[1\]"):
        testing.assert_close({"a": [1, T([1.0])]}, {"a": [1, T([2.0])]})
    with pytest.raises(AssertionError, match="Greatest absolute difference: nan"):
        testing.assert_close(NAN, NAN)
    with pytest.raises(AssertionError, match=r"Mismatched elements: 1 / 2 \(50.0%\)"):
        testing.assert_close(np.array([1.0, 2.0]), np.array([1.0, 3.0]))


def test_what_cannot_be_compared_is_refused() -> None:
    with pytest.raises(TypeError, match="No comparison pair"):
        testing.assert_close(T([1.0]), [1.0])
    with pytest.raises(ValueError, match="but got no atol"):
        testing.assert_close(1.0, 1.0, rtol=0.1)
    testing.assert_allclose([1.0], T([1.0]).double())


def test_made_tensors_lie_between_their_bounds() -> None:
    made = testing.make_tensor((40, 5), dtype=lazyt.float64, low=2, high=3)
    assert made.min().item() >= 2 and made.max().item() < 3
    whole = testing.make_tensor(40, dtype=lazyt.uint8, exclude_zero=True)
    assert (whole.dtype, whole.min().item() >= 1, whole.max().item() < 10) == (
        lazyt.uint8,
        True,
        True,
    )
    gaps = testing.make_tensor(3, 4, dtype=lazyt.float32, noncontiguous=True, requires_grad=True)
    assert (gaps.shape, gaps.stride(), gaps.requires_grad) == ((3, 4), (8, 2), True)
    with pytest.raises(RuntimeError, match="low is below high"):
        testing.make_tensor(2, dtype=lazyt.int8, low=3, high=3)


def test_constants_and_the_version_have_pytorchs_names() -> None:
    assert (lazyt.inf, lazyt.pi, lazyt.e) == (math.inf, math.pi, math.e)
    assert math.isnan(lazyt.nan)
    assert lazyt.ones(2)[:, lazyt.newaxis].shape == (2, 1)
    assert lazyt.version.__version__ == lazyt.__version__
    assert lazyt.version.cuda is None


def test_asarray_drops_history_only_when_it_is_told_to() -> None:
    x = T([1.0], requires_grad=True) * 2
    assert lazyt.asarray(x).requires_grad
    assert not lazyt.asarray(x, requires_grad=False).requires_grad
    assert lazyt.asarray([1.0], requires_grad=True).requires_grad


def test_programs_may_ask_for_other_devices() -> None:
    found = lazyt.accelerator.current_accelerator()
    assert (found is None) is not lazyt.accelerator.is_available()
    assert lazyt.accelerator.device_count() == lazyt.cuda.device_count()
    assert not (lazyt.xpu.is_available() or lazyt.mps.is_available())
    assert lazyt.xpu.device_count() == lazyt.mps.device_count() == 0
    if found is None:
        with pytest.raises(RuntimeError, match="when none is available"):
            lazyt.accelerator.synchronize()


def test_the_cpu_answers_as_other_devices_do() -> None:
    cpu = lazyt.cpu
    assert cpu.is_available() and cpu.is_initialized()
    assert (cpu.device_count(), cpu.current_device()) == (1, "cpu")
    cpu.set_device(0)
    cpu.synchronize()
    x = lazyt.ones(2, 2)
    with cpu.amp.autocast():
        assert (x @ x).dtype is lazyt.bfloat16
    with cpu.amp.autocast(enabled=False):
        assert (x @ x).dtype is lazyt.float32
    with pytest.raises(AttributeError, match=r"lazyt\.cpu"):
        _ = getattr(cpu, "no_such_name")  # noqa: B009


def test_products_name_the_operand_of_another_dtype() -> None:
    x, w, b = lazyt.ones(2, 3), lazyt.ones(4, 3), lazyt.ones(4)
    linear = lazyt.nn.functional.linear
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 .* but got Double and Float"):
        linear(x.double(), w, b)
    with pytest.raises(RuntimeError, match=r"self and mat2 .* but got Double and Float"):
        linear(x, w, b.double())
    with pytest.raises(RuntimeError, match=r"mat1 and mat2 .* but got Double and Float"):
        lazyt.addmm(b, x.double(), w.t())
    with pytest.raises(RuntimeError, match=r"m1 and m2 .* but got: double != float"):
        linear(x.double(), w)
