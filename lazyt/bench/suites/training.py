"""Steps of training: optimizers over given gradients, and networks with their losses.

The networks are a perceptron, a GPT and a small residual network.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from lazyt.bench.problems import RULES, Array, Training, problem

HEAD_WIDTH = 64
_PER_LAYER = 12


def mlp_loss(t: Any, x: Any, labels: Any, first: Any, one: Any, second: Any, two: Any) -> Any:
    """Cross-entropy of a perceptron with one hidden layer."""
    return t.cross_entropy(t.linear(t.relu(t.linear(x, first, one)), second, two), labels)


def mlp_losses(arrays: list[Array]) -> list[Array]:
    """The losses of three steps of SGD in float64, with gradients written out by hand."""
    x, labels, first, one, second, two = arrays
    first, one, second, two = (w.copy() for w in (first, one, second, two))
    rows, losses = np.arange(len(labels)), []
    for _ in range(3):
        hidden = np.maximum(x @ first.T + one, 0)
        scores = hidden @ second.T + two
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        share = powers / powers.sum(-1, keepdims=True)
        losses.append(-np.log(share[rows, labels]).mean())
        share[rows, labels] -= 1
        share /= len(labels)
        below = share @ second * (hidden > 0)
        second -= 0.1 * share.T @ hidden
        two -= 0.1 * share.sum(0)
        first -= 0.1 * below.T @ x
        one -= 0.1 * below.sum(0)
    return losses


def gpt_arrays(layers: int) -> str:
    """Codes [b, s], the codes that follow them, and the weights of a GPT of width d, v letters."""
    norm = ["ones d", "zeros d"]
    inside = [*norm, "weight 3*d d", "zeros 3*d", "weight d d", "zeros d"]
    inside += [*norm, "weight 4*d d", "zeros 4*d", "weight d 4*d", "zeros d"]
    words = ["labels:v b s", "labels:v b s", "weight v d", "weight s d"]
    return ", ".join([*words, *inside * layers, *norm, "weight v d"])


def gpt_loss(t: Any, codes: Any, following: Any, *weights: Any) -> Any:
    """Mean cross-entropy of the next code."""
    width = (weights[0].shape[1],)
    x = t.embedding(codes, weights[0]) + weights[1]
    for at in range(2, len(weights) - 3, _PER_LAYER):
        x = _block(t, x, width, weights[at : at + _PER_LAYER])
    gain, shift, head = weights[-3:]
    scores = t.linear(t.layer_norm(x, width, gain, shift), head)
    return t.cross_entropy(scores.reshape(-1, head.shape[0]), following.reshape(-1))


def _block(t: Any, x: Any, width: tuple[int], weights: Sequence[Any]) -> Any:
    n1, b1, mix, mix_b, out, out_b, n2, b2, up, up_b, down, down_b = weights
    batch, length, _ = x.shape
    parts = t.linear(t.layer_norm(x, width, n1, b1), mix, mix_b)
    parts = t.permute(parts.reshape(batch, length, 3, -1, HEAD_WIDTH), (2, 0, 3, 1, 4))
    mixed = t.scaled_dot_product_attention(parts[0], parts[1], parts[2], is_causal=True)
    x = x + t.linear(t.transpose(mixed, 1, 2).reshape(batch, length, -1), out, out_b)
    hidden = t.linear(t.layer_norm(x, width, n2, b2), up, up_b)
    return x + t.linear(t.gelu(hidden, approximate="tanh"), down, down_b)


_STAGES = 3


def resnet_arrays() -> str:
    """Pictures [b, 3, s, s], labels below 10, and the weights of three stages, c channels first."""
    words = ["b 3 s s", "labels:10 b", "weight c 3 3 3", "ones c", "zeros c"]
    before = "c"
    for stage in range(_STAGES):
        after = "*".join(["c", *["2"] * stage])
        for source in (before, after):
            words += [f"weight {after} {source} 3 3", f"ones {after}", f"zeros {after}"]
        words += [f"weight {after} {before} 1 1"]
        before = after
    return ", ".join([*words, f"weight 10 {before}", "zeros 10"])


def resnet_loss(t: Any, x: Any, labels: Any, *weights: Any) -> Any:
    """Cross-entropy of a residual network with batch normalization as in training."""
    stem, gain, shift = weights[:3]
    x = t.relu(t.batch_norm(t.conv2d(x, stem, None, 1, 1), gain, shift))
    for stage in range(_STAGES):
        w1, g1, s1, w2, g2, s2, side = weights[3 + 7 * stage : 10 + 7 * stage]
        stride = 2 if stage else 1
        y = t.relu(t.batch_norm(t.conv2d(x, w1, None, stride, 1), g1, s1))
        y = t.batch_norm(t.conv2d(y, w2, None, 1, 1), g2, s2)
        x = t.relu(y + t.conv2d(x, side, None, stride))
    return t.cross_entropy(t.linear(t.mean(x, (2, 3)), weights[-2], weights[-1]), labels)


problem(
    "training",
    "train_resnet",
    {"": {"b": 16, "c": 16, "s": 32}, "small": {"b": 4, "c": 8, "s": 16}},
    resnet_arrays(),
    resnet_loss,
    training=Training("momentum", 2),
    tolerance=1e-3,
)
problem(
    "training",
    "train_mlp_adam",
    {"": {"n": 32, "d": 64, "c": 10}, "middle": {"n": 256, "d": 512, "c": 100}},
    "n d, labels:c n, weight d d, zeros d, weight c d, zeros c",
    mlp_loss,
    training=Training("adam", 2),
    tolerance=1e-4,
)
problem(
    "training",
    "train_gpt_one_layer",
    {"": {"b": 4, "s": 64, "d": 128, "v": 500}},
    gpt_arrays(1),
    gpt_loss,
    training=Training("adamw", 2),
    tolerance=1e-4,
)


# Steps of optimizers over given gradients.


_SIZES = {
    "small": {"n": 64},
    "middle": {"n": 512},
    "large": {"n": 2500},
    "prime": {"n": 509},
}
for _rule in RULES:
    problem(
        "optimizers",
        f"optimizer_{_rule}",
        _SIZES,
        "n n, 4*n n, n, n n, 4*n n, n",
        lambda t, *arrays: arrays[len(arrays) // 2],
        training=Training(_rule, 3, gradients=True),
    )
