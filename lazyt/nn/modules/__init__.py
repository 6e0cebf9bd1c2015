"""The modules of ``lazyt.nn`` by PyTorch's longer names, such as ``nn.modules.module``."""

from lazyt.nn.modules import batchnorm as batchnorm
from lazyt.nn.modules import module as module
