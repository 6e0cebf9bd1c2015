"""Subclasses of Tensor that PyTorch has: fake tensors, and what their functions are called below
``torch.ops.aten``. Programs reach them by PyTorch's names."""
