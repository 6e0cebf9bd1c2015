"""Datasets, samplers and loaders, by PyTorch's names."""

from lazyt.compat.absent import explain_absence as _explain_absence
from lazyt.compat.homes import add_homes as _add_homes
from lazyt.utils.data import collate as _collate
from lazyt.utils.data import dataloader as dataloader
from lazyt.utils.data import distributed as distributed
from lazyt.utils.data import workers as _worker
from lazyt.utils.data.collate import default_collate, default_convert
from lazyt.utils.data.dataloader import DataLoader
from lazyt.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from lazyt.utils.data.sampler import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from lazyt.utils.data.workers import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset",
    "DistributedSampler", "IterableDataset",
    "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "WorkerInfo",
    "default_collate", "default_convert",    "get_worker_info", "random_split",
]  # fmt: skip

_add_homes(__name__, {"_utils": {}})
_add_homes(
    f"{__name__}._utils",
    {"collate": _collate, "worker": _worker, "pin_memory": {"pin_memory": _collate.pinned}},
)

_explain_absence(__name__)
