"""Layers that normalise by the statistics of a batch, or of neighbouring channels."""

from __future__ import annotations

import numbers
from typing import Any

from lazyt.errors import LazytError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.creation.creation import in_memory
from lazyt.functional.type_promotion import get_default_dtype, refuse_cast
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter

# Layers that normalise every sample by its own statistics: LayerNorm, RMSNorm and GroupNorm.


class DimensionError(LazytError, ValueError):
    """An input with another number of dimensions, or features, than the layer takes."""


def add_affine(
    module: Module, size: tuple[int, ...], weight: bool, bias: bool, device: Any, dtype: Any
) -> None:
    """Parameters ``weight`` and ``bias``, or None, for ``reset_parameters`` to fill."""
    for name, wanted in (("weight", weight), ("bias", bias)):
        made = blank_parameter(*size, dtype=dtype, device=device) if wanted else None
        module.register_parameter(name, made)


def reset_affine(module: Module) -> None:
    """Weight 1 and bias 0, where there are any."""
    if module.weight is not None:
        init.ones_(module.weight)
    if module.bias is not None:
        init.zeros_(module.bias)


def _sizes(normalized_shape: Any) -> tuple[int, ...]:
    if isinstance(normalized_shape, numbers.Integral):
        return (int(normalized_shape),)
    return tuple(normalized_shape)


class LayerNorm(Module):
    """The last dimensions, of ``normalized_shape``, to mean 0 and variance 1 (Ba et al. 2016)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        affine = elementwise_affine
        add_affine(self, self.normalized_shape, affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """[*, *normalized_shape] to the same. Raises ShapeError."""
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, "
            f"elementwise_affine={self.elementwise_affine}, bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """The last dimensions, of ``normalized_shape``, to mean square 1 (Zhang & Sennrich 2019)."""

    def __init__(
        self,
        normalized_shape: Any,
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.normalized_shape = _sizes(normalized_shape)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        made = None
        if elementwise_affine:
            made = blank_parameter(*self.normalized_shape, dtype=dtype, device=device)
        self.register_parameter("weight", made)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, input: Tensor) -> Tensor:
        """[*, *normalized_shape] to the same. Raises ShapeError."""
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"
        )


class GroupNorm(Module):
    """Every group of channels of every sample to mean 0 and variance 1 (Wu & He 2018)."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_channels % num_groups:
            raise DimensionError(
                f"num_channels ({num_channels}) must be divisible by num_groups ({num_groups})"
            )
        self.num_groups, self.num_channels = num_groups, num_channels
        self.eps, self.affine = eps, affine
        add_affine(self, (num_channels,), affine, affine and bias, device, dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Weight 1 and bias 0."""
        reset_affine(self)

    def forward(self, input: Tensor) -> Tensor:
        """[N, num_channels, *] to the same. Raises ShapeError."""
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, "
            f"bias={self.bias is not None}"
        )


def _check_rank(input: Tensor, *ranks: int) -> None:
    """Raises DimensionError for an input of other numbers of dimensions."""
    if input.ndim not in ranks:
        wanted = " or ".join(f"{rank}D" for rank in ranks)
        raise DimensionError(f"expected {wanted} input (got {input.ndim}D input)")


class _NormBase(Module):
    """What batch and instance normalisation have in common: parameters and running statistics."""

    _version = 2
    num_features: int
    eps: float
    momentum: float | None
    affine: bool
    track_running_stats: bool

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        add_affine(self, (num_features,), affine, affine and bias, device, dtype)
        tracks, made = track_running_stats, {"dtype": dtype, "device": device}
        self.register_buffer("running_mean", lazyt.zeros(num_features, **made) if tracks else None)
        self.register_buffer("running_var", lazyt.ones(num_features, **made) if tracks else None)
        count = lazyt.tensor(0, dtype=lazyt.int64, device=device) if tracks else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Start the running statistics again: mean 0, variance 1."""
        if self.track_running_stats:
            starts = (self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)
            for buffer, start in starts:
                if buffer.is_meta:
                    continue
                with lazyt.no_grad():
                    if type(buffer) is not Tensor:  # of a mode, or a class that is asked
                        buffer.fill_(start)
                        continue
                    buffer.copy_(in_memory(buffer.shape, start, buffer.dtype, buffer.device))

    def reset_parameters(self) -> None:
        """Weight 1, bias 0, and the running statistics from the start."""
        self.reset_running_stats()
        if self.affine:
            reset_affine(self)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        """Files of PyTorch before 0.4.1 do not count batches."""
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        """The settings."""
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, "
            f"affine={self.affine}, bias={self.bias is not None}, "
            f"track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        """[N, num_features, *] to the same. In training the statistics are the batch's, and the
        running ones move towards them. Raises DimensionError, ShapeError."""
        self._check_input_dim(input)
        share = 0.0 if self.momentum is None else self.momentum
        tracks = self.training and self.track_running_stats
        if tracks and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # the mean over all batches so far
                share = 1.0 / float(self.num_batches_tracked)
        by_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input, self.running_mean if keep else None, self.running_var if keep else None,
            self.weight, self.bias, by_batch, share, self.eps,
        )  # fmt: skip


class BatchNorm1d(_BatchNorm):
    """Batch normalisation (Ioffe & Szegedy 2015) of [N, C] or [N, C, L]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalisation (Ioffe & Szegedy 2015) of [N, C, H, W]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 4)


class BatchNorm3d(_BatchNorm):
    """Batch normalisation (Ioffe & Szegedy 2015) of [N, C, D, H, W]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 5)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _get_no_batch_dim(self) -> int:
        """The number of dimensions of an input without a batch."""
        raise NotImplementedError

    def _handle_no_batch_input(self, input: Tensor) -> Tensor:
        return self._apply_instance_norm(input.unsqueeze(0)).squeeze(0)

    def _apply_instance_norm(self, input: Tensor) -> Tensor:
        by_input = self.training or not self.track_running_stats
        return F.instance_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, by_input,
            self.momentum or 0.0, self.eps,
        )  # fmt: skip

    def forward(self, input: Tensor) -> Tensor:
        """[N, num_features, *], or without N, to the same. Raises DimensionError."""
        self._check_input_dim(input)
        single = input.ndim == self._get_no_batch_dim()
        self._check_features(input, 0 if single else 1)
        if single:
            return self._handle_no_batch_input(input)
        return self._apply_instance_norm(input)

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: dict[str, Any], *rest: Any
    ) -> None:
        names = [name for name in ("running_mean", "running_var") if prefix + name in state_dict]
        if local_metadata.get("version") is None and not self.track_running_stats and names:
            kind = type(self).__name__
            found = " and ".join(f'"{prefix}{name}"' for name in names)
            rest[-1].append(
                f"Unexpected running stats buffer(s) {found} for {kind} with "
                "track_running_stats=False. If state_dict is a checkpoint saved before 0.4.0, "
                f"this may be expected because {kind} does not track running stats by default "
                "since 0.4.0. Please remove these keys from state_dict. If the running stats are "
                f"actually needed, instead set track_running_stats=True in {kind} to enable them. "
                f"See the documentation of {kind} for details."
            )
            for name in names:
                state_dict.pop(prefix + name)
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def _check_features(self, input: Tensor, dim: int) -> None:
        size = input.shape[dim]
        if size == self.num_features:
            return
        if self.affine:
            raise DimensionError(
                f"expected input's size at dim={dim} to match num_features ({self.num_features}), "
                f"but got: {size}."
            )
        warn(
            f"input's size at dim={dim} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False"
        )


class InstanceNorm1d(_InstanceNorm):
    """Every channel of every sample to mean 0 and variance 1: [N, C, L] or [C, L]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 2, 3)

    def _get_no_batch_dim(self) -> int:
        return 2


class InstanceNorm2d(_InstanceNorm):
    """Every channel of every sample to mean 0 and variance 1: [N, C, H, W] or [C, H, W]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 3, 4)

    def _get_no_batch_dim(self) -> int:
        return 3


class InstanceNorm3d(_InstanceNorm):
    """Every channel of every sample to mean 0 and variance 1: [N, C, D, H, W] or [C, D, H, W]."""

    def _check_input_dim(self, input: Tensor) -> None:
        _check_rank(input, 4, 5)

    def _get_no_batch_dim(self) -> int:
        return 4


class SyncBatchNorm(_BatchNorm):
    """Batch normalisation of [N, C, *] over the batches of all ranks of ``process_group``, all
    ranks by default. In one process, and in evaluation, it is batch normalisation."""

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: Any = None,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise DimensionError(f"expected at least 2D input (got {input.ndim}D input)")

    def forward(self, input: Tensor) -> Tensor:
        """[N, num_features, *] to the same. In training the statistics are those of all ranks.
        Raises DimensionError."""
        from lazyt.distributed import process_groups

        by_batch = self.training or self.running_mean is None
        several = by_batch and process_groups.is_initialized()
        group = process_groups.group_of(self.process_group) if several else None
        if group is None or group.size() == 1:
            return super().forward(input)
        self._check_input_dim(input)
        mean, var = self._statistics(input, group)
        shape = (1, -1, *(1,) * (input.ndim - 2))
        x = (input - mean.reshape(shape)) * (var + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            x = x * self.weight.reshape(shape)
        if self.bias is not None:
            x = x + self.bias.reshape(shape)
        return x.to(input.dtype)

    def _statistics(self, input: Tensor, group: Any) -> tuple[Tensor, Tensor]:
        """Mean and variance of each channel over all ranks; the running ones move towards them."""
        from lazyt.distributed import functional

        x = input if input.dtype.itemsize > 2 else input.float()
        axes = (0, *range(2, x.ndim))
        count = lazyt.full((1,), float(x.numel() // x.shape[1]), dtype=x.dtype, device=x.device)
        own = lazyt.cat([x.mean(axes), x.var(axes, correction=0), count])
        rows = lazyt.stack(functional.all_gather(own, group))
        means, vars_, counts = rows[:, : x.shape[1]], rows[:, x.shape[1] : -1], rows[:, -1:]
        total = counts.sum()
        mean = (means * counts).sum(0) / total
        var = ((vars_ + (means - mean) ** 2) * counts).sum(0) / total
        if self.training and self.track_running_stats and self.running_mean is not None:
            assert self.running_var is not None and self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            share = self.momentum
            if share is None:
                share = 1.0 / float(self.num_batches_tracked)
            with lazyt.no_grad():
                unbiased = var * (total / (total - 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
        return mean, var

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """``module`` with all its batch normalisations, at any depth, as SyncBatchNorm."""
        converted: Module = module
        if isinstance(module, _BatchNorm) and not isinstance(module, cls):
            made = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group,
            )  # fmt: skip
            for name in ("weight", "bias", "running_mean", "running_var", "num_batches_tracked"):
                setattr(made, name, getattr(module, name))
            made.training = module.training
            converted = made
        for name, child in module.named_children():
            setattr(converted, name, cls.convert_sync_batchnorm(child, process_group))
        return converted


class LocalResponseNorm(Module):
    """Every channel scaled by the squares of its neighbours (Krizhevsky et al. 2012)."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, *] to the same. Raises StatisticsError (a ValueError)."""
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        """The settings."""
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` of images, by the name it had in Torch 7; odd sizes are centred."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)

    def forward(self, input: Tensor) -> Tensor:
        """[N, C, H, W] to the same. Raises DimensionError (a ValueError), DTypeError."""
        if input.ndim != 4:
            found = f"CrossMapLRN2d: Expected input to be 4D, got {input.ndim}D instead."
            raise DimensionError(found)
        if input.dtype.kind != "f":
            refuse_cast(get_default_dtype(), input.dtype)
        return super().forward(input)
