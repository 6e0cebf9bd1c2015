"""The methods of Tensor that are written elsewhere, for type checkers and editors.

Written by docs/method_stubs.py; `make generate` writes it again.
"""

import builtins
import collections.abc
import lazyt.functional.random.generators
import lazyt.functional.return_types
import lazyt.handle.interop.dlpack
import lazyt.handle.interop.storage_objects
import lazyt.handle.layout
import lazyt.handle.tape
import lazyt.plan.explain
import numpy
import types
import typing
from typing import Any

from lazyt.functional import return_types
from lazyt.ir.dtypes import DType
from lazyt.handle.tensor import Size, Tensor

class TensorMethods:
    """What Tensor has besides its own class body."""
    @property
    def H(self) -> Tensor:
        """A matrix transposed, of conjugates."""
    @property
    def T(self) -> Tensor:
        """All dimensions in reverse order."""
    def __array__(self, dtype: Any = None, copy: builtins.bool | None = None) -> numpy.ndarray[Any, Any]:
        """The array NumPy asks for; shares memory where neither dtype nor ``copy`` forbid it."""
    def __array_namespace__(self, *, api_version: builtins.str | None = None) -> types.ModuleType:
        """``lazyt.array_api``; raises ValueError for versions of the standard that it does not have."""
    def __contains__(self, element: builtins.object) -> builtins.bool:
        """"""
    def __dlpack__(self, *, stream: None = None, max_version: builtins.tuple[builtins.int, builtins.int] | None = None, dl_device: builtins.tuple[builtins.int, builtins.int] | None = None, copy: builtins.bool | None = None) -> Any:
        """A DLPack capsule of the tensor's memory, computed now; see the array API standard."""
    def __dlpack_device__(self) -> builtins.tuple[lazyt.handle.interop.dlpack.DLDeviceType, builtins.int]:
        """Kind and number of the device that the memory is on."""
    def __format__(self, spec: builtins.str) -> builtins.str:
        """"""
    @property
    def _base(self) -> Tensor | None:
        """"""
    def _is_view(self) -> builtins.bool:
        """Whether the tensor is a view that autograd follows to another."""
    @property
    def _version(self) -> builtins.int:
        """How often the memory was written to."""
    def abs(self) -> Tensor:
        """The absolute value."""
    def abs_(self) -> Tensor:
        """In-place form of ``abs``."""
    def absolute(self) -> Tensor:
        """The absolute value."""
    def absolute_(self) -> Tensor:
        """In-place form of ``abs``."""
    def acos(self) -> Tensor:
        """The angle whose cosine it is."""
    def acos_(self) -> Tensor:
        """In-place form of ``acos``."""
    def acosh(self) -> Tensor:
        """The inverse hyperbolic cosine."""
    def acosh_(self) -> Tensor:
        """In-place form of ``acosh``."""
    def add(self, other: Any, *old: Any, alpha: Any = 1) -> Tensor:
        """``input + alpha * other``."""
    def add_(self, other: Any, *old: Any, alpha: Any = 1) -> Tensor:
        """In-place form of ``add``."""
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * sum of bmm(batch1, batch2) over the batch``."""
    def addbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place form of ``addbmm``."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
        """``input + value * tensor1 / tensor2``."""
    def addcdiv_(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
        """In-place form of ``addcdiv``."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
        """``input + value * tensor1 * tensor2``."""
    def addcmul_(self, tensor1: Tensor, tensor2: Tensor, *, value: Any = 1) -> Tensor:
        """In-place form of ``addcmul``."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * (mat1 @ mat2)``; with ``alpha`` 0 the matrices are not looked at."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place form of ``addmm``."""
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * (mat @ vec)``."""
    def addmv_(self, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place form of ``addmv``."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * outer(vec1, vec2)``, in the dtype that all promote to."""
    def addr_(self, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place form of ``addr``."""
    def adjoint(self) -> Tensor:
        """``mH``:"""
    def alias(self) -> Tensor:
        """Another tensor of the same memory, shape and strides."""
    def all(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether all elements are true."""
    def allclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> builtins.bool:
        """Whether ``isclose`` holds everywhere; looks at the values."""
    def amax(self, dim: Any = ..., keepdim: builtins.bool = False) -> Tensor:
        """The max along one or more dimensions; NaN wins."""
    def amin(self, dim: Any = ..., keepdim: builtins.bool = False) -> Tensor:
        """The min along one or more dimensions; NaN wins."""
    def aminmax(self, *, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> return_types.aminmax:
        """``(amin, amax)`` in one named result."""
    def angle(self) -> Tensor:
        """The angle from the positive real axis, in radians:"""
    def any(self, dim: Any = None, keepdim: builtins.bool = False) -> Tensor:
        """Whether any elements are true."""
    def apply_(self, callable: collections.abc.Callable[[Any], Any]) -> Tensor:
        """Replace every element by what a Python function gives for it; returns the tensor."""
    def arccos(self) -> Tensor:
        """The angle whose cosine it is."""
    def arccos_(self) -> Tensor:
        """In-place form of ``acos``."""
    def arccosh(self) -> Tensor:
        """The inverse hyperbolic cosine."""
    def arccosh_(self) -> Tensor:
        """In-place form of ``acosh``."""
    def arcsin(self) -> Tensor:
        """The angle whose sine it is."""
    def arcsin_(self) -> Tensor:
        """In-place form of ``asin``."""
    def arcsinh(self) -> Tensor:
        """The inverse hyperbolic sine."""
    def arcsinh_(self) -> Tensor:
        """In-place form of ``asinh``."""
    def arctan(self) -> Tensor:
        """The angle whose tangent it is."""
    def arctan2(self, other: Any) -> Tensor:
        """The angle of the point (other, input), in radians."""
    def arctan2_(self, other: Any) -> Tensor:
        """In-place form of ``atan2``."""
    def arctan_(self) -> Tensor:
        """In-place form of ``atan``."""
    def arctanh(self) -> Tensor:
        """The inverse hyperbolic tangent."""
    def arctanh_(self) -> Tensor:
        """In-place form of ``atanh``."""
    def argmax(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Where the largest element is, the first of equals; of the flattened tensor without dim."""
    def argmin(self, dim: builtins.int | None = None, keepdim: builtins.bool = False) -> Tensor:
        """Where the smallest element is, the first of equals; of the flattened tensor without dim."""
    def argsort(self, dim: builtins.int = -1, descending: builtins.bool = False, *, stable: builtins.bool | None = None) -> Tensor:
        """The int64 positions that put ``input`` in order along ``dim``; always stable."""
    def argwhere(self) -> Tensor:
        """``nonzero`` as a (count, rank) tensor."""
    def as_strided(self, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """A view of the whole storage with any strides."""
    def as_strided_(self, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """Show the storage with any strides from now on."""
    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: builtins.int | None = None) -> Tensor:
        """A copy of ``input`` with ``src`` at the places that ``as_strided`` shows."""
    def as_subclass(self, cls: builtins.type[Tensor]) -> Tensor:
        """The tensor as an object of a subclass of Tensor:"""
    def asin(self) -> Tensor:
        """The angle whose sine it is."""
    def asin_(self) -> Tensor:
        """In-place form of ``asin``."""
    def asinh(self) -> Tensor:
        """The inverse hyperbolic sine."""
    def asinh_(self) -> Tensor:
        """In-place form of ``asinh``."""
    def atan(self) -> Tensor:
        """The angle whose tangent it is."""
    def atan2(self, other: Any) -> Tensor:
        """The angle of the point (other, input), in radians."""
    def atan2_(self, other: Any) -> Tensor:
        """In-place form of ``atan2``."""
    def atan_(self) -> Tensor:
        """In-place form of ``atan``."""
    def atanh(self) -> Tensor:
        """The inverse hyperbolic tangent."""
    def atanh_(self) -> Tensor:
        """In-place form of ``atanh``."""
    def backward(self, gradient: Tensor | None = None, retain_graph: builtins.bool | None = None, create_graph: builtins.bool = False, inputs: Any = None) -> None:
        """``autograd.backward`` of this tensor."""
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * input + alpha * bmm(batch1, batch2)``."""
    def baddbmm_(self, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """In-place form of ``baddbmm``."""
    def bernoulli(self, p: builtins.float | None = None, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """1 with the probability that each element says (or ``p``), else 0, in ``input``'s dtype."""
    def bernoulli_(self, p: Any = 0.5, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """Write 1 with probability ``p``, a number or a tensor, else 0."""
    def bfloat16(self, memory_format: Any = None) -> Tensor:
        """This tensor as bfloat16; itself when it is that already."""
    def bincount(self, weights: Tensor | None = None, minlength: builtins.int = 0) -> Tensor:
        """How often each whole number occurs, or the sum of its weights; looks at the values."""
    def bitwise_and(self, other: Any) -> Tensor:
        """Bits set in both."""
    def bitwise_and_(self, other: Any) -> Tensor:
        """In-place form of ``bitwise_and``."""
    def bitwise_left_shift(self, other: Any) -> Tensor:
        """Bits moved up by ``other`` places."""
    def bitwise_left_shift_(self, other: Any) -> Tensor:
        """In-place form of ``bitwise_left_shift``."""
    def bitwise_not(self) -> Tensor:
        """Every bit inverted; of bools, the logical not."""
    def bitwise_not_(self) -> Tensor:
        """In-place form of ``bitwise_not``."""
    def bitwise_or(self, other: Any) -> Tensor:
        """Bits set in either."""
    def bitwise_or_(self, other: Any) -> Tensor:
        """In-place form of ``bitwise_or``."""
    def bitwise_right_shift(self, other: Any) -> Tensor:
        """Bits moved down by ``other`` places."""
    def bitwise_right_shift_(self, other: Any) -> Tensor:
        """In-place form of ``bitwise_right_shift``."""
    def bitwise_xor(self, other: Any) -> Tensor:
        """Bits set in one only."""
    def bitwise_xor_(self, other: Any) -> Tensor:
        """In-place form of ``bitwise_xor``."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """Products of the matrices of two batches."""
    def bool(self, memory_format: Any = None) -> Tensor:
        """This tensor as bool; itself when it is that already."""
    def broadcast_to(self, *size: Any) -> Tensor:
        """``input`` expanded to ``size``."""
    def byte(self, memory_format: Any = None) -> Tensor:
        """This tensor as uint8; itself when it is that already."""
    def cauchy_(self, median: builtins.float = 0, sigma: builtins.float = 1, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """Write numbers of the Cauchy distribution."""
    def ccol_indices(self) -> Tensor:
        """Where every compressed column begins."""
    def cdouble(self, memory_format: Any = None) -> Tensor:
        """This tensor as complex128; itself when it is that already."""
    def ceil(self) -> Tensor:
        """The next whole number above."""
    def ceil_(self) -> Tensor:
        """In-place form of ``ceil``."""
    def cfloat(self, memory_format: Any = None) -> Tensor:
        """This tensor as complex64; itself when it is that already."""
    def char(self, memory_format: Any = None) -> Tensor:
        """This tensor as int8; itself when it is that already."""
    def cholesky(self, upper: builtins.bool = False) -> Tensor:
        """``torch.cholesky``:"""
    def cholesky_inverse(self, upper: builtins.bool = False) -> Tensor:
        """The inverse of ``A`` from its Cholesky factor."""
    def cholesky_solve(self, input2: Tensor, upper: builtins.bool = False) -> Tensor:
        """``X`` with ``A @ X = input``, from the Cholesky factor of ``A``."""
    def chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """At most ``chunks`` views of nearly equal parts along ``dim``."""
    def clamp(self, min: Any = None, max: Any = None) -> Tensor:
        """``input`` kept within [min, max], numbers or tensors."""
    def clamp_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place form of ``clamp``."""
    def clamp_max(self, max: Any) -> Tensor:
        """``input``, but at most ``max``."""
    def clamp_max_(self, max: Any) -> Tensor:
        """In-place form of ``clamp_max``."""
    def clamp_min(self, min: Any) -> Tensor:
        """``input``, but at least ``min``."""
    def clamp_min_(self, min: Any) -> Tensor:
        """In-place form of ``clamp_min``."""
    def clip(self, min: Any = None, max: Any = None) -> Tensor:
        """``input`` kept within [min, max], numbers or tensors."""
    def clip_(self, min: Any = None, max: Any = None) -> Tensor:
        """In-place form of ``clamp``."""
    def clone(self, *, memory_format: Any = None) -> Tensor:
        """A copy with memory of its own, in the order of the original or in ``memory_format``."""
    def coalesce(self) -> Tensor:
        """A tensor with coordinates whose indices are in order and each there once; values of one place are added up in their order."""
    def col_indices(self) -> Tensor:
        """The column of every value in compressed rows."""
    def conj(self) -> Tensor:
        """A view with the other sign of the imaginary parts, whose conjugate bit is set; the tensor itself where its numbers are real."""
    def conj_physical(self) -> Tensor:
        """The conjugate in memory of its own; of real numbers the tensor itself."""
    def conj_physical_(self) -> Tensor:
        """In-place form of ``conj_physical``."""
    def const_data_ptr(self) -> builtins.int:
        """``data_ptr`` for memory that is only read."""
    def contiguous(self, memory_format: Any = ...) -> Tensor:
        """The tensor itself when its elements lie in the order ``memory_format``, else a copy."""
    def copy_(self, src: Any, non_blocking: builtins.bool = False) -> Tensor:
        """Write ``src``, broadcast and converted, into this tensor."""
    def copysign(self, other: Any) -> Tensor:
        """``input`` with the sign of ``other``."""
    def copysign_(self, other: Any) -> Tensor:
        """In-place form of ``copysign``."""
    def corrcoef(self) -> Tensor:
        """The correlations of variables in rows, observed in columns:"""
    def cos(self) -> Tensor:
        """The cosine of radians."""
    def cos_(self) -> Tensor:
        """In-place form of ``cos``."""
    def cosh(self) -> Tensor:
        """The hyperbolic cosine."""
    def cosh_(self) -> Tensor:
        """In-place form of ``cosh``."""
    def count_nonzero(self, dim: Any = None) -> Tensor:
        """How many elements are not zero, in int64."""
    def cov(self, *, correction: builtins.int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """The covariances of variables in rows, observed in columns; of one variable its variance."""
    def cpu(self, memory_format: Any = None) -> Tensor:
        """This tensor on the CPU:"""
    def cross(self, other: Tensor, dim: builtins.int | None = None) -> Tensor:
        """``linalg.cross``; without ``dim`` along the first dimension of three elements."""
    def crow_indices(self) -> Tensor:
        """Where every compressed row begins."""
    def cuda(self, device: Any = None, non_blocking: Any = False) -> Tensor:
        """This tensor on a GPU."""
    def cummax(self, dim: builtins.int) -> return_types.cummax:
        """Running maxima along ``dim`` and where each was last reached."""
    def cummin(self, dim: builtins.int) -> return_types.cummin:
        """Running minima along ``dim`` and where each was last reached."""
    def cumprod(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """Running products along ``dim``; of bools and integers in int64."""
    def cumprod_(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """In-place form of ``cumprod``."""
    def cumsum(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """Running sums along ``dim``; of bools and integers in int64."""
    def cumsum_(self, dim: builtins.int, *, dtype: Any = None) -> Tensor:
        """In-place form of ``cumsum``."""
    def data_ptr(self) -> builtins.int:
        """The address of the first element."""
    def deg2rad(self) -> Tensor:
        """Degrees as radians."""
    def deg2rad_(self) -> Tensor:
        """In-place form of ``deg2rad``."""
    def dense_dim(self) -> builtins.int:
        """The number of dense dimensions:"""
    def det(self) -> Tensor:
        """``linalg.det``:"""
    def detach(self) -> Tensor:
        """A tensor of the same memory without gradient history."""
    def detach_(self) -> Tensor:
        """Drop this tensor's gradient history."""
    def diag(self, diagonal: builtins.int = 0) -> Tensor:
        """A matrix with the vector on its diagonal, or the diagonal of a matrix as a copy."""
    def diag_embed(self, offset: builtins.int = 0, dim1: builtins.int = -2, dim2: builtins.int = -1) -> Tensor:
        """Matrices with the last dimension of ``input`` on a diagonal."""
    def diagflat(self, offset: builtins.int = 0) -> Tensor:
        """A matrix with all elements on its diagonal."""
    def diagonal(self, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """The diagonal of the matrices over ``dim1`` and ``dim2``, as the last dimension."""
    def diagonal_scatter(self, src: Tensor, offset: builtins.int = 0, dim1: builtins.int = 0, dim2: builtins.int = 1) -> Tensor:
        """A copy of ``input`` with ``src`` on a diagonal."""
    def diff(self, n: builtins.int = 1, dim: builtins.int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """Differences of neighbours along ``dim``, ``n`` times over, of bools the exclusive or."""
    def digamma(self) -> Tensor:
        """The derivative of lgamma."""
    def digamma_(self) -> Tensor:
        """In-place form of ``digamma``."""
    def dim(self) -> builtins.int:
        """Number of dimensions."""
    def dim_order(self, *, ambiguity_check: builtins.bool = False) -> builtins.tuple[builtins.int, ...]:
        """The dimensions from the slowest to the fastest in memory."""
    def dist(self, other: Tensor, p: builtins.float = 2) -> Tensor:
        """The p-norm of ``input - other``, which broadcast."""
    def div(self, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """``input / other``:"""
    def div_(self, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """In-place form of ``div``."""
    def divide(self, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """``input / other``:"""
    def divide_(self, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """In-place form of ``div``."""
    def dot(self, tensor: Tensor) -> Tensor:
        """The inner product of two vectors."""
    def double(self, memory_format: Any = None) -> Tensor:
        """This tensor as float64; itself when it is that already."""
    def dsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> builtins.tuple[Tensor, ...]:
        """``tensor_split`` along the third dimension into equal parts."""
    def element_size(self) -> builtins.int:
        """Bytes per element."""
    def eq(self, other: Any) -> Tensor:
        """Where the operands are equal."""
    def eq_(self, other: Any) -> Tensor:
        """In-place form of ``eq``."""
    def equal(self, other: Tensor) -> builtins.bool:
        """Whether shapes and all values are equal; looks at the values."""
    def erf(self) -> Tensor:
        """The error function."""
    def erf_(self) -> Tensor:
        """In-place form of ``erf``."""
    def erfc(self) -> Tensor:
        """1 - erf(x)."""
    def erfc_(self) -> Tensor:
        """In-place form of ``erfc``."""
    def erfinv(self) -> Tensor:
        """The inverse of the error function."""
    def erfinv_(self) -> Tensor:
        """In-place form of ``erfinv``."""
    def exp(self) -> Tensor:
        """e to the power of each element."""
    def exp2(self) -> Tensor:
        """2 to the power of each element."""
    def exp2_(self) -> Tensor:
        """In-place form of ``exp2``."""
    def exp_(self) -> Tensor:
        """In-place form of ``exp``."""
    def expand(self, *size: Any) -> Tensor:
        """Dimensions of extent one repeated without copying (stride 0); -1 keeps an extent."""
    def expand_as(self, other: Tensor) -> Tensor:
        """``input.expand(other.shape)``."""
    def explain(self) -> lazyt.plan.explain.Explanation:
        """``lazyt.explain`` of this tensor."""
    def expm1(self) -> Tensor:
        """exp(x) - 1, accurate near 0."""
    def expm1_(self) -> Tensor:
        """In-place form of ``expm1``."""
    def exponential_(self, lambd: builtins.float = 1, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """Write numbers of the exponential distribution with rate ``lambd``."""
    def fill_(self, value: Any) -> Tensor:
        """Write one value everywhere."""
    def fill_diagonal_(self, fill_value: Any, wrap: builtins.bool = False) -> Tensor:
        """Write one value on the main diagonal."""
    def fix(self) -> Tensor:
        """The whole number towards 0."""
    def fix_(self) -> Tensor:
        """In-place form of ``trunc``."""
    def flatten(self, start_dim: builtins.int = 0, end_dim: builtins.int = -1) -> Tensor:
        """Dimensions ``start_dim`` to ``end_dim`` merged into one."""
    def flip(self, *axes: Any, dims: Any = None) -> Tensor:
        """A copy with the order of elements reversed along ``dims``:"""
    def fliplr(self) -> Tensor:
        """Columns in reverse order."""
    def flipud(self) -> Tensor:
        """Rows in reverse order."""
    def float(self, memory_format: Any = None) -> Tensor:
        """This tensor as float32; itself when it is that already."""
    def float_power(self, exponent: Any) -> Tensor:
        """``input ** exponent`` in float64, of complex numbers in complex128."""
    def float_power_(self, exponent: Any) -> Tensor:
        """``float_power`` in place."""
    def floor(self) -> Tensor:
        """The next whole number below."""
    def floor_(self) -> Tensor:
        """In-place form of ``floor``."""
    def floor_divide(self, other: Any) -> Tensor:
        """``input / other`` rounded down."""
    def floor_divide_(self, other: Any) -> Tensor:
        """In-place form of ``floor_divide``."""
    def fmax(self, other: Any) -> Tensor:
        """The larger element; a number wins over NaN."""
    def fmin(self, other: Any) -> Tensor:
        """The smaller element; a number wins over NaN."""
    def fmod(self, other: Any) -> Tensor:
        """The remainder with the sign of ``input``, as C's ``fmod``."""
    def fmod_(self, other: Any) -> Tensor:
        """In-place form of ``fmod``."""
    def frac(self) -> Tensor:
        """The part after the point, with the sign of x."""
    def frac_(self) -> Tensor:
        """In-place form of ``frac``."""
    def frexp(self) -> lazyt.functional.return_types.frexp:
        """``input = mantissa * 2**exponent`` with 1/2 <= \\|mantissa\\| < 1, the exponent in int32."""
    def gather(self, dim: builtins.int, index: Tensor, *, sparse_grad: builtins.bool = False) -> Tensor:
        """``out[i][j] = input[index[i][j]][j]`` for dim 0, and so on."""
    def gcd(self, other: Tensor) -> Tensor:
        """The greatest common divisor, not negative; 0 of two zeros."""
    def gcd_(self, other: Tensor) -> Tensor:
        """In-place form of ``gcd``."""
    def ge(self, other: Any) -> Tensor:
        """Where ``input`` is greater or equal."""
    def ge_(self, other: Any) -> Tensor:
        """In-place form of ``ge``."""
    def geometric_(self, p: builtins.float, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """Write how many trials it takes until one of probability ``p`` succeeds, 1 or more."""
    def geqrf(self) -> lazyt.functional.return_types.geqrf:
        """QR as LAPACK keeps it:"""
    def ger(self, vec2: Tensor) -> Tensor:
        """All products of the elements of two vectors."""
    def get_device(self) -> builtins.int:
        """Number of the GPU, -1 on the CPU."""
    @property
    def grad_dtype(self) -> DType | None:
        """"""
    def greater(self, other: Any) -> Tensor:
        """Where ``input`` is greater."""
    def greater_(self, other: Any) -> Tensor:
        """In-place form of ``gt``."""
    def greater_equal(self, other: Any) -> Tensor:
        """Where ``input`` is greater or equal."""
    def greater_equal_(self, other: Any) -> Tensor:
        """In-place form of ``ge``."""
    def gt(self, other: Any) -> Tensor:
        """Where ``input`` is greater."""
    def gt_(self, other: Any) -> Tensor:
        """In-place form of ``gt``."""
    def half(self, memory_format: Any = None) -> Tensor:
        """This tensor as float16; itself when it is that already."""
    def hardshrink(self, lambd: builtins.float = 0.5) -> Tensor:
        """x, and 0 within ``lambd`` of 0."""
    def hash_tensor(self, dim: Any = ..., *, keepdim: builtins.bool = False, mode: builtins.int = 0) -> Tensor:
        """The bits of all elements combined by exclusive or, as uint64."""
    def heaviside(self, values: Tensor) -> Tensor:
        """0 below 0, 1 above, ``values`` at 0."""
    def heaviside_(self, values: Tensor) -> Tensor:
        """In-place form of ``heaviside``."""
    def histc(self, bins: builtins.int = 100, min: builtins.float = 0, max: builtins.float = 0) -> Tensor:
        """How many elements lie in each of ``bins`` equal bins from ``min`` to ``max``, in the input's dtype."""
    def histogram(self, bins: Any = 100, *, range: collections.abc.Sequence[builtins.float] | None = None, weight: Tensor | None = None, density: builtins.bool = False) -> Any:
        """``(hist, bin_edges)``:"""
    def hsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> builtins.tuple[Tensor, ...]:
        """``tensor_split`` along the columns into equal parts."""
    def hspmm(self, mat2: Tensor) -> Tensor:
        """A sparse matrix with coordinates times a dense one, as a hybrid tensor."""
    def hypot(self, other: Any) -> Tensor:
        """sqrt(input**2 + other**2) without overflow."""
    def hypot_(self, other: Any) -> Tensor:
        """In-place form of ``hypot``."""
    def i0(self) -> Tensor:
        """The modified Bessel function of the first kind, order 0."""
    def i0_(self) -> Tensor:
        """In-place form of ``i0``."""
    def igamma(self, other: Tensor) -> Tensor:
        """The regularised lower incomplete gamma function P(input, other)."""
    def igamma_(self, other: Tensor) -> Tensor:
        """In-place form of ``igamma``."""
    def igammac(self, other: Tensor) -> Tensor:
        """The regularised upper incomplete gamma function Q(input, other)."""
    def igammac_(self, other: Tensor) -> Tensor:
        """In-place form of ``igammac``."""
    @property
    def imag(self) -> Tensor:
        """A view of the imaginary parts."""
    @imag.setter
    def imag(self, value: Any) -> None: ...
    def index_add(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """A copy of ``input`` with slices of ``alpha * source`` added at ``index``."""
    def index_add_(self, dim: builtins.int, index: Tensor, source: Tensor, *, alpha: Any = 1) -> Tensor:
        """In-place form of ``index_add``."""
    def index_copy(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """A copy of ``input`` with the slices at ``index`` replaced by ``source``."""
    def index_copy_(self, dim: builtins.int, index: Tensor, source: Tensor) -> Tensor:
        """In-place form of ``index_copy``."""
    def index_fill(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """A copy of ``input`` with the slices at ``index`` filled with a number."""
    def index_fill_(self, dim: builtins.int, index: Tensor, value: Any) -> Tensor:
        """In-place form of ``index_fill``."""
    def index_put(self, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """A copy of ``input`` with ``values`` at ``indices``, added up when ``accumulate``."""
    def index_put_(self, indices: Any, values: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """``index_put`` in place."""
    def index_reduce(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        """Slices of ``source`` combined into those of ``input`` that the vector ``index`` names."""
    def index_reduce_(self, dim: builtins.int, index: Tensor, source: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        """In-place form of ``index_reduce``."""
    def index_select(self, dim: builtins.int, index: Tensor) -> Tensor:
        """The slices of ``input`` along ``dim`` that the vector ``index`` names."""
    def indices(self) -> Tensor:
        """The indices [sparse dimensions, nnz] of a coalesced tensor."""
    def inner(self, other: Tensor) -> Tensor:
        """Products summed over the last dimensions of both."""
    def int(self, memory_format: Any = None) -> Tensor:
        """This tensor as int32; itself when it is that already."""
    def inverse(self) -> Tensor:
        """``linalg.inv``."""
    def is_coalesced(self) -> builtins.bool:
        """Whether indices are in order and each there once."""
    def is_complex(self) -> builtins.bool:
        """Whether the elements are complex numbers."""
    def is_conj(self) -> builtins.bool:
        """Whether the conjugate bit is set:"""
    @property
    def is_cpu(self) -> builtins.bool:
        """Whether the values are on the CPU."""
    @property
    def is_cuda(self) -> builtins.bool:
        """Whether the values are on a CUDA device."""
    def is_distributed(self) -> builtins.bool:
        """Whether the tensor is one of several parts on other machines:"""
    def is_floating_point(self) -> builtins.bool:
        """Whether the elements are floating point."""
    def is_inference(self) -> builtins.bool:
        """Whether the tensor was made in inference mode and is closed to autograd."""
    @property
    def is_ipu(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_maia(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_meta(self) -> builtins.bool:
        """Whether the tensor has a shape and a dtype and no values."""
    @property
    def is_mkldnn(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_mps(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_mtia(self) -> builtins.bool:
        """Always False:"""
    def is_neg(self) -> builtins.bool:
        """Whether the negative bit is set; never."""
    @property
    def is_nested(self) -> builtins.bool:
        """Always False:"""
    def is_nonzero(self) -> builtins.bool:
        """The truth of a tensor of one element; raises as ``bool(tensor)`` does."""
    def is_pinned(self, device: Any = None) -> builtins.bool:
        """Whether the memory is pinned for transfers to a GPU."""
    @property
    def is_quantized(self) -> builtins.bool:
        """Always False:"""
    def is_same_size(self, other: Tensor) -> builtins.bool:
        """Whether two tensors have the same shape."""
    def is_set_to(self, tensor: Tensor) -> builtins.bool:
        """Whether both show the same elements of the same memory in the same way."""
    def is_shared(self) -> builtins.bool:
        """Whether other processes see the memory, after ``share_memory_``."""
    def is_signed(self) -> builtins.bool:
        """Whether the elements can be negative."""
    @property
    def is_sparse(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_sparse_csr(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_vulkan(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_xla(self) -> builtins.bool:
        """Always False:"""
    @property
    def is_xpu(self) -> builtins.bool:
        """Always False:"""
    def isclose(self, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08, equal_nan: builtins.bool = False) -> Tensor:
        """Where ``|input - other| <= atol + rtol * |other|``."""
    def isfinite(self) -> Tensor:
        """Where the value is neither infinite nor NaN."""
    def isinf(self) -> Tensor:
        """Where the value is infinite."""
    def isnan(self) -> Tensor:
        """Where the value is not a number."""
    def isneginf(self) -> Tensor:
        """Where the value is -inf."""
    def isposinf(self) -> Tensor:
        """Where the value is +inf."""
    def isreal(self) -> Tensor:
        """Where the imaginary part is zero, in bool:"""
    def istft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, normalized: builtins.bool = False, onesided: builtins.bool | None = None, length: builtins.int | None = None, return_complex: builtins.bool = False) -> Tensor:
        """The signal [L] of which ``stft`` gives spectra nearest to ``input``, [frequencies, pieces], or a batch of them (Griffin and Lim, "Signal estimation from modified short-time Fourier transform", 1984)."""
    def item(self) -> builtins.bool | builtins.int | builtins.float:
        """The only element as a Python number."""
    def kron(self, other: Tensor) -> Tensor:
        """The Kronecker product:"""
    def kthvalue(self, k: builtins.int, dim: builtins.int = -1, keepdim: builtins.bool = False) -> return_types.kthvalue:
        """``(values, indices)`` of the ``k``-th smallest element along ``dim``, counted from 1."""
    @property
    def layout(self) -> lazyt.handle.layout.layout:
        """Always lazyt.strided:"""
    def lcm(self, other: Tensor) -> Tensor:
        """The least common multiple, not negative; 0 where an operand is 0."""
    def lcm_(self, other: Tensor) -> Tensor:
        """In-place form of ``lcm``."""
    def ldexp(self, other: Tensor) -> Tensor:
        """``input * 2**other``; whole numbers count as the default dtype."""
    def ldexp_(self, other: Tensor) -> Tensor:
        """In-place form of ``ldexp``."""
    def le(self, other: Any) -> Tensor:
        """Where ``input`` is less or equal."""
    def le_(self, other: Any) -> Tensor:
        """In-place form of ``le``."""
    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        """``input + weight * (end - input)``."""
    def lerp_(self, end: Tensor, weight: Any) -> Tensor:
        """In-place form of ``lerp``."""
    def less(self, other: Any) -> Tensor:
        """Where ``input`` is less."""
    def less_(self, other: Any) -> Tensor:
        """In-place form of ``lt``."""
    def less_equal(self, other: Any) -> Tensor:
        """Where ``input`` is less or equal."""
    def less_equal_(self, other: Any) -> Tensor:
        """In-place form of ``le``."""
    def lgamma(self) -> Tensor:
        """The logarithm of the absolute gamma function."""
    def lgamma_(self) -> Tensor:
        """In-place form of ``lgamma``."""
    def log(self) -> Tensor:
        """The natural logarithm."""
    def log10(self) -> Tensor:
        """The logarithm to base 10."""
    def log10_(self) -> Tensor:
        """In-place form of ``log10``."""
    def log1p(self) -> Tensor:
        """log(1 + x), accurate near 0."""
    def log1p_(self) -> Tensor:
        """In-place form of ``log1p``."""
    def log2(self) -> Tensor:
        """The logarithm to base 2."""
    def log2_(self) -> Tensor:
        """In-place form of ``log2``."""
    def log_(self) -> Tensor:
        """In-place form of ``log``."""
    def log_normal_(self, mean: builtins.float = 1, std: builtins.float = 2, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """Write numbers whose logarithms are normal with this mean and deviation."""
    def log_softmax(self, dim: builtins.int, dtype: Any = None) -> Tensor:
        """The logarithm of ``softmax``, without overflow."""
    def logaddexp(self, other: Tensor) -> Tensor:
        """``log(exp(input) + exp(other))`` without overflow."""
    def logaddexp2(self, other: Tensor) -> Tensor:
        """``log2(2**input + 2**other)``, without overflow."""
    def logcumsumexp(self, dim: builtins.int) -> Tensor:
        """``log(cumsum(exp(x)))`` without overflow."""
    def logdet(self) -> Tensor:
        """The logarithm of determinants:"""
    def logical_and(self, other: Any) -> Tensor:
        """Where both are true."""
    def logical_and_(self, other: Any) -> Tensor:
        """In-place form of ``logical_and``."""
    def logical_not(self) -> Tensor:
        """Where ``input`` is false (zero)."""
    def logical_not_(self) -> Tensor:
        """In-place form of ``logical_not``."""
    def logical_or(self, other: Any) -> Tensor:
        """Where either is true."""
    def logical_or_(self, other: Any) -> Tensor:
        """In-place form of ``logical_or``."""
    def logical_xor(self, other: Any) -> Tensor:
        """Where exactly one is true."""
    def logical_xor_(self, other: Any) -> Tensor:
        """In-place form of ``logical_xor``."""
    def logit(self, eps: builtins.float | None = None) -> Tensor:
        """log(x / (1 - x)), with x kept within [eps, 1 - eps] when ``eps`` is given."""
    def logit_(self, eps: builtins.float | None = None) -> Tensor:
        """In-place form of ``logit``."""
    def logsumexp(self, dim: Any, keepdim: builtins.bool = False) -> Tensor:
        """``log(sum(exp(x)))`` along dimensions, without overflow."""
    def long(self, memory_format: Any = None) -> Tensor:
        """This tensor as int64; itself when it is that already."""
    def lt(self, other: Any) -> Tensor:
        """Where ``input`` is less."""
    def lt_(self, other: Any) -> Tensor:
        """In-place form of ``lt``."""
    def lu(self, pivot: builtins.bool = True, get_infos: builtins.bool = False) -> builtins.tuple[Tensor, ...]:
        """``torch.lu``:"""
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """``torch.lu_solve``:"""
    @property
    def mH(self) -> Tensor:
        """Conjugates with the last two dimensions exchanged."""
    @property
    def mT(self) -> Tensor:
        """The last two dimensions exchanged."""
    def map2_(self, x: Tensor, y: Tensor, callable: collections.abc.Callable[[Any, Any, Any], Any]) -> Tensor:
        """``apply_`` of a function of three arguments."""
    def map_(self, tensor: Tensor, callable: collections.abc.Callable[[Any, Any], Any]) -> Tensor:
        """``apply_`` of a function of two arguments:"""
    def masked_fill(self, mask: Tensor, value: Any) -> Tensor:
        """``input`` with ``value`` where ``mask`` holds."""
    def masked_fill_(self, mask: Tensor, value: Any) -> Tensor:
        """In-place form of ``masked_fill``."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """``input`` with the elements where ``mask`` holds replaced by those of ``source`` in order."""
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """In-place form of ``masked_scatter``."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where ``mask`` holds, as a vector; both broadcast."""
    def matmul(self, other: Tensor) -> Tensor:
        """``input @ other`` for vectors, matrices and batches of them, which broadcast."""
    def matrix_exp(self) -> Tensor:
        """The exponential of square matrices, computed in float64 and rounded; 16-bit floats too."""
    def matrix_power(self, n: builtins.int) -> Tensor:
        """``input`` times itself ``n`` times, its inverse for negative ``n``, by repeated squaring."""
    @typing.overload
    def max(self) -> Tensor:
        """The largest element; with ``dim``, ``(values, indices)``; with a tensor, ``maximum``."""
    @typing.overload
    def max(self, other: Tensor) -> Tensor:
        """The largest element; with ``dim``, ``(values, indices)``; with a tensor, ``maximum``."""
    @typing.overload
    def max(self, dim: builtins.int, keepdim: builtins.bool = False) -> return_types.max:
        """The largest element; with ``dim``, ``(values, indices)``; with a tensor, ``maximum``."""
    def maximum(self, other: Any) -> Tensor:
        """The larger element; NaN wins."""
    def mean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """The mean."""
    @typing.overload
    def median(self) -> Tensor:
        """The lower median of all elements, or ``(values, indices)`` along ``dim``."""
    @typing.overload
    def median(self, dim: builtins.int, keepdim: builtins.bool = False) -> return_types.median:
        """The lower median of all elements, or ``(values, indices)`` along ``dim``."""
    @typing.overload
    def min(self) -> Tensor:
        """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, ``minimum``."""
    @typing.overload
    def min(self, other: Tensor) -> Tensor:
        """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, ``minimum``."""
    @typing.overload
    def min(self, dim: builtins.int, keepdim: builtins.bool = False) -> return_types.min:
        """The smallest element; with ``dim``, ``(values, indices)``; with a tensor, ``minimum``."""
    def minimum(self, other: Any) -> Tensor:
        """The smaller element; NaN wins."""
    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices."""
    def mode(self, dim: builtins.int = -1, keepdim: builtins.bool = False) -> return_types.mode:
        """``(values, indices)`` of the most frequent value along ``dim``:"""
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Dimensions moved to other places, the rest in their order."""
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Dimensions moved to other places, the rest in their order."""
    def msort(self) -> Tensor:
        """``input`` in ascending order along its first dimension."""
    def mul(self, other: Any) -> Tensor:
        """``input * other``; of bools, the logical and."""
    def mul_(self, other: Any) -> Tensor:
        """In-place form of ``mul``."""
    def multinomial(self, num_samples: builtins.int, replacement: builtins.bool = False, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """int64 places drawn with the probabilities of each row, which need not add up to 1."""
    def multiply(self, other: Any) -> Tensor:
        """``input * other``; of bools, the logical and."""
    def multiply_(self, other: Any) -> Tensor:
        """In-place form of ``mul``."""
    def mv(self, vec: Tensor) -> Tensor:
        """A matrix times a vector."""
    def mvlgamma(self, p: builtins.int) -> Tensor:
        """The logarithm of the multivariate gamma function of dimension ``p``."""
    def mvlgamma_(self, p: builtins.int) -> Tensor:
        """In-place form of ``mvlgamma``."""
    @property
    def name(self) -> None:
        """Always None:"""
    def nan_to_num(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        """``input`` with NaN as 0 and infinities as the largest numbers, or as given."""
    def nan_to_num_(self, nan: builtins.float | None = None, posinf: builtins.float | None = None, neginf: builtins.float | None = None) -> Tensor:
        """In-place form of ``nan_to_num``."""
    def nanmean(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """The mean of what is not NaN."""
    @typing.overload
    def nanmedian(self) -> Tensor:
        """``median`` of what is not NaN; NaN where nothing else is there."""
    @typing.overload
    def nanmedian(self, dim: builtins.int, keepdim: builtins.bool = False) -> return_types.nanmedian:
        """``median`` of what is not NaN; NaN where nothing else is there."""
    def nanquantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
        """``quantile`` of what is not NaN; NaN where nothing else is there."""
    def nansum(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """The sum of what is not NaN."""
    def narrow(self, dim: builtins.int, start: Any, length: builtins.int) -> Tensor:
        """``length`` elements from ``start`` along ``dim``."""
    def narrow_copy(self, dim: builtins.int, start: builtins.int, length: builtins.int) -> Tensor:
        """A copy of ``length`` elements from ``start`` along ``dim``."""
    def ndimension(self) -> builtins.int:
        """Number of dimensions."""
    def ne(self, other: Any) -> Tensor:
        """Where the operands differ."""
    def ne_(self, other: Any) -> Tensor:
        """In-place form of ``ne``."""
    def neg(self) -> Tensor:
        """``-input``."""
    def neg_(self) -> Tensor:
        """In-place form of ``neg``."""
    def negative(self) -> Tensor:
        """``-input``."""
    def negative_(self) -> Tensor:
        """In-place form of ``neg``."""
    def nelement(self) -> builtins.int:
        """Number of elements."""
    def new(self, *args: Any, size: Any = None, device: Any = None) -> Tensor:
        """``new(2, 3)`` has that size, ``new([..])`` those values, in this tensor's dtype."""
    def new_empty(self, *size: Any, **kwargs: Any) -> Tensor:
        """A tensor of empty, in this tensor's dtype."""
    def new_empty_strided(self, size: Any, stride: Any, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: builtins.bool = False, requires_grad: builtins.bool = False) -> Tensor:
        """``empty_strided`` in this tensor's dtype."""
    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False, layout: Any = None, pin_memory: builtins.bool = False) -> Tensor:
        """A tensor of one value, in this tensor's dtype."""
    def new_ones(self, *size: Any, **kwargs: Any) -> Tensor:
        """A tensor of ones, in this tensor's dtype."""
    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: builtins.bool = False, layout: Any = None, pin_memory: builtins.bool = False) -> Tensor:
        """A tensor of ``data``, in this tensor's dtype."""
    def new_zeros(self, *size: Any, **kwargs: Any) -> Tensor:
        """A tensor of zeros, in this tensor's dtype."""
    def nextafter(self, other: Tensor) -> Tensor:
        """The neighbour of ``input`` towards ``other`` among the numbers of the dtype."""
    def nextafter_(self, other: Tensor) -> Tensor:
        """In-place form of ``nextafter``."""
    @typing.overload
    def nonzero(self, *, as_tuple: typing.Literal[False] = False) -> Tensor:
        """Where elements are not zero:"""
    @typing.overload
    def nonzero(self, *, as_tuple: typing.Literal[True]) -> builtins.tuple[Tensor, ...]:
        """Where elements are not zero:"""
    def nonzero_static(self, *, size: builtins.int, fill_value: builtins.int = -1) -> Tensor:
        """``nonzero`` cut or filled with ``fill_value`` to ``size`` rows:"""
    def norm(self, p: Any = 'fro', dim: Any = None, keepdim: builtins.bool = False, dtype: Any = None) -> Tensor:
        """``torch.norm``:"""
    def normal_(self, mean: builtins.float = 0.0, std: builtins.float = 1.0, *, generator: lazyt.functional.random.generators.Generator | None = None) -> Tensor:
        """Write normal numbers."""
    def not_equal(self, other: Any) -> Tensor:
        """Where the operands differ."""
    def not_equal_(self, other: Any) -> Tensor:
        """In-place form of ``ne``."""
    def numel(self) -> builtins.int:
        """Number of elements."""
    def numpy(self, *, force: builtins.bool = False) -> numpy.ndarray[Any, Any]:
        """An array that shares memory with the tensor:"""
    def orgqr(self, input2: Tensor) -> Tensor:
        """``linalg.householder_product``."""
    def ormqr(self, input2: Tensor, input3: Tensor, left: builtins.bool = True, transpose: builtins.bool = False) -> Tensor:
        """``input3`` times the whole square product of the reflectors, from the left or the right."""
    def outer(self, vec2: Tensor) -> Tensor:
        """All products of the elements of two vectors."""
    @property
    def output_nr(self) -> builtins.int:
        """Which of the results of its ``grad_fn`` the tensor is."""
    def permute(self, *dims: Any) -> Tensor:
        """Dimensions in another order."""
    def pin_memory(self, device: Any = None) -> Tensor:
        """A copy in memory that GPUs read by themselves; this tensor where there is no GPU."""
    def pinverse(self, rcond: builtins.float = 1e-15) -> Tensor:
        """``linalg.pinv`` with ``rtol=rcond``."""
    def polygamma(self, n: builtins.int) -> Tensor:
        """The ``n``-th derivative of ``digamma`` at each element."""
    def polygamma_(self, n: builtins.int) -> Tensor:
        """In-place form of ``polygamma_method``."""
    def positive(self) -> Tensor:
        """``+input``:"""
    def pow(self, exponent: Any) -> Tensor:
        """``input ** exponent``."""
    def pow_(self, exponent: Any) -> Tensor:
        """In-place form of ``pow``."""
    def prelu(self, weight: Tensor) -> Tensor:
        """``leaky_relu`` with a learned slope, one for all or one per channel (dimension 1)."""
    def prod(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """The product, over all elements or one dimension; of bools and integers in int64."""
    def put(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """A copy of ``input`` with ``source`` at the positions ``index`` of its flattened elements."""
    def put_(self, index: Tensor, source: Tensor, accumulate: builtins.bool = False) -> Tensor:
        """In-place form of ``put``."""
    def qr(self, some: builtins.bool = True) -> lazyt.functional.return_types.qr:
        """``torch.qr``:"""
    def quantile(self, q: Any, dim: builtins.int | None = None, keepdim: builtins.bool = False, *, interpolation: builtins.str = 'linear') -> Tensor:
        """The ``q``-th quantiles of all elements or along ``dim``; NaN where there is a NaN."""
    def rad2deg(self) -> Tensor:
        """Radians as degrees."""
    def rad2deg_(self) -> Tensor:
        """In-place form of ``rad2deg``."""
    def random_(self, from_: builtins.int | None = None, to: builtins.int | None = None, *, generator: lazyt.functional.random.generators.Generator | None = None, **kwargs: Any) -> Tensor:
        """Write whole numbers in [from, to); [0, to) with one argument, all that fit with none."""
    def ravel(self) -> Tensor:
        """All elements in one dimension:"""
    @property
    def real(self) -> Tensor:
        """A view of the real parts."""
    @real.setter
    def real(self, value: Any) -> None: ...
    def realize(self) -> Tensor:
        """Compute this tensor's value now; returns the tensor."""
    def reciprocal(self) -> Tensor:
        """1 / x."""
    def reciprocal_(self) -> Tensor:
        """In-place form of ``reciprocal``."""
    def record_stream(self, s: Any) -> None:
        """Keep the memory, once the tensor is gone, until what the stream ``s`` is doing then is done."""
    def register_hook(self, hook: collections.abc.Callable[[Tensor], Tensor | None]) -> lazyt.handle.tape.RemovableHandle:
        """Call ``hook`` with every gradient of this tensor; what it returns replaces the gradient."""
    def register_post_accumulate_grad_hook(self, hook: collections.abc.Callable[[Tensor], None]) -> lazyt.handle.tape.RemovableHandle:
        """Call ``hook`` with this leaf each time its ``grad`` has been accumulated."""
    def relu(self, inplace: builtins.bool = False) -> Tensor:
        """``max(x, 0)``, with gradient 0 at 0."""
    def relu_(self, inplace: builtins.bool = False) -> Tensor:
        """In-place form of ``relu``."""
    def remainder(self, other: Any) -> Tensor:
        """The remainder with the sign of ``other``, as Python's ``%``."""
    def remainder_(self, other: Any) -> Tensor:
        """In-place form of ``remainder``."""
    def renorm(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """``input`` with its slices along ``dim`` scaled down to a p-norm of ``maxnorm`` at most."""
    def renorm_(self, p: builtins.float, dim: builtins.int, maxnorm: builtins.float) -> Tensor:
        """In-place form of ``renorm``."""
    def repeat(self, *repeats: Any) -> Tensor:
        """``input`` copied ``repeats[i]`` times along dimension i."""
    def repeat_interleave(self, repeats: Any = None, dim: builtins.int | None = None, *, output_size: builtins.int | None = None) -> Tensor:
        """Every element repeated in place:"""
    def requires_grad_(self, requires_grad: builtins.bool = True) -> Tensor:
        """Set ``requires_grad``; returns the tensor."""
    def reshape(self, *shape: Any) -> Tensor:
        """Another shape:"""
    def reshape_as(self, other: Tensor) -> Tensor:
        """``input.reshape(other.shape)``."""
    def resize_(self, *sizes: Any, memory_format: Any = ...) -> Tensor:
        """Take another size over the same memory, which grows where it must; new elements are zeros."""
    def resize_as_(self, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
        """``resize_`` to the size of another tensor."""
    def resolve_conj(self) -> Tensor:
        """A copy whose conjugate bit is not set; the tensor itself where it is not."""
    def resolve_neg(self) -> Tensor:
        """The tensor itself:"""
    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in ``grad``."""
    @property
    def retains_grad(self) -> builtins.bool:
        """Whether this non-leaf tensor keeps its gradient."""
    def roll(self, shifts: Any, dims: Any = None) -> Tensor:
        """Elements moved along dimensions; what falls off an end comes back at the other."""
    def rot90(self, k: builtins.int = 1, dims: collections.abc.Sequence[builtins.int] = ...) -> Tensor:
        """A copy rotated by ``k`` quarter turns in the plane of two dimensions."""
    def round(self, *, decimals: builtins.int = 0) -> Tensor:
        """The nearest whole number, or multiple of ``10**-decimals``; halves go to even."""
    def round_(self, *, decimals: builtins.int = 0) -> Tensor:
        """In-place form of ``round``."""
    def row_indices(self) -> Tensor:
        """The row of every value in compressed columns."""
    def rsqrt(self) -> Tensor:
        """1 / sqrt(x)."""
    def rsqrt_(self) -> Tensor:
        """In-place form of ``rsqrt``."""
    def rsub(self, other: Any, *, alpha: Any = 1) -> Tensor:
        """``other - alpha * input``."""
    def scatter(self, dim: builtins.int, index: Tensor, src: Any = None, *, value: Any = None, reduce: builtins.str | None = None) -> Tensor:
        """A copy of ``input`` with ``out[index[i][j]][j] = src[i][j]`` for dim 0, and so on."""
    def scatter_(self, dim: builtins.int, index: Tensor, src: Any = None, *, value: Any = None, reduce: builtins.str | None = None) -> Tensor:
        """In-place form of ``scatter``."""
    def scatter_add(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """``scatter`` that adds to what is there; duplicates add up."""
    def scatter_add_(self, dim: builtins.int, index: Tensor, src: Tensor) -> Tensor:
        """In-place form of ``scatter_add``."""
    def scatter_reduce(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        """``scatter`` that combines by ``sum``, ``prod``, ``mean``, ``amax`` or ``amin``."""
    def scatter_reduce_(self, dim: builtins.int, index: Tensor, src: Tensor, reduce: builtins.str, *, include_self: builtins.bool = True) -> Tensor:
        """In-place form of ``scatter_reduce``."""
    def select(self, dim: builtins.int, index: builtins.int) -> Tensor:
        """Element ``index`` along ``dim``."""
    def select_scatter(self, src: Tensor, dim: builtins.int, index: builtins.int) -> Tensor:
        """A copy of ``input`` with ``src`` as its element ``index`` along ``dim``."""
    def set_(self, source: Any = None, storage_offset: builtins.int = 0, size: Any = None, stride: Any = None) -> Tensor:
        """Look at other memory:"""
    def sgn(self) -> Tensor:
        """``sign``, or the direction from the origin:"""
    def sgn_(self) -> Tensor:
        """In-place form of ``sgn``."""
    def share_memory_(self) -> Tensor:
        """Move the memory to where other processes see it; returns the tensor."""
    def short(self, memory_format: Any = None) -> Tensor:
        """This tensor as int16; itself when it is that already."""
    def sigmoid(self) -> Tensor:
        """1 / (1 + exp(-x))."""
    def sigmoid_(self) -> Tensor:
        """In-place form of ``sigmoid``."""
    def sign(self) -> Tensor:
        """-1, 0 or 1."""
    def sign_(self) -> Tensor:
        """In-place form of ``sign``."""
    def signbit(self) -> Tensor:
        """Where the sign is minus; -0.0 counts."""
    def sin(self) -> Tensor:
        """The sine of radians."""
    def sin_(self) -> Tensor:
        """In-place form of ``sin``."""
    def sinc(self) -> Tensor:
        """sin(pi x) / (pi x), 1 at 0."""
    def sinc_(self) -> Tensor:
        """In-place form of ``sinc``."""
    def sinh(self) -> Tensor:
        """The hyperbolic sine."""
    def sinh_(self) -> Tensor:
        """In-place form of ``sinh``."""
    @typing.overload
    def size(self, dim: None = None) -> Size:
        """The shape, or the extent of one dimension."""
    @typing.overload
    def size(self, dim: builtins.int) -> builtins.int:
        """The shape, or the extent of one dimension."""
    def slice_scatter(self, src: Tensor, dim: builtins.int = 0, start: Any = None, end: Any = None, step: builtins.int = 1) -> Tensor:
        """A copy of ``input`` with ``src`` as its elements ``start:end:step`` along ``dim``."""
    def slogdet(self) -> lazyt.functional.return_types.slogdet:
        """The sign of determinants and the logarithm of their size; 0 and -inf for singular ones."""
    def smm(self, mat2: Tensor) -> Tensor:
        """A sparse matrix with coordinates times a dense one, as a sparse tensor."""
    def softmax(self, dim: builtins.int, dtype: Any = None) -> Tensor:
        """Exponentials along ``dim`` that add up to 1."""
    def sort(self, dim: builtins.int = -1, descending: builtins.bool = False, stable: builtins.bool = False) -> return_types.sort:
        """``(values, indices)`` in order along ``dim``; indices are int64 positions along it."""
    def sparse_dim(self) -> builtins.int:
        """The number of sparse dimensions:"""
    def sparse_mask(self, mask: Tensor) -> Tensor:
        """The elements at the indices of a sparse ``mask``, in its layout."""
    def sparse_resize_(self, size: Any, sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor:
        """Gives a tensor with coordinates another size, not below the one it has."""
    def sparse_resize_and_clear_(self, size: Any, sparse_dim: builtins.int, dense_dim: builtins.int) -> Tensor:
        """Makes a tensor with coordinates one of another size without values."""
    def split(self, split_size_or_sections: Any, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Views of parts along ``dim``:"""
    def split_with_sizes(self, split_sizes: Any, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Views of parts of given sizes along ``dim``."""
    def sqrt(self) -> Tensor:
        """The square root; NaN below 0."""
    def sqrt_(self) -> Tensor:
        """In-place form of ``sqrt``."""
    def square(self) -> Tensor:
        """``input ** 2``."""
    def square_(self) -> Tensor:
        """In-place form of ``square``."""
    def squeeze(self, dim: Any = None, *more: builtins.int) -> Tensor:
        """Without dimensions of extent one:"""
    def squeeze_(self, dim: Any = None, *more: builtins.int) -> Tensor:
        """Drop dimensions of extent one in place:"""
    def sspaddmm(self, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
        """``beta * self + alpha * (mat1 @ mat2)`` of sparse tensors with coordinates and a dense ``mat2``."""
    def std(self, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
        """The standard deviation, of a sample by default."""
    def stft(self, n_fft: builtins.int, hop_length: builtins.int | None = None, win_length: builtins.int | None = None, window: Tensor | None = None, center: builtins.bool = True, pad_mode: builtins.str = 'reflect', normalized: builtins.bool = False, onesided: builtins.bool | None = None, return_complex: builtins.bool | None = None, align_to_window: builtins.bool | None = None) -> Tensor:
        """Spectra of pieces of ``n_fft`` points, ``hop_length`` apart:"""
    def storage(self) -> lazyt.handle.interop.storage_objects.TypedStorage:
        """The memory that this tensor, and its views, show, as elements of its dtype."""
    def storage_offset(self) -> builtins.int:
        """Where in its storage the tensor begins, in elements."""
    def storage_type(self) -> builtins.type[lazyt.handle.interop.storage_objects.TypedStorage]:
        """The class of ``storage()``."""
    @typing.overload
    def stride(self, dim: None = None) -> builtins.tuple[builtins.int, ...]:
        """The strides in elements, or that of one dimension."""
    @typing.overload
    def stride(self, dim: builtins.int) -> builtins.int:
        """The strides in elements, or that of one dimension."""
    def sub(self, other: Any, *old: Any, alpha: Any = 1) -> Tensor:
        """``input - alpha * other``."""
    def sub_(self, other: Any, *old: Any, alpha: Any = 1) -> Tensor:
        """In-place form of ``sub``."""
    def subtract(self, other: Any, *old: Any, alpha: Any = 1) -> Tensor:
        """``input - alpha * other``."""
    def subtract_(self, other: Any, *old: Any, alpha: Any = 1) -> Tensor:
        """In-place form of ``sub``."""
    def sum(self, dim: Any = None, keepdim: builtins.bool = False, *, dtype: Any = None) -> Tensor:
        """The sum; of bools and integers in int64."""
    def sum_to_size(self, *size: Any) -> Tensor:
        """The sum over the dimensions along which ``size`` would broadcast to the tensor's shape."""
    def svd(self, some: builtins.bool = True, compute_uv: builtins.bool = True) -> lazyt.functional.return_types.svd:
        """``torch.svd``:"""
    def swapaxes(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """``transpose`` by NumPy's name."""
    def swapaxes_(self, axis0: builtins.int, axis1: builtins.int) -> Tensor:
        """``transpose_`` by NumPy's name."""
    def swapdims(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dimensions exchanged."""
    def swapdims_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Exchange two dimensions in place."""
    def t(self) -> Tensor:
        """A matrix transposed; vectors stay."""
    def t_(self) -> Tensor:
        """Transpose this matrix in place; vectors stay."""
    def take(self, index: Tensor) -> Tensor:
        """The elements of the flattened tensor at ``index``, in its shape."""
    def take_along_dim(self, indices: Tensor, dim: builtins.int | None = None) -> Tensor:
        """``gather`` with broadcasting, of the flattened tensor without ``dim``."""
    def tan(self) -> Tensor:
        """The tangent of radians."""
    def tan_(self) -> Tensor:
        """In-place form of ``tan``."""
    def tanh(self) -> Tensor:
        """The hyperbolic tangent."""
    def tanh_(self) -> Tensor:
        """In-place form of ``tanh``."""
    def tensor_split(self, indices_or_sections: Any = None, dim: builtins.int = 0, *, sections: Any = None, indices: Any = None) -> builtins.tuple[Tensor, ...]:
        """Views of parts along ``dim``:"""
    def tile(self, *dims: Any) -> Tensor:
        """As ``repeat``, with missing counts as 1."""
    def to(self, *args: Any, **kwargs: Any) -> Tensor:
        """``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``."""
    def to_dense(self, dtype: DType | None = None, *, masked_grad: builtins.bool | None = None) -> Tensor:
        """The tensor itself, in another dtype where one is given:"""
    def to_device(self, device: Any, *, stream: None = None) -> Tensor:
        """``to(device)`` as the array API standard calls it; there are no streams."""
    def to_sparse(self, sparse_dim: builtins.int | None = None, *, layout: lazyt.handle.layout.layout | None = None, blocksize: Any = None, dense_dim: builtins.int | None = None) -> Tensor:
        """The tensor in a sparse layout:"""
    def to_sparse_bsc(self, blocksize: Any, dense_dim: builtins.int | None = None) -> Tensor:
        """Raises UnsupportedNameError:"""
    def to_sparse_bsr(self, blocksize: Any, dense_dim: builtins.int | None = None) -> Tensor:
        """Raises UnsupportedNameError:"""
    def to_sparse_coo(self) -> Tensor:
        """``to_sparse()``:"""
    def to_sparse_csc(self, dense_dim: builtins.int | None = None) -> Tensor:
        """The matrix with compressed columns."""
    def to_sparse_csr(self, dense_dim: builtins.int | None = None) -> Tensor:
        """The matrix with compressed rows."""
    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for no dimensions."""
    def topk(self, k: builtins.int, dim: builtins.int = -1, largest: builtins.bool = True, sorted: builtins.bool = True) -> return_types.topk:
        """``(values, indices)`` of the ``k`` largest (or smallest) elements along ``dim``."""
    def trace(self) -> Tensor:
        """The sum of a matrix' diagonal."""
    def transpose(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Two dimensions exchanged."""
    def transpose_(self, dim0: builtins.int, dim1: builtins.int) -> Tensor:
        """Exchange two dimensions in place."""
    def triangular_solve(self, A: Tensor, upper: builtins.bool = True, transpose: builtins.bool = False, unitriangular: builtins.bool = False) -> lazyt.functional.return_types.triangular_solve:
        """``torch.triangular_solve``:"""
    def tril(self, diagonal: builtins.int = 0) -> Tensor:
        """The lower triangle of matrices, zero above."""
    def tril_(self, diagonal: builtins.int = 0) -> Tensor:
        """In-place form of ``tril``."""
    def triu(self, diagonal: builtins.int = 0) -> Tensor:
        """The upper triangle of matrices, zero below."""
    def triu_(self, diagonal: builtins.int = 0) -> Tensor:
        """In-place form of ``triu``."""
    def true_divide(self, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """``input / other``:"""
    def true_divide_(self, other: Any, *, rounding_mode: builtins.str | None = None) -> Tensor:
        """In-place form of ``div``."""
    def trunc(self) -> Tensor:
        """The whole number towards 0."""
    def trunc_(self) -> Tensor:
        """In-place form of ``trunc``."""
    @typing.overload
    def type(self, dtype: None = None) -> builtins.str:
        """The tensor type's name, such as ``lazyt.FloatTensor``; with ``dtype``, a conversion."""
    @typing.overload
    def type(self, dtype: DType | builtins.str) -> Tensor:
        """The tensor type's name, such as ``lazyt.FloatTensor``; with ``dtype``, a conversion."""
    def type_as(self, other: Tensor) -> Tensor:
        """This tensor in the dtype of ``other``."""
    def unbind(self, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """Views of all slices along ``dim``, without that dimension."""
    def unflatten(self, dim: builtins.int, sizes: Any) -> Tensor:
        """Dimension ``dim`` split into ``sizes``, of which one may be -1."""
    def unfold(self, dimension: builtins.int, size: builtins.int, step: builtins.int) -> Tensor:
        """All slices of ``size`` along ``dimension``, ``step`` apart, as a new last dimension."""
    def uniform_(self, from_: builtins.float = 0.0, to: builtins.float = 1.0, *, generator: lazyt.functional.random.generators.Generator | None = None, **kwargs: Any) -> Tensor:
        """Write numbers evenly distributed over [from, to)."""
    def unique(self, sorted: builtins.bool = True, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
        """The distinct values, in order; with ``dim``, the distinct slices along it."""
    def unique_consecutive(self, return_inverse: builtins.bool = False, return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
        """``unique`` of neighbours alone:"""
    def unsafe_chunk(self, chunks: builtins.int, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """``chunk`` whose parts may be written to in place."""
    def unsafe_split(self, split_size: Any, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """``split`` whose parts may be written to in place."""
    def unsafe_split_with_sizes(self, split_sizes: Any, dim: builtins.int = 0) -> builtins.tuple[Tensor, ...]:
        """``split`` into given sizes whose parts may be written to in place."""
    def unsqueeze(self, dim: builtins.int) -> Tensor:
        """With a dimension of extent one at ``dim``."""
    def unsqueeze_(self, dim: builtins.int) -> Tensor:
        """Add a dimension of extent one at ``dim`` in place."""
    def untyped_storage(self) -> lazyt.handle.interop.storage_objects.UntypedStorage:
        """The memory that this tensor, and its views, show, as bytes."""
    def values(self) -> Tensor:
        """The values [nnz, *] of a sparse tensor, if it has coordinates of a coalesced one."""
    def var(self, dim: Any = None, unbiased: builtins.bool | None = None, keepdim: builtins.bool = False, *, correction: builtins.float | None = None) -> Tensor:
        """The variance, of a sample by default."""
    def vdot(self, other: Tensor) -> Tensor:
        """``dot`` of the conjugate of ``input``."""
    def view(self, *size: Any, dtype: DType | None = None) -> Tensor:
        """The same memory under another shape, of which one extent may be -1, or as another dtype."""
    def view_as(self, other: Tensor) -> Tensor:
        """``input.view(other.shape)``."""
    @property
    def volatile(self) -> builtins.bool:
        """Always False:"""
    def vsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> builtins.tuple[Tensor, ...]:
        """``tensor_split`` along the rows into equal parts."""
    def where(self, condition: Tensor, other: Any) -> Any:
        """This tensor where ``condition`` holds, else ``other``."""
    def xlogy(self, other: Any) -> Tensor:
        """input * log(other), 0 where input is 0."""
    def xlogy_(self, other: Any) -> Tensor:
        """In-place form of ``xlogy``."""
    def zero_(self) -> Tensor:
        """Write zeros everywhere."""
