"""Small files that ask for much memory or time, or would overflow a stack, are refused clearly."""

from __future__ import annotations

import io
import json
import struct
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import lazyt as lt
from lazyt.errors import CheckpointError
from lazyt.serialization import archive, safe_pickle, safetensors
from tests.serialization.test_save_load import archive_of, loaded

#: A tuple of itself twice, forty times: 2**40 values in 200 bytes.
BOMB = b"K\x01K\x01\x86" + b"2\x86" * 40
DEEP = b"K\x01" + b"\x85" * 200_000


@pytest.fixture(autouse=True)
def quick() -> Iterator[None]:
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize("key", [BOMB, DEEP], ids=["wide", "deep"])
@pytest.mark.parametrize(
    "text",
    [
        b"\x80\x04}%sK\x01s.",  # a key of a dict
        b"\x80\x04(%sK\x01d.",
        b"\x80\x04}(%sK\x01u.",
        b"\x80\x04\x8f(%s\x90.",  # an element of a set
        b"\x80\x04(%s\x91.",
        b"\x80\x04cbuiltins\nset\n(%sl\x85R.",  # an argument
        b"\x80\x04ccollections\nCounter\n(%sl\x85R.",
        b"\x80\x04ctorch\nSize\n%s\x85R.",
        b"\x80\x04ctorch\ndevice\n%s\x85R.",
        b"\x80\x04%sQ.",  # the name of a storage
    ],
)
def test_values_that_unfold_are_not_hashed_or_printed(text: bytes, key: bytes) -> None:
    with pytest.raises(CheckpointError):
        loaded(archive_of(text % key))


def test_deep_values_that_nobody_hashes_are_made() -> None:
    found = loaded(archive_of(b"\x80\x04" + b"]" * 5000 + b"a" * 4999 + b"."))
    depth = 1
    while found:
        (found,) = found
        depth += 1
    assert depth == 5000


def test_instructions_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safe_pickle, "MOST_INSTRUCTIONS", 1000)
    assert loaded(archive_of(b"\x80\x04]" + b"K\x01a" * 400 + b".")) == [1] * 400
    with pytest.raises(CheckpointError, match="more than 1000 instructions"):
        loaded(archive_of(b"\x80\x04" + b"]" * 1000 + b"."))


@pytest.mark.parametrize(
    "text",
    [
        b"\x80\x04\x8d" + struct.pack("<Q", 1 << 60) + b"text",  # a string of 2**60 bytes
        b"\x80\x04\x8b" + struct.pack("<i", (1 << 31) - 1) + b"1",  # a number
        b"\x80\x04r\xff\xff\xff\xff.",  # number 2**32 - 1 of a memo, of nothing
        b"\x80\x04I" + b"9" * 100_000 + b"\n.",
        b"\x80\x04\x95" + struct.pack("<Q", 1 << 62) + b".",
    ],
)
def test_lengths_that_are_not_there(text: bytes) -> None:
    with pytest.raises(CheckpointError):
        loaded(archive_of(text))


def test_entries_that_unpack_to_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "_FREE", 1 << 20)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("archive/data.pkl", b"\x80\x04" + b"N0" * (1 << 21) + b"N.")
    with pytest.raises(CheckpointError, match=r"unpacks from .* is refused"):
        loaded(made.getvalue())
    monkeypatch.setattr(archive, "MOST_TEXT", 1 << 20)
    with pytest.raises(CheckpointError, match=r"data.pkl has .* bytes, more than"):
        loaded(archive_of(b"\x80\x04" + b"N0" * (1 << 20) + b"N."))


def test_entries_that_share_bytes() -> None:
    good = io.BytesIO()
    lt.save(lt.arange(4096.0), good)
    with zipfile.ZipFile(good) as file:
        (entry,) = (e for e in file.infolist() if e.filename.endswith("data/0"))
    made = io.BytesIO(good.getvalue())
    with zipfile.ZipFile(made, "a") as file:
        for number in range(1, 5):
            other = zipfile.ZipInfo(f"archive/data/{number}")
            for name in ("header_offset", "compress_size", "file_size", "CRC"):
                setattr(other, name, getattr(entry, name))
            file.filelist.append(other)
            file.NameToInfo[other.filename] = other
        file._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(CheckpointError, match="is damaged"):
        loaded(made.getvalue())


@pytest.mark.parametrize(
    "header",
    [
        b'{"a":' * 50_000,
        b"[" * 100_000,
        json.dumps({"a": {"dtype": "F32", "shape": [2] * 5000, "data_offsets": [0, 4]}}).encode(),
        json.dumps({"a": {"dtype": "F32", "shape": [1 << 70], "data_offsets": [0, 4]}}).encode(),
        b'{"a":{"dtype":"F32","shape":[' + b"9" * 10_000 + b'],"data_offsets":[0,4]}}',
    ],
    ids=["deep", "deeper", "dimensions", "large", "digits"],
)
def test_headers_of_safetensors(header: bytes, tmp_path: Path) -> None:
    data = struct.pack("<Q", len(header)) + header + bytes(4)
    with pytest.raises(CheckpointError, match="its header is wrong"):
        safetensors.load(data)
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(CheckpointError, match="its header is wrong"):
        safetensors.load_file(tmp_path / "file")


def test_a_pickle_of_gigabytes_takes_no_memory(tmp_path: Path) -> None:
    """A sparse file: four gigabytes of zeros that the pickle is said to be."""
    path = tmp_path / "large.pt"
    with zipfile.ZipFile(path, "w", allowZip64=True) as file:
        file.writestr("archive/data.pkl", b"")
        entry = file.getinfo("archive/data.pkl")
        assert file.fp is not None
        file.fp.seek(5 << 30)
        file.start_dir = file.fp.tell()
        entry.file_size = entry.compress_size = 4 << 30
        file._didModify = True  # type: ignore[attr-defined]
    code = (
        "import resource, sys, lazyt\n"
        "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
        "try:\n    lazyt.load(sys.argv[1])\n"
        "except lazyt.errors.CheckpointError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True)
    assert "more than" in done.stdout and not done.stderr
