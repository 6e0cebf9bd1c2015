"""Named results of functions that give several tensors; they print as PyTorch's do."""

from __future__ import annotations

from inspect import get_annotations
from operator import itemgetter
from typing import Any, ClassVar

from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import package_name


class Named(tuple[Tensor, ...]):
    """A tuple whose items have names, as attributes and in print: the annotations of the class."""

    fields: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.fields = tuple(get_annotations(cls))
        for index, field in enumerate(cls.fields):
            setattr(cls, field, property(itemgetter(index)))

    def __repr__(self) -> str:
        body = ",\n".join(f"{name}={item!r}" for name, item in zip(self.fields, self))
        return f"{package_name()}.return_types.{type(self).__name__}(\n{body})"


class max(Named):
    """Result of ``max`` along a dimension."""

    values: Tensor
    indices: Tensor


class min(Named):
    """Result of ``min`` along a dimension."""

    values: Tensor
    indices: Tensor


class cummax(Named):
    """Result of ``cummax``."""

    values: Tensor
    indices: Tensor


class cummin(Named):
    """Result of ``cummin``."""

    values: Tensor
    indices: Tensor


class aminmax(Named):
    """Result of ``aminmax``."""

    min: Tensor
    max: Tensor


class histogram(Named):
    """Result of ``histogram``."""

    hist: Tensor
    bin_edges: Tensor


class histogramdd(Named):
    """Result of ``histogramdd``: a tensor, and a tuple of the edges of every dimension."""

    hist: Tensor
    bin_edges: Any


class kthvalue(Named):
    """Result of ``kthvalue``."""

    values: Tensor
    indices: Tensor


class median(Named):
    """Result of ``median`` along a dimension."""

    values: Tensor
    indices: Tensor


class mode(Named):
    """Result of ``mode``."""

    values: Tensor
    indices: Tensor


class nanmedian(Named):
    """Result of ``nanmedian`` along a dimension."""

    values: Tensor
    indices: Tensor


class sort(Named):
    """Result of ``sort``."""

    values: Tensor
    indices: Tensor


class topk(Named):
    """Result of ``topk``."""

    values: Tensor
    indices: Tensor


class frexp(Named):
    """Result of ``frexp``."""

    mantissa: Tensor
    exponent: Tensor


class linalg_cholesky_ex(Named):
    """Result of ``linalg.cholesky_ex``."""

    L: Tensor
    info: Tensor


class linalg_eig(Named):
    """Result of ``linalg.eig``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_eigh(Named):
    """Result of ``linalg.eigh``."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_inv_ex(Named):
    """Result of ``linalg.inv_ex``."""

    inverse: Tensor
    info: Tensor


class linalg_lstsq(Named):
    """Result of ``linalg.lstsq``."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_ldl_factor(Named):
    """Result of ``linalg.ldl_factor``."""

    LD: Tensor
    pivots: Tensor


class linalg_ldl_factor_ex(Named):
    """Result of ``linalg.ldl_factor_ex``."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


class linalg_lu(Named):
    """Result of ``linalg.lu``."""

    P: Tensor
    L: Tensor
    U: Tensor


class linalg_lu_factor(Named):
    """Result of ``linalg.lu_factor``."""

    LU: Tensor
    pivots: Tensor


class linalg_lu_factor_ex(Named):
    """Result of ``linalg.lu_factor_ex``."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


class linalg_qr(Named):
    """Result of ``linalg.qr``."""

    Q: Tensor
    R: Tensor


class linalg_slogdet(Named):
    """Result of ``linalg.slogdet``."""

    sign: Tensor
    logabsdet: Tensor


class linalg_solve_ex(Named):
    """Result of ``linalg.solve_ex``."""

    result: Tensor
    info: Tensor


class linalg_svd(Named):
    """Result of ``linalg.svd``."""

    U: Tensor
    S: Tensor
    Vh: Tensor


class geqrf(Named):
    """Result of ``geqrf``."""

    a: Tensor
    tau: Tensor


class lu_unpack(Named):
    """Result of ``lu_unpack``."""

    P: Tensor
    L: Tensor
    U: Tensor


class qr(Named):
    """Result of ``qr``."""

    Q: Tensor
    R: Tensor


class slogdet(Named):
    """Result of ``slogdet``."""

    sign: Tensor
    logabsdet: Tensor


class svd(Named):
    """Result of ``svd``."""

    U: Tensor
    S: Tensor
    V: Tensor


class triangular_solve(Named):
    """Result of ``triangular_solve``."""

    solution: Tensor
    cloned_coefficient: Tensor
