"""DLPack both ways: shared memory, lifetimes, versions, refusals. NumPy is the other library."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import DTypeError, ExchangeError, LazytError, ShapeError
from lazyt.handle.interop import dlpack
from lazyt.ir.dtypes import ALL, COMPLEX

EXPORTS = dlpack._exports


def test_every_type_and_arrangement_travels_there_and_back() -> None:
    before = len(EXPORTS)
    for dtype in (*ALL, *COMPLEX):
        x = lt.tensor([[0, 1, 2], [3, 4, 5]], dtype=dtype)
        views = [x, x.t(), x[1], x[:, 1], x[:, ::2], x[:0], x[1, 2], x[0, 1].expand(3, 2)]
        for view in views:
            back = lt.from_dlpack(view)
            assert back.dtype is dtype
            assert back.shape == view.shape
            assert back.tolist() == view.tolist()
            if dtype is lt.bfloat16:
                continue
            array = np.from_dlpack(view)
            assert array.dtype == dtype.numpy
            assert array.tolist() == view.tolist()
            if array.size:
                assert array.ctypes.data == view.data_ptr() == lt.from_dlpack(array).data_ptr()
    del x, views, view, back, array
    gc.collect()
    assert len(EXPORTS) == before


def test_writes_show_on_both_sides() -> None:
    x = lt.arange(4.0)
    array = np.from_dlpack(x)
    array[0] = 9
    assert x.tolist() == [9, 1, 2, 3]
    x.add_(1)
    assert array.tolist() == [10, 2, 3, 4]
    doubled = x * 2  # not computed yet when the array changes
    array[1] = 100
    assert doubled.tolist() == [20, 4, 6, 8]
    y = lt.from_dlpack(array)
    y[2] = -1
    assert array[2] == x[2] == -1


def test_copies_share_nothing_and_say_so() -> None:
    x = lt.arange(3.0)
    held = lt.from_dlpack(x, copy=True)
    held[0] = 5
    assert x[0] == 0
    pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
        ("PyCapsule_GetPointer", ctypes.pythonapi)
    )
    for copy, flags in ((True, 2), (None, 0)):
        capsule = dlpack.dlpack(x, max_version=(1, 0), copy=copy)
        struct = dlpack._Versioned.from_address(pointer(capsule, b"dltensor_versioned"))
        assert (struct.major, struct.flags) == (1, flags)


def test_memory_lives_as_long_as_somebody_needs_it() -> None:
    before = len(EXPORTS)
    array: Any = np.arange(100.0)
    alive = weakref.ref(array)
    x = lt.from_dlpack(array)
    part, total = x[3:5], x.sum()
    del array, x
    gc.collect()
    assert alive() is not None
    assert (part.tolist(), total.item()) == ([3, 4], 4950)
    del part, total
    gc.collect()
    assert alive() is None
    capsule = lt.to_dlpack(lt.ones(3))
    assert len(EXPORTS) == before + 1
    del capsule  # nobody took it
    assert len(EXPORTS) == before
    shared = np.from_dlpack(lt.ones(3) + 1)
    assert shared.tolist() == [2, 2, 2]
    del shared
    assert len(EXPORTS) == before


def test_a_capsule_is_taken_once() -> None:
    capsule = lt.utils.dlpack.to_dlpack(lt.arange(3))
    assert "dltensor" in repr(capsule)
    assert lt.utils.dlpack.from_dlpack(capsule).tolist() == [0, 1, 2]
    assert "used_dltensor" in repr(capsule)
    for given in (capsule, 3, [1]):
        with pytest.raises(LazytError, match="invalid capsule"):
            lt.from_dlpack(given)
    with pytest.raises(LazytError, match="not supported when"):
        lt.from_dlpack(lt.to_dlpack(lt.ones(1)), copy=True)


class Older:
    """A library from before ``max_version`` and ``copy``."""

    def __init__(self, device: int = 1) -> None:
        self.tensor, self.device = lt.arange(3), device

    def __dlpack__(self, stream: Any = None) -> object:
        return dlpack.dlpack(self.tensor)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (self.device, 0)


def test_older_libraries() -> None:
    source = Older()
    shared, copied = lt.from_dlpack(source), lt.from_dlpack(source, copy=True)
    source.tensor[0] = 7
    assert (shared[0].item(), copied[0].item()) == (7, 0)


class Lanes(Older):
    """Elements of two lanes, which no tensor has."""

    def __dlpack__(self, stream: Any = None) -> object:
        capsule = super().__dlpack__(stream)
        struct = dlpack._Managed.from_address(dlpack._capsule_ptr(capsule, b"dltensor"))
        struct.array.element.lanes = 2
        return capsule


def test_refusals() -> None:
    x = lt.ones(2)
    with pytest.raises(BufferError, match="that require gradient"):
        np.from_dlpack(lt.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="stream should be None on cpu"):
        dlpack.dlpack(x, stream=1)
    with pytest.raises(TypeError, match="stream must be"):
        dlpack.dlpack(x, stream="x")  # type: ignore[arg-type]
    with pytest.raises(BufferError, match=r"cannot move .* \(2, 0\)"):
        dlpack.dlpack(x, dl_device=(2, 0))
    with pytest.raises(ValueError, match="copy=False"):
        dlpack.dlpack(x, dl_device=(2, 0), copy=False)
    with pytest.raises(ShapeError, match="negative strides"):
        lt.from_dlpack(np.arange(3)[::-1])
    with pytest.raises(DTypeError, match="code 0, 64 bits and 2 lanes"):
        lt.from_dlpack(Lanes())
    with pytest.raises(ExchangeError, match="not on cuda"):
        lt.from_dlpack(x, device="cuda")
    with pytest.raises(ExchangeError, match="kDLCUDA device"):
        lt.from_dlpack(Older(device=2))


@pytest.mark.compiler
def test_consumers_may_outlive_the_interpreter() -> None:
    code = (
        "import lazyt as lt, numpy as np\n"
        "x = lt.ones(3)\n"
        "kept = [np.from_dlpack(x), lt.from_dlpack(np.ones(3)), lt.to_dlpack(x)]\n"
        "import builtins; builtins.kept = kept, np.from_dlpack(x)\n"
    )
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, cwd=root
    )
    assert (done.returncode, done.stderr) == (0, "")
