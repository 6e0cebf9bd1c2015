"""PyTorch's names that programs import and lazyt has elsewhere, as something harmless, or not.

A table says for each module of PyTorch which names of it are there and what each of them is; the
modules are made from it when a program imports them. Only ``import torch`` through
``lazyt.compat.torch_alias`` reads it. ``docs/reference/torch-names.md`` is printed from it.
"""
