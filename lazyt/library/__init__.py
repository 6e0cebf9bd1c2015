"""``torch.library``: operators that a program defines in Python.

A kernel is a function of tensors that runs when it is called: what it does becomes part of the
graph, fuses, and is captured like everything else. So most functions need no operator. They matter
for code that is written for PyTorch, for gradients of one's own, and for results that depend on the
device. For kernels in C or CUDA C there are ``lazyt.c_kernel`` and ``lazyt.cuda_kernel``.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.library.checking import OpCheckError as OpCheckError
from lazyt.library.checking import opcheck as opcheck
from lazyt.library.definitions import (
    CustomOpDef,
    Library,
    custom_op,
    define,
    fallthrough_kernel,
    impl,
    impl_abstract,
    register_autocast,
    register_autograd,
    register_fake,
    register_kernel,
    register_vmap,
)
from lazyt.library.fake_context import FakeImplCtx, get_ctx
from lazyt.library.operators import MissingKernelError as MissingKernelError
from lazyt.library.operators import OpOverload as OpOverload
from lazyt.library.operators import OpOverloadPacket as OpOverloadPacket
from lazyt.library.schema import infer_schema

__all__ = [
    "CustomOpDef",
    "FakeImplCtx",
    "Library",
    "MissingKernelError",
    "OpCheckError",
    "OpOverload",
    "OpOverloadPacket",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_kernel",
    "register_vmap",
]

_explain_absence(__name__)
