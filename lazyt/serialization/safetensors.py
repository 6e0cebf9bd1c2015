"""The safetensors format (https://github.com/huggingface/safetensors): named tensors, no objects.

A file is the length of its header in 8 bytes, the header in JSON, and the tensors' bytes. Nothing
in it can be run. Reading and writing need no other package; the functions have the names and
arguments of ``safetensors.torch``.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from lazyt.errors import CheckpointError, DTypeError, LazytError
from lazyt.handle import pending
from lazyt.handle.device import check_device
from lazyt.handle.dispatch import wrap
from lazyt.handle.tensor import Size, Tensor
from lazyt.handle.tensor_protocol import memory_of
from lazyt.ir.dtypes import ALL, COMPLEX, DType
from lazyt.ops import input_
from lazyt.runtime.memory import Buffer
from lazyt.serialization.archive import replacing

__all__ = ["load", "load_file", "save", "save_file"]

NAMES = {
    "bool": "BOOL", "uint8": "U8", "uint16": "U16", "uint32": "U32", "uint64": "U64", "int8": "I8",
    "int16": "I16", "int32": "I32", "int64": "I64", "float16": "F16", "bfloat16": "BF16",
    "float32": "F32", "float64": "F64", "complex64": "C64",
}  # fmt: skip
DTYPES = {NAMES[t.name]: t for t in (*ALL, *COMPLEX) if t.name in NAMES}
_MAX_HEADER = 100_000_000
#: Of a tensor, as in PyTorch.
MOST_DIMENSIONS = 64


def save(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> bytes:
    """The bytes of a file with these tensors, and with ``metadata``, text by name.

    Raises DTypeError for what is no tensor and LazytError for tensors that share memory, which
    the format cannot express.
    """
    return b"".join(map(bytes, _parts(tensors, metadata)))


def save_file(
    tensors: Mapping[str, Tensor], filename: Any, metadata: Mapping[str, str] | None = None
) -> None:
    """``save`` to a path, whose file is replaced only when all is written."""
    parts = _parts(tensors, metadata)
    with replacing(os.fspath(filename)) as file:
        for part in parts:
            file.write(part)


def _parts(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None) -> list[Any]:
    _check(tensors)
    # Large elements first, as in the original, so that every tensor is aligned.
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    nodes = [tensors[name].detach().node for name in names]
    pending.realize_now(nodes, "they are saved")
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    begin = 0
    for name, node in zip(names, nodes):
        end = begin + node.nbytes
        header[name] = {
            "dtype": NAMES[node.dtype.name], "shape": list(node.shape),
            "data_offsets": [begin, end],
        }  # fmt: skip
        begin = end
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    arrays = [node.data.as_numpy(node.dtype, (node.size,)) for node in nodes]
    views = [array.view(np.uint8).data for array in arrays]
    return [len(text).to_bytes(8, "little"), text, *views]


def _check(tensors: Mapping[str, Tensor]) -> None:
    owners: dict[int, str] = {}
    for name, tensor in tensors.items():
        if not isinstance(tensor, Tensor):
            raise DTypeError(
                f"Key `{name}` is invalid, expected lazyt.Tensor but received {type(tensor)}"
            )
        if tensor.dtype.name not in NAMES:
            raise DTypeError(
                f"the format has no numbers of {tensor.dtype}, of which {name!r} is; save its "
                "view_as_real()"
            )
        other = owners.setdefault(id(memory_of(tensor)), name)
        if other != name:
            raise LazytError(
                f"the tensors {other!r} and {name!r} share memory, which safetensors cannot "
                "express. Save a clone() of one, or save with lazyt.save, which keeps it."
            )


def load(data: bytes) -> dict[str, Tensor]:
    """The tensors in the bytes of a file. Raises CheckpointError for damaged ones."""
    return _tensors(np.frombuffer(data, np.uint8), "the data", copy=True)


def load_file(filename: Any, device: Any = "cpu") -> dict[str, Tensor]:
    """The tensors of a file, whose values are read when they are used.

    The file must stay as it is while they are; writes to the tensors do not change it. Raises
    CheckpointError for damaged files.
    """
    check_device(device)
    path = os.fspath(filename)
    with open(path, "rb") as file:
        if not os.fstat(file.fileno()).st_size:
            raise CheckpointError(f"{path} is empty")
        private = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    return _tensors(np.frombuffer(private, np.uint8), path, copy=False)


def _tensors(data: np.ndarray[Any, Any], title: str, copy: bool) -> dict[str, Tensor]:
    length = int.from_bytes(data[:8].tobytes(), "little")
    if data.size < 8 or length > min(_MAX_HEADER, data.size - 8):
        raise CheckpointError(f"{title} is no safetensors file, or is damaged: its header is cut")
    try:
        header = json.loads(data[8 : 8 + length].tobytes())
        header.pop("__metadata__", None)
        places = {name: _place(entry) for name, entry in header.items()}
    except (
        ValueError, KeyError, TypeError, AttributeError, RecursionError, MemoryError,
    ) as error:  # fmt: skip
        raise CheckpointError(f"{title} is damaged: its header is wrong: {error}") from error
    body = data[8 + length :]
    end = 0
    for name, (_, _, begin, stop) in sorted(places.items(), key=lambda item: item[1][2:]):
        if begin != end:
            raise CheckpointError(f"{title} is damaged: there is a gap or overlap before {name!r}")
        end = stop
    if end != body.size:
        raise CheckpointError(f"{title} is damaged: it has {body.size} bytes of values, not {end}")
    return {
        name: _tensor(body[begin:stop], dtype, shape, copy)
        for name, (dtype, shape, begin, stop) in places.items()
    }


def _place(entry: dict[str, Any]) -> tuple[DType, tuple[int, ...], int, int]:
    """Type, shape, begin and end of a tensor; raises for entries that contradict themselves."""
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        raise ValueError(f"there is no dtype {entry['dtype']}")
    if len(shape) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor has at most {MOST_DIMENSIONS} dimensions, not {len(shape)}")
    numbers = (*shape, begin, end)
    if any(type(n) is not int or not 0 <= n < 1 << 63 for n in numbers):
        raise ValueError("sizes and offsets are whole numbers of 63 bits")
    if end - begin != Size(shape).numel() * dtype.itemsize:
        raise ValueError(f"{end - begin} bytes are not {dtype.name}{list(shape)}")
    return dtype, shape, begin, end


def _tensor(data: np.ndarray[Any, Any], dtype: DType, shape: tuple[int, ...], copy: bool) -> Tensor:
    where: int = data.__array_interface__["data"][0]
    if copy or where % dtype.itemsize:
        buffer = Buffer(data.size)
        buffer.copy_from(where, data.size)
    else:
        buffer = Buffer.foreign(where, data.size, data)
    return wrap(input_(shape, dtype, buffer))
