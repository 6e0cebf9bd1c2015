"""Arithmetic of kernels in NumPy, to the bit: fused multiply-adds, and folds in their order."""
