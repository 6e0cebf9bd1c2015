"""Files of events, and the class that programs write their logs with."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn
from urllib.parse import quote

from lazyt.errors import ArgumentError, UnsupportedNameError
from lazyt.utils.tensorboard import summary
from lazyt.utils.tensorboard.pictures import encode_png, figure_pixels, sprite
from lazyt.utils.tensorboard.protocol import installed

__all__ = ["FileWriter", "SummaryWriter"]


class FileWriter:
    """Writes events to a file of a folder.

    Args:
        log_dir: the folder.
        max_queue: how many events wait before they are written.
        flush_secs: for how many seconds they wait at most.
        filename_suffix: an end of the file's name.

    Raises ModuleNotFoundError where neither tensorboard nor tensorboardX is installed.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str],
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        self._options = (str(log_dir), max_queue, flush_secs, filename_suffix)
        self.event_writer = installed().writer(*self._options)

    def get_logdir(self) -> str:
        """The folder."""
        return self._options[0]

    def add_event(self, event: Any, step: int | None = None, walltime: float | None = None) -> None:
        """Write an event, at a step and a time; now by default."""
        event.wall_time = time.time() if walltime is None else walltime
        if step is not None:
            event.step = int(step)
        self.event_writer.add_event(event)

    def add_summary(
        self, summary: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a summary as an event."""
        self.add_event(installed().event.Event(summary=summary), global_step, walltime)

    def flush(self) -> None:
        """Write what waits."""
        self.event_writer.flush()

    def close(self) -> None:
        """Write what waits, and close the file."""
        self.event_writer.close()

    def reopen(self) -> None:
        """Go on in a new file."""
        self.event_writer = installed().writer(*self._options)


class SummaryWriter:
    """Writes what TensorBoard shows to a folder: scalars, histograms, pictures, texts, ...

    Args:
        log_dir: the folder; ``runs/DATE_HOST`` with ``comment`` behind it if missing.
        comment: an end of the folder's name, where that is made here.
        purge_step: TensorBoard hides what an earlier run wrote from this step on.
        max_queue: how many events wait before they are written.
        flush_secs: for how many seconds they wait at most.
        filename_suffix: an end of the files' names.

    Raises ModuleNotFoundError, which says what to install, where neither tensorboard nor
    tensorboardX is installed.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike[str] | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: float = 120,
        filename_suffix: str = "",
    ) -> None:
        if not log_dir:
            now = time.strftime("%b%d_%H-%M-%S")
            log_dir = os.path.join("runs", f"{now}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        self.purge_step = purge_step
        self._options = (max_queue, flush_secs, filename_suffix)
        self.file_writer: FileWriter | None = None
        self.all_writers: dict[str, FileWriter] | None = None
        self._get_file_writer()

    def _get_file_writer(self) -> FileWriter:
        """The folder's own writer, opened anew after ``close``."""
        if self.file_writer is None or self.all_writers is None:
            self.file_writer = FileWriter(self.log_dir, *self._options)
            self.all_writers = {self.file_writer.get_logdir(): self.file_writer}
            if self.purge_step is not None:
                known, step = installed().event, self.purge_step
                self.file_writer.add_event(known.Event(step=step, file_version="brain.Event:2"))
                session = known.SessionLog(status=known.SessionLog.START)
                self.file_writer.add_event(known.Event(step=step, session_log=session))
                self.purge_step = None
        return self.file_writer

    def get_logdir(self) -> str:
        """The folder."""
        return self.log_dir

    def _add(self, made: Any, step: int | None, walltime: float | None) -> None:
        self._get_file_writer().add_summary(made, step, walltime)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list[Any]] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Write hyperparameters of a run and its metrics, into a folder below this one.

        Raises TypeError and ArgumentError for values that are no numbers, bools and strings.
        """
        parts = summary.hparams(hparam_dict, metric_dict, hparam_domain_discrete)
        folder = os.path.join(self.log_dir, run_name or str(time.time()))
        with SummaryWriter(folder) as run:
            for part in parts:
                run._add(part, global_step, None)
            for name, value in metric_dict.items():
                run.add_scalar(name, value, global_step)

    def add_scalar(
        self,
        tag: str,
        scalar_value: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        new_style: bool = False,
        double_precision: bool = False,
    ) -> None:
        """Write a number. Raises ArgumentError for more than one."""
        made = summary.scalar(
            tag, scalar_value, new_style=new_style, double_precision=double_precision
        )
        self._add(made, global_step, walltime)

    def add_scalars(
        self,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write numbers that are drawn together, each into a folder below this one."""
        self._get_file_writer()
        assert self.all_writers is not None
        for tag, value in tag_scalar_dict.items():
            folder = f"{self.log_dir}/{main_tag.replace('/', '_')}_{tag}"
            if folder not in self.all_writers:
                self.all_writers[folder] = FileWriter(folder, *self._options)
            made = summary.scalar(main_tag, value)
            self.all_writers[folder].add_summary(made, global_step, walltime)

    def add_tensor(
        self, tag: str, tensor: Any, global_step: int | None = None, walltime: float | None = None
    ) -> None:
        """Write a tensor with all its elements. Raises ArgumentError for dtypes that files do not
        have."""
        self._add(summary.tensor_proto(tag, tensor), global_step, walltime)

    def add_histogram(
        self,
        tag: str,
        values: Any,
        global_step: int | None = None,
        bins: Any = "tensorflow",
        walltime: float | None = None,
        max_bins: int | None = None,
    ) -> None:
        """Write how values are distributed: into TensorFlow's buckets, a number of them, those with
        given limits, or by a rule of ``numpy.histogram``. Raises ArgumentError without values."""
        limits = summary.default_bins() if bins == "tensorflow" else bins
        self._add(summary.histogram(tag, values, limits, max_bins), global_step, walltime)

    def add_histogram_raw(
        self,
        tag: str,
        min: float,
        max: float,
        num: int,
        sum: float,
        sum_squares: float,
        bucket_limits: Sequence[float],
        bucket_counts: Sequence[float],
        global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:
        """Write a histogram of buckets that are counted already. Raises ArgumentError where limits
        and counts are not as many."""
        if len(bucket_limits) != len(bucket_counts):
            raise ArgumentError("len(bucket_limits) != len(bucket_counts), see the document.")
        made = summary.histogram_raw(
            tag, min, max, num, sum, sum_squares, bucket_limits, bucket_counts
        )
        self._add(made, global_step, walltime)

    def add_image(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "CHW",
    ) -> None:
        """Write a picture of fractions from 0 to 1 or of bytes. Raises ArgumentError where its axes
        are not those of ``dataformats``."""
        self._add(summary.image(tag, img_tensor, 1, dataformats), global_step, walltime)

    def add_images(
        self,
        tag: str,
        img_tensor: Any,
        global_step: int | None = None,
        walltime: float | None = None,
        dataformats: str = "NCHW",
    ) -> None:
        """Write several pictures as one. Raises ArgumentError as ``add_image`` does."""
        self._add(summary.image(tag, img_tensor, 1, dataformats), global_step, walltime)

    def add_figure(
        self,
        tag: str,
        figure: Any,
        global_step: int | None = None,
        close: bool = True,
        walltime: float | None = None,
    ) -> None:
        """Write a figure of matplotlib, or a list of them, and close it."""
        for each in figure if isinstance(figure, list) else [figure]:
            self.add_image(tag, figure_pixels(each), global_step, walltime, "HWC")
            if close:
                from importlib import import_module

                import_module("matplotlib.pyplot").close(each)

    def add_audio(
        self,
        tag: str,
        snd_tensor: Any,
        global_step: int | None = None,
        sample_rate: int = 44100,
        walltime: float | None = None,
    ) -> None:
        """Write a sound of samples from -1 to 1. Raises ArgumentError for several channels."""
        self._add(summary.audio(tag, snd_tensor, sample_rate), global_step, walltime)

    def add_text(
        self, tag: str, text_string: str, global_step: int | None = None,
        walltime: float | None = None,
    ) -> None:  # fmt: skip
        """Write a text in Markdown."""
        self._add(summary.text(tag, text_string), global_step, walltime)

    def add_pr_curve(
        self,
        tag: str,
        labels: Any,
        predictions: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision and recall of predictions from 0 to 1 for labels 0 and 1."""
        made = summary.pr_curve(tag, labels, predictions, num_thresholds, weights)
        self._add(made, global_step, walltime)

    def add_pr_curve_raw(
        self,
        tag: str,
        true_positive_counts: Any,
        false_positive_counts: Any,
        true_negative_counts: Any,
        false_negative_counts: Any,
        precision: Any,
        recall: Any,
        global_step: int | None = None,
        num_thresholds: int = 127,
        weights: Any = None,
        walltime: float | None = None,
    ) -> None:
        """Write precision and recall that are counted already."""
        rows = (
            true_positive_counts, false_positive_counts, true_negative_counts,
            false_negative_counts, precision, recall,
        )  # fmt: skip
        self._add(summary.pr_curve_raw(tag, rows, num_thresholds), global_step, walltime)

    def add_embedding(
        self,
        mat: Any,
        metadata: Sequence[Any] | None = None,
        label_img: Any = None,
        global_step: int | None = None,
        tag: str = "default",
        metadata_header: Sequence[str] | None = None,
    ) -> None:
        """Write points for the projector.

        Args:
            mat: a matrix with a row for each point.
            metadata: a label for each, or one for each column of ``metadata_header``.
            label_img: a picture for each, "NCHW".
            global_step: the step.
            tag: a name.
            metadata_header: names of several labels.

        Raises ArgumentError where labels or pictures are not as many as points.
        """
        points = summary.make_np(mat)
        if points.ndim != 2:
            raise ArgumentError("mat should be 2D, where mat.size(0) is the number of data points")
        for given, what in ((metadata, "labels"), (label_img, "images")):
            if given is not None and len(given) != len(points):
                raise ArgumentError(f"#{what} should equal with #data points")
        step = f"{0 if global_step is None else global_step:05d}"
        inside = f"{step}/{quote(tag, safe='')}"
        folder = Path(self.log_dir, inside)
        folder.mkdir(parents=True, exist_ok=True)
        rows = ("\t".join(map(str, row)) for row in points.tolist())
        (folder / "tensors.tsv").write_text("\n".join(rows) + "\n", encoding="utf-8")
        entry = [f'tensor_name: "{tag}:{step}"', f'tensor_path: "{inside}/tensors.tsv"']
        if metadata is not None:
            labels = [[str(label)] for label in metadata]
            if metadata_header:
                labels = [list(metadata_header), *[list(map(str, row)) for row in metadata]]
            text = "\n".join("\t".join(label) for label in labels)
            (folder / "metadata.tsv").write_text(text + "\n", encoding="utf-8")
            entry.append(f'metadata_path: "{inside}/metadata.tsv"')
        if label_img is not None:
            pictures = summary.make_np(label_img)
            (folder / "sprite.png").write_bytes(encode_png(sprite(pictures)))
            height, width = pictures.shape[2:]
            size = f"single_image_dim: {width}\nsingle_image_dim: {height}"
            entry.append(f'sprite {{\nimage_path: "{inside}/sprite.png"\n{size}\n}}')
        known = "\n".join(["embeddings {", *entry, "}\n"])
        with Path(self.log_dir, "projector_config.pbtxt").open("a", encoding="utf-8") as file:
            file.write(known)

    def add_graph(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises UnsupportedNameError: TensorBoard draws graphs of TensorFlow's operators."""
        raise UnsupportedNameError(
            "SummaryWriter.add_graph: TensorBoard draws graphs of TensorFlow's operators; "
            "lazyt.fx.symbolic_trace prints a model's, and `python -m lazyt show` a kernel's"
        )

    def add_video(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises UnsupportedNameError: no films are encoded here."""
        raise UnsupportedNameError(
            "SummaryWriter.add_video encodes no films; write frames by add_images, or use "
            "tensorboardX.SummaryWriter"
        )

    def add_mesh(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises UnsupportedNameError: no meshes are written here."""
        raise UnsupportedNameError(
            "SummaryWriter.add_mesh is not there; use tensorboardX.SummaryWriter"
        )

    def add_custom_scalars(self, layout: Any) -> NoReturn:
        """Raises UnsupportedNameError: no layouts are written here."""
        raise UnsupportedNameError(
            "SummaryWriter.add_custom_scalars is not there; add_scalars draws several numbers "
            "together"
        )

    def flush(self) -> None:
        """Write what waits."""
        for writer in (self.all_writers or {}).values():
            writer.flush()

    def close(self) -> None:
        """Write what waits, and close the files; what is added later goes to new ones."""
        for writer in (self.all_writers or {}).values():
            writer.flush()
            writer.close()
        self.file_writer = self.all_writers = None

    def __enter__(self) -> SummaryWriter:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        self.close()
