"""Lazy tensors with PyTorch's API that compile into a few fused C kernels.

``import lazyt as torch`` runs PyTorch code. Operations build a graph; looking at a value, or
``realize()``, compiles and runs it.
"""

from importlib import import_module as _import_module
from os import environ as _environ
from os import pathsep as _PATHSEP
from typing import TYPE_CHECKING as _TYPE_CHECKING

from lazyt import autograd as autograd
from lazyt.compat.absent import install as _explain_imports
from lazyt.compat.exports import NAMES as _LATER
from lazyt.compat.settings import *  # noqa: F403
from lazyt.config import config as config
from lazyt.config import misspelt as _misspelt
from lazyt.errors import warn as _warn
from lazyt.functional import namespace as _namespace
from lazyt.functional.namespace import *  # noqa: F403
from lazyt.functional.namespace import _int_mm as _int_mm
from lazyt.serialization import load as load
from lazyt.serialization import save as save
from lazyt.version import __version__ as __version__

if _TYPE_CHECKING:
    from lazyt import accelerator as accelerator
    from lazyt import amp as amp
    from lazyt import array_api as array_api
    from lazyt import backends as backends
    from lazyt import cpu as cpu
    from lazyt import cuda as cuda
    from lazyt import distributed as distributed
    from lazyt import distributions as distributions
    from lazyt import fft as fft
    from lazyt import func as func
    from lazyt import fx as fx
    from lazyt import library as library
    from lazyt import linalg as linalg
    from lazyt import masked as masked
    from lazyt import mps as mps
    from lazyt import multiprocessing as multiprocessing
    from lazyt import nn as nn
    from lazyt import optim as optim
    from lazyt import overrides as overrides
    from lazyt import profiler as profiler
    from lazyt import random as random
    from lazyt import signal as signal
    from lazyt import sparse as sparse
    from lazyt import special as special
    from lazyt import storage as storage
    from lazyt import testing as testing
    from lazyt import types as types
    from lazyt import utils as utils
    from lazyt import xpu as xpu
    from lazyt.amp import GradScaler as GradScaler
    from lazyt.autograd.vectorizing import vmap as vmap
    from lazyt.compat.compile import compile as compile
    from lazyt.compat.legacy import *  # noqa: F403
    from lazyt.errors import OutOfMemoryError as OutOfMemoryError
    from lazyt.functional.sparse.creation import *  # noqa: F403
    from lazyt.functional.sparse.functions import *  # noqa: F403
    from lazyt.kernels.memory_kernels import c_kernel as c_kernel
    from lazyt.kernels.memory_kernels import cuda_kernel as cuda_kernel
    from lazyt.kernels.scalar_functions import c_function as c_function
    from lazyt.runtime.cuda.checks.check import check_cuda as check_cuda
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
        "fft",
        "func",
        "fx",
        "library",
        "linalg",
        "masked",
        "mps",
        "multiprocessing",
        "nn",
        "optim",
        "overrides",
        "profiler",
        "random",
        "signal",
        "sparse",
        "special",
        "storage",
        "testing",
        "types",
        "utils",
        "xpu",
    }
)


def __getattr__(name: str) -> object:
    # Packages on top of tensors are imported when first used: `import lazyt` stays cheap.
    if name in _LATER:
        found: object = getattr(_namespace, name)
        globals()[name] = found
        return found
    if name in _PACKAGES:
        return _import_module(f"lazyt.{name}")
    if name == "jit":
        _import_module("lazyt.compat.compile").install()
        return _import_module("lazyt.tracing.jit").jit
    raise _import_module("lazyt.compat.absent").AbsentName.of("lazyt", name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PACKAGES, *_LATER, "jit"})


if not _TYPE_CHECKING:
    __all__ = sorted({*(n for n in globals() if not n.startswith("_")), *_LATER, "jit"})

_explain_imports()
for _message in _misspelt(_environ):
    _warn(_message)
if config.load:
    _import_module("lazyt.extensions").load_all(config.load.split(_PATHSEP))
