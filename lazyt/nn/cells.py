"""Single steps of recurrent networks: RNNCell, LSTMCell and GRUCell."""

from __future__ import annotations

import math
from typing import Any

import lazyt
from lazyt.cast_mode import lowered_on_gpu
from lazyt.errors import LazytError, ShapeError
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter
from lazyt.nn.recurrence import STEPS, State, Weights, cell
from lazyt.tensor import Tensor


class RNNCellBase(Module):
    """What the cells have in common.

    ``weight_ih`` [chunks * hidden, input], ``weight_hh`` [chunks * hidden, hidden] and the biases
    ``bias_ih``, ``bias_hh`` start uniform over +-1/sqrt(hidden_size), as in PyTorch.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool,
        num_chunks: int,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        rows, made = num_chunks * hidden_size, {"device": device, "dtype": dtype}
        self.weight_ih = blank_parameter(rows, input_size, **made)
        self.weight_hh = blank_parameter(rows, hidden_size, **made)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, blank_parameter(rows, **made) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniform over +-1/sqrt(hidden_size)."""
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0.0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def extra_repr(self) -> str:
        """Sizes, and settings that are not the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def _step(self, mode: str, input: Tensor, given: State | None, names: list[str]) -> State:
        """The next state. ``names`` are what messages call the input and the parts of the state."""
        for name, tensor in zip(names, (input, *(given or ()))):
            if tensor.ndim not in (1, 2):
                raise CellError(
                    f"{self._get_name()}: Expected {name} to be 1D or 2D, "
                    f"got {tensor.ndim}D instead"
                )
        if mode not in STEPS:
            raise LazytError(f"Unknown nonlinearity: {self.nonlinearity}")
        batched = input.ndim == 2
        if not batched:
            input = input.unsqueeze(0)
            given = None if given is None else tuple(part.unsqueeze(0) for part in given)
        if given is None:
            size = (input.shape[0], self.hidden_size)
            zeros = lazyt.zeros(size, dtype=input.dtype, device=input.device)
            given = (zeros,) * (len(names) - 1)
        self._check_sizes(input, given)
        input, *parts = lowered_on_gpu((input, *given))
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        found = cell(mode, input, tuple(parts), weights)
        return found if batched else tuple(part.squeeze(0) for part in found)

    def _check_sizes(self, input: Tensor, state: State) -> None:
        if input.shape[1] != self.input_size:
            raise ShapeError(
                f"input has inconsistent input_size: got {input.shape[1]} expected "
                f"{self.input_size}"
            )
        for number, part in enumerate(state):
            rows, width = part.shape[0], part.shape[min(1, part.ndim - 1)]
            if rows != input.shape[0]:
                raise ShapeError(
                    f"Input batch size {input.shape[0]} doesn't match hidden{number} batch size "
                    f"{rows}"
                )
            if width != self.hidden_size:
                raise ShapeError(
                    f"hidden{number} has inconsistent hidden_size: got {width}, expected "
                    f"{self.hidden_size}"
                )


class CellError(LazytError, ValueError):
    """Operands of a cell that have too many or too few dimensions."""


class RNNCell(RNNCellBase):
    """``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or with ``nonlinearity="relu"``."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """[N, input size] and [N, size], or both without N, to [N, size].

        Raises CellError (a ValueError) and ShapeError for what does not fit, LazytError for an
        unknown nonlinearity.
        """
        given = None if hx is None else (hx,)
        mode = f"RNN_{self.nonlinearity}".upper()
        return self._step(mode, input, given, ["input", "hidden"])[0]


class LSTMCell(RNNCellBase):
    """One step of long short-term memory (Hochreiter & Schmidhuber 1997)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> State:
        """[N, input size] and the states (h, c), [N, size] each, to the next (h, c).

        All may lack N. Raises CellError (a ValueError) and ShapeError for what does not fit.
        """
        return self._step("LSTM", input, hx, ["input", "hx[0]", "hx[1]"])


class GRUCell(RNNCellBase):
    """One step of a gated recurrent unit (Cho et al. 2014)."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """[N, input size] and [N, size], or both without N, to [N, size].

        Raises CellError (a ValueError) and ShapeError for what does not fit.
        """
        given = None if hx is None else (hx,)
        return self._step("GRU", input, given, ["input", "hidden"])[0]
