"""Level 3: recurrences, attention over the past, and state spaces."""

import math

import torch
from torch import nn

from lazyt.bench.levels import problem

# Recurrences.


class RecurrentCell(nn.Module):
    """A state and an output from an input and the state before."""

    def __init__(self, inputs, hidden, outputs):
        super().__init__()
        self.state = nn.Linear(inputs + hidden, hidden)
        self.out = nn.Linear(hidden, outputs)

    def step(self, x, state):
        """The new state and the output."""
        state = torch.tanh(self.state(torch.cat([x, state], dim=1)))
        return state, self.out(state)


@problem(
    3, 33, "vanilla_rnn", "b i, b h", init=("i", "h", "o"), tolerance=1e-3,
    b=(3, 64, 256), i=(7, 1024, 16384), h=(6, 512, 16384), o=(5, 512, 8192),
)  # fmt: skip
class VanillaRnn(RecurrentCell):
    """One step."""

    def forward(self, x, state):
        return self.step(x, state)[1]


@problem(
    3, 34, "vanilla_rnn_sequence", "t b i, b h", init=("i", "h", "o"), tolerance=1e-3,
    t=(4, 16, 256), b=(3, 8, 8), i=(7, 256, 1024), h=(6, 256, 256), o=(5, 128, 128),
)  # fmt: skip
class VanillaRnnSequence(RecurrentCell):
    """All outputs of a sequence."""

    def forward(self, x, state):
        outputs = []
        for part in x:
            state, output = self.step(part, state)
            outputs.append(output)
        return torch.stack(outputs)


@problem(
    3, 35, "lstm", "b t i, l b h, l b h", init=("i", "h", "l", "o"), tolerance=1e-3,
    t=(4, 24, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 128, 256), l=(2, 2, 6), o=(3, 10, 10),
)  # fmt: skip
class LstmHead(nn.Module):
    """What follows from the last step."""

    def __init__(self, inputs, hidden, layers, outputs):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)
        self.head = nn.Linear(hidden, outputs)

    def forward(self, x, state, memory):
        found, _ = self.lstm(x, (state, memory))
        return self.head(found[:, -1])


@problem(
    3, 36, "lstm_last_state", "b t i, l b h, l b h", init=("i", "h", "l"), tolerance=1e-3,
    t=(4, 24, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 128, 256), l=(2, 2, 6),
)  # fmt: skip
class LstmState(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)

    def forward(self, x, state, memory):
        return self.lstm(x, (state, memory))[1][0]


@problem(
    3, 37, "lstm_last_memory", "b t i, l b h, l b h", init=("i", "h", "l"), tolerance=1e-3,
    t=(4, 24, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 128, 256), l=(2, 2, 6),
)  # fmt: skip
class LstmMemory(nn.Module):
    def __init__(self, inputs, hidden, layers):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True)

    def forward(self, x, state, memory):
        return self.lstm(x, (state, memory))[1][1]


@problem(
    3, 38, "lstm_bidirectional", "b t i, 2*l b h, 2*l b h", init=("i", "h", "l", "o"),
    tolerance=1e-3, t=(4, 16, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 96, 256), l=(1, 1, 6),
    o=(3, 10, 10),
)  # fmt: skip
class LstmBidirectional(nn.Module):
    """What follows from the mean over all steps."""

    def __init__(self, inputs, hidden, layers, outputs):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, layers, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, outputs)

    def forward(self, x, state, memory):
        found, _ = self.lstm(x, (state, memory))
        return self.head(torch.mean(found, dim=1))


@problem(
    3, 39, "gru", "t b i, l b h", init=("i", "h", "l", False), tolerance=1e-3,
    t=(4, 24, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 128, 256), l=(2, 2, 6),
)  # fmt: skip
@problem(
    3, 41, "gru_bidirectional", "t b i, 2*l b h", init=("i", "h", "l", True), tolerance=1e-3,
    t=(4, 16, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 96, 256), l=(1, 1, 6),
)  # fmt: skip
class GruOutputs(nn.Module):
    def __init__(self, inputs, hidden, layers, both_ways):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, layers, bidirectional=both_ways)

    def forward(self, x, state):
        return self.gru(x, state)[0]


@problem(
    3, 40, "gru_last_state", "t b i, l b h", init=("i", "h", "l", False), tolerance=1e-3,
    t=(4, 24, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 128, 256), l=(2, 2, 6),
)  # fmt: skip
@problem(
    3, 42, "gru_bidirectional_last_state", "t b i, 2*l b h", init=("i", "h", "l", True),
    tolerance=1e-3, t=(4, 16, 512), b=(3, 8, 10), i=(5, 64, 128), h=(4, 96, 256), l=(1, 1, 6),
)  # fmt: skip
class GruState(nn.Module):
    def __init__(self, inputs, hidden, layers, both_ways):
        super().__init__()
        self.gru = nn.GRU(inputs, hidden, layers, bidirectional=both_ways)

    def forward(self, x, state):
        return self.gru(x, state)[1]


# Attention over the past.


@problem(
    3, 43, "mingpt_causal_attention", "b t d", init=("d", "h", "t"), tolerance=1e-3,
    b=(2, 2, 128), t=(7, 256, 512), d=(8, 256, 768), h=(2, 4, 8),
)  # fmt: skip
class CausalAttention(nn.Module):
    """Written out: scores, their mask, a softmax, and the sums."""

    def __init__(self, width, heads, length):
        super().__init__()
        self.heads = heads
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        past = torch.tril(torch.ones(length, length, dtype=torch.bool))
        self.register_buffer("past", past)

    def weigh(self, scores):
        """How much each place counts; what comes later has a score of minus infinity."""
        return torch.softmax(scores, dim=-1)

    def forward(self, x):
        length = x.shape[1]
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.mix(x).chunk(3, dim=-1)
        )
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~self.past[:length, :length], float("-inf"))
        return self.out((self.weigh(scores) @ value).transpose(1, 2).flatten(2))


class GeluFormula(nn.Module):
    """By tanh, written out."""

    def forward(self, x):
        inner = math.sqrt(2 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))
        return 0.5 * x * (1.0 + torch.tanh(inner))


@problem(
    3, 44, "minigpt_block", "b t d", init=("d", "h", "t"), tolerance=1e-3,
    b=(2, 2, 128), t=(7, 128, 512), d=(8, 256, 768), h=(2, 4, 8),
)  # fmt: skip
class GptBlock(nn.Module):
    def __init__(self, width, heads, length):
        super().__init__()
        self.first_norm = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads, length)
        self.second_norm = nn.LayerNorm(width)
        self.perceptron = nn.Sequential(
            nn.Linear(width, 4 * width), GeluFormula(), nn.Linear(4 * width, width)
        )

    def forward(self, x):
        x = x + self.attention(self.first_norm(x))
        return x + self.perceptron(self.second_norm(x))


@problem(
    3, 50, "relu_self_attention", "b t d", init=("d", "h", "t"), tolerance=1e-3,
    b=(2, 2, 16), t=(7, 256, 1024), d=(8, 256, 768), h=(2, 4, 12),
)  # fmt: skip
class ReluSelfAttention(CausalAttention):
    """Scores below zero count for nothing, and nothing is normalized."""

    def weigh(self, scores):
        """How much each place counts."""
        return torch.relu(scores)


class RmsNorm(nn.Module):
    """By the root of the mean square, with a factor for each feature."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-6) * self.weight


@problem(
    3, 53, "llama_block", "b t d", init=("d", "h", "g", "f", "t"), tolerance=1e-3,
    b=(2, 2, 8), t=(6, 128, 1024), d=(16, 256, 2048), h=(4, 8, 32), g=(2, 2, 8), f=(20, 704, 5632),
)  # fmt: skip
class LlamaBlock(nn.Module):
    """Rotated queries and keys, of which several queries share one, and a gated perceptron."""

    def __init__(self, width, heads, groups, inner, length):
        super().__init__()
        self.heads, self.groups, size = heads, groups, width // heads
        self.first_norm = RmsNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * size, bias=False)
        self.value = nn.Linear(width, groups * size, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.second_norm = RmsNorm(width)
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)
        rates = 10000.0 ** (-torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(length).float(), rates).repeat(1, 2)
        self.register_buffer("cosine", torch.cos(angles))
        self.register_buffer("sine", torch.sin(angles))

    def _rotated(self, x):
        first, second = x.chunk(2, dim=-1)
        return x * self.cosine + torch.cat([-second, first], dim=-1) * self.sine

    def forward(self, x):
        y = self.first_norm(x)
        query = self._rotated(self.query(y).unflatten(-1, (self.heads, -1)).transpose(1, 2))
        key = self._rotated(self.key(y).unflatten(-1, (self.groups, -1)).transpose(1, 2))
        value = self.value(y).unflatten(-1, (self.groups, -1)).transpose(1, 2)
        key, value = (
            part.repeat_interleave(self.heads // self.groups, dim=1) for part in (key, value)
        )
        mixed = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        y = self.second_norm(x)
        return x + self.down(nn.functional.silu(self.gate(y)) * self.up(y))


# State spaces, in chunks, as Mamba 2 computes them.


def decays(logs):
    """[..., t, t]: exp of the sums of ``logs`` [..., t] from after column to row; else 0."""
    length = logs.shape[-1]
    sums = torch.cumsum(logs, dim=-1)
    apart = sums[..., :, None] - sums[..., None, :]
    past = torch.tril(torch.ones(length, length, dtype=torch.bool, device=logs.device))
    return torch.exp(apart.masked_fill(~past, float("-inf")))


def chunk_states(x, logs, b):
    """The state after each chunk, if it began at zero there: [batch, chunks, heads, p, n]."""
    left = torch.exp(logs.sum(-1, keepdim=True) - torch.cumsum(logs, dim=-1))
    return torch.einsum("bclhn,bhcl,bclhp->bchpn", b, left, x)


def passed_states(states, logs):
    """The states at the beginning of each chunk, and at the end of all."""
    states = torch.cat([torch.zeros_like(states[:, :1]), states], dim=1)
    sums = nn.functional.pad(logs.sum(-1), (1, 0))
    return torch.einsum("bhzc,bchpn->bzhpn", decays(sums), states)


class StateSpace(nn.Module):
    """The parameters, which differ from place to place, are given, as they follow from the input
    in a whole network; what decays per step is a factor between 0 and 1."""

    def __init__(self, chunk):
        super().__init__()
        self.chunk = chunk

    def _chunks(self, tensor):
        return tensor.unflatten(1, (-1, self.chunk))

    def _logs(self, rates):
        return self._chunks(-0.3 * rates).permute(0, 3, 1, 2)


@problem(
    3, 48, "mamba2_return_y", "b t h p, positive b t h, b t h n, b t h n", init=("c",),
    tolerance=1e-3, b=(2, 4, 2048), t=(8, 128, 128), h=(2, 8, 8), p=(3, 64, 64), n=(5, 16, 16),
    c=(4, 64, 64),
)  # fmt: skip
class Mamba2Outputs(StateSpace):
    def forward(self, x, rates, b, c):
        logs = self._logs(rates)
        x, b, c = (self._chunks(tensor) for tensor in (x, b, c))
        within = torch.einsum("bclhn,bcshn,bhcls,bcshp->bclhp", c, b, decays(logs), x)
        states = passed_states(chunk_states(x, logs, b), logs)[:, :-1]
        begun = torch.exp(torch.cumsum(logs, dim=-1))
        across = torch.einsum("bclhn,bchpn,bhcl->bclhp", c, states, begun)
        return (within + across).flatten(1, 2)


@problem(
    3, 49, "mamba2_return_final_state", "b t h p, positive b t h, b t h n", init=("c",),
    tolerance=1e-3, b=(2, 4, 2048), t=(8, 256, 128), h=(2, 8, 8), p=(3, 64, 64), n=(5, 16, 16),
    c=(4, 64, 64),
)  # fmt: skip
class Mamba2State(StateSpace):
    def forward(self, x, rates, b):
        logs = self._logs(rates)
        states = chunk_states(self._chunks(x), logs, self._chunks(b))
        return passed_states(states, logs)[:, -1]
