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
from lazyt.absent_modules import install as _explain_imports
from lazyt.cast_mode import autocast as autocast
from lazyt.cast_mode import get_autocast_dtype as get_autocast_dtype
from lazyt.cast_mode import is_autocast_enabled as is_autocast_enabled
from lazyt.cast_settings import *  # noqa: F403
from lazyt.conditions import *  # noqa: F403
from lazyt.config import config as config
from lazyt.config import misspelt as _misspelt
from lazyt.copying import *  # noqa: F403
from lazyt.device import device as device
from lazyt.dlpack import from_dlpack as from_dlpack
from lazyt.dlpack import to_dlpack as to_dlpack
from lazyt.errors import warn as _warn
from lazyt.functional import return_types as return_types
from lazyt.functional.activations import *  # noqa: F403
from lazyt.functional.affine_products import *  # noqa: F403
from lazyt.functional.arithmetic import *  # noqa: F403
from lazyt.functional.blending import *  # noqa: F403
from lazyt.functional.calls import explain_calls as _explain_calls
from lazyt.functional.calls import explain_methods as _explain_methods
from lazyt.functional.choice import *  # noqa: F403
from lazyt.functional.combining import *  # noqa: F403
from lazyt.functional.conjugates import *  # noqa: F403
from lazyt.functional.conversions import *  # noqa: F403
from lazyt.functional.covariance import *  # noqa: F403
from lazyt.functional.creation import *  # noqa: F403
from lazyt.functional.cumulative import *  # noqa: F403
from lazyt.functional.decompositions import *  # noqa: F403
from lazyt.functional.distinct import *  # noqa: F403
from lazyt.functional.division import *  # noqa: F403
from lazyt.functional.elimination import *  # noqa: F403
from lazyt.functional.extremes import *  # noqa: F403
from lazyt.functional.filling import *  # noqa: F403
from lazyt.functional.generators import *  # noqa: F403
from lazyt.functional.indexing import *  # noqa: F403
from lazyt.functional.integer_products import *  # noqa: F403
from lazyt.functional.joining import *  # noqa: F403
from lazyt.functional.masks import *  # noqa: F403
from lazyt.functional.matrices import *  # noqa: F403
from lazyt.functional.matrix_powers import *  # noqa: F403
from lazyt.functional.methods import INPLACE_FUNCTIONS as _INPLACE_FUNCTIONS
from lazyt.functional.normalizers import *  # noqa: F403
from lazyt.functional.norms import *  # noqa: F403
from lazyt.functional.order_statistics import *  # noqa: F403
from lazyt.functional.pairs import *  # noqa: F403
from lazyt.functional.picking import *  # noqa: F403
from lazyt.functional.printing import *  # noqa: F403
from lazyt.functional.products import *  # noqa: F403
from lazyt.functional.promotion import *  # noqa: F403
from lazyt.functional.pseudoinverses import *  # noqa: F403
from lazyt.functional.ramps import *  # noqa: F403
from lazyt.functional.random import *  # noqa: F403
from lazyt.functional.rearranging import *  # noqa: F403
from lazyt.functional.reductions import *  # noqa: F403
from lazyt.functional.reflectors import *  # noqa: F403
from lazyt.functional.sampling import *  # noqa: F403
from lazyt.functional.searching import *  # noqa: F403
from lazyt.functional.slice_writes import *  # noqa: F403
from lazyt.functional.solvers import *  # noqa: F403
from lazyt.functional.sorting import *  # noqa: F403
from lazyt.functional.special_functions import *  # noqa: F403
from lazyt.functional.splitting import *  # noqa: F403
from lazyt.functional.unary import *  # noqa: F403
from lazyt.functional.vector_products import *  # noqa: F403
from lazyt.functional.view_copies import *  # noqa: F403
from lazyt.functional.view_scatters import *  # noqa: F403
from lazyt.functional.writes import *  # noqa: F403
from lazyt.grad_mode import enable_grad as enable_grad
from lazyt.grad_mode import inference_mode as inference_mode
from lazyt.grad_mode import is_grad_enabled as is_grad_enabled
from lazyt.grad_mode import is_inference_mode_enabled as is_inference_mode_enabled
from lazyt.grad_mode import no_grad as no_grad
from lazyt.grad_mode import set_grad_enabled as set_grad_enabled
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
from lazyt.later import NAMES as _LATER
from lazyt.later import load as _load
from lazyt.layouts import layout as layout
from lazyt.layouts import strided as strided
from lazyt.memory_formats import *  # noqa: F403
from lazyt.numpy_bridge import from_numpy as from_numpy
from lazyt.numpy_calls import asarray as asarray
from lazyt.numpy_calls import frombuffer as frombuffer
from lazyt.serialization import load as load
from lazyt.serialization import save as save
from lazyt.settings import *  # noqa: F403
from lazyt.storage_objects import *  # noqa: F403
from lazyt.tape import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from lazyt.tape import is_anomaly_enabled as is_anomaly_enabled
from lazyt.tensor import Size as Size
from lazyt.tensor import Tensor as Tensor
from lazyt.tensor_facts import *  # noqa: F403
from lazyt.tensor_protocol import explain as explain
from lazyt.tensor_protocol import realize as realize
from lazyt.tensor_protocol import wait_for_compiler as wait_for_compiler
from lazyt.tensor_protocol import why_compiled as why_compiled
from lazyt.tensor_protocol import why_realized as why_realized
from lazyt.version import __version__ as __version__
from lazyt.view_forms import *  # noqa: F403
from lazyt.view_parts import *  # noqa: F403
from lazyt.view_shapes import *  # noqa: F403

dtype = DType
newaxis = None
bool, half, float, double = bool_, float16, float32, float64
short, int, long = int16, int32, int64
globals().update(_INPLACE_FUNCTIONS)
_explain_methods()
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
    from lazyt.broadcasting import explain_broadcast as explain_broadcast
    from lazyt.compiling import compile as compile
    from lazyt.errors import OutOfMemoryError as OutOfMemoryError
    from lazyt.functional.adaptive_pooling import *  # noqa: F403
    from lazyt.functional.bilinears import *  # noqa: F403
    from lazyt.functional.columns import *  # noqa: F403
    from lazyt.functional.convolution import *  # noqa: F403
    from lazyt.functional.distances import *  # noqa: F403
    from lazyt.functional.equations import *  # noqa: F403
    from lazyt.functional.histograms import *  # noqa: F403
    from lazyt.functional.integrals import *  # noqa: F403
    from lazyt.functional.low_rank import *  # noqa: F403
    from lazyt.functional.namespace_forms import *  # noqa: F403
    from lazyt.functional.native_forms import *  # noqa: F403
    from lazyt.functional.padding import *  # noqa: F403
    from lazyt.functional.pooling import *  # noqa: F403
    from lazyt.functional.similarity import *  # noqa: F403
    from lazyt.functional.windows import *  # noqa: F403
    from lazyt.inplace_functions import *  # noqa: F403
    from lazyt.legacy import *  # noqa: F403
    from lazyt.named_dtypes import *  # noqa: F403
    from lazyt.staging import jit as jit
    from lazyt.tuner import tune as tune

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
        _import_module("lazyt.scripting").install()
        return _import_module("lazyt.staging").jit
    raise _import_module("lazyt.absent").AbsentName.of("lazyt", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_LATER, "jit"})


if not _TYPE_CHECKING:
    __all__ = sorted({*(n for n in globals() if not n.startswith("_")), *_LATER, "jit"})

_explain_imports()
for _message in _misspelt(_environ):
    _warn(_message)
