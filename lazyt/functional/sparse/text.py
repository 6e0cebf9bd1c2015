"""How sparse tensors print: as PyTorch prints them."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.functional.printing import append_suffixes, format_tensor
from lazyt.functional.sparse.tensors import CompressedTensor, CooTensor, SparseTensor
from lazyt.functional.type_promotion import get_default_dtype
from lazyt.handle.device import CPU
from lazyt.handle.interop.numpy import readable_values
from lazyt.handle.tensor import Tensor
from lazyt.ir.dtypes import bool_, complex64, complex128, float64, int64


def _member(name: str, tensor: Tensor) -> str:
    prefix = f"{name}=tensor("
    if 0 in tensor.shape:
        return f"{prefix}[], size={tuple(tensor.shape)})"
    return format_tensor(readable_values(tensor.detach(), "it is printed"), [], prefix, 7)


def text_of(tensor: SparseTensor) -> str:
    """``tensor(indices=..., values=..., size=..., nnz=...)``; looks at the values."""
    facts = [f"size={tuple(tensor.shape)}", f"nnz={tensor._nnz()}"]
    if tensor.device is not CPU:
        facts.append(f"device='{tensor.device}'")
    complexes = (complex128 if get_default_dtype() is float64 else complex64,)
    if tensor.dtype not in (get_default_dtype(), *complexes, int64, bool_):
        facts.append(f"dtype={tensor.dtype}")
    facts.append(f"layout={tensor.layout}")
    if isinstance(tensor, CooTensor):
        members: Sequence[str] = [
            _member("indices", tensor._places), _member("values", tensor._held),
        ]  # fmt: skip
    else:
        assert isinstance(tensor, CompressedTensor)
        names = ("crow", "col") if tensor.by_rows else ("ccol", "row")
        members = [
            _member(f"{names[0]}_indices", tensor._starts),
            _member(f"{names[1]}_indices", tensor._others),
            _member("values", tensor._held),
        ]
    fn = tensor.grad_fn
    if fn is not None:
        facts.append(f"grad_fn=<{fn.name().rpartition('::')[2]}>")
    elif tensor.requires_grad:
        facts.append("requires_grad=True")
    first, *rest = facts
    body = ",\n       ".join(members)
    if isinstance(tensor, CooTensor):
        return append_suffixes(f"tensor({body},\n       {first}", rest, 7)
    return append_suffixes(f"tensor({body}", facts, 7)
