"""Everything the user calls on tensors, by PyTorch's names.

Importing this package attaches the methods to Tensor; ``lazyt`` itself exports the functions that
its modules list in ``__all__``.
"""

from lazyt.functional import methods

methods.install()
