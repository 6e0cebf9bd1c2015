"""Function transforms, by PyTorch's names (``torch.func``): they compose in any order.

A transform runs the function on symbols and changes the graph of what it returns; there is no tape.
"""

from __future__ import annotations

from lazyt.autograd.derivatives import grad as grad
from lazyt.autograd.derivatives import grad_and_value as grad_and_value
from lazyt.autograd.derivatives import hessian as hessian
from lazyt.autograd.derivatives import jacfwd as jacfwd
from lazyt.autograd.derivatives import jacrev as jacrev
from lazyt.autograd.derivatives import jvp as jvp
from lazyt.autograd.derivatives import linearize as linearize
from lazyt.autograd.derivatives import value_and_grad as value_and_grad
from lazyt.autograd.derivatives import vjp as vjp
from lazyt.autograd.vectorizing import vmap as vmap
from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.func.models import functional_call as functional_call
from lazyt.func.models import functionalize as functionalize
from lazyt.func.models import (
    replace_all_batch_norm_modules_ as replace_all_batch_norm_modules_,
)
from lazyt.func.models import stack_module_state as stack_module_state
from lazyt.functional.control.branches import cond as cond
from lazyt.functional.control.branches import while_loop as while_loop
from lazyt.functional.control.loops import associative_scan as associative_scan
from lazyt.functional.control.loops import map as map
from lazyt.functional.control.loops import scan as scan

__all__ = [
    "associative_scan", "cond", "functional_call", "functionalize", "grad", "grad_and_value",
    "hessian", "jacfwd", "jacrev", "jvp", "linearize", "map", "replace_all_batch_norm_modules_",
    "scan", "stack_module_state", "value_and_grad", "vjp", "vmap", "while_loop",
]  # fmt: skip

_explain_absence(__name__)
