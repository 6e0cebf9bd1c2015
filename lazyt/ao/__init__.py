"""PyTorch's ``torch.ao``: values rounded as a quantized program would round them.

Observers, fake quantization and training with it are there; quantized tensors, which ``convert``
would make, are not.
"""
