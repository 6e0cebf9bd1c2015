"""Recurrent layers over whole sequences: RNN, LSTM and GRU."""

from __future__ import annotations

import contextlib
import functools
import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any

from lazyt.errors import LazytError, ShapeError, warn
from lazyt.functional import namespace as lazyt
from lazyt.functional.control.recurrences import Recurrence, recurrence
from lazyt.functional.control.tracing import CannotTrace
from lazyt.handle.autocast import lowered_on_gpu
from lazyt.handle.hooks import capturing
from lazyt.handle.tensor import Tensor
from lazyt.nn import functional as F
from lazyt.nn import init
from lazyt.nn.module import Module
from lazyt.nn.parameter import blank_parameter
from lazyt.nn.utils.rnn import PackedSequence

# What recurrent layers compute: one step of a cell, a sequence of steps, a stack of layers.
#
# The products of all inputs with the input weights are one contraction before the loop; a step adds
# the product with the last hidden state. Equal steps make equal kernels, which are compiled once.


#: The hidden state; for LSTM the cell state too.
State = tuple[Tensor, ...]
#: From the weights, the inputs' part of the gates and the last state to the next state. Plain
#: functions rather than closures, which ``lazyt.jit`` could not watch.
Step = Callable[["Weights", Tensor, State], State]


class Weights:
    """The parameters of one layer in one direction.

    Attributes:
        input, hidden: [gates * size, width] each.
        input_bias, hidden_bias: [gates * size], or None.
        projection: [projected size, size] for an LSTM with one, else None.
    """

    def __init__(
        self,
        input: Tensor,
        hidden: Tensor,
        input_bias: Tensor | None = None,
        hidden_bias: Tensor | None = None,
        projection: Tensor | None = None,
    ) -> None:
        self.input, self.hidden = input, hidden
        self.input_bias, self.hidden_bias = input_bias, hidden_bias
        self.projection = projection


def tanh_step(weights: Weights, x: Tensor, state: State) -> State:
    """``h = tanh(x + W h)`` (Elman 1990)."""
    return ((x + F.linear(state[0], weights.hidden, weights.hidden_bias)).tanh(),)


def relu_step(weights: Weights, x: Tensor, state: State) -> State:
    """``h = relu(x + W h)``."""
    return (F.relu(x + F.linear(state[0], weights.hidden, weights.hidden_bias)),)


def lstm_step(weights: Weights, x: Tensor, state: State) -> State:
    """Input, forget, cell and output gates over a cell state (Hochreiter & Schmidhuber 1997; with a
    projection of the hidden state, Sak et al. 2014)."""
    gates = x + F.linear(state[0], weights.hidden, weights.hidden_bias)
    enter, forget, new, leave = gates.chunk(4, -1)
    cell = forget.sigmoid() * state[1] + enter.sigmoid() * new.tanh()
    hidden = leave.sigmoid() * cell.tanh()
    if weights.projection is not None:
        hidden = F.linear(hidden, weights.projection)
    return hidden, cell


def gru_step(weights: Weights, x: Tensor, state: State) -> State:
    """Reset, update and new gates (Cho et al. 2014), the reset after the product as in cuDNN."""
    (last,) = state
    from_input = x.chunk(3, -1)
    from_hidden = F.linear(last, weights.hidden, weights.hidden_bias).chunk(3, -1)
    reset = (from_input[0] + from_hidden[0]).sigmoid()
    update = (from_input[1] + from_hidden[1]).sigmoid()
    new = (from_input[2] + reset * from_hidden[2]).tanh()
    return ((last - new) * update + new,)


#: By PyTorch's name of the mode: the step, and how many gates it has.
STEPS: dict[str, tuple[Step, int]] = {
    "RNN_TANH": (tanh_step, 1),
    "RNN_RELU": (relu_step, 1),
    "LSTM": (lstm_step, 4),
    "GRU": (gru_step, 3),
}


def cell(mode: str, input: Tensor, state: State, weights: Weights) -> State:
    """One step: [N, input size] and [N, size] to the next state. Raises ShapeError."""
    gates = F.linear(input, weights.input, weights.input_bias)
    return STEPS[mode][0](weights, gates, state)


def run(
    cell: tuple[Step, Weights],
    gates: Tensor,
    start: State,
    sizes: Sequence[int] | None,
    reverse: bool,
) -> tuple[Tensor, State]:
    """All steps in one direction.

    Args:
        cell: what a step computes, and with which weights.
        gates: the inputs' part: [L, N, *]; with ``sizes`` packed as [sum of sizes, *].
        start: the first state, [N, *].
        sizes: how many sequences go on at each time, falling; None where all have length L.

    Returns: hidden states laid out as ``gates``, and the last state of every sequence.
    """
    if sizes is not None:
        return _run_packed(cell, gates, start, sizes, reverse)
    step, weights = cell
    if _is_loop(gates):
        with contextlib.suppress(CannotTrace):
            given = [weights.hidden, weights.hidden_bias, weights.projection]
            constants = [item for item in given if item is not None]
            has = tuple(item is not None for item in given)
            return recurrence(_recurrence(step, has), constants, start, gates, reverse)
    steps = gates.unbind(0)
    states, state = [], start
    for x in reversed(steps) if reverse else steps:
        state = step(weights, x, state)
        states.append(state[0])
    if reverse:
        states.reverse()
    return lazyt.stack(states), state


#: Steps up to which a captured function has them as one graph, which then has a fast path.
_UNROLLED = 40


def _is_loop(gates: Tensor) -> bool:
    """Whether the steps are a loop of the graph, which is compiled once for all lengths."""
    length = gates.shape[0]
    return length > 1 and (capturing() is None or length > _UNROLLED)


@functools.cache
def _recurrence(step: Step, has: tuple[bool, ...]) -> Recurrence:
    """A step as a function of its weights in order, of those that there are."""

    places = [sum(has[:place]) if flag else None for place, flag in enumerate(has)]

    def run_step(given: Sequence[Tensor], x: Tensor, state: Sequence[Tensor]) -> State:
        hidden, bias, projection = [None if place is None else given[place] for place in places]
        assert hidden is not None
        return step(Weights(hidden, hidden, None, bias, projection), x, tuple(state))

    return run_step


def _run_packed(
    cell: tuple[Step, Weights], gates: Tensor, start: State, sizes: Sequence[int], reverse: bool
) -> tuple[Tensor, State]:
    step, weights = cell
    steps = gates.split(list(sizes))
    if reverse:
        return _run_growing(cell, steps, start)
    states: list[Tensor] = []
    finished: list[State] = []
    state = tuple(part[: len(steps[0])] for part in start)
    for x in steps:
        if len(x) < len(state[0]):
            finished.append(tuple(part[len(x) :] for part in state))
            state = tuple(part[: len(x)] for part in state)
        state = step(weights, x, state)
        states.append(state[0])
    ends = [state, *reversed(finished)]
    return lazyt.cat(states), tuple(lazyt.cat(parts) for parts in zip(*ends))


def _run_growing(
    cell: tuple[Step, Weights], steps: Sequence[Tensor], start: State
) -> tuple[Tensor, State]:
    """From the end of the longest sequence; others join where they end."""
    step, weights = cell
    states: list[Tensor] = []
    state = tuple(part[:0] for part in start)
    for x in reversed(steps):
        here = len(state[0])
        if len(x) > here:
            joining = tuple(part[here : len(x)] for part in start)
            state = tuple(lazyt.cat(pair) for pair in zip(state, joining)) if here else joining
        state = step(weights, x, state)
        states.append(state[0])
    states.reverse()
    return lazyt.cat(states), state


def run_layers(
    mode: str,
    input: Tensor,
    start: State,
    layers: Sequence[Sequence[Weights]],
    sizes: Sequence[int] | None,
    dropout: float,
) -> tuple[Tensor, State]:
    """Layers above each other, each in one or two directions.

    Args:
        input: [L, N, input size], or packed as ``run`` has it.
        start: states [layers * directions, N, *].
        dropout: between the layers; 0 outside of training.

    Returns: hidden states of the last layer, both directions side by side, and all last states.
    """
    step = STEPS[mode][0]
    ends: list[State] = []
    for number, directions in enumerate(layers):
        if number and dropout:
            input = F.dropout(input, dropout)
        outputs = []
        for backwards, weights in enumerate(directions):
            own = tuple(part[len(ends)] for part in start)
            gates = F.linear(input, weights.input, weights.input_bias)
            output, end = run((step, weights), gates, own, sizes, bool(backwards))
            outputs.append(output)
            ends.append(end)
        input = outputs[0] if len(outputs) == 1 else lazyt.cat(outputs, -1)
    return input, tuple(lazyt.stack(parts) for parts in zip(*ends))


# Single steps of recurrent networks: RNNCell, LSTMCell and GRUCell.


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
