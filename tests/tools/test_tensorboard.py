"""Logs for TensorBoard: what is written, read back where its package is installed."""

from __future__ import annotations

import io
import struct
import sys
import wave
import zlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import lazyt as lt
from lazyt.errors import ArgumentError, UnsupportedNameError
from lazyt.utils.tensorboard import SummaryWriter, pictures, protocol, summary, writer


class Message(SimpleNamespace):
    """Stands for messages of any kind."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Message


class Events:
    """A writer of events that writes them to a list."""

    written: list[tuple[str, Any]] = []

    def __init__(self, folder: str, *options: Any) -> None:
        self.folder, self.closed = folder, False

    def add_event(self, event: Any) -> None:
        assert not self.closed
        self.written.append((self.folder, event))

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What is written, without a package that has the messages."""
    known = SimpleNamespace(
        Summary=type("Summary", (Message,), {"Value": Message, "Image": Message}),
        Event=Message, SessionLog=type("SessionLog", (Message,), {"START": 1}),
        HistogramProto=Message, SummaryMetadata=type("M", (Message,), {"PluginData": Message}),
        TensorProto=Message, TensorShapeProto=type("S", (Message,), {"Dim": Message}),
    )  # fmt: skip
    made = protocol.Protocol(known, known, known, known, Events)
    for module in (summary, writer):
        monkeypatch.setattr(module, "installed", lambda: made)
    Events.written = []
    return Events.written


def test_without_a_package_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("tensorboard", "tensorboardX"):
        monkeypatch.setitem(sys.modules, name, None)
    protocol.installed.cache_clear()
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboard"):
        SummaryWriter(tmp_path)
    protocol.installed.cache_clear()


def test_scalars(events: list[tuple[str, Any]], tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as log:
        log.add_scalar("loss", lt.tensor([0.5]), 3, walltime=7.0)
        log.add_scalar("new", 0.25, new_style=True, double_precision=True)
        log.add_scalars("both/of", {"a": 1, "b": 2.0}, 4)
        with pytest.raises(ArgumentError, match="one element"):
            log.add_scalar("wrong", lt.ones(2))
        with pytest.raises(ArgumentError, match="numpy array or torch tensor"):
            log.add_scalar("wrong", "text")
    (folder, first), (_, second), (of_a, third), (of_b, _) = events
    assert folder == str(tmp_path) and of_a.endswith("/both_of_a") and of_b.endswith("_b")
    assert (first.step, first.wall_time) == (3, 7.0)
    (value,) = first.summary.value
    assert (value.tag, value.simple_value) == ("loss", 0.5)
    assert second.summary.value[0].tensor.double_val == [0.25]
    assert third.summary.value[0].tag == "both/of"


def test_a_closed_writer_opens_a_new_file(events: list[tuple[str, Any]], tmp_path: Path) -> None:
    log = SummaryWriter(tmp_path, purge_step=5)
    log.add_scalar("a", 1)
    log.close()
    log.add_scalar("a", 2)
    assert [event.step for _, event in events[:2]] == [5, 5]
    assert [e.summary.value[0].simple_value for _, e in events[2:]] == [1.0, 2.0]
    assert log.get_logdir() == str(tmp_path)


def test_histograms(events: list[tuple[str, Any]], tmp_path: Path) -> None:
    values = lt.tensor([-1.0, 0.0, 0.5, 0.5, 2.0])
    with SummaryWriter(tmp_path) as log:
        for options in ({}, {"bins": [-1, 0, 1, 3]}, {"bins": 8, "max_bins": 2}):
            log.add_histogram("h", values, **options)
        with pytest.raises(ArgumentError, match="no element"):
            log.add_histogram("h", lt.ones(0))
        with pytest.raises(ArgumentError, match="bucket_limits"):
            log.add_histogram_raw("h", 0, 1, 2, 1, 1, [1.0], [1, 2])
    for _, event in events:
        made = event.summary.value[0].histo
        assert (made.min, made.max, made.num, made.sum, made.sum_squares) == (-1, 2, 5, 2, 5.5)
        assert sum(made.bucket) == 5
        assert len(made.bucket) == len(made.bucket_limit)
    assert events[1][1].summary.value[0].histo.bucket == [0, 1, 3, 1]


def decoded(data: bytes) -> Any:
    """The pixels of a PNG file that was written without filters."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    at, found, pixels = 8, {}, b""
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        name, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        assert struct.unpack(">I", data[at + 8 + length : at + 12 + length])[0] == zlib.crc32(
            name + body
        )
        found[name] = body
        at += 12 + length
    width, height, depth, kind = struct.unpack(">IIBB", found[b"IHDR"][:10])
    channels = {0: 1, 4: 2, 2: 3, 6: 4}[kind]
    assert depth == 8
    pixels = zlib.decompress(found[b"IDAT"])
    lines = np.frombuffer(pixels, np.uint8).reshape(height, 1 + width * channels)
    assert not lines[:, 0].any()
    return lines[:, 1:].reshape(height, width, channels)


def test_pictures(events: list[tuple[str, Any]], tmp_path: Path) -> None:
    fractions = lt.arange(24).reshape(3, 2, 4) / 24
    with SummaryWriter(tmp_path) as log:
        log.add_image("p", fractions)
        log.add_image("bytes", (fractions.permute(1, 2, 0) * 255).to(lt.uint8), dataformats="HWC")
        log.add_image("flat", fractions[0], dataformats="HW")
        log.add_images("ps", lt.stack([fractions] * 9))
        with pytest.raises(ArgumentError, match="dataformats"):
            log.add_image("p", fractions[0])
    made = [event.summary.value[0].image for _, event in events]
    wanted = (fractions.permute(1, 2, 0).numpy() * 255).astype(np.uint8)
    np.testing.assert_array_equal(decoded(made[0].encoded_image_string), wanted)
    np.testing.assert_array_equal(decoded(made[1].encoded_image_string), wanted)
    assert (decoded(made[2].encoded_image_string) == wanted[..., :1]).all()
    grid = decoded(made[3].encoded_image_string)
    assert grid.shape == (4, 32, 3) and (made[3].height, made[3].width) == (4, 32)
    np.testing.assert_array_equal(grid[2:, :4], wanted)
    assert not grid[2:, 4:].any()


def test_sounds() -> None:
    data = pictures.encode_wave(np.array([0.0, 1.0, -1.0, 2.0]), 8000)
    with wave.open(io.BytesIO(data)) as sound:
        assert (sound.getframerate(), sound.getnchannels(), sound.getnframes()) == (8000, 1, 4)
        assert np.frombuffer(sound.readframes(4), "<i2").tolist() == [0, 32767, -32767, 32767]
    with pytest.raises(ArgumentError, match="1 dimensional"):
        summary.audio("a", lt.ones(2, 5))


def test_points_for_the_projector(events: list[tuple[str, Any]], tmp_path: Path) -> None:
    with SummaryWriter(tmp_path) as log:
        points = lt.arange(6).reshape(3, 2)
        log.add_embedding(points, ["a", "b", "c"], lt.rand(3, 3, 2, 2), 7, "t")
        with pytest.raises(ArgumentError, match="labels"):
            log.add_embedding(points, ["a"])
        with pytest.raises(ArgumentError, match="2D"):
            log.add_embedding(lt.ones(3))
    folder = tmp_path / "00007" / "t"
    assert (folder / "tensors.tsv").read_text().splitlines() == ["0\t1", "2\t3", "4\t5"]
    assert (folder / "metadata.tsv").read_text().split() == ["a", "b", "c"]
    assert decoded((folder / "sprite.png").read_bytes()).shape == (4, 4, 3)
    told = (tmp_path / "projector_config.pbtxt").read_text()
    assert 'tensor_path: "00007/t/tensors.tsv"' in told and "single_image_dim: 2" in told


def test_what_is_not_there_says_so(events: list[tuple[str, Any]], tmp_path: Path) -> None:
    log = SummaryWriter(tmp_path)
    for name in ("add_graph", "add_video", "add_mesh", "add_custom_scalars"):
        with pytest.raises(UnsupportedNameError, match=name):
            getattr(log, name)(None)


def test_tensorboard_reads_it(tmp_path: Path) -> None:
    module = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(module).EventAccumulator

    with SummaryWriter(tmp_path) as log:
        for step in range(3):
            log.add_scalar("loss", 1 / (step + 1), step)
        log.add_text("t", "words")
        log.add_hparams({"rate": 0.1, "on": True, "name": "x"}, {"accuracy": 0.5}, run_name="run")
        log.add_pr_curve("curve", lt.tensor([0, 1, 1]), lt.tensor([0.1, 0.8, 0.4]))
        log.add_tensor("four", lt.arange(4.0))
    found = reader(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in found.Scalars("loss")][1] == (1, 0.5)
    assert set(found.Tags()["tensors"]) == {"t/text_summary", "curve", "four"}
    assert list((tmp_path / "run").glob("events*"))
