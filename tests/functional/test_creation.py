"""Tensors from values, buffers and patterns; windows; switches that are only remembered."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import lazyt as lt


def test_memory_is_shared_or_copied() -> None:
    array = np.arange(4.0)
    shared, copied = lt.asarray(array), lt.asarray(array, copy=True)
    array[0] = 7
    assert shared[0].item() == 7 and copied[0].item() == 0
    x = lt.zeros(2)
    assert lt.asarray(x) is x and lt.as_tensor(x) is x
    assert lt.tensor(x).data_ptr() != x.data_ptr()
    data = bytearray(b"abcdefgh")
    words = lt.frombuffer(data, dtype=lt.int16, count=2, offset=2)
    assert words.tolist() == np.frombuffer(data, np.int16, 2, 2).tolist()
    data[2] = 0
    assert words[0].item() == np.frombuffer(data, np.int16, 2, 2)[0]
    words[1] = 0
    assert data[4:6] == b"\0\0"
    for arguments, message in (
        ({"dtype": lt.int32, "offset": 9}, "offset (9 bytes) must be non-negative"),
        ({"dtype": lt.int32, "count": 3}, "requested buffer length (3 * 4 bytes)"),
        ({"dtype": lt.int32, "offset": 1}, "buffer length (7 bytes) after offset (1 bytes)"),
    ):
        with pytest.raises(ValueError) as caught:
            lt.frombuffer(data, **arguments)  # type: ignore[arg-type]
        assert str(caught.value).startswith(message)
    with pytest.raises(ValueError, match="can't alias arbitrary sequence into a tensor"):
        lt.asarray([1], copy=False)


def test_arrangements_of_arrays_are_kept() -> None:
    turned = np.arange(6).reshape(2, 3).T
    assert lt.tensor(turned).stride() == (1, 3) and lt.tensor(turned).tolist() == turned.tolist()
    with pytest.raises(ValueError, match="At least one stride in the given numpy array"):
        lt.tensor(turned[::-1])


def test_numbers_that_do_not_fit() -> None:
    assert lt.tensor([-1, -255], dtype=lt.uint8).tolist() == [255, 1]
    makers: list[Callable[[], lt.Tensor]] = [
        lambda: lt.tensor([300], dtype=lt.uint8),
        lambda: lt.tensor([-129], dtype=lt.int8),
        lambda: lt.full((2,), 300, dtype=lt.uint8),
        lambda: lt.zeros(2, dtype=lt.uint8).fill_(-300),
    ]
    for make in makers:
        with pytest.raises(RuntimeError, match=r"value cannot be converted to type u?int8(_t)? "):
            make()


def test_windows() -> None:
    """Against their definitions in float64, and for lengths 0 and 1."""
    n = 8
    k = np.arange(n)
    for periodic, last in ((True, n), (False, n - 1)):
        turn = 2 * np.pi * k / last
        ramp = 2 * k / last - 1
        wanted = {
            "hann": 0.5 - 0.5 * np.cos(turn),
            "hamming": 0.54 - 0.46 * np.cos(turn),
            "blackman": 0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn),
            "bartlett": 1 - np.abs(ramp),
            "kaiser": np.i0(12 * np.sqrt(np.maximum(1 - ramp**2, 0))) / np.i0(12.0),
        }
        made = {
            name: getattr(lt, f"{name}_window")(n, periodic, dtype=lt.float64) for name in wanted
        }
        lt.realize(*made.values())
        for name, window in made.items():
            assert np.allclose(window.tolist(), wanted[name], atol=1e-14), name
    assert lt.hann_window(1).tolist() == [1] and lt.kaiser_window(0).shape == (0,)
    with pytest.raises(RuntimeError, match="requires non-negative window_length, got"):
        lt.hann_window(-1)


def test_sizes_known_without_values() -> None:
    x = lt.tensor([[0, 3], [5, 0]])
    assert lt.nonzero_static(x, size=3, fill_value=-7).tolist() == [[0, 1], [1, 0], [-7, -7]]
    assert lt.nonzero_static(x, size=1).tolist() == [[0, 1]]
    assert [part.tolist() for part in lt.unravel_index(lt.tensor([1, 5]), (2, 3))] == [
        [0, 1],
        [1, 2],
    ]
    assert lt.constant_pad_nd(lt.ones(2, 2), (1, -1, 0, 1), 3).tolist() == [[3, 1]] * 2 + [[3, 3]]


def test_diagonals_are_filled() -> None:
    tall = lt.zeros(7, 3)
    assert tall.fill_diagonal_(2, wrap=True) is tall
    rows = np.zeros((7, 3))
    np.fill_diagonal(rows, 2, wrap=True)
    assert tall.tolist() == rows.tolist()
    assert lt.zeros(2, 2, 2).fill_diagonal_(1).sum().item() == 2


def test_switches_are_remembered() -> None:
    threads = lt.config.threads
    try:
        lt.set_num_threads(1)
        assert lt.get_num_threads() == 1
        with pytest.raises(RuntimeError, match="expects a positive integer"):
            lt.set_num_threads(0)
    finally:
        lt.config.threads = threads
    lt.use_deterministic_algorithms(True, warn_only=True)
    assert lt.get_deterministic_debug_mode() == 1
    lt.set_deterministic_debug_mode("default")
    assert not lt.are_deterministic_algorithms_enabled()
    lt.set_float32_matmul_precision("high")
    assert lt.get_float32_matmul_precision() == "high"
    lt.set_float32_matmul_precision("highest")
    lt.set_default_device("cpu")
    assert lt.get_default_device() == lt.device("cpu")
    assert lt.zeros(1).is_cpu and not lt.zeros(1).is_sparse and lt.zeros(1).layout is lt.strided


def test_devices_are_named() -> None:
    first = lt.device("cuda", 1)
    assert first == lt.device("cuda:1") == lt.device(1) and hash(first) == hash(lt.device(1))
    assert str(first) == "cuda:1" and repr(lt.device("cpu")) == "device(type='cpu')"
    with lt.device("cpu") as place:
        assert lt.zeros(1).device == place
    for name, message in (
        ("", "Device string must not be empty"),
        ("cpu:01", "Invalid device string: 'cpu:01'"),
        ("tpu", "Expected one of cpu, cuda, meta device type at start of device string: tpu"),
    ):
        with pytest.raises(RuntimeError) as caught:
            lt.device(name)
        assert str(caught.value) == message
    with pytest.raises(AttributeError, match="is not writable"):
        first.index = 0


@pytest.mark.parametrize(
    ("rows", "columns", "offset"),
    [(3, 3, 0), (4, 7, -2), (7, 4, 2), (5, 5, 9), (5, 5, -5), (0, 3, 0), (3, 0, 1), (900, 700, 40)],
)
def test_indices_of_triangles(rows: int, columns: int, offset: int) -> None:
    lower = lt.tril_indices(rows, columns, offset).numpy()
    np.testing.assert_array_equal(lower, np.array(np.tril_indices(rows, offset, columns)))
    upper = lt.triu_indices(rows, columns, offset, dtype=lt.int32).numpy()
    np.testing.assert_array_equal(upper, np.array(np.triu_indices(rows, offset, columns)))
    assert upper.dtype == np.int32
