"""GPUs through the NVIDIA driver, by cuda-python's bindings: which there are, and what is missing.

Nothing is imported and no driver is loaded before somebody asks for a GPU.
"""

from __future__ import annotations

import functools
from typing import Any

from lazyt.errors import DeviceError
from lazyt.runtime.cuda import nvrtc
from lazyt.runtime.cuda.bound import BoundDriver

_INSTALL_PACKAGES = f"install them with `{nvrtc.INSTALL}`"


@functools.cache
def library() -> Any:
    """The bindings, with the driver started. Raises DeviceError, saying what is missing."""
    try:
        from cuda.bindings import driver
    except (ImportError, OSError) as error:
        raise DeviceError(
            f"the packages cuda-python and nvidia-cuda-nvrtc are missing ({error}); "
            f"{_INSTALL_PACKAGES}"
        ) from error
    return started(driver)


def started(driver: Any) -> Any:
    """The bindings ``driver`` after ``cuInit``. Raises DeviceError."""
    try:
        (status,) = driver.cuInit(0)
    except (ImportError, OSError, RuntimeError) as error:
        raise DeviceError(
            "no NVIDIA driver was found (libcuda.so.1 cannot be loaded); install NVIDIA's driver, "
            "or use the device 'cuda:emu', which needs no GPU"
        ) from error
    name = status.name
    if name == "CUDA_ERROR_NO_DEVICE":
        raise DeviceError(
            "the NVIDIA driver finds no GPU; see what `nvidia-smi` and CUDA_VISIBLE_DEVICES say"
        )
    if name != "CUDA_SUCCESS":
        raise DeviceError(
            f"the NVIDIA driver cannot be started ({name}); see what `nvidia-smi` says, and whether"
            " the driver is as new as the CUDA packages"
        )
    return driver


def device_count() -> int:
    """GPUs that the driver has. Raises DeviceError, saying what is missing."""
    lib = library()
    status, count = lib.cuDeviceGetCount()
    if status.name != "CUDA_SUCCESS":
        raise DeviceError(f"the NVIDIA driver does not count its GPUs: {status.name}")
    return int(count)


def driver_of(number: int) -> BoundDriver:
    """The GPU of a number. Raises DeviceError."""
    count = device_count()
    if not 0 <= number < count:
        raise DeviceError(f"there are {count} GPUs; the first one is cuda:0")
    if not nvrtc.available():
        raise DeviceError(f"the package nvidia-cuda-nvrtc is missing; {_INSTALL_PACKAGES}")
    return BoundDriver(library(), number)
