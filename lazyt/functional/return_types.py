"""Named results of functions that give several tensors; they print as PyTorch's do."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from lazyt.ir.dtypes import package_name
from lazyt.tensor import Tensor


class Named(tuple[Tensor, ...]):
    """A tuple whose items have names, as attributes and in print."""

    fields: tuple[str, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for index, field in enumerate(cls.fields):
            setattr(cls, field, property(itemgetter(index)))

    def __repr__(self) -> str:
        body = ",\n".join(f"{name}={item!r}" for name, item in zip(self.fields, self))
        return f"{package_name()}.return_types.{type(self).__name__}(\n{body})"


class max(Named):
    """Result of ``max`` along a dimension."""

    fields = ("values", "indices")


class min(Named):
    """Result of ``min`` along a dimension."""

    fields = ("values", "indices")


class cummax(Named):
    """Result of ``cummax``."""

    fields = ("values", "indices")


class cummin(Named):
    """Result of ``cummin``."""

    fields = ("values", "indices")


class aminmax(Named):
    """Result of ``aminmax``."""

    fields = ("min", "max")


class histogram(Named):
    """Result of ``histogram``."""

    fields = ("hist", "bin_edges")


class kthvalue(Named):
    """Result of ``kthvalue``."""

    fields = ("values", "indices")


class median(Named):
    """Result of ``median`` along a dimension."""

    fields = ("values", "indices")


class mode(Named):
    """Result of ``mode``."""

    fields = ("values", "indices")


class nanmedian(Named):
    """Result of ``nanmedian`` along a dimension."""

    fields = ("values", "indices")


class sort(Named):
    """Result of ``sort``."""

    fields = ("values", "indices")


class topk(Named):
    """Result of ``topk``."""

    fields = ("values", "indices")


class frexp(Named):
    """Result of ``frexp``."""

    fields = ("mantissa", "exponent")


class linalg_cholesky_ex(Named):
    """Result of ``linalg.cholesky_ex``."""

    fields = ("L", "info")


class linalg_eigh(Named):
    """Result of ``linalg.eigh``."""

    fields = ("eigenvalues", "eigenvectors")


class linalg_inv_ex(Named):
    """Result of ``linalg.inv_ex``."""

    fields = ("inverse", "info")


class linalg_lstsq(Named):
    """Result of ``linalg.lstsq``."""

    fields = ("solution", "residuals", "rank", "singular_values")


class linalg_lu(Named):
    """Result of ``linalg.lu``."""

    fields = ("P", "L", "U")


class linalg_lu_factor(Named):
    """Result of ``linalg.lu_factor``."""

    fields = ("LU", "pivots")


class linalg_lu_factor_ex(Named):
    """Result of ``linalg.lu_factor_ex``."""

    fields = ("LU", "pivots", "info")


class linalg_qr(Named):
    """Result of ``linalg.qr``."""

    fields = ("Q", "R")


class linalg_slogdet(Named):
    """Result of ``linalg.slogdet``."""

    fields = ("sign", "logabsdet")


class linalg_solve_ex(Named):
    """Result of ``linalg.solve_ex``."""

    fields = ("result", "info")


class linalg_svd(Named):
    """Result of ``linalg.svd``."""

    fields = ("U", "S", "Vh")


class geqrf(Named):
    """Result of ``geqrf``."""

    fields = ("a", "tau")


class lu_unpack(Named):
    """Result of ``lu_unpack``."""

    fields = ("P", "L", "U")


class qr(Named):
    """Result of ``qr``."""

    fields = ("Q", "R")


class slogdet(Named):
    """Result of ``slogdet``."""

    fields = ("sign", "logabsdet")


class svd(Named):
    """Result of ``svd``."""

    fields = ("U", "S", "V")


class triangular_solve(Named):
    """Result of ``triangular_solve``."""

    fields = ("solution", "cloned_coefficient")
