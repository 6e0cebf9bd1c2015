"""Optimizers, by PyTorch's names."""

from lazyt.optim import lr_scheduler as lr_scheduler
from lazyt.optim.adam import Adam, AdamW
from lazyt.optim.optimizer import Optimizer
from lazyt.optim.scaled import Adagrad, RMSprop
from lazyt.optim.sgd import SGD

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "lr_scheduler"]
