"""The array API standard, version 2024.12, over lazyt's tensors.

https://data-apis.org/array-api/2024.12. Arrays are tensors; ``tensor.__array_namespace__()`` gives
this namespace. Types mix by the standard's rules, which differ from PyTorch's for unsigned
integers, sums of small integers and the like; Python's operators between tensors keep to PyTorch's
where the two differ. Left out is ``x.size``, which is a method, as in
PyTorch (``array_api_compat.size(x)`` knows that).
"""

from math import e, inf, nan, pi

from lazyt.array_api import fft as fft
from lazyt.array_api import linalg as linalg
from lazyt.array_api.creation import *  # noqa: F403
from lazyt.array_api.creation import Info as __array_namespace_info__
from lazyt.array_api.elementwise import *  # noqa: F403
from lazyt.array_api.functions import *  # noqa: F403
from lazyt.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from lazyt.functional.namespace import bool as bool
from lazyt.functional.namespace import complex64 as complex64
from lazyt.functional.namespace import complex128 as complex128
from lazyt.functional.namespace import float32 as float32
from lazyt.functional.namespace import float64 as float64
from lazyt.functional.namespace import int8 as int8
from lazyt.functional.namespace import int16 as int16
from lazyt.functional.namespace import int32 as int32
from lazyt.functional.namespace import int64 as int64
from lazyt.functional.namespace import uint8 as uint8
from lazyt.functional.namespace import uint16 as uint16
from lazyt.functional.namespace import uint32 as uint32
from lazyt.functional.namespace import uint64 as uint64

__array_api_version__ = "2024.12"
newaxis = None

__all__ = [
    "__array_api_version__", "__array_namespace_info__", "bool", "complex64", "complex128", "e",
    "fft", "float32", "float64", "inf", "int8", "int16", "int32", "int64",
    "linalg", "matmul", "matrix_transpose", "nan", "newaxis", "pi", "tensordot",
    "uint8", "uint16", "uint32", "uint64", "vecdot",
]  # fmt: skip
