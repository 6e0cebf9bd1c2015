"""Functions like ``exp_`` of the lazyt namespace, for type checkers and editors.

Written by docs/method_stubs.py; `make generate` writes it again.
"""

import builtins
import typing
from typing import Any

from lazyt.ir.dtypes import DType
from lazyt.handle.tensor import Tensor

def abs_(input: Tensor) -> Tensor:
    """In-place form of ``abs``."""
def acos_(input: Tensor) -> Tensor:
    """In-place form of ``acos``."""
def acosh_(input: Tensor) -> Tensor:
    """In-place form of ``acosh``."""
def addmv_(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """In-place form of ``addmv``."""
def arccos_(input: Tensor) -> Tensor:
    """In-place form of ``acos``."""
def arccosh_(input: Tensor) -> Tensor:
    """In-place form of ``acosh``."""
def arcsin_(input: Tensor) -> Tensor:
    """In-place form of ``asin``."""
def arcsinh_(input: Tensor) -> Tensor:
    """In-place form of ``asinh``."""
def arctan_(input: Tensor) -> Tensor:
    """In-place form of ``atan``."""
def arctanh_(input: Tensor) -> Tensor:
    """In-place form of ``atanh``."""
def asin_(input: Tensor) -> Tensor:
    """In-place form of ``asin``."""
def asinh_(input: Tensor) -> Tensor:
    """In-place form of ``asinh``."""
def atan_(input: Tensor) -> Tensor:
    """In-place form of ``atan``."""
def atanh_(input: Tensor) -> Tensor:
    """In-place form of ``atanh``."""
def ceil_(input: Tensor) -> Tensor:
    """In-place form of ``ceil``."""
def clamp_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place form of ``clamp``."""
def clamp_max_(input: Tensor, max: Any) -> Tensor:
    """In-place form of ``clamp_max``."""
def clamp_min_(input: Tensor, min: Any) -> Tensor:
    """In-place form of ``clamp_min``."""
def clip_(input: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """In-place form of ``clamp``."""
def conj_physical_(input: Tensor) -> Tensor:
    """In-place form of ``conj_physical``."""
def cos_(input: Tensor) -> Tensor:
    """In-place form of ``cos``."""
def cosh_(input: Tensor) -> Tensor:
    """In-place form of ``cosh``."""
def deg2rad_(input: Tensor) -> Tensor:
    """In-place form of ``deg2rad``."""
def erf_(input: Tensor) -> Tensor:
    """In-place form of ``erf``."""
def erfc_(input: Tensor) -> Tensor:
    """In-place form of ``erfc``."""
def exp2_(input: Tensor) -> Tensor:
    """In-place form of ``exp2``."""
def exp_(input: Tensor) -> Tensor:
    """In-place form of ``exp``."""
def expm1_(input: Tensor) -> Tensor:
    """In-place form of ``expm1``."""
def fill_(input: Tensor, value: Any) -> Tensor:
    """Write one value everywhere."""
def fix_(input: Tensor) -> Tensor:
    """In-place form of ``trunc``."""
def floor_(input: Tensor) -> Tensor:
    """In-place form of ``floor``."""
def frac_(input: Tensor) -> Tensor:
    """In-place form of ``frac``."""
def gcd_(input: Tensor, other: Tensor) -> Tensor:
    """In-place form of ``gcd``."""
def i0_(input: Tensor) -> Tensor:
    """In-place form of ``i0``."""
def index_put_(input: Tensor, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
    """``index_put`` in place."""
def lcm_(input: Tensor, other: Tensor) -> Tensor:
    """In-place form of ``lcm``."""
def ldexp_(input: Tensor, other: Tensor) -> Tensor:
    """In-place form of ``ldexp``."""
def log10_(input: Tensor) -> Tensor:
    """In-place form of ``log10``."""
def log1p_(input: Tensor) -> Tensor:
    """In-place form of ``log1p``."""
def log2_(input: Tensor) -> Tensor:
    """In-place form of ``log2``."""
def log_(input: Tensor) -> Tensor:
    """In-place form of ``log``."""
def logit_(input: Tensor, eps: builtins.float | None = None) -> Tensor:
    """In-place form of ``logit``."""
def nan_to_num_(input: Tensor, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
    """In-place form of ``nan_to_num``."""
def neg_(input: Tensor) -> Tensor:
    """In-place form of ``neg``."""
def negative_(input: Tensor) -> Tensor:
    """In-place form of ``neg``."""
def rad2deg_(input: Tensor) -> Tensor:
    """In-place form of ``rad2deg``."""
def reciprocal_(input: Tensor) -> Tensor:
    """In-place form of ``reciprocal``."""
def relu_(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """In-place form of ``relu``."""
def round_(input: Tensor, *, decimals: builtins.int = 0) -> Tensor:
    """In-place form of ``round``."""
def rsqrt_(input: Tensor) -> Tensor:
    """In-place form of ``rsqrt``."""
def sigmoid_(input: Tensor) -> Tensor:
    """In-place form of ``sigmoid``."""
def sin_(input: Tensor) -> Tensor:
    """In-place form of ``sin``."""
def sinc_(input: Tensor) -> Tensor:
    """In-place form of ``sinc``."""
def sinh_(input: Tensor) -> Tensor:
    """In-place form of ``sinh``."""
def sqrt_(input: Tensor) -> Tensor:
    """In-place form of ``sqrt``."""
def square_(input: Tensor) -> Tensor:
    """In-place form of ``square``."""
def tan_(input: Tensor) -> Tensor:
    """In-place form of ``tan``."""
def tanh_(input: Tensor) -> Tensor:
    """In-place form of ``tanh``."""
def trunc_(input: Tensor) -> Tensor:
    """In-place form of ``trunc``."""
def xlogy_(input: Tensor, other: Any) -> Tensor:
    """In-place form of ``xlogy``."""
def zero_(input: Tensor) -> Tensor:
    """Write zeros everywhere."""
