"""The messages of one value: a scalar, a histogram, a picture, a text, ..."""

from __future__ import annotations

from typing import Any

import numpy as np

from lazyt.errors import ArgumentError
from lazyt.handle.tensor import Tensor
from lazyt.utils.tensorboard.pictures import as_pixels, encode_png, encode_wave
from lazyt.utils.tensorboard.protocol import installed, plugin

__all__ = [
    "audio", "histogram", "histogram_raw", "hparams", "image", "make_np", "pr_curve", "scalar",
    "tensor_proto", "text",
]  # fmt: skip


def make_np(x: Any) -> Any:
    """A NumPy array of a tensor, of numbers or of an array. Raises ArgumentError for others."""
    text = f"Got {type(x)}, but numpy array or torch tensor are expected."
    if isinstance(x, Tensor):
        known = x.detach().cpu()
        return (known.float() if known.dtype.name == "bfloat16" else known).numpy()
    try:
        found = np.asarray(x)
    except ValueError as error:
        raise ArgumentError(
            f"Got {type(x)}, but numpy array or torch tensor are expected."
        ) from error
    if found.dtype == object or found.dtype.kind in "US":
        raise ArgumentError(text)
    return found


def scalar(
    tag: str, tensor: Any, collections: Any = None, new_style: bool = False,
    double_precision: bool = False,
) -> Any:  # fmt: skip
    """A number. ``new_style`` writes it as a tensor, in float64 where ``double_precision``.

    Raises ArgumentError for more than one element.
    """
    found = make_np(tensor)
    if found.size != 1:
        raise ArgumentError(
            f"Tensor should contain one element (0 dimensions). Was given size: {found.size}"
        )
    number = float(found.reshape(()))
    known = installed()
    if not new_style:
        value = known.summary.Summary.Value(tag=tag, simple_value=number)
        return known.summary.Summary(value=[value])
    kind, field = ("DT_DOUBLE", "double_val") if double_precision else ("DT_FLOAT", "float_val")
    tensor = known.tensor.TensorProto(dtype=kind, **{field: [number]})
    return _of_plugin(tag, tensor, "scalars")


def _of_plugin(tag: str, tensor: Any, name: str, content: bytes = b"") -> Any:
    known = installed()
    data = known.summary.SummaryMetadata.PluginData(plugin_name=name, content=content)
    metadata = known.summary.SummaryMetadata(plugin_data=data)
    value = known.summary.Summary.Value(tag=tag, metadata=metadata, tensor=tensor)
    return known.summary.Summary(value=[value])


def tensor_proto(tag: str, tensor: Any) -> Any:
    """A tensor with all its elements. Raises ArgumentError for dtypes that messages do not have."""
    found = make_np(tensor)
    kinds = {
        "float32": ("DT_FLOAT", "float_val"), "float64": ("DT_DOUBLE", "double_val"),
        "float16": ("DT_HALF", "half_val"), "int32": ("DT_INT32", "int_val"),
        "int64": ("DT_INT64", "int64_val"), "int16": ("DT_INT16", "int_val"),
        "int8": ("DT_INT8", "int_val"), "uint8": ("DT_UINT8", "int_val"),
        "bool": ("DT_BOOL", "bool_val"), "complex64": ("DT_COMPLEX64", "scomplex_val"),
    }  # fmt: skip
    if found.dtype.name not in kinds:
        raise ArgumentError(f"tensors of {found.dtype} cannot be written")
    kind, field = kinds[found.dtype.name]
    flat = found.reshape(-1)
    if field == "half_val":
        flat = flat.view(np.uint16)
    elif field == "scomplex_val":
        flat = flat.view(np.float32)
    known = installed()
    sizes = [known.shape.TensorShapeProto.Dim(size=size) for size in found.shape]
    made = known.tensor.TensorProto(
        dtype=kind, tensor_shape=known.shape.TensorShapeProto(dim=sizes), **{field: flat.tolist()}
    )
    return _of_plugin(tag, made, "tensor")


def default_bins() -> Any:
    """TensorFlow's limits of buckets: they grow by a tenth, on both sides of zero."""
    count = int(np.ceil(np.log(1e20 / 1e-12) / np.log(1.1)))
    positive = 1e-12 * 1.1 ** np.arange(count)
    return np.concatenate([-positive[::-1], [0.0], positive])


def histogram(name: str, values: Any, bins: Any, max_bins: int | None = None) -> Any:
    """How values are distributed.

    Args:
        name: the tag.
        values: a tensor of any shape.
        bins: limits of buckets, their number, or a rule of ``numpy.histogram``.
        max_bins: how many buckets there are at most.

    Raises ArgumentError without values.
    """
    found = make_np(values).astype(np.float64).reshape(-1)
    if not found.size:
        raise ArgumentError("The input has no element.")
    counts, limits = np.histogram(found, bins=bins)
    if max_bins is not None and len(counts) > max_bins:
        step = len(counts) // max_bins
        ends = range(0, len(counts), step)
        counts = np.array([counts[i : i + step].sum() for i in ends])
        limits = np.append(limits[:-1][::step], limits[-1])
    filled = np.flatnonzero(counts)
    if not filled.size:
        raise ArgumentError("The histogram is empty, please file a bug report.")
    first, last = int(filled[0]), int(filled[-1]) + 1
    # what is below the first limit is counted in an empty bucket, as TensorBoard expects
    kept = np.concatenate([[0], counts[first:last]])
    return histogram_raw(
        name, found.min(), found.max(), found.size, found.sum(), found.dot(found),
        limits[first : last + 1].tolist(), kept.tolist(),
    )  # fmt: skip


def histogram_raw(
    name: str, min: float, max: float, num: int, sum: float, sum_squares: float,
    bucket_limits: Any, bucket_counts: Any,
) -> Any:  # fmt: skip
    """A histogram of buckets that are counted already."""
    known = installed()
    made = known.summary.HistogramProto(
        min=min, max=max, num=num, sum=sum, sum_squares=sum_squares, bucket_limit=bucket_limits,
        bucket=bucket_counts,
    )  # fmt: skip
    return known.summary.Summary(value=[known.summary.Summary.Value(tag=name, histo=made)])


def image(tag: str, tensor: Any, rescale: float = 1, dataformats: str = "NCHW") -> Any:
    """A picture, or a grid of several.

    Args:
        tag: the tag.
        tensor: fractions from 0 to 1, or bytes.
        rescale: a factor of its size; a whole number, 1 or more.
        dataformats: its axes.

    Raises ArgumentError where the axes are not those, or for other factors.
    """
    pixels = as_pixels(make_np(tensor), dataformats)
    if rescale != int(rescale) or rescale < 1:
        raise ArgumentError(f"a picture is enlarged by a whole number, not by {rescale}")
    pixels = pixels.repeat(int(rescale), 0).repeat(int(rescale), 1)
    known = installed()
    height, width, channels = pixels.shape
    made = known.summary.Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=encode_png(pixels)
    )
    return known.summary.Summary(value=[known.summary.Summary.Value(tag=tag, image=made)])


def audio(tag: str, tensor: Any, sample_rate: int = 44100) -> Any:
    """A sound of one channel, of samples from -1 to 1. Raises ArgumentError for several."""
    samples = make_np(tensor).squeeze()
    if samples.ndim != 1:
        raise ArgumentError("input tensor should be 1 dimensional.")
    known = installed()
    made = known.summary.Summary.Audio(
        sample_rate=sample_rate, num_channels=1, length_frames=samples.shape[0],
        encoded_audio_string=encode_wave(samples, sample_rate), content_type="audio/wav",
    )  # fmt: skip
    return known.summary.Summary(value=[known.summary.Summary.Value(tag=tag, audio=made)])


def text(tag: str, text: str) -> Any:
    """A text in Markdown."""
    known = installed()
    shape = known.shape.TensorShapeProto(dim=[known.shape.TensorShapeProto.Dim(size=1)])
    made = known.tensor.TensorProto(
        dtype="DT_STRING", string_val=[text.encode("utf-8")], tensor_shape=shape
    )
    content = plugin("text.plugin_data_pb2", "add_text").TextPluginData(version=0)
    return _of_plugin(f"{tag}/text_summary", made, "text", content.SerializeToString())


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Precision and recall of predictions from 0 to 1, at thresholds of equal distance."""
    truth = make_np(labels).astype(np.float64).reshape(-1)
    guesses = make_np(predictions).astype(np.float64).reshape(-1)
    weight = np.ones_like(truth) if weights is None else make_np(weights).reshape(-1)
    count = min(num_thresholds, 127)  # more do not fit what TensorBoard reads
    places = np.floor(guesses * (count - 1)).astype(np.int64).clip(0, count - 1)

    def above(each: Any) -> Any:
        counts = np.bincount(places, each * weight, count)
        return np.cumsum(counts[::-1])[::-1]

    true_positive, false_positive = above(truth), above(1.0 - truth)
    true_negative = false_positive[0] - false_positive
    false_negative = true_positive[0] - true_positive
    least = 1e-7
    precision = true_positive / np.maximum(least, true_positive + false_positive)
    recall = true_positive / np.maximum(least, true_positive + false_negative)
    rows = (true_positive, false_positive, true_negative, false_negative, precision, recall)
    return pr_curve_raw(tag, rows, count)


def pr_curve_raw(tag: str, rows: Any, num_thresholds: int) -> Any:
    """The same of rows that are counted already: true and false positives, true and false
    negatives, precision and recall."""
    known = installed()
    values = np.stack([make_np(row) for row in rows]).astype(np.float32)
    sizes = [known.shape.TensorShapeProto.Dim(size=size) for size in values.shape]
    made = known.tensor.TensorProto(
        dtype="DT_FLOAT", float_val=values.reshape(-1).tolist(),
        tensor_shape=known.shape.TensorShapeProto(dim=sizes),
    )  # fmt: skip
    found = plugin("pr_curve.plugin_data_pb2", "add_pr_curve")
    content = found.PrCurvePluginData(version=0, num_thresholds=num_thresholds)
    return _of_plugin(tag, made, "pr_curves", content.SerializeToString())


def hparams(
    hparam_dict: dict[str, Any], metric_dict: dict[str, Any],
    hparam_domain_discrete: dict[str, list[Any]] | None = None,
) -> tuple[Any, Any, Any]:  # fmt: skip
    """What an experiment is about, the values of one run, and its end.

    Args:
        hparam_dict: numbers, bools and strings by name.
        metric_dict: the names of the metrics.
        hparam_domain_discrete: all values that a hyperparameter may have, by name.

    Raises TypeError for dicts that are none, and ArgumentError for values of other types.
    """
    if not isinstance(hparam_dict, dict) or not isinstance(metric_dict, dict):
        raise TypeError("parameter: hparam_dict and metric_dict should be dictionaries.")
    api = plugin("hparams.api_pb2", "add_hparams")
    data = plugin("hparams.plugin_data_pb2", "add_hparams")
    metadata = plugin("hparams.metadata", "add_hparams")
    infos = []
    start = data.SessionStartInfo()
    for name, value in hparam_dict.items():
        field, kind, plain = _hparam(name, value)
        setattr(start.hparams[name], field, plain)
        info = api.HParamInfo(name=name, type=api.DataType.Value(kind))
        for choice in (hparam_domain_discrete or {}).get(name, ()):
            setattr(info.domain_discrete.values.add(), field, _hparam(name, choice)[2])
        infos.append(info)
    metrics = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metric_dict]
    experiment = api.Experiment(hparam_infos=infos, metric_infos=metrics)
    end = data.SessionEndInfo(status=api.Status.Value("STATUS_SUCCESS"))

    def summary(tag: str, **content: Any) -> Any:
        made = data.HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
        empty = getattr(metadata, "NULL_TENSOR", None)
        return _of_plugin(tag, empty, metadata.PLUGIN_NAME, made.SerializeToString())

    return (
        summary(metadata.EXPERIMENT_TAG, experiment=experiment),
        summary(metadata.SESSION_START_INFO_TAG, session_start_info=start),
        summary(metadata.SESSION_END_INFO_TAG, session_end_info=end),
    )


def _hparam(name: str, value: Any) -> tuple[str, str, Any]:
    """The field of a value, the name of its type, and the value as Python's."""
    if isinstance(value, Tensor):
        value = make_np(value).item()
    if isinstance(value, (bool, np.bool_)):
        return "bool_value", "DATA_TYPE_BOOL", bool(value)
    if isinstance(value, (int, float, np.number)):
        return "number_value", "DATA_TYPE_FLOAT64", float(value)
    if isinstance(value, str):
        return "string_value", "DATA_TYPE_STRING", value
    raise ArgumentError(
        f"value of {name} should be one of int, float, str, bool, or torch.Tensor, not "
        f"{type(value).__name__}"
    )
