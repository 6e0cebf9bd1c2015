"""PyTorch's ``torch.nested``: batches of tensors of several lengths, without padding."""

from lazyt.subclasses.nested.creation import (
    as_nested_tensor,
    masked_select,
    narrow,
    nested_tensor,
    nested_tensor_from_jagged,
    nested_tensor_from_mask,
    to_padded_tensor,
)
from lazyt.subclasses.nested.tensors import NestedInt, NestedTensor, jagged

__all__ = [
    "NestedInt", "NestedTensor", "as_nested_tensor", "jagged", "masked_select", "narrow",
    "nested_tensor", "nested_tensor_from_jagged", "nested_tensor_from_mask", "to_padded_tensor",
]  # fmt: skip
