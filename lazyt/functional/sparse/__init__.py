"""Sparse tensors: coordinates (COO) and compressed rows or columns (CSR, CSC).

A sparse tensor is a handle whose members are ordinary tensors: indices, values and a size. So
arithmetic on values fuses and gradients are graph transforms, as for dense tensors. Nothing here is
imported before a program makes its first sparse tensor.
"""

from lazyt.functional.sparse import dispatch

dispatch.install()
