"""Ordinary programs in PyTorch's API: small tensors, loops that look at values, shapes that change.

Each takes the module that it computes with, ``lazyt`` or ``torch``, draws its numbers from a seeded
NumPy generator and gives final results as arrays and numbers. They are what people write who never
think of graphs: whoever runs them for the first time should not wait, and neither later.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Program = Callable[[Any], list[Any]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Enters a program under its name."""
    PROGRAMS[function.__name__] = function
    return function


@program
def kalman_filter(torch: Any) -> list[Any]:
    """A point that moves in a plane, followed through 300 noisy positions."""
    rng = np.random.default_rng(1)
    step = torch.eye(4)
    step[0, 2] = step[1, 3] = 0.1
    look = torch.zeros(2, 4)
    look[0, 0] = look[1, 1] = 1
    drift, noise = 0.01 * torch.eye(4), 0.5 * torch.eye(2)
    state, spread = torch.zeros(4), torch.eye(4)
    surprise = 0.0
    for t in range(300):
        seen = torch.tensor([math.cos(t / 40), math.sin(t / 30)])
        seen = seen + torch.from_numpy(rng.normal(0, 0.1, 2).astype(np.float32))
        state, spread = step @ state, step @ spread @ step.T + drift
        error = seen - look @ state
        cross = look @ spread @ look.T + noise
        inverse = torch.stack([cross[1, 1], -cross[0, 1], -cross[1, 0], cross[0, 0]]).view(2, 2)
        inverse = inverse / (cross[0, 0] * cross[1, 1] - cross[0, 1] * cross[1, 0])
        gain = spread @ look.T @ inverse
        state = state + gain @ error
        spread = (torch.eye(4) - gain @ look) @ spread
        if t % 10 == 0:
            surprise += float(error @ inverse @ error)
    return [state.numpy(), spread.numpy(), surprise]


@program
def hidden_markov_model(torch: Any) -> list[Any]:
    """Forward probabilities and the best path of 60 sequences of different lengths."""
    rng = np.random.default_rng(2)
    jump = torch.from_numpy(rng.dirichlet(np.ones(5), 5)).log()
    emit = torch.from_numpy(rng.dirichlet(np.ones(8), 5)).log()
    total, paths = 0.0, []
    for length in rng.integers(4, 20, 60).tolist():
        word = rng.integers(0, 8, length).tolist()
        forward = best = emit[:, word[0]] - math.log(5)
        back = []
        for letter in word[1:]:
            forward = torch.logsumexp(forward[:, None] + jump, 0) + emit[:, letter]
            best, origin = (best[:, None] + jump).max(0)
            best = best + emit[:, letter]
            back.append(origin)
        total += torch.logsumexp(forward, 0).item()
        state = best.argmax().item()
        path = [state]
        for origin in reversed(back):
            state = origin[state].item()
            path.append(state)
        paths += path
    return [total, np.array(paths)]


@program
def page_rank(torch: Any) -> list[Any]:
    """Ranks of five graphs of different sizes, until they change no more."""
    rng = np.random.default_rng(3)
    found = []
    for size in (20, 35, 50, 80, 120):
        links = torch.from_numpy((rng.random((size, size)) < 0.1).astype(np.float32))
        links = links + torch.eye(size)
        links = links / links.sum(0, keepdim=True)
        rank = torch.full((size,), 1 / size)
        rounds = 0
        while True:
            new = 0.85 * (links @ rank) + 0.15 / size
            rounds += 1
            if (new - rank).abs().sum() < 1e-6 or rounds > 200:
                break
            rank = new
        found += [rank.numpy(), rounds]
    return found


@program
def all_pairs_shortest_paths(torch: Any) -> list[Any]:
    """Floyd and Warshall's algorithm on 40 places, a row and a column at a time."""
    rng = np.random.default_rng(4)
    far = torch.from_numpy(rng.exponential(1.0, (40, 40)) + (rng.random((40, 40)) < 0.7) * 1e6)
    far.fill_diagonal_(0.0)
    for k in range(40):
        far = torch.minimum(far, far[:, k : k + 1] + far[k : k + 1, :])
    reached = far < 1e5
    return [far.numpy(), reached.sum().item(), far[reached].mean().item()]


@program
def q_learning(torch: Any) -> list[Any]:
    """A walk over a grid of 5 x 5 squares, with a table that is written one element at a time."""
    rng = np.random.default_rng(5)
    table = torch.zeros(25, 4)
    lengths = []
    for _ in range(30):
        place, steps = 0, 0
        while place != 24 and steps < 60:
            if rng.random() < 0.2:
                action = int(rng.integers(4))
            else:
                action = int(table[place].argmax())
            x, y = divmod(place, 5)
            moves = ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1))
            x, y = (min(max(c, 0), 4) for c in moves[action])
            new = 5 * x + y
            reward = 1.0 if new == 24 else -0.01
            goal = reward + 0.9 * table[new].max() * (new != 24)
            table[place, action] += 0.5 * (goal - table[place, action])
            place, steps = new, steps + 1
        lengths.append(steps)
    return [np.array(lengths), table.numpy()]


@program
def character_model(torch: Any) -> list[Any]:
    """A recurrent network trained on words of different lengths, then asked for new ones."""
    nn = torch.nn
    rng = np.random.default_rng(6)
    words = ["".join(rng.choice(list("abcde"), n)) for n in rng.integers(3, 9, 40)]
    embed, cell, head = nn.Embedding(7, 12), nn.GRUCell(12, 20), nn.Linear(20, 7)
    parameters = [p for part in (embed, cell, head) for p in part.parameters()]
    with torch.no_grad():
        for p in parameters:
            p.copy_(torch.from_numpy(rng.normal(0, 0.3, tuple(p.shape)).astype(np.float32)))
    optimizer = torch.optim.Adam(parameters, lr=0.02)
    losses = []
    for word in words:
        letters = [5, *("abcde".index(letter) for letter in word), 6]
        h, loss = torch.zeros(1, 20), 0.0
        for now, then in itertools.pairwise(letters):
            h = cell(embed(torch.tensor([now])), h)
            loss = loss + nn.functional.cross_entropy(head(h), torch.tensor([then]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item() / len(letters))
    made = []
    with torch.no_grad():
        for first in range(5):
            h, letter = torch.zeros(1, 20), first
            for _ in range(8):
                h = cell(embed(torch.tensor([letter])), h)
                letter = head(h).argmax(1).item()
                made.append(letter)
    return [np.array(losses), np.array(made)]


@program
def heat_on_grids(torch: Any) -> list[Any]:
    """Heat that spreads over plates of growing size, until it is even enough."""
    found = []
    for size in (8, 12, 17, 23):
        plate = torch.zeros(size, size)
        plate[0, :] = 1.0
        plate[size // 2, size // 2] = 5.0
        for step in range(400):
            inner = (plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]) / 4
            change = (inner - plate[1:-1, 1:-1]).abs().max()
            plate[1:-1, 1:-1] = inner
            if step % 20 == 19 and change < 1e-3:
                break
        found += [plate.numpy(), step]
    return found


@program
def conjugate_gradients(torch: Any) -> list[Any]:
    """Twelve systems of equations of different sizes, each solved to a tolerance."""
    rng = np.random.default_rng(8)
    found = []
    for size in range(10, 70, 5):
        m = torch.from_numpy(rng.standard_normal((size, size)))
        a = m @ m.T + size * torch.eye(size, dtype=torch.float64)
        b = torch.from_numpy(rng.standard_normal(size))
        x, r = torch.zeros_like(b), b.clone()
        p, before = r.clone(), r @ r
        rounds = 0
        while before.sqrt().item() > 1e-8:
            ap = a @ p
            alpha = before / (p @ ap)
            x += alpha * p
            r -= alpha * ap
            now = r @ r
            p = r + now / before * p
            before = now
            rounds += 1
        found += [x.numpy(), rounds]
    return found


@program
def mandelbrot(torch: Any) -> list[Any]:
    """Escape times, with the points that are left getting fewer and fewer."""
    real = torch.linspace(-2, 1, 48).repeat(32)
    imag = torch.linspace(-1.2, 1.2, 32).repeat_interleave(48)
    times = torch.zeros(48 * 32, dtype=torch.int64)
    left = torch.arange(48 * 32)
    x, y = torch.zeros(48 * 32), torch.zeros(48 * 32)
    for step in range(40):
        x, y = x * x - y * y + real[left], 2 * x * y + imag[left]
        inside = x * x + y * y < 4
        times[left[~inside]] = step
        left, x, y = left[inside], x[inside], y[inside]
        if len(left) == 0:
            break
    times[left] = 40
    return [times.numpy(), len(left)]


@program
def particle_filter(torch: Any) -> list[Any]:
    """Two hundred guesses of a hidden place, weighed and drawn anew at each of 80 steps."""
    rng = np.random.default_rng(10)
    places = torch.from_numpy(rng.normal(0, 1, 200).astype(np.float32))
    means, draws = [], 0
    for t in range(80):
        truth = 3 * math.sin(t / 9)
        shift = torch.from_numpy(rng.normal(0, 0.3, 200).astype(np.float32))
        places = places + shift
        weights = torch.exp(-((truth + rng.normal(0, 0.2) - places) ** 2) / 0.5)
        weights = weights / weights.sum()
        means.append((weights * places).sum().item())
        if 1 / (weights**2).sum() < 100:
            sums = weights.cumsum(0)
            ticks = (torch.arange(200) + float(rng.random())) / 200
            places = places[torch.searchsorted(sums, ticks).clamp(max=199)]
            draws += 1
    return [np.array(means), draws]


@program
def metrics_by_group(torch: Any) -> list[Any]:
    """What a notebook does with predictions: masks, counts, means and medians for each class."""
    rng = np.random.default_rng(11)
    scores = torch.from_numpy(rng.standard_normal((300, 6)).astype(np.float32))
    labels = torch.from_numpy(rng.integers(0, 6, 300))
    guess = scores.argmax(1)
    table = torch.zeros(6, 6, dtype=torch.int64)
    for truth, made in zip(labels.tolist(), guess.tolist()):
        table[truth, made] += 1
    report = []
    for group in range(6):
        chosen = labels == group
        mine = scores[chosen]
        right = (guess[chosen] == group).float().mean().item()
        share = chosen.float().mean().item()
        precision = table[group, group].item() / max(table[:, group].sum().item(), 1)
        spread = mine.std(0).max().item()
        middle = mine[:, group].median().item()
        top = mine.topk(2, dim=1).values.mean(0)
        report += [right, share, precision, spread, middle, *top.tolist()]
    near = torch.cdist(scores[:50], scores[50:120])
    report += [near.min(1).values.mean().item(), near.argmin(1).float().mean().item()]
    return [np.array(report), table.numpy()]


@program
def autoencoder(torch: Any) -> list[Any]:
    """Sixty steps on batches of changing size, with a schedule, clipping and checks in between."""
    nn = torch.nn
    rng = np.random.default_rng(12)
    data = torch.from_numpy(rng.standard_normal((400, 20)).astype(np.float32))
    model = nn.Sequential(nn.Linear(20, 12), nn.ReLU(), nn.Linear(12, 3), nn.Linear(3, 20))
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(torch.from_numpy(rng.normal(0, 0.3, tuple(p.shape)).astype(np.float32)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 20, 0.5)
    losses, best = [], math.inf
    for _ in range(60):
        rows = torch.from_numpy(rng.permutation(400)[: rng.integers(20, 40)])
        batch = data[rows]
        loss = ((model(batch) - batch) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append((loss.item(), float(norm)))
        if loss < best:
            best = loss.item()
    return [np.array(losses), best, model[0].weight.detach().numpy()]


@program
def sorting_by_hand(torch: Any) -> list[Any]:
    """Selection sort and a sieve, one element at a time, as in a first lesson."""
    rng = np.random.default_rng(13)
    values = torch.from_numpy(rng.permutation(60).astype(np.int64))
    swaps = 0
    for i in range(60):
        j = i + int(values[i:].argmin())
        if j != i:
            values[i], values[j] = values[j].clone(), values[i].clone()
            swaps += 1
    prime = torch.ones(200, dtype=torch.bool)
    prime[:2] = False
    for n in range(2, 15):
        if prime[n]:
            prime[n * n :: n] = False
    return [values.numpy(), swaps, prime.nonzero().flatten().numpy()]


@program
def sampling_text(torch: Any) -> list[Any]:
    """A small attention model that writes eight lines, each token with a longer past."""
    nn = torch.nn
    rng = np.random.default_rng(14)

    def weights(*shape: int) -> Any:
        return torch.from_numpy(rng.normal(0, 0.4, shape).astype(np.float32))

    embed, query, key, value, out = (
        weights(30, 16),
        *(weights(16, 16) for _ in range(3)),
        weights(16, 30),
    )
    lines = []
    with torch.no_grad():
        for start in range(8):
            tokens = torch.tensor([start])
            for _ in range(16):
                x = embed[tokens]
                q, k, v = x[-1:] @ query, x @ key, x @ value
                mix = torch.softmax(q @ k.T / 4, dim=-1) @ v
                logits = (nn.functional.layer_norm(mix + x[-1:], (16,)) @ out)[0]
                kept = torch.topk(logits, 5)
                sums = torch.softmax(kept.values / 0.8, 0).cumsum(0)
                picked = int((sums < float(rng.random())).sum().clamp(max=4))
                tokens = torch.cat([tokens, kept.indices[picked : picked + 1]])
            lines.append(tokens.numpy())
    return lines
