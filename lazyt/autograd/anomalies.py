"""Anomaly mode: which line of the user's made a gradient NaN (``detect_anomaly``)."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lazyt import ops
from lazyt.errors import GradientError, warn
from lazyt.handle import pending
from lazyt.handle.tape import anomaly
from lazyt.handle.tape import is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled
from lazyt.handle.tape import is_anomaly_enabled as is_anomaly_enabled
from lazyt.ir.dtypes import int32
from lazyt.ir.graph import Node, source_text


def watch(node: Node, cotangent: Node, index: int, part: Node) -> None:
    """Raise GradientError where the gradient of ``node`` by input ``index`` is NaN.

    Computes it at once. What comes from a NaN that was there before is not the node's doing.
    """
    if not anomaly.check_nan or not _has_nan(part) or _has_nan(cotangent):
        return
    where = source_text(node.source)
    name = _title(node)
    warn(f"Error detected in {name}. The forward call that caused the error was made at {where}")
    raise GradientError(
        f"Function '{name}' returned nan values in its {index}th output. (made at {where})"
    )


def _has_nan(node: Node) -> bool:
    if node.dtype.kind not in "fc" or 0 in node.shape:
        return False
    wrong = ops.cast(ops.apply("ne", node, node), int32)
    found = ops.reduce_("max", wrong, tuple(range(len(node.shape)))) if node.shape else wrong
    pending.realize_nodes([found])
    return bool(found.data.as_numpy(found.dtype, found.shape).item())


_TITLES = {"contract": "Mm", "reduce": "Sum", "gather": "Index", "window": "AsStrided"}


def _title(node: Node) -> str:
    """The name of the function's grad_fn, as far as the graph tells."""
    called = getattr(node.params, "fn", None)
    word = str(called.name) if called is not None else _TITLES.get(node.op.name, node.op.name)
    return "".join(part[:1].upper() + part[1:] for part in word.split("_")) + "Backward0"


class set_detect_anomaly:
    """Turn anomaly mode on or off; as a context manager until the end of the block.

    Args:
        mode: whether gradients are looked at as they are computed.
        check_nan: whether NaN raises.
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = (anomaly.enabled, anomaly.check_nan)
        anomaly.enabled, anomaly.check_nan = bool(mode), bool(check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        anomaly.enabled, anomaly.check_nan = self._before


class set_multithreading_enabled:
    """PyTorch's switch for threads of its backward; here the plan's kernels have threads.

    A ``with`` block, or a call that lasts. Gradients are the same either way.
    """

    def __init__(self, mode: bool) -> None:
        self.mode = bool(mode)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        return None


class detect_anomaly:
    """A ``with`` block (or a decorator) in which a NaN that a gradient makes raises GradientError.

    The message names the function and the line that called it. Every gradient is computed where it
    is made, so nothing is fused: for finding errors only.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self._check_nan = check_nan
        self._before = (False, True)
        warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should "
            "only be enabled for debugging."
        )

    def __enter__(self) -> None:
        self._before = (anomaly.enabled, anomaly.check_nan)
        anomaly.enabled, anomaly.check_nan = True, self._check_nan

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        anomaly.enabled, anomaly.check_nan = self._before

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside


__all__ = [
    "detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_detect_anomaly",
    "set_multithreading_enabled", "watch",
]  # fmt: skip
