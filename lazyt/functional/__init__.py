"""Everything the user calls on tensors, by PyTorch's names."""
