"""Loading compiles nothing from the second pass on: what a Dataset draws for its samples (shifts,
crops, flips, lengths) is not part of the graph of a batch."""

from __future__ import annotations

import multiprocessing
import pickle
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import lazyt
import lazyt.nn.functional as F
from lazyt.nn.utils.rnn import pad_sequence
from lazyt.runtime import events
from lazyt.utils.data import DataLoader, Dataset, IterableDataset, default_collate
from lazyt.utils.data.workers import _packed

pytestmark = pytest.mark.fused
_COUNT, _BATCH = 48, 8


class _Images(Dataset[Any]):
    """Images with labels; each pass over them augments in another way."""

    def __init__(self) -> None:
        rng = np.random.default_rng(1)
        self.images = lazyt.from_numpy(rng.normal(size=(_COUNT, 3, 12, 12)).astype(np.float32))
        self.labels = lazyt.arange(_COUNT) % 10
        self.random = random.Random(2)

    def __len__(self) -> int:
        return _COUNT


class _Augmented(_Images):
    def __getitem__(self, index: int) -> Any:
        draw = self.random.randint
        image = F.pad(self.images[index].roll(draw(1, 3), -1), (2, 2, 2, 2))
        if index % 2:  # flips are drawn so that the first pass has seen all of them
            image = image.flip(-1)
        top, left = draw(1, 3), draw(1, 3)
        return image[:, top : top + 12, left : left + 12], self.labels[index]


class _Crops(_Images):
    def __getitem__(self, index: int) -> Any:
        corners = [(self.random.randint(1, 5), self.random.randint(1, 5)) for _ in range(2)]
        crops = [self.images[index, :, a : a + 6, b : b + 6] for a, b in corners]
        return {"crops": lazyt.stack(crops), "label": index % 10}


class _Windows(_Images):
    """Neighbours overlap, so that slices are shared between the samples of a batch or are not."""

    def __getitem__(self, index: int) -> Any:
        flat, begin = self.images[0].view(-1), index + self.random.randint(1, 9)
        return flat[begin : begin + 16], flat[begin + 1 : begin + 17]


class _Texts(Dataset[Any]):
    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.texts = [lazyt.from_numpy(rng.integers(0, 50, n)) for n in rng.integers(3, 30, _COUNT)]

    def __len__(self) -> int:
        return _COUNT

    def __getitem__(self, index: int) -> Any:
        return self.texts[index], index % 2


class _Stream(IterableDataset[Any]):
    def __init__(self, dataset: Dataset[Any]) -> None:
        self.dataset = dataset

    def __iter__(self) -> Any:
        return (self.dataset[i] for i in random.Random(4).sample(range(_COUNT), _COUNT))


def _pad(batch: list[Any]) -> Any:
    texts, labels = zip(*batch)
    lengths = lazyt.tensor([len(text) for text in texts])
    return pad_sequence(list(texts), batch_first=True), lazyt.tensor(labels), lengths


def _plans() -> int:
    """Plans that this process has compiled or loaded; the record itself is bounded."""
    return len(events.recorded("compile")) + len(events.recorded("load"))


def _new_plans(work: Callable[[], object]) -> int:
    events.forget()
    work()
    return _plans()


def _one_pass(loader: DataLoader) -> None:
    for batch in loader:
        parts = list(batch.values()) if isinstance(batch, dict) else batch
        (parts[0] * 2).sum().item()


@pytest.mark.lazy
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("dataset", "collate"),
    [(_Augmented, None), (_Crops, None), (_Windows, None), (_Texts, _pad)],
)
def test_passes_after_the_first_compile_nothing(dataset: Any, collate: Any, stream: bool) -> None:
    samples = _Stream(dataset()) if stream else dataset()
    lazyt.manual_seed(0)
    loader = DataLoader(samples, _BATCH, shuffle=not stream, collate_fn=collate)
    _one_pass(loader)
    _one_pass(loader)  # numbers that differ from pass to pass have become inputs
    assert _new_plans(lambda: _one_pass(loader)) == 0


def test_samples_and_batches_come_computed() -> None:
    seen: list[bool] = []

    def collate(batch: list[Any]) -> Any:
        seen.extend(image.node.data is not None for image, _ in batch)
        return default_collate(batch)

    for images, labels in DataLoader(_Augmented(), _BATCH, collate_fn=collate):
        assert images.node.data is not None and labels.node.data is not None
    assert seen == [True] * _COUNT


def test_a_batch_is_what_its_samples_are() -> None:
    dataset = _Augmented()
    wanted = [dataset[i][0].tolist() for i in range(_COUNT)]
    dataset.random.seed(2)
    found = [image.tolist() for images, _ in DataLoader(dataset, _BATCH) for image in images]
    assert found == wanted


def test_a_sample_in_a_collate_function_is_still_a_view_of_the_dataset() -> None:
    dataset = _Windows()

    def collate(batch: list[Any]) -> Any:
        batch[0][0].fill_(7)
        return default_collate(batch)

    next(iter(DataLoader(dataset, _BATCH, collate_fn=collate)))
    assert (dataset.images == 7).sum().item() == 16


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("rest", [(), (2,), (2, 3)])
def test_padding_data_gives_what_padding_parameters_does(
    side: str, first: bool, rest: tuple[int, ...]
) -> None:
    rows = [lazyt.randn(n, *rest) for n in (3, 1, 5, 0, 5)]
    data = pad_sequence(rows, first, 0.5, side)
    learnt = pad_sequence([r.detach().requires_grad_() for r in rows], first, 0.5, side)
    assert data.shape == learnt.shape and data.dtype == learnt.dtype
    assert data.tolist() == learnt.tolist()


class _Classes(_Images):
    """Each sample has the tensor of its class, which other samples of a batch may have, too."""

    def __init__(self) -> None:
        super().__init__()
        self.classes = [lazyt.arange(3.0) + n for n in range(4)]
        lazyt.realize(*self.classes)

    def __getitem__(self, index: int) -> Any:
        return self.classes[self.random.randint(0, 3)]


@pytest.mark.lazy
def test_tensors_that_samples_share_make_no_other_graph() -> None:
    dataset = _Classes()
    first = [batch.tolist() for batch in DataLoader(dataset, 8)]
    assert all(row[1] - row[0] == 1 for batch in first for row in batch)
    assert _new_plans(lambda: [*DataLoader(dataset, 8)]) == 0
    batch = default_collate([dataset.classes[1]] * 3)
    dataset.classes[1] += 1
    assert batch.tolist() == [[1, 2, 3]] * 3 and dataset.classes[1].tolist() == [2, 3, 4]


@pytest.mark.lazy
def test_one_plan_pads_all_lengths() -> None:
    rng = random.Random(5)

    def pad() -> None:
        rows = [lazyt.tensor(range(1, rng.randint(4, 20))) for _ in range(4)]
        padded = pad_sequence(rows)
        for column, row in zip(padded.T.tolist(), rows):
            assert column == row.tolist() + [0] * (len(column) - len(row))

    def pad_often() -> None:
        for _ in range(8):
            pad()

    pad_often()
    assert _new_plans(pad_often) == 0


def test_slices_leave_a_worker_without_the_rest_of_their_memory() -> None:
    large = lazyt.arange(1 << 16)
    slice_, learnt = large[5:9], lazyt.ones(1 << 12, requires_grad=True)[::1024]
    packed = _packed([slice_, learnt, slice_])
    assert len(packed) < 4000
    found, leaf, again = pickle.loads(packed)
    assert found.tolist() == [5, 6, 7, 8] and again is found
    assert leaf.tolist() == [1] * 4 and leaf.requires_grad


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_workers_hand_over_computed_batches_of_augmented_samples() -> None:
    count = 0
    for images, labels in DataLoader(_Augmented(), _BATCH, num_workers=2):
        assert images.node.data is not None and not images.node.inputs
        assert labels.node.data is not None and not labels.node.inputs
        assert images.shape == (_BATCH, 3, 12, 12)
        count += len(labels)
    assert count == _COUNT


class _Threads(Dataset[int]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        return lazyt.get_num_threads()


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="needs fork")
def test_a_worker_uses_one_core() -> None:
    assert [int(n) for n in DataLoader(_Threads(), num_workers=1)] == [1, 1]
