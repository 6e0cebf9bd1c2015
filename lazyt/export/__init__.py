"""Programs of modules: recorded, run without the module's class, and written to files.

``export`` records what a module does on example arguments; ``save`` and ``load`` write and read
programs. ``torch.jit``'s are in ``lazyt.export.script``, over the same recorder and format.
"""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.export.dimensions import Dim, ShapesCollection, dims
from lazyt.export.program import ExportedProgram, export, load, save
from lazyt.export.signature import ExportGraphSignature
from lazyt.utils._pytree import register_dataclass

__all__ = [
    "Dim", "ExportGraphSignature", "ExportedProgram", "ShapesCollection", "dims", "export", "load",
    "register_dataclass", "save",
]  # fmt: skip

_explain_absence(__name__)
