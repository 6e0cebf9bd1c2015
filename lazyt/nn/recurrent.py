"""Recurrent layers over whole sequences: RNN, LSTM and GRU."""

from __future__ import annotations

import math
import numbers
from typing import Any

import lazyt
from lazyt.errors import LazytError, ShapeError, warn
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter
from lazyt.nn.recurrence import STEPS, State, Weights, run_layers
from lazyt.nn.utils.rnn import PackedSequence
from lazyt.tensor import Tensor


class ModeError(LazytError, ValueError):
    """An input that a recurrent layer was not made for."""


def _check_settings(
    input_size: Any, hidden_size: Any, num_layers: Any, bias: Any, batch_first: Any, dropout: Any,
    proj_size: int,
) -> None:  # fmt: skip
    is_number = isinstance(dropout, numbers.Number) and not isinstance(dropout, bool)
    if not is_number or not 0 <= dropout <= 1:
        raise ValueError(
            "dropout should be a number in range [0, 1] representing the probability of an element "
            "being zeroed"
        )
    if dropout > 0 and num_layers == 1:
        warn(
            "dropout option adds dropout after all but last recurrent layer, so non-zero dropout "
            f"expects num_layers greater than 1, but got dropout={dropout} and "
            f"num_layers={num_layers}"
        )
    wanted = {"bias": bool, "batch_first": bool, "input_size": int, "hidden_size": int}
    given = (bias, batch_first, input_size, hidden_size)
    for (name, kind), value in zip(wanted.items(), given):
        if not isinstance(value, kind):
            raise TypeError(
                f"{name} should be of type {kind.__name__}, got: {type(value).__name__}"
            )
        if isinstance(value, int) and kind is int and value <= 0:
            raise ValueError(f"{name} must be greater than zero")
    if num_layers <= 0:
        raise ValueError("num_layers must be greater than zero")
    if proj_size < 0:
        raise ValueError("proj_size should be a positive integer or zero to disable projections")
    if proj_size >= hidden_size:
        raise ValueError("proj_size has to be smaller than hidden_size")


class RNNBase(Module):
    """What RNN, LSTM and GRU have in common: settings, parameters and their names.

    Layer k has ``weight_ih_l{k}`` [gates * hidden, input], ``weight_hh_l{k}``, ``bias_ih_l{k}``,
    ``bias_hh_l{k}`` and, with ``proj_size``, ``weight_hr_l{k}``; the reverse direction's names end
    in ``_reverse``. All start uniform over +-1/sqrt(hidden_size), as in PyTorch.

    Raises ValueError and TypeError for settings out of range.
    """

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        _check_settings(input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size)
        if mode not in STEPS:
            raise ValueError("Unrecognized RNN mode: " + mode)
        self.mode = mode
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.batch_first = bias, batch_first
        self.dropout, self.bidirectional, self.proj_size = float(dropout), bidirectional, proj_size
        self._all_weights: list[list[str]] = []
        self._flat_weights_names: list[str] = []
        made = {"device": device, "dtype": dtype}
        for layer in range(num_layers):
            for ending in ("", "_reverse") if bidirectional else ("",):
                self._add_layer(layer, f"_l{layer}{ending}", made)
        self._init_flat_weights()
        self.reset_parameters()

    def _add_layer(self, layer: int, ending: str, made: dict[str, Any]) -> None:
        rows = STEPS[self.mode][1] * self.hidden_size
        width = self._width()
        below = width * (2 if self.bidirectional else 1) if layer else self.input_size
        sizes: dict[str, tuple[int, ...]] = {"weight_ih": (rows, below), "weight_hh": (rows, width)}
        if self.bias:
            sizes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            sizes["weight_hr"] = (self.proj_size, self.hidden_size)
        for name, size in sizes.items():
            setattr(self, name + ending, blank_parameter(*size, **made))
        names = [name + ending for name in sizes]
        self._all_weights.append(names)
        self._flat_weights_names += names

    def _width(self) -> int:
        """The size of what a layer gives out."""
        return self.proj_size or self.hidden_size

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform over +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def flatten_parameters(self) -> None:
        """For PyTorch's programs: there is nothing that parameters side by side would speed up."""

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters of every layer and direction."""
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Any]:
        """What the layer computes with: its parameters, or what was assigned in their place."""
        given: list[Any] | None = self.__dict__.get("_given_weights")
        if given is not None:
            return given
        return [getattr(self, name, None) for name in self._flat_weights_names]

    def _init_flat_weights(self) -> None:
        """Compute with the parameters themselves, whatever was assigned to ``_flat_weights``."""
        self.__dict__.pop("_given_weights", None)
        self.flatten_parameters()

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_flat_weights":
            self.__dict__["_given_weights"] = value
            return
        super().__setattr__(name, value)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        found = super()._apply(fn, recurse)
        self._init_flat_weights()
        return found

    def _layers(self) -> list[list[Weights]]:
        directions = 2 if self.bidirectional else 1
        flat, found = self._flat_weights, []
        for names in self._all_weights:
            weights, flat = flat[: len(names)], flat[len(names) :]
            first, second = weights[2:4] if self.bias else (None, None)
            projection = weights[-1] if self.proj_size else None
            found.append(Weights(weights[0], weights[1], first, second, projection))
        return [found[i : i + directions] for i in range(0, len(found), directions)]

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raises ModeError for another dtype than the weights', ShapeError for other sizes."""
        weight = self._flat_weights[0]
        if input.dtype is not weight.dtype and not lazyt.is_autocast_enabled("cpu"):
            raise ModeError(
                f"RNN input dtype ({input.dtype}) does not match weight dtype ({weight.dtype}). "
                f"Convert input: input.to({weight.dtype}), or convert model: "
                f"model.to({input.dtype})"
            )
        rank = 3 if batch_sizes is None else 2
        if input.ndim != rank:
            raise ShapeError(f"input must have {rank} dimensions, got {input.ndim}")
        if input.shape[-1] != self.input_size:
            raise ShapeError(
                "input.size(-1) must be equal to input_size. Expected "
                f"{self.input_size}, got {input.shape[-1]}"
            )

    def _state_size(
        self, input: Tensor, batch_sizes: Tensor | None, width: int
    ) -> tuple[int, int, int]:
        if batch_sizes is not None:
            batch = int(batch_sizes.tolist()[0])
        else:
            batch = input.shape[0 if self.batch_first else 1]
        return self.num_layers * (2 if self.bidirectional else 1), batch, width

    def get_expected_hidden_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The size of a hidden state for an input with a batch: [layers * directions, N, size]."""
        return self._state_size(input, batch_sizes, self._width())

    def check_hidden_size(
        self,
        hx: Tensor,
        expected_hidden_size: tuple[int, int, int],
        msg: str = "Expected hidden size {}, got {}",
    ) -> None:
        """Raises ShapeError for a state of another size."""
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise ShapeError(msg.format(expected_hidden_size, list(hx.shape)))

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises ModeError and ShapeError for an input and a state that do not fit."""
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """A state with its batch in another order."""
        return hx if permutation is None else hx.index_select(1, permutation)

    def _as_state(self, hx: Any) -> State:
        """The state that users see as the tuple that is computed with."""
        return (hx,)

    def _as_seen(self, state: State) -> Any:
        return state[0]

    def _sizes_at_start(self, input: Tensor, batch_sizes: Tensor | None) -> list[tuple[int, ...]]:
        return [self._state_size(input, batch_sizes, self._width())]

    def _start(self, input: Tensor, hx: Any, batch_sizes: Tensor | None) -> State:
        """The first state [layers * directions, batch, *], checked. Raises ShapeError."""
        if hx is None:
            self.check_input(input, batch_sizes)
            zeros = {"dtype": input.dtype, "device": input.device}
            sizes = self._sizes_at_start(input, batch_sizes)
            hx = self._as_seen(tuple(lazyt.zeros(size, **zeros) for size in sizes))
        self.check_forward_args(input, hx, batch_sizes)
        return self._as_state(hx)

    def _run(self, input: Tensor, start: State, sizes: list[int] | None) -> tuple[Tensor, State]:
        dropout = self.dropout if self.training else 0.0
        return run_layers(self.mode, input, start, self._layers(), sizes, dropout)

    def _forward_packed(self, packed: PackedSequence, hx: Any) -> tuple[PackedSequence, Any]:
        data, batch_sizes, order, back = packed
        if hx is not None:
            hx = self.permute_hidden(hx, order)
        start = self._start(data, hx, batch_sizes)
        out, end = self._run(data, start, [int(n) for n in batch_sizes.tolist()])
        last = self.permute_hidden(self._as_seen(end), back)
        return PackedSequence(out, batch_sizes, order, back), last

    def _forward_padded(self, input: Tensor, hx: Any) -> tuple[Tensor, Any]:
        batched = input.ndim == 3
        place = 0 if self.batch_first else 1
        if not batched:
            input = input.unsqueeze(place)
            if hx is not None:
                hx = self._as_seen(tuple(part.unsqueeze(1) for part in self._as_state(hx)))
        start = self._start(input, None if hx is None else self.permute_hidden(hx, None), None)
        if input.shape[1 - place] == 0:
            raise LazytError("Expected sequence length to be larger than 0 in RNN")
        steps = input.transpose(0, 1) if self.batch_first else input
        out, end = self._run(steps, start, None)
        out = out.transpose(0, 1) if self.batch_first else out
        if not batched:
            out, end = out.squeeze(place), tuple(part.squeeze(1) for part in end)
        return out, self.permute_hidden(self._as_seen(end), None)

    def extra_repr(self) -> str:
        """Sizes, and settings that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual = {
            "proj_size": 0, "num_layers": 1, "bias": True, "batch_first": False, "dropout": 0,
            "bidirectional": False,
        }  # fmt: skip
        for name, value in usual.items():
            if getattr(self, name) != value:
                text += f", {name}={getattr(self, name)}"
        return text


class _OneState(RNNBase):
    """Layers whose state is the hidden state alone."""

    def forward(self, input: Any, hx: Tensor | None = None) -> tuple[Any, Tensor]:
        """Sequences [L, N, input size] to outputs [L, N, directions * size] and last states.

        ``batch_first`` swaps L and N; without a batch there is no N; a PackedSequence gives one.
        ``hx`` is the first state [layers * directions, N, size], zeros by default. Raises
        ValueError and ShapeError for what does not fit.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            # PyTorch's two classes word it differently.
            ending = "D tensor instead" if self._get_name() == "RNN" else "D instead"
            raise ModeError(
                f"{self._get_name()}: Expected input to be 2D or 3D, got {input.ndim}{ending}"
            )
        if hx is not None and hx.ndim != input.ndim:
            case = "batched 3-D" if input.ndim == 3 else "unbatched 2-D"
            raise ShapeError(
                f"For {case} input, hx should also be {input.ndim}-D but got {hx.ndim}-D tensor"
            )
        return self._forward_padded(input, hx)


def _refuse_projection(settings: dict[str, Any]) -> None:
    if "proj_size" in settings:
        raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")


class RNN(_OneState):
    """Layers of ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` (Elman 1990), or with ``relu``.

    Arguments are those of RNNBase without the mode, with ``nonlinearity`` ("tanh" or "relu") as
    the fourth. Raises ValueError for another nonlinearity.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        if len(args) > 3:
            nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(
                f"Unknown nonlinearity '{nonlinearity}'. Select from 'tanh' or 'relu'."
            )
        super().__init__(f"RNN_{nonlinearity.upper()}", *args, **kwargs)
        self.nonlinearity = nonlinearity


class GRU(_OneState):
    """Layers of gated recurrent units (Cho et al. 2014). Arguments are those of RNNBase without
    the mode and ``proj_size``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _refuse_projection(kwargs)
        super().__init__("GRU", *args, **kwargs)


class LSTM(RNNBase):
    """Layers of long short-term memory (Hochreiter & Schmidhuber 1997). Arguments are those of
    RNNBase without the mode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__("LSTM", *args, **kwargs)

    def get_expected_cell_size(
        self, input: Tensor, batch_sizes: Tensor | None
    ) -> tuple[int, int, int]:
        """The size of a cell state: [layers * directions, N, hidden_size]."""
        return self._state_size(input, batch_sizes, self.hidden_size)

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raises ModeError and ShapeError for an input and states (h, c) that do not fit."""
        self.check_input(input, batch_sizes)
        wanted = self.get_expected_hidden_size(input, batch_sizes)
        self.check_hidden_size(hidden[0], wanted, "Expected hidden[0] size {}, got {}")
        wanted = self.get_expected_cell_size(input, batch_sizes)
        self.check_hidden_size(hidden[1], wanted, "Expected hidden[1] size {}, got {}")

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Any:
        """The states (h, c) with their batch in another order."""
        if permutation is None:
            return hx
        return tuple(part.index_select(1, permutation) for part in hx)

    def _as_state(self, hx: Any) -> State:
        return tuple(hx)

    def _as_seen(self, state: State) -> Any:
        return state

    def _sizes_at_start(self, input: Tensor, batch_sizes: Tensor | None) -> list[tuple[int, ...]]:
        widths = (self._width(), self.hidden_size)
        return [self._state_size(input, batch_sizes, width) for width in widths]

    def forward(
        self, input: Any, hx: tuple[Tensor, Tensor] | None = None
    ) -> tuple[Any, tuple[Tensor, ...]]:
        """Sequences [L, N, input size] to outputs [L, N, directions * size] and last states (h, c).

        ``batch_first`` swaps L and N; without a batch there is no N; a PackedSequence gives one.
        ``hx`` has the first states (h, c), each [layers * directions, N, size], zeros by default.
        Raises ValueError and ShapeError for what does not fit.
        """
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, hx)
        if input.ndim not in (2, 3):
            raise ModeError(f"LSTM: Expected input to be 2D or 3D, got {input.ndim}D instead")
        if hx is not None and not hx[0].ndim == hx[1].ndim == input.ndim:
            case = "batched 3-D" if input.ndim == 3 else "unbatched 2-D"
            raise ShapeError(
                f"For {case} input, hx and cx should also be {input.ndim}-D but got "
                f"({hx[0].ndim}-D, {hx[1].ndim}-D) tensors"
            )
        return self._forward_padded(input, hx)
