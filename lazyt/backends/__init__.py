"""``torch.backends``: what there is, and switches that PyTorch programs set."""

from lazyt.backends import cuda as cuda
from lazyt.backends import cudnn as cudnn
from lazyt.backends import mkl as mkl
from lazyt.backends import mps as mps
from lazyt.backends import openmp as openmp
from lazyt.compat.absent import explain_absence as _explain_absence

__all__ = ["cuda", "cudnn", "mkl", "mps", "openmp"]

_explain_absence(__name__)
