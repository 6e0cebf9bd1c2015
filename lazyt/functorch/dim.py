"""``functorch.dim``: first-class dimensions, which lazyt does not have. The names may be imported
and tested with ``isinstance``; using one says what to write instead."""

from __future__ import annotations

from lazyt.compat.names.building import refused

_WHY = (
    "lazyt has no first-class dimensions; name axes in torch.einsum or einops, or let torch.vmap "
    "take one away"
)
Dim = refused("functorch.dim.Dim", _WHY)
DimList = refused("functorch.dim.DimList", _WHY)
Tensor = refused("functorch.dim.Tensor", _WHY)
DimensionBindError = refused("functorch.dim.DimensionBindError", _WHY)
DimensionMismatchError = refused("functorch.dim.DimensionMismatchError", _WHY)
cat = refused("functorch.dim.cat", _WHY)
dimlists = refused("functorch.dim.dimlists", _WHY)
dims = refused("functorch.dim.dims", _WHY)
index = refused("functorch.dim.index", _WHY)
softmax = refused("functorch.dim.softmax", _WHY)
split = refused("functorch.dim.split", _WHY)
stack = refused("functorch.dim.stack", _WHY)
