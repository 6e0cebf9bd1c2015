"""From the second size of a dimension on, sizes are arguments: few compilations, the same bits."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from functools import partial

import pytest

import lazyt as lt
from lazyt import Tensor, nn
from lazyt.nn import functional as F
from lazyt.plan import dynamic_shapes, planning
from lazyt.runtime import devices, events
from lazyt.runtime.cpu import execute
from lazyt.runtime.cpython import direct

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]
SIZES = (37, 50, 20, 97)

PROGRAMS: dict[str, Callable[[int], list[Tensor]]] = {
    "sort": lambda n: list(lt.sort(lt.rand(5, n), -1)),
    "running sums": lambda n: [lt.rand(n, 7).cumsum(0)],
    "columns": lambda n: [lt.softmax(lt.rand(n, 9), 0)],
    "rows": lambda n: [F.layer_norm(lt.rand(4, n), (n,))],
    "reads": lambda n: [lt.rand(n, 8)[lt.randint(0, n, (11,))]],
    "parts": lambda n: [lt.cat([lt.rand(n, 3), lt.rand(2 * n, 3)])[3:]],
    "integers": lambda n: [(lt.arange(n * n, dtype=lt.int32) * n) // 7 % n],
    "products": lambda n: [lt.tril(lt.rand(n, n)) @ lt.rand(n, 4), lt.rand(2, n) @ lt.rand(n)],
    "halves": lambda n: [lt.rand(n, 16).bfloat16() @ lt.rand(16, n).bfloat16()],
    "places": lambda n: [lt.rand(6, n).max(1).values, lt.rand(6, n).argmax(1)],
    "loss": lambda n: [F.cross_entropy(lt.rand(n, 17), lt.randint(0, 17, (n,)))],
    "last": lambda n: [lt.sort(lt.rand(2, n, 8), 1).values[:, -1] @ lt.ones(8, 5)],
    "numbers": lambda n: [lt.ones(n)[:, None] * lt.arange(n)[None] + n],
}


def _step(model: nn.Module, x: Tensor) -> list[Tensor]:
    """A model's results and all gradients of their squares."""
    x = x.requires_grad_()
    out = model(x)
    return [out, *lt.autograd.grad(out.square().mean(), [x, *model.parameters()])]


_pictures = partial(lt.rand, 2, 3)


class _Joined(nn.Module):
    """A layer over two pictures' channels, one of them enlarged."""

    def __init__(self, across: int) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 3, 1)
        self.layer = nn.Conv2d(3 if across > 1 else 6, 8, 3, padding=1)
        self.across = across

    def forward(self, x: Tensor) -> Tensor:
        """The layer's results."""
        found: Tensor = self.layer(lt.cat((self.up(x), x), self.across))
        return found


WINDOWS: dict[str, tuple[Callable[[], nn.Module], bool]] = {
    "plain": (lambda: nn.Conv2d(3, 8, 3, padding=1), True),
    "strided": (lambda: nn.Conv2d(3, 8, 3, padding=1, stride=2), False),
    "points": (lambda: nn.Conv2d(3, 20, 1, bias=False), True),
    "depthwise": (lambda: nn.Conv2d(3, 6, 5, padding=2, groups=3), False),
    "transposed": (lambda: nn.ConvTranspose2d(3, 8, 2, 2), False),
    "maxima": (lambda: nn.MaxPool2d(3, 2, 1), False),
    "means": (lambda: nn.AvgPool2d(3, 2, 1), True),
    "joined": (lambda: _Joined(1), False),
    "side by side": (lambda: _Joined(3), False),
    "reflected": (lambda: nn.ReflectionPad2d((1, 2, 3, 0)), True),
    "enlarged": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), True),
    "network": (
        lambda: nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(),
            nn.MaxPool2d(3, 2, 1), nn.Conv2d(8, 8, 1),
        ).eval(),
        False,
    ),
}  # fmt: skip
#: Heights and widths that change independently of each other, of even and odd remainders.
PICTURES = ((41, 60), (50, 47), (33, 38), (64, 81), (57, 44), (36, 70))


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    events.forget()  # a full log forgets an event for each new one, and counts of it stand still
    planning.clear()
    before = lt.config.any_size
    yield
    lt.config.any_size = before
    planning.clear()


def compilations() -> list[str]:
    return [event.reason for event in lt.why_compiled() if event.kind == "compile"]


def at(program: Callable[[int], list[Tensor]], size: int) -> list[Tensor]:
    lt.manual_seed(size)
    results = program(size)
    lt.realize(*results)
    return results


def same_bits(one: Tensor, other: Tensor) -> bool:
    def numbers(x: Tensor) -> bytes:
        plain = x.detach()
        return (plain.float() if plain.dtype is lt.bfloat16 else plain).numpy().tobytes()

    return one.dtype == other.dtype and numbers(one) == numbers(other)


@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_share_kernels_and_keep_their_bits(name: str) -> None:
    program = PROGRAMS[name]
    begin = len(compilations())
    results = [at(program, size) for size in SIZES]
    reasons = compilations()[begin:]
    assert len(reasons) <= 3, reasons
    assert sum("they become arguments" in reason for reason in reasons) >= 1, reasons
    planning.clear()
    lt.config.any_size = False
    for size, result in list(zip(SIZES, results, strict=True))[1:3]:
        own = at(program, size)
        assert all(map(same_bits, own, result)), size


@pytest.mark.parametrize("name", WINDOWS)
def test_pictures_share_kernels_and_keep_their_bits(name: str) -> None:
    make, with_gradients = WINDOWS[name]
    lt.manual_seed(0)
    model = make()

    def program(height: int, width: int) -> list[Tensor]:
        lt.manual_seed(height)
        x = _pictures(height, width).realize()
        results = _step(model, x) if with_gradients else [model(x)]
        lt.realize(*results)
        return results

    lt.realize(*model.parameters(), *model.buffers())
    begin = len(compilations())
    found = [program(*size) for size in PICTURES]
    reasons = compilations()[begin:]
    assert len(reasons) < len(PICTURES), reasons
    assert any("they become arguments" in reason for reason in reasons), reasons
    planning.clear()
    lt.config.any_size = False
    for size, results in zip(PICTURES, found, strict=True):
        assert all(map(same_bits, program(*size), results)), size


@pytest.mark.parametrize("kernel,stride", [(3, 1), (5, 2)])
def test_kernels_of_channels_in_lanes_keep_their_bits(kernel: int, stride: int) -> None:
    lt.manual_seed(0)
    weight = lt.rand(20, 1, kernel, kernel).realize().requires_grad_()

    def slope(height: int, width: int) -> Tensor:
        lt.manual_seed(height)
        x = lt.rand(2, 20, height, width).realize()
        y = F.conv2d(x, weight, None, stride, kernel // 2, groups=20)
        found = lt.autograd.grad(y, [weight], y.detach().realize())[0]
        assert found is not None
        return found

    found = [slope(*size).realize() for size in PICTURES]
    assert any("they become arguments" in reason for reason in compilations())
    assert "a batch in each lane" in str(lt.explain(slope(41, 61)))
    planning.clear()
    lt.config.any_size = False
    for size, values in zip(PICTURES, found, strict=True):
        assert same_bits(slope(*size), values), size


def test_a_first_size_of_one_does_not_part_the_later_ones() -> None:
    x = lt.rand(64, 64).realize()
    begin = len(compilations())
    for size in (1, 20, 37, 25, 41, 63, 29):
        (x[:size] @ x).realize()
    reasons = compilations()[begin:]
    assert len(reasons) <= 4, reasons


def test_a_captured_block_meets_many_lengths() -> None:
    block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True)
    captured = lt.jit(lambda x: block(x).square().mean())
    lengths = [31, 45, *random.Random(0).sample(range(46, 200), 9)]
    counts = []
    for length in lengths:
        x = lt.rand(2, length, 16).realize()
        begin = len(compilations())
        value = captured(x).item()
        again = captured(x).item()
        counts.append(len(compilations()) - begin)
        assert value == again
        if length == lengths[-1]:
            assert value == pytest.approx(block(x).square().mean().item(), rel=1e-6)
    assert sum(map(bool, counts[2:])) <= 1, counts  # two sizes, and one more text at the most


def test_captured_calls_take_any_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels for any size may start threads at every size, so calls of them by C give turns."""

    def step(x: Tensor, w: Tensor) -> list[Tensor]:
        rows = (x @ w).softmax(-1)
        return [rows, rows.sum(0), x.exp() * 2, lt.sort(x, 0).values]

    monkeypatch.setattr(dynamic_shapes, "_OFTEN", 0)  # none gets kernels of its own
    captured = lt.jit(step, fullgraph=True)
    w = lt.rand(24, 40).realize()
    sizes = (37, 50, 3, 20_000, 97)
    inputs = {size: lt.rand(size, 24).realize() for size in sizes}
    begin = len(compilations())
    found: dict[tuple[int, int], list[Tensor]] = {}
    for turn in range(3):
        if turn == 2 and direct.available():  # all is learnt by now: nothing runs by Python

            def refuse(*_: object) -> None:
                raise AssertionError("a captured call went through Python")

            monkeypatch.setattr(execute.Executable, "launch", refuse)
        for count in (1, 2):
            with lt.config.override(threads=count):
                for size in sizes:
                    found[size, count] = captured(inputs[size], w)
                    lt.realize(*found[size, count])
    monkeypatch.undo()
    reasons = compilations()[begin:]
    assert any("they become arguments" in reason for reason in reasons), reasons
    planning.clear()
    lt.config.any_size = False
    for (size, count), results in found.items():
        expected = step(inputs[size], w)
        lt.realize(*expected)
        assert all(map(same_bits, expected, results)), (size, count)


def test_gradients_at_many_sizes() -> None:
    net = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 2))
    lt.realize(*net.parameters())

    def slopes(size: int) -> list[Tensor]:
        loss = net(lt.rand(size, 5)).square().mean()
        found = lt.autograd.grad(loss, list(net.parameters()))
        return [slope for slope in found if slope is not None]

    begin = len(compilations())
    found = [at(slopes, size) for size in (16, 33, 77)]
    assert len(compilations()) - begin <= 3
    planning.clear()
    lt.config.any_size = False
    for size, gradients in zip((16, 33, 77), found, strict=True):
        assert all(map(same_bits, at(slopes, size), gradients))


class _Language(nn.Module):
    """A language model of one block, small."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(50, 32), nn.Embedding(512, 32)
        self.block = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 50, bias=False)

    def forward(self, words: Tensor) -> Tensor:
        """Scores of the next words."""
        x = self.words(words) + self.places(lt.arange(words.shape[1]))
        hidden = nn.Transformer.generate_square_subsequent_mask(words.shape[1])
        scores: Tensor = self.head(self.block(x, src_mask=hidden))
        return scores


@pytest.fixture
def one_mib(monkeypatch: pytest.MonkeyPatch) -> None:
    """Caches of one size on all machines: with others, blocks of two products may be equal at all
    sizes that a text is made from, and differ at another, which then has one more text."""
    known = dataclasses.replace(devices.cpu(), l2=1 << 20)
    monkeypatch.setattr(devices, "cpu", lambda: known)


#: Lengths on both sides of what decides: sums of one block or more, panels that a cache holds.
LENGTHS = (120, 213, 36, 471, 19, 148, 500, 277, 87, 332)


def test_a_model_is_trained_at_many_lengths(one_mib: None) -> None:
    """What only bytes decide, the first length decides: the order of launches, whether a sum is
    split, how products are packed. Each graph has one text for all lengths but its first."""
    model = _Language()
    optimizer = lt.optim.AdamW(model.parameters(), 1e-3)

    @lt.jit
    def step(words: Tensor, targets: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(words).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        return loss

    counts = []
    for length in LENGTHS:
        words = lt.randint(0, 50, (2, length)).realize()
        begin = len(compilations())
        for _ in range(2):
            assert 0 < step(words, words.roll(-1, 1).realize()).item() < 10
        counts.append(len(compilations()) - begin)
    # The first steps of an optimizer, and the first calls, are other graphs.
    assert not any(counts[4:]), counts
    assert not any("more of the text" in reason for reason in compilations())


def test_gradients_of_a_model_keep_their_bits_at_all_lengths(one_mib: None) -> None:
    model = _Language()
    parameters = list(model.parameters())

    def slopes(length: int) -> list[Tensor]:
        words = lt.randint(0, 50, (2, length)).realize()
        loss = F.cross_entropy(model(words).flatten(0, 1), words.roll(-1, 1).flatten())
        found = lt.autograd.grad(loss, parameters)
        return [loss.detach(), *(slope for slope in found if slope is not None)]

    found = [at(slopes, length) for length in LENGTHS]
    assert not any("more of the text" in reason for reason in compilations())
    planning.clear()
    lt.config.any_size = False
    for length, values in list(zip(LENGTHS, found, strict=True))[2:5]:
        assert all(map(same_bits, at(slopes, length), values)), length


def test_sizes_that_are_multiples_of_one_are_probed_as_one() -> None:
    """Targets that lie flat are twice as long as the words: both become arguments at once."""

    def program(n: int) -> list[Tensor]:
        return [F.cross_entropy(lt.rand(2, n, 9).flatten(0, 1), lt.randint(0, 9, (2 * n,)))]

    for size in (40, 311, 23, 500, 411):
        at(program, size)
    assert any("they become arguments" in reason for reason in compilations())
    assert not any("more of the text" in reason for reason in compilations())


def test_one_is_a_size_of_its_own_and_constants_are_no_sizes() -> None:
    for size in (1, 6, 9):
        assert at(lambda n: [lt.ones(n, 4).cumsum(0)], size)[0][-1, 0].item() == size
    begin = len(compilations())
    for axis in (0, 1):
        at(partial(lambda axis, n: [lt.rand(n, n).cumsum(axis)], axis), 12)
    assert not any("they become" in reason for reason in compilations()[begin:])


def test_a_new_process_reads_the_shared_kernels_from_disk() -> None:
    results = [at(PROGRAMS["rows"], size) for size in SIZES[:4]]
    begin = len(compilations())
    planning.clear()
    execute.forget()
    for size, result in zip(SIZES[:4], results, strict=True):
        assert all(map(same_bits, at(PROGRAMS["rows"], size), result))
    assert len(compilations()) == begin


def test_switched_off_every_size_is_compiled() -> None:
    lt.config.any_size = False
    begin = len(compilations())
    for size in (21, 22, 23):
        at(lambda n: [lt.rand(3, n).exp().sum(1)], size)
    assert len(compilations()) - begin == 3


def test_short_lengths_of_attention() -> None:
    """Sums over few elements are written out for one size, and loops for many."""

    def attention(size: int) -> list[Tensor]:
        x = lt.rand(4, size, 8).requires_grad_()
        result = (lt.softmax(x @ x.transpose(1, 2), -1) @ x).square().mean()
        (slope,) = lt.autograd.grad(result, [x])
        assert slope is not None
        return [result.detach(), slope]

    begin, lengths = len(compilations()), (5, 7, 9, 6, 13)
    found = [at(attention, size) for size in lengths]
    assert len(compilations()) - begin <= 3
    planning.clear()
    lt.config.any_size = False
    for size, values in list(zip(lengths, found, strict=True))[1:4]:
        assert all(map(same_bits, at(attention, size), values)), size


@pytest.mark.parametrize("computed", [False, True], ids=["weights pending", "weights computed"])
def test_growing_sequences_are_compiled_a_few_times(computed: bool) -> None:
    lt.manual_seed(0)
    encoder = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    embedding, head = nn.Embedding(10, 16), nn.Linear(16, 10)
    if computed:
        lt.realize(*(p for m in (encoder, embedding, head) for p in m.parameters()))
    sequence = lt.tensor([[1]])
    counts: list[int] = []
    with lt.no_grad():
        for _ in range(16):
            before = len(compilations())
            last = encoder(embedding(sequence))[:, -1]
            sequence = lt.cat([sequence, head(last).argmax(-1, keepdim=True)], 1)
            sequence.tolist()
            counts.append(len(compilations()) - before)
    assert sum(counts) <= 8 and not any(counts[-4:]), counts
