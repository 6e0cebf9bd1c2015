"""Logs that TensorBoard shows: ``SummaryWriter`` writes event files.

The files are written by the package ``tensorboard``, or by ``tensorboardX`` where that is the one
that is installed; neither is needed to import this.
"""

from __future__ import annotations

from lazyt.utils.tensorboard.writer import FileWriter as FileWriter
from lazyt.utils.tensorboard.writer import SummaryWriter as SummaryWriter

__all__ = ["FileWriter", "SummaryWriter"]
