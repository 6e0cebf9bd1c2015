"""The loader and its neighbours by PyTorch's longer name."""

from lazyt.utils.data.collate import default_collate, default_convert
from lazyt.utils.data.dataset import Dataset, IterableDataset
from lazyt.utils.data.fetch import Batches as _BaseDataLoaderIter
from lazyt.utils.data.fetch import DatasetKind as _DatasetKind
from lazyt.utils.data.fetch import LocalBatches as _SingleProcessDataLoaderIter
from lazyt.utils.data.loader import DataLoader
from lazyt.utils.data.parallel import ParallelBatches as _MultiProcessingDataLoaderIter
from lazyt.utils.data.sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler
from lazyt.utils.data.worker import get_worker_info

__all__ = [
    "BatchSampler", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "_BaseDataLoaderIter", "_DatasetKind", "_MultiProcessingDataLoaderIter",
    "_SingleProcessDataLoaderIter", "default_collate", "default_convert", "get_worker_info",
]  # fmt: skip
