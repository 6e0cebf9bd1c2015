"""What recurrent layers compute: one step of a cell, a sequence of steps, a stack of layers.

The products of all inputs with the input weights are one contraction before the loop; a step adds
the product with the last hidden state. Equal steps make equal kernels, which are compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import lazyt
from lazyt.nn import functional as F
from lazyt.tensor import Tensor

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
    steps = gates.unbind(0)
    states, state = [], start
    for x in reversed(steps) if reverse else steps:
        state = step(weights, x, state)
        states.append(state[0])
    if reverse:
        states.reverse()
    return lazyt.stack(states), state


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
