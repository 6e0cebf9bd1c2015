"""Optimizers, by PyTorch's names, and Lion."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.homes import add_homes as _add_homes
from lazyt.compat.homes import class_homes as _class_homes
from lazyt.optim import lr_scheduler as lr_scheduler
from lazyt.optim import swa_utils as swa_utils
from lazyt.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam, SparseAdam
from lazyt.optim.lbfgs import LBFGS
from lazyt.optim.matrices import Adafactor, Muon
from lazyt.optim.optimizer import Optimizer
from lazyt.optim.sgd import ASGD, SGD, Adadelta, Adagrad, Lion, RMSprop, Rprop

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Lion",
    "Muon", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler",
    "swa_utils",
]  # fmt: skip

#: Classes by the modules that PyTorch has them in.
_HOMES = {
    "adadelta": "Adadelta", "adagrad": "Adagrad", "adamax": "Adamax", "adamw": "AdamW",
    "asgd": "ASGD", "nadam": "NAdam", "radam": "RAdam", "rmsprop": "RMSprop", "rprop": "Rprop",
    "sparse_adam": "SparseAdam",
}  # fmt: skip
_add_homes(__name__, _class_homes(globals(), _HOMES))

_explain_absence(__name__)
