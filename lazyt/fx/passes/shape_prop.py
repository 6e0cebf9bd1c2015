"""Which shapes and dtypes the values of a graph have."""

from __future__ import annotations

from typing import Any, NamedTuple

from lazyt.functional.namespace import Size, dtype
from lazyt.fx.interpreter import Interpreter
from lazyt.fx.node import Node, map_aggregate
from lazyt.handle.layout import channels_last, channels_last_3d, contiguous_format, memory_format
from lazyt.handle.tensor import Tensor
from lazyt.nn.module import Module

__all__ = ["ShapeProp", "TensorMetadata"]


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its values.

    Attributes:
        memory_format: the first of the formats that its strides are those of; None for others.
        is_quantized, qparams: for PyTorch's sake: False, and an empty dict.
    """

    shape: Size
    dtype: dtype
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: memory_format | None
    is_quantized: bool
    qparams: dict[str, Any]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    formats = (contiguous_format, channels_last, channels_last_3d)
    ranks = {channels_last: 4, channels_last_3d: 5}
    found = None
    if include_contiguity:
        found = next(
            (
                f for f in formats
                if ranks.get(f, result.ndim) == result.ndim
                and result.is_contiguous(memory_format=f)
            ),
            None,
        )  # fmt: skip
    return TensorMetadata(
        result.shape, result.dtype, result.requires_grad, result.stride(), found, False, {}
    )


class ShapeProp(Interpreter):
    """Runs a graph and notes in ``meta["tensor_meta"]`` of each node what tensors it gives, and in
    ``meta["type"]`` the class of its value. Nothing is computed unless the program looks at values:
    shapes are known without.

    >>> from lazyt.fx.passes.shape_prop import ShapeProp
    >>> traced = lazyt.fx.symbolic_trace(lambda x: x.flatten(1) + 1)
    >>> out = ShapeProp(traced).propagate(lazyt.ones(2, 3, 4))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3, 4), (2, 12), (2, 12), (2, 12)]

    Args:
        gm: the module with the graph.
        fake_mode: taken for PyTorch's sake.
    """

    def __init__(self, gm: Module, fake_mode: Any = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Node) -> Any:
        """The value of a node, about which it is noted what there is to know. Raises RuntimeError
        where the node raises anything."""
        try:
            result = super().run_node(n)
        except Exception as error:
            raise RuntimeError(
                f"ShapeProp error for: node={n.format_node()} with meta={n.meta}"
            ) from error
        tensors = []

        def described(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            tensors.append(value)
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, described)
        if tensors:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph for arguments; returns its result."""
        return self.run(*args)
