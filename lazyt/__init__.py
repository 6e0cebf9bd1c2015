"""Lazy tensors with PyTorch's API that compile into a few fused C kernels.

``import lazyt as torch`` runs PyTorch code. Operations build a graph; looking at a value, or
``realize()``, compiles and runs it.
"""

from importlib import import_module as _import_module
from math import e as e
from math import inf as inf
from math import nan as nan
from math import pi as pi
from os import environ as _environ
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lazyt import autograd as autograd
from lazyt import functional as _functional  # noqa: F401  (before the modules that it imports)
from lazyt.compat.absent import install as _explain_imports
from lazyt.compat.exports import NAMES as _LATER
from lazyt.compat.exports import load as _load
from lazyt.compat.settings import *  # noqa: F403
from lazyt.config import config as config
from lazyt.config import misspelt as _misspelt
from lazyt.errors import warn as _warn
from lazyt.functional import return_types as return_types
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.functional.creation.creation import *  # noqa: F403
from lazyt.functional.creation.filling import *  # noqa: F403
from lazyt.functional.creation.ramps import *  # noqa: F403
from lazyt.functional.elementwise.activations import *  # noqa: F403
from lazyt.functional.elementwise.arithmetic import *  # noqa: F403
from lazyt.functional.elementwise.choice import *  # noqa: F403
from lazyt.functional.elementwise.conversions import *  # noqa: F403
from lazyt.functional.elementwise.division import *  # noqa: F403
from lazyt.functional.elementwise.special_functions import *  # noqa: F403
from lazyt.functional.elementwise.unary import *  # noqa: F403
from lazyt.functional.indexing.brackets import *  # noqa: F403
from lazyt.functional.indexing.combining import *  # noqa: F403
from lazyt.functional.indexing.masks import *  # noqa: F403
from lazyt.functional.indexing.picking import *  # noqa: F403
from lazyt.functional.indexing.writes import *  # noqa: F403
from lazyt.functional.linalg.affine_products import *  # noqa: F403
from lazyt.functional.linalg.decompositions import *  # noqa: F403
from lazyt.functional.linalg.matrices import *  # noqa: F403
from lazyt.functional.linalg.matrix_powers import *  # noqa: F403
from lazyt.functional.linalg.norms import *  # noqa: F403
from lazyt.functional.linalg.products import *  # noqa: F403
from lazyt.functional.linalg.pseudoinverses import *  # noqa: F403
from lazyt.functional.linalg.solvers import *  # noqa: F403
from lazyt.functional.linalg.vector_products import *  # noqa: F403
from lazyt.functional.methods import INPLACE_FUNCTIONS as _INPLACE_FUNCTIONS
from lazyt.functional.nn.normalizers import *  # noqa: F403
from lazyt.functional.printing import *  # noqa: F403
from lazyt.functional.random.generators import *  # noqa: F403
from lazyt.functional.random.random import *  # noqa: F403
from lazyt.functional.random.sampling import *  # noqa: F403
from lazyt.functional.reductions.covariance import *  # noqa: F403
from lazyt.functional.reductions.cumulative import *  # noqa: F403
from lazyt.functional.reductions.reductions import *  # noqa: F403
from lazyt.functional.shapes.joining import *  # noqa: F403
from lazyt.functional.shapes.rearranging import *  # noqa: F403
from lazyt.functional.shapes.splitting import *  # noqa: F403
from lazyt.functional.shapes.view_copies import *  # noqa: F403
from lazyt.functional.sorting.distinct import *  # noqa: F403
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
from lazyt.handle.view_parts import *  # noqa: F403
from lazyt.handle.view_shapes import *  # noqa: F403
from lazyt.ir.dtypes import DType, bool_
from lazyt.ir.dtypes import bfloat16 as bfloat16
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
from lazyt.serialization import load as load
from lazyt.serialization import save as save
from lazyt.version import __version__ as __version__

dtype = DType
newaxis = None
bool, half, float, double = bool_, float16, float32, float64
short, int, long = int16, int32, int64
globals().update(_INPLACE_FUNCTIONS)
_explain_calls(globals(), [n for n in globals() if not n.startswith("_")], __name__)

if _TYPE_CHECKING:
    from lazyt import accelerator as accelerator
    from lazyt import amp as amp
    from lazyt import array_api as array_api
    from lazyt import backends as backends
    from lazyt import cpu as cpu
    from lazyt import cuda as cuda
    from lazyt import distributed as distributed
    from lazyt import distributions as distributions
    from lazyt import func as func
    from lazyt import linalg as linalg
    from lazyt import mps as mps
    from lazyt import multiprocessing as multiprocessing
    from lazyt import nn as nn
    from lazyt import optim as optim
    from lazyt import overrides as overrides
    from lazyt import profiler as profiler
    from lazyt import random as random
    from lazyt import signal as signal
    from lazyt import special as special
    from lazyt import testing as testing
    from lazyt import types as types
    from lazyt import utils as utils
    from lazyt import xpu as xpu
    from lazyt.amp import GradScaler as GradScaler
    from lazyt.autograd.vectorizing import vmap as vmap
    from lazyt.compat.compile import compile as compile
    from lazyt.compat.legacy import *  # noqa: F403  # noqa: F403
    from lazyt.errors import OutOfMemoryError as OutOfMemoryError
    from lazyt.functional.creation.windows import *  # noqa: F403
    from lazyt.functional.linalg.distances import *  # noqa: F403  # noqa: F403
    from lazyt.functional.linalg.equations import *  # noqa: F403  # noqa: F403
    from lazyt.functional.linalg.pseudoinverses import *  # noqa: F403
    from lazyt.functional.nn.borders import *  # noqa: F403
    from lazyt.functional.nn.columns import *  # noqa: F403
    from lazyt.functional.nn.convolution import *  # noqa: F403
    from lazyt.functional.nn.native_forms import *  # noqa: F403  # noqa: F403
    from lazyt.functional.nn.pooling import *  # noqa: F403  # noqa: F403
    from lazyt.functional.reductions.integrals import *  # noqa: F403
    from lazyt.functional.sorting.histograms import *  # noqa: F403
    from lazyt.inplace_functions import *  # noqa: F403
    from lazyt.tools.show_broadcast import explain_broadcast as explain_broadcast
    from lazyt.tools.tune import tune as tune
    from lazyt.tracing.jit import jit as jit

_PACKAGES = frozenset(
    {
        "_C",
        "accelerator",
        "amp",
        "array_api",
        "backends",
        "cpu",
        "cuda",
        "distributed",
        "distributions",
        "func",
        "linalg",
        "mps",
        "multiprocessing",
        "nn",
        "optim",
        "overrides",
        "profiler",
        "random",
        "signal",
        "special",
        "testing",
        "types",
        "utils",
        "xpu",
    }
)


def __getattr__(name: str) -> object:
    # Packages on top of tensors are imported when first used: `import lazyt` stays cheap.
    if name in _LATER:
        return _load(name, globals(), _explain_calls)
    if name in _PACKAGES:
        return _import_module(f"lazyt.{name}")
    if name == "jit":
        _import_module("lazyt.compat.scripting").install()
        return _import_module("lazyt.tracing.jit").jit
    raise _import_module("lazyt.compat.absent").AbsentName.of("lazyt", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_LATER, "jit"})


if not _TYPE_CHECKING:
    __all__ = sorted({*(n for n in globals() if not n.startswith("_")), *_LATER, "jit"})

_explain_imports()
for _message in _misspelt(_environ):
    _warn(_message)
