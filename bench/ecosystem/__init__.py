"""Which packages that import torch run under lazyt: small programs, and what PyTorch gives."""
