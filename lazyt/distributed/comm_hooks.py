"""What a program does with buckets of gradients instead of averaging them
(``torch.distributed.algorithms.ddp_comm_hooks.default_hooks``).

A hook gets a bucket and gives a future of its gradients in one row, averaged over ranks. Transfers
are lazy as ever: the future's value is taken when backward has given all buckets out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from lazyt.distributed.collectives import all_reduce
from lazyt.distributed.process_groups import default_group
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor

__all__ = [
    "GradBucket", "allreduce_hook", "bf16_compress_hook", "bf16_compress_wrapper",
    "fp16_compress_hook", "fp16_compress_wrapper", "noop_hook",
]  # fmt: skip

Hook = Callable[[Any, Any], Any]


class GradBucket:
    """Gradients that are averaged together.

    Args:
        index: which bucket, in the order in which backward fills them.
        parameters: whose gradients they are.
        is_last: whether no other follows in this backward.
    """

    def __init__(self, index: int, parameters: Sequence[Tensor], is_last: bool) -> None:
        self._index, self._parameters, self._is_last = index, list(parameters), is_last
        rows = [p.grad.detach().reshape(-1) for p in parameters if p.grad is not None]
        self._buffer = rows[0].clone() if len(rows) == 1 else lazyt.cat(rows)

    def index(self) -> int:
        """Which bucket it is."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients in one row."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Puts another row in the place of the gradients."""
        self._buffer = buffer

    def gradients(self) -> list[Tensor]:
        """The gradients in their shapes: views of the row."""
        found, start = [], 0
        for parameter in self._parameters:
            size = parameter.numel()
            found.append(self._buffer[start : start + size].view(parameter.shape))
            start += size
        return found

    def parameters(self) -> list[Tensor]:
        """Whose gradients they are."""
        return list(self._parameters)

    def is_last(self) -> bool:
        """Whether no other bucket follows."""
        return self._is_last


def _averaged(group: Any, tensor: Tensor) -> Any:
    found = default_group() if group is None else group
    tensor.div_(found.size())
    work: Any = all_reduce(tensor, group=found, async_op=True)
    return work.get_future().then(lambda future: future.value()[0])


def allreduce_hook(process_group: Any, bucket: GradBucket) -> Any:
    """Averages a bucket over ranks: a future of the row."""
    return _averaged(process_group, bucket.buffer())


def noop_hook(_: Any, bucket: GradBucket) -> Any:
    """Leaves a bucket as it is on each rank, to see what communication costs."""
    from lazyt.distributed.works import Work

    return Work((), [bucket.buffer()]).get_future().then(lambda future: future.value()[0])


def _compressed(process_group: Any, bucket: GradBucket, dtype: Any) -> Any:
    row = bucket.buffer()
    averaged = _averaged(process_group, row.to(dtype))
    return averaged.then(lambda future: row.copy_(future.value()))


def fp16_compress_hook(process_group: Any, bucket: GradBucket) -> Any:
    """Averages a bucket over ranks in float16, of half the bytes."""
    return _compressed(process_group, bucket, lazyt.float16)


def bf16_compress_hook(process_group: Any, bucket: GradBucket) -> Any:
    """Averages a bucket over ranks in bfloat16, of half the bytes."""
    return _compressed(process_group, bucket, lazyt.bfloat16)


def _wrapped(hook: Hook, dtype: Any) -> Hook:
    def inside(state: Any, bucket: GradBucket) -> Any:
        """Gives another hook a bucket in fewer bytes, and its result in the dtype before."""
        before = bucket.buffer().dtype
        bucket.set_buffer(bucket.buffer().to(dtype))
        return hook(state, bucket).then(lambda future: _row(future).to(before))

    return inside


def _row(future: Any) -> Tensor:
    value = future.value()
    found: Tensor = value[0] if isinstance(value, (list, tuple)) else value
    return found


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """A hook whose buckets are float16."""
    return _wrapped(hook, lazyt.float16)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """A hook whose buckets are bfloat16."""
    return _wrapped(hook, lazyt.bfloat16)
