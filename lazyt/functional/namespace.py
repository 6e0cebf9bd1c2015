"""The functions, types and settings of the torch namespace that work on tensors.

``lazyt`` has them all under its own name; the packages that are built on tensors take them from
here, as ``lazyt`` itself imports those packages.
"""

from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lazyt.compat.absent import AbsentName as _AbsentName
from lazyt.compat.exports import NAMES as _LATER
from lazyt.compat.exports import load as _load
from lazyt.functional import return_types as return_types
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.functional.creation.creation import *  # noqa: F403
from lazyt.functional.elementwise.activations import *  # noqa: F403
from lazyt.functional.elementwise.arithmetic import *  # noqa: F403
from lazyt.functional.elementwise.choice import *  # noqa: F403
from lazyt.functional.elementwise.complex_numbers import *  # noqa: F403
from lazyt.functional.elementwise.conversions import *  # noqa: F403
from lazyt.functional.elementwise.division import *  # noqa: F403
from lazyt.functional.elementwise.special_functions import *  # noqa: F403
from lazyt.functional.elementwise.unary import *  # noqa: F403
from lazyt.functional.fourier.spectrograms import *  # noqa: F403
from lazyt.functional.indexing.brackets import *  # noqa: F403
from lazyt.functional.indexing.masks import *  # noqa: F403
from lazyt.functional.indexing.picking import *  # noqa: F403
from lazyt.functional.indexing.writes import *  # noqa: F403
from lazyt.functional.linalg.affine_products import *  # noqa: F403
from lazyt.functional.linalg.decompositions import *  # noqa: F403
from lazyt.functional.linalg.matrices import *  # noqa: F403
from lazyt.functional.linalg.matrix_powers import *  # noqa: F403
from lazyt.functional.linalg.norms import *  # noqa: F403
from lazyt.functional.linalg.products import *  # noqa: F403
from lazyt.functional.linalg.solvers import *  # noqa: F403
from lazyt.functional.nn.normalizers import *  # noqa: F403
from lazyt.functional.operators import INPLACE_FUNCTIONS as _INPLACE_FUNCTIONS
from lazyt.functional.printing import *  # noqa: F403
from lazyt.functional.random.generators import *  # noqa: F403
from lazyt.functional.random.random import *  # noqa: F403
from lazyt.functional.reductions.covariance import *  # noqa: F403
from lazyt.functional.reductions.reductions import *  # noqa: F403
from lazyt.functional.shapes.joining import *  # noqa: F403
from lazyt.functional.shapes.view_copies import *  # noqa: F403
from lazyt.functional.shapes.view_parts import *  # noqa: F403
from lazyt.functional.shapes.view_shapes import *  # noqa: F403
from lazyt.functional.sorting.searching import *  # noqa: F403
from lazyt.functional.sorting.sorting import *  # noqa: F403
from lazyt.functional.type_promotion import *  # noqa: F403
from lazyt.handle.autocast import *  # noqa: F403
from lazyt.handle.autocast import autocast as autocast
from lazyt.handle.autocast import get_autocast_dtype as get_autocast_dtype
from lazyt.handle.autocast import is_autocast_enabled as is_autocast_enabled
from lazyt.handle.device import device as device
from lazyt.handle.grad_mode import enable_grad as enable_grad
from lazyt.handle.grad_mode import inference_mode as inference_mode
from lazyt.handle.grad_mode import is_grad_enabled as is_grad_enabled
from lazyt.handle.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from lazyt.handle.grad_mode import no_grad as no_grad
from lazyt.handle.grad_mode import set_grad_enabled as set_grad_enabled
from lazyt.handle.interop.dlpack import from_dlpack as from_dlpack
from lazyt.handle.interop.dlpack import to_dlpack as to_dlpack
from lazyt.handle.interop.numpy import from_numpy as from_numpy
from lazyt.handle.interop.numpy_calls import asarray as asarray
from lazyt.handle.interop.numpy_calls import frombuffer as frombuffer
from lazyt.handle.interop.storage_objects import *  # noqa: F403
from lazyt.handle.layout import *  # noqa: F403
from lazyt.handle.layout import layout as layout
from lazyt.handle.layout import strided as strided
from lazyt.handle.tape import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from lazyt.handle.tape import is_anomaly_enabled as is_anomaly_enabled
from lazyt.handle.tensor import Size as Size
from lazyt.handle.tensor import Tensor as Tensor
from lazyt.handle.tensor_protocol import *  # noqa: F403
from lazyt.handle.tensor_protocol import explain as explain
from lazyt.handle.tensor_protocol import realize as realize
from lazyt.handle.tensor_protocol import wait_for_compiler as wait_for_compiler
from lazyt.handle.tensor_protocol import why_compiled as why_compiled
from lazyt.handle.tensor_protocol import why_realized as why_realized
from lazyt.ir.dtypes import DType, bool_
from lazyt.ir.dtypes import bfloat16 as bfloat16
from lazyt.ir.dtypes import complex64 as complex64
from lazyt.ir.dtypes import complex128 as complex128
from lazyt.ir.dtypes import float16 as float16
from lazyt.ir.dtypes import float32 as float32
from lazyt.ir.dtypes import float64 as float64
from lazyt.ir.dtypes import int8 as int8
from lazyt.ir.dtypes import int16 as int16
from lazyt.ir.dtypes import int32 as int32
from lazyt.ir.dtypes import int64 as int64
from lazyt.ir.dtypes import uint8 as uint8
from lazyt.ir.dtypes import uint16 as uint16
from lazyt.ir.dtypes import uint32 as uint32
from lazyt.ir.dtypes import uint64 as uint64

dtype = DType
newaxis = None
bool, half, float, double = bool_, float16, float32, float64
cfloat, cdouble = complex64, complex128
short, int, long = int16, int32, int64
globals().update(_INPLACE_FUNCTIONS)
_explain_calls(globals(), [n for n in globals() if not n.startswith("_")], "lazyt")

if _TYPE_CHECKING:
    from lazyt.functional.creation.windows import *  # noqa: F403
    from lazyt.functional.linalg.distances import *  # noqa: F403
    from lazyt.functional.linalg.equations import *  # noqa: F403
    from lazyt.functional.nn.borders import *  # noqa: F403
    from lazyt.functional.nn.columns import *  # noqa: F403
    from lazyt.functional.nn.convolution import *  # noqa: F403
    from lazyt.functional.nn.native_forms import *  # noqa: F403
    from lazyt.functional.nn.pooling import *  # noqa: F403
    from lazyt.functional.reductions.integrals import *  # noqa: F403
    from lazyt.inplace_functions import *  # noqa: F403


def __getattr__(name: str) -> object:
    # What few programs use is read when it is first used.
    if name in _LATER:
        return _load(name, globals(), _explain_calls)
    raise _AbsentName.of("lazyt", name)
