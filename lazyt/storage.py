"""``torch.storage``: the whole memory of a tensor as an object."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.handle.interop.storage_objects import TypedStorage as TypedStorage
from lazyt.handle.interop.storage_objects import UntypedStorage as UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]

_explain_absence(__name__)
