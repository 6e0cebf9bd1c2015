"""A training step of a small GPT with Adam: the same network in PyTorch's API and in JAX.

Weights are arrays that NumPy draws, so that all frameworks start from the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
Step = Callable[[], Any]

#: Layers, width, heads, length of a context, batch, letters.
FULL = (4, 256, 4, 128, 8, 1000)
QUICK = (2, 32, 2, 16, 2, 50)
RATE, BETAS, EPSILON = 1e-3, (0.9, 0.999), 1e-8
PER_LAYER = 12


def gpt_inputs(quick: bool) -> list[Array]:
    """A batch of codes [batch, length + 1], the number of heads, and the weights: embeddings of
    letters and places, 12 arrays a layer, the last normalisation's two, and the head's."""
    layers, width, heads, length, batch, letters = QUICK if quick else FULL
    source = np.random.default_rng(0)

    def matrix(*shape: int) -> Array:
        return source.standard_normal(shape, dtype=np.float32) * np.float32(0.02)

    def norm() -> list[Array]:
        return [np.ones(width, np.float32), np.zeros(width, np.float32)]

    weights = [matrix(letters, width), matrix(length, width)]
    for _ in range(layers):
        weights += norm()
        for rows, columns in ((3 * width, width), (width, width)):
            weights += [matrix(rows, columns), np.zeros(rows, np.float32)]
        weights += norm()
        for rows, columns in ((4 * width, width), (width, 4 * width)):
            weights += [matrix(rows, columns), np.zeros(rows, np.float32)]
    weights += [*norm(), matrix(letters, width)]
    codes = source.integers(0, letters, (batch, length + 1))
    return [codes, np.array(heads), *weights]


def gpt_reference(arrays: list[Array]) -> Array:
    """The loss before the first step, in float64."""
    codes, heads = arrays[0], int(arrays[1])
    weights = [w.astype(np.float64) for w in arrays[2:]]
    x = weights[0][codes[:, :-1]] + weights[1]
    for at in range(2, len(weights) - 3, PER_LAYER):
        n1, b1, mix, mix_b, out, out_b, n2, b2, up, up_b, down, down_b = weights[
            at : at + PER_LAYER
        ]
        batch, length, width = x.shape
        parts = (_norm(x, n1, b1) @ mix.T + mix_b).reshape(batch, length, 3, heads, -1)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads)
        scores[..., np.triu(np.ones((length, length), bool), 1)] = -np.inf
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = powers / powers.sum(-1, keepdims=True) @ v
        x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ out.T + out_b
        hidden = _norm(x, n2, b2) @ up.T + up_b
        inner = math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)
        x = x + 0.5 * hidden * (1 + np.tanh(inner)) @ down.T + down_b
    scores = _norm(x, *weights[-3:-1]) @ weights[-1].T
    top = scores.max(-1, keepdims=True)
    logs = scores - top - np.log(np.exp(scores - top).sum(-1, keepdims=True))
    return -np.take_along_axis(logs, codes[:, 1:, None], -1).mean()


def _norm(x: Array, weight: Array, bias: Array) -> Array:
    centred = x - x.mean(-1, keepdims=True)
    found: Array = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * weight + bias
    return found


def torch_loss(torch: Any, heads: int, codes: Any, weights: list[Any]) -> Any:
    """Mean cross-entropy of the next code, with PyTorch's functions."""
    f = torch.nn.functional
    width = (weights[0].shape[1],)
    x = weights[0][codes[:, :-1]] + weights[1]
    for at in range(2, len(weights) - 3, PER_LAYER):
        n1, b1, mix, mix_b, out, out_b, n2, b2, up, up_b, down, down_b = weights[
            at : at + PER_LAYER
        ]
        batch, length, _ = x.shape
        parts = f.linear(f.layer_norm(x, width, n1, b1), mix, mix_b)
        q, k, v = parts.reshape(batch, length, 3, heads, -1).permute(2, 0, 3, 1, 4)
        mixed = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + f.linear(mixed.transpose(1, 2).reshape(x.shape), out, out_b)
        hidden = f.linear(f.layer_norm(x, width, n2, b2), up, up_b)
        x = x + f.linear(f.gelu(hidden, approximate="tanh"), down, down_b)
    scores = f.linear(f.layer_norm(x, width, *weights[-3:-1]), weights[-1])
    return f.cross_entropy(scores.flatten(0, 1), codes[:, 1:].flatten())


def torch_step(
    torch: Any,
    inputs: list[Any],
    compiled: Callable[..., Any],
    whole: bool,
    finish: Callable[..., None],
) -> Step:
    """A step of Adam. ``compiled`` is applied to it, or to the loss where it is not ``whole``;
    ``finish`` waits for loss and weights."""
    codes, heads, *arrays = inputs
    count = int(heads)
    weights = [w.clone().requires_grad_() for w in arrays]
    optimizer = torch.optim.Adam(weights, lr=RATE, betas=BETAS, eps=EPSILON)

    def loss_of(codes: Any, weights: list[Any]) -> Any:
        return torch_loss(torch, count, codes, weights)

    if not whole:
        loss_of = compiled(loss_of)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_of(codes, weights)
        loss.backward()
        optimizer.step()
        return loss.detach()

    made = compiled(step) if whole else step

    def call() -> Any:
        loss = made()
        finish(loss, *weights)
        return loss

    return call


def jax_loss(jax: Any, heads: int, codes: Any, weights: list[Any]) -> Any:
    """The same in JAX."""
    np_ = jax.numpy

    def norm(x: Any, weight: Any, bias: Any) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        spread = (centred * centred).mean(-1, keepdims=True)
        return centred * jax.lax.rsqrt(spread + 1e-5) * weight + bias

    x = weights[0][codes[:, :-1]] + weights[1]
    for at in range(2, len(weights) - 3, PER_LAYER):
        n1, b1, mix, mix_b, out, out_b, n2, b2, up, up_b, down, down_b = weights[
            at : at + PER_LAYER
        ]
        batch, length, width = x.shape
        parts = (norm(x, n1, b1) @ mix.T + mix_b).reshape(batch, length, 3, heads, -1)
        q, k, v = parts.transpose(2, 0, 3, 1, 4)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads)
        seen = np_.tril(np_.ones((length, length), bool))
        mixed = jax.nn.softmax(np_.where(seen, scores, -np_.inf)) @ v
        x = x + mixed.swapaxes(1, 2).reshape(x.shape) @ out.T + out_b
        hidden = norm(x, n2, b2) @ up.T + up_b
        x = x + jax.nn.gelu(hidden, approximate=True) @ down.T + down_b
    logs = jax.nn.log_softmax(norm(x, *weights[-3:-1]) @ weights[-1].T)
    return -np_.take_along_axis(logs, codes[:, 1:, None], -1).mean()


def jax_step(jax: Any, inputs: list[Any]) -> Step:
    """A step of Adam, as one compiled function that may overwrite its state."""
    codes, heads, *weights = inputs
    count = int(heads)

    def update(codes: Any, number: Any, state: list[Any]) -> Any:
        old = [w for w, _, _ in state]
        loss, slopes = jax.value_and_grad(lambda w: jax_loss(jax, count, codes, w))(old)
        number = number + 1
        new = []
        for (w, m, v), slope in zip(state, slopes, strict=True):
            m = BETAS[0] * m + (1 - BETAS[0]) * slope
            v = BETAS[1] * v + (1 - BETAS[1]) * slope * slope
            size = jax.numpy.sqrt(v / (1 - BETAS[1] ** number)) + EPSILON
            new.append((w - RATE * (m / (1 - BETAS[0] ** number)) / size, m, v))
        return loss, number, new

    function = jax.jit(update, donate_argnums=(1, 2))
    zeros = jax.numpy.zeros_like
    now = [jax.numpy.zeros(()), [(w + 0, zeros(w), zeros(w)) for w in weights]]

    def step() -> Any:
        loss, *now[:] = function(codes, *now)
        return jax.block_until_ready((loss, now))[0]

    return step
