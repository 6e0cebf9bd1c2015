"""Layers that find the number of their inputs out at the first forward pass."""

from __future__ import annotations

from typing import Any, ClassVar, cast

from lazyt.errors import LazytError
from lazyt.functional import namespace as lazyt
from lazyt.handle.tensor import Tensor
from lazyt.nn import convolution, normalization
from lazyt.nn.linear import Linear
from lazyt.nn.parameter import UninitializedBuffer, UninitializedParameter, is_uninitialized


class LazyModuleMixin:
    """Stands before a module among the bases of a class: its parameters may be uninitialized, and
    become real ones of the sizes that the first input asks for. Then the object becomes one of
    ``cls_to_become``, unless that is None."""

    cls_to_become: ClassVar[type[Any] | None] = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        module: Any = self
        module._load_hook = module._register_load_state_dict_pre_hook(module._lazy_load_hook)
        module._initialize_hook = module.register_forward_pre_hook(
            module._infer_parameters, with_kwargs=True
        )

    def _lazy_load_hook(self: Any, state_dict: Any, prefix: str, *rest: Any) -> None:
        """Give parameters the sizes of those that are about to be loaded."""
        for name, own in (*self._parameters.items(), *self._buffers.items()):
            given = state_dict.get(prefix + name)
            if given is not None and is_uninitialized(own) and not is_uninitialized(given):
                with lazyt.no_grad():
                    own.materialize(given.shape)

    def has_uninitialized_params(self: Any) -> bool:
        """Whether a parameter or buffer waits for its size."""
        return any(
            is_uninitialized(value)
            for table in (self._parameters, self._buffers)
            for value in table.values()
        )

    def initialize_parameters(self, *args: Any, **kwargs: Any) -> None:
        """Give every parameter its size by the first input, and its first values."""
        raise NotImplementedError(
            f"initialize_parameters is not implemented for {type(self).__name__}"
        )

    def _infer_parameters(self: Any, module: Any, args: Any, kwargs: Any = None) -> None:
        """A hook before the first forward pass."""
        module.initialize_parameters(*args, **(kwargs or {}))
        if module.has_uninitialized_params():
            raise LazytError(f"module {self._get_name()} has not been fully initialized")
        module._initialize_hook.remove()
        module._load_hook.remove()
        del module._initialize_hook, module._load_hook
        if module.cls_to_become is not None:
            module.__class__ = module.cls_to_become

    def _replicate_for_data_parallel(self) -> None:
        raise LazytError(
            "Modules with uninitialized parameters can't be used with `DataParallel`. Run a dummy "
            "forward pass to correctly initialize the modules"
        )


class LazyLinear(LazyModuleMixin, Linear):
    """``Linear`` for as many features as the first input has."""

    cls_to_become = Linear

    def __init__(
        self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__(0, 0, False)
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        self.out_features = out_features
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, where they have sizes."""
        if not self.has_uninitialized_params() and self.in_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Weight and bias for the last dimension of ``input``."""
        if not self.has_uninitialized_params():
            if self.in_features == 0 and input.shape[-1] != self.weight.shape[-1]:
                raise AssertionError(
                    f"The in_features inferred from input: {input.shape[-1]} is not equal to "
                    f"in_features from self.weight: {self.weight.shape[-1]}"
                )
            self.in_features = self.weight.shape[-1]
            return
        self.in_features = input.shape[-1]
        cast(Any, self.weight).materialize((self.out_features, self.in_features))
        if self.bias is not None:
            cast(Any, self.bias).materialize((self.out_features,))
        self.reset_parameters()


class _LazyConvXdMixin(LazyModuleMixin):
    weight: Any
    bias: Any
    in_channels: int
    out_channels: int
    groups: int
    transposed: bool
    kernel_size: tuple[int, ...]
    rank: ClassVar[int]

    def _wait(self, out_channels: int, bias: bool, device: Any, dtype: Any) -> None:
        """Parameters without sizes instead of those for no channels."""
        self.out_channels = out_channels
        self.weight = UninitializedParameter(device=device, dtype=dtype)
        if bias:
            self.bias = UninitializedParameter(device=device, dtype=dtype)

    def reset_parameters(self) -> None:
        """Draw weight and bias anew, where they have sizes."""
        if not self.has_uninitialized_params() and self.in_channels:
            super().reset_parameters()  # type: ignore[misc]

    def initialize_parameters(self, input: Tensor, *args: Any, **kwargs: Any) -> None:
        """Weight and bias for the channels of ``input``. Raises ConvolutionError."""
        if not self.has_uninitialized_params():
            sizes = self.weight.shape
            self.in_channels = sizes[0] if self.transposed else sizes[1] * self.groups
            return
        self.in_channels = self._get_in_channels(input)
        if self.in_channels % self.groups:
            raise convolution.ConvolutionError("in_channels must be divisible by groups")
        size = (self.out_channels, self.in_channels // self.groups)
        if self.transposed:
            size = (self.in_channels, self.out_channels // self.groups)
        self.weight.materialize((*size, *self.kernel_size))
        if self.bias is not None:
            self.bias.materialize((self.out_channels,))
        self.reset_parameters()

    def _get_in_channels(self, input: Tensor) -> int:
        rank = self._get_num_spatial_dims()
        if input.ndim not in (rank + 1, rank + 2):
            raise LazytError(
                f"Expected {rank + 1}D (unbatched) or {rank + 2}D (batched) input to "
                f"{type(self).__name__}, but got input of size: {input.shape}"
            )
        return int(input.shape[-rank - 1])

    def _get_num_spatial_dims(self) -> int:
        return self.rank


class _LazyForward(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, dilation, groups, False, padding_mode, device, dtype
        )
        self._wait(out_channels, bias, device, dtype)


class LazyConv1d(_LazyForward, convolution.Conv1d):
    """``Conv1d`` for as many channels as the first input has."""

    cls_to_become = convolution.Conv1d


class LazyConv2d(_LazyForward, convolution.Conv2d):
    """``Conv2d`` for as many channels as the first input has."""

    cls_to_become = convolution.Conv2d


class LazyConv3d(_LazyForward, convolution.Conv3d):
    """``Conv3d`` for as many channels as the first input has."""

    cls_to_become = convolution.Conv3d


class _LazyTransposed(_LazyConvXdMixin):
    def __init__(
        self,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            0, 0, kernel_size, stride, padding, output_padding, groups, False, dilation,
            padding_mode, device, dtype,
        )  # fmt: skip
        self._wait(out_channels, bias, device, dtype)


class LazyConvTranspose1d(_LazyTransposed, convolution.ConvTranspose1d):
    """``ConvTranspose1d`` for as many channels as the first input has."""

    cls_to_become = convolution.ConvTranspose1d


class LazyConvTranspose2d(_LazyTransposed, convolution.ConvTranspose2d):
    """``ConvTranspose2d`` for as many channels as the first input has."""

    cls_to_become = convolution.ConvTranspose2d


class LazyConvTranspose3d(_LazyTransposed, convolution.ConvTranspose3d):
    """``ConvTranspose3d`` for as many channels as the first input has."""

    cls_to_become = convolution.ConvTranspose3d


class _LazyNormBase(LazyModuleMixin, normalization._NormBase):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        # Without affine and statistics at first: they would be parameters and buffers of size 0.
        super().__init__(0, eps, momentum, False, False, bias=False)
        self.affine, self.track_running_stats = affine, track_running_stats
        made: dict[str, Any] = {"device": device, "dtype": dtype}
        if affine:
            self.weight = UninitializedParameter(**made)
            if bias:
                self.bias = UninitializedParameter(**made)
        if track_running_stats:
            self.running_mean = UninitializedBuffer(**made)
            self.running_var = UninitializedBuffer(**made)
            self.num_batches_tracked = lazyt.tensor(0, dtype=lazyt.int64, device=device)

    def reset_parameters(self) -> None:
        """Weight 1, bias 0 and the statistics from the start, where they have sizes."""
        if not self.has_uninitialized_params() and self.num_features:
            super().reset_parameters()

    def initialize_parameters(self, input: Tensor) -> None:
        """Parameters and statistics for the channels of ``input``, its second dimension."""
        if not self.has_uninitialized_params():
            return
        self.num_features = input.shape[1]
        for value in (self.weight, self.bias, self.running_mean, self.running_var):
            if value is not None:
                value.materialize((self.num_features,))
        self.reset_parameters()


class LazyBatchNorm1d(_LazyNormBase, normalization.BatchNorm1d):
    """``BatchNorm1d`` for as many channels as the first input has."""

    cls_to_become = normalization.BatchNorm1d


class LazyBatchNorm2d(_LazyNormBase, normalization.BatchNorm2d):
    """``BatchNorm2d`` for as many channels as the first input has."""

    cls_to_become = normalization.BatchNorm2d


class LazyBatchNorm3d(_LazyNormBase, normalization.BatchNorm3d):
    """``BatchNorm3d`` for as many channels as the first input has."""

    cls_to_become = normalization.BatchNorm3d


class LazyInstanceNorm1d(_LazyNormBase, normalization.InstanceNorm1d):
    """``InstanceNorm1d`` for as many channels as the first input has."""

    cls_to_become = normalization.InstanceNorm1d


class LazyInstanceNorm2d(_LazyNormBase, normalization.InstanceNorm2d):
    """``InstanceNorm2d`` for as many channels as the first input has."""

    cls_to_become = normalization.InstanceNorm2d


class LazyInstanceNorm3d(_LazyNormBase, normalization.InstanceNorm3d):
    """``InstanceNorm3d`` for as many channels as the first input has."""

    cls_to_become = normalization.InstanceNorm3d
