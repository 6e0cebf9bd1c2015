"""Operators of torchvision for a PyTorch that its compiled library does not fit (recording only).

The wheel's library needs CUDA's, so that under a PyTorch for CPUs torchvision has no operators.
These are their definitions, spelled out.
"""

from __future__ import annotations

from typing import Any


def nms(boxes: Any, scores: Any, iou_threshold: float) -> Any:
    """Indices of the boxes that no better one overlaps by more than the threshold."""
    import torch

    chosen: list[int] = []
    corners = boxes.tolist()
    for i in torch.argsort(scores, descending=True, stable=True).tolist():
        if all(_overlap(corners[i], corners[j]) <= iou_threshold for j in chosen):
            chosen.append(i)
    return torch.tensor(chosen, dtype=torch.int64)


def _overlap(a: list[float], b: list[float]) -> float:
    wide = max(0.0, min(a[2], b[2]) - max(a[0], b[0]))
    high = max(0.0, min(a[3], b[3]) - max(a[1], b[1]))
    both = wide * high
    areas = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return both / (areas - both)


def install(wholly: bool) -> None:
    """Defines the operators that importing torchvision asks for, or all that programs call."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    library.define("nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.define("qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    library.impl("nms", nms, "CPU")
    install.library = library  # type: ignore[attr-defined]  # alive as long as its operators
    if not wholly:
        return
    import torchvision

    torchvision.extension._has_ops = lambda: True
    for module in (torchvision.ops.boxes, torchvision.ops.roi_align):
        if hasattr(module, "_assert_has_ops"):
            module._assert_has_ops = lambda: None
    library.define(
        "roi_align(Tensor input, Tensor rois, float spatial_scale, int pooled_height, "
        "int pooled_width, int sampling_ratio, bool aligned) -> Tensor"
    )
    from torchvision.ops import roi_align

    library.impl("roi_align", roi_align.__globals__["_roi_align"], "CompositeImplicitAutograd")
