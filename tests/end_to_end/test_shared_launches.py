"""Independent computations that are one program share a launch; their bits stay what they were."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import lazyt as lt
from lazyt import Tensor, nn, optim
from lazyt.config import config

pytestmark = [pytest.mark.usefixtures("module_cache"), pytest.mark.lazy]

#: 100 parameters: matrices, vectors, kernels of convolutions, single numbers, one of 40,000.
SHAPES = [
    shape
    for n in range(25)
    for shape in (((8 + n % 3, 5), (200, 200)[: 2 * (n == 7)] or (n + 1,), (3, 1, n % 5 + 1), ()))
]


def floats(shape: Sequence[int], seed: int) -> Tensor:
    values = np.random.default_rng(seed).standard_normal(shape)
    return lt.tensor(np.asarray(values, np.float32))


def parameters(count: int = 100) -> list[nn.Parameter]:
    return [nn.Parameter(floats(shape, n)) for n, shape in enumerate(SHAPES[:count])]


def states(optimizer: optim.Optimizer) -> list[Tensor]:
    found = (v for s in optimizer.state.values() for v in s.values())
    return [v for v in found if isinstance(v, Tensor)]


def steps(
    make: Callable[[Any], optim.Optimizer], count: int, size: int = 100
) -> tuple[list[int], list[Tensor]]:
    """Kernels of each step over ``size`` parameters, and where they lead."""
    chosen = parameters(size)
    optimizer = make(chosen)
    kernels = []
    for step in range(count):
        for number, parameter in enumerate(chosen):
            # Pending, as steps on values in memory are captured.
            parameter.grad = 1 * floats(parameter.shape, 1000 * step + number)
        optimizer.step()
        pending = [*chosen, *states(optimizer)]
        kernels.append(len(lt.explain(*pending).kernels))
        lt.realize(*pending)
    return kernels, [*chosen, *states(optimizer)]


OPTIMIZERS: dict[str, Callable[[Any], optim.Optimizer]] = {
    "sgd": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9),
    "nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "adam": lambda p: optim.Adam(p, lr=0.1),
    "amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "adamw": lambda p: optim.AdamW(p, lr=0.1),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1),
    "adadelta": lambda p: optim.Adadelta(p, lr=0.1),
    "nadam": lambda p: optim.NAdam(p, lr=0.1),
    "radam": lambda p: optim.RAdam(p, lr=0.1),
    "adamax": lambda p: optim.Adamax(p, lr=0.1),
    "lion": lambda p: optim.Lion(p, lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_over_100_parameters_is_at_most_two_kernels(name: str) -> None:
    kernels, _ = steps(OPTIMIZERS[name], 1)
    assert kernels[0] <= 2


def test_steps_of_adam_are_one_kernel_and_change_no_bit() -> None:
    kernels, found = steps(OPTIMIZERS["adam"], 3, 8)
    assert kernels == [1] * 3
    with config.override(eager=True):
        _, wanted = steps(OPTIMIZERS["adam"], 3, 8)
    for number, (a, b) in enumerate(zip(found, wanted, strict=True)):
        assert a.detach().numpy().tobytes() == b.detach().numpy().tobytes(), number


def test_other_updates_of_all_parameters_are_one_kernel() -> None:
    chosen = parameters()
    for number, parameter in enumerate(chosen):
        parameter.grad = floats(parameter.shape, number)
    grads = [p.grad for p in chosen if p.grad is not None]
    wanted = [g.numpy().clip(-0.5, 0.5) for g in grads]
    nn.utils.clip_grad_value_(chosen, 0.5)
    assert len(lt.explain(*grads).kernels) == 1
    lt.realize(*grads)
    assert all((g.numpy() == w).all() for g, w in zip(grads, wanted, strict=True))
    model = nn.ParameterList(chosen)
    average = optim.swa_utils.AveragedModel(
        model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.5)
    )
    average.update_parameters(model)
    lt.realize(*average.parameters())
    before = [copy.deepcopy(p.detach().numpy()) for p in chosen]
    with lt.no_grad():
        for parameter in chosen:
            parameter.mul_(3.0)
    assert len(lt.explain(*chosen).kernels) == 1
    lt.realize(*chosen)
    average.update_parameters(model)
    assert len(lt.explain(*average.parameters()).kernels) <= 2
    lt.realize(*average.parameters())
    for new, old in zip(average.parameters(), before, strict=True):
        np.testing.assert_allclose(new.detach().numpy(), 2 * old, rtol=1e-6)


def test_a_norm_of_all_gradients_is_two_kernels_and_clipping_one_more() -> None:
    chosen = parameters()
    for number, parameter in enumerate(chosen):
        parameter.grad = floats(parameter.shape, number)
    grads = [p.grad for p in chosen if p.grad is not None]
    wanted = math.sqrt(sum(float((g.numpy().astype(np.float64) ** 2).sum()) for g in grads))
    norm = nn.utils.clip_grad_norm_(chosen, 1.0)
    assert len(lt.explain(norm).kernels) <= 2
    assert len(lt.explain(norm, *grads).kernels) <= 3
    lt.realize(norm, *grads)
    assert norm.item() == pytest.approx(wanted, rel=1e-6)
    after = math.sqrt(sum(float((g.numpy().astype(np.float64) ** 2).sum()) for g in grads))
    assert after == pytest.approx(1.0, rel=1e-5)


def reductions(x: Tensor) -> list[Tensor]:
    # 16-bit values between two operations are rounded where they are not fused.
    norm = (x * x).sum().sqrt() if x.dtype is lt.float32 else x.sum()
    return [norm, x.abs().max(), (x > 0).any(), x.prod()]


@pytest.mark.parametrize("dtype", [lt.float32, lt.bfloat16, lt.int32])
def test_reductions_of_any_length_share_a_launch_and_keep_their_order(dtype: lt.dtype) -> None:
    """Shorter than the lanes, than a block, of many blocks, and of more blocks than one has."""
    lengths = [2, 33, 1023, 1025, 3000]
    if dtype is lt.float32:
        lengths.append(1024 * 1024 + 1)
    xs = [(floats((n,), n) * 3).to(dtype).realize() for n in lengths]
    with config.override(eager=True):
        wanted = [y.tolist() for x in xs for y in reductions(x)]
    for threads in (1, 2):
        with config.override(threads=threads):
            ys = [y for x in xs for y in reductions(x)]
            assert max(k.segments for k in lt.explain(*ys).kernels) == len(lengths)
            lt.realize(*ys)
            assert [y.tolist() for y in ys] == wanted


def test_values_of_a_new_model_are_one_kernel() -> None:
    lt.manual_seed(0)
    made = [lt.randn(shape) for shape in SHAPES]
    assert len(lt.explain(*made).kernels) == 1
    lt.realize(*made)
    with config.override(eager=True):
        lt.manual_seed(0)
        for tensor, shape in zip(made[:5], SHAPES[:5], strict=True):
            assert tensor.numpy().tobytes() == lt.randn(shape).numpy().tobytes()


def test_the_report_says_how_many_and_adds_up() -> None:
    xs = [floats((n,), n).realize() for n in (5, 70, 300)]
    report = lt.explain(*(x * 2 + 1 for x in xs))
    (kernel,) = report.kernels
    assert kernel.segments == 3
    assert kernel.bytes_written == 4 * 375
    # 2 and 1 are inputs where a program of other numbers was met before.
    assert kernel.bytes_read - 4 * 375 in (0, 3 * 8)
    assert kernel.flops == sum(lt.explain(x * 2 + 1).kernels[0].flops for x in xs)
    assert "3 segments" in str(report)
    assert "3 independent runs of one program, over 5 to 300 elements" in str(report)


PROGRAMS: list[Callable[[Tensor, Tensor], list[Tensor]]] = [
    lambda x, s: [x * s + 1],
    lambda x, s: [x.exp(), x.exp() * s],
    lambda x, s: [(x.cumsum(0) if x.ndim else x) * 2, x - s],
    lambda x, s: [lt.where(x > 0, x, s * x), x > s],
    lambda x, s: [x[1:] * 2 if x.ndim else x * 2],
    lambda x, s: [x.transpose(0, -1) + s if x.ndim > 1 else x + s],
]
DTYPES = [lt.float32, lt.float64, lt.float16, lt.bfloat16, lt.int32, lt.bool]
SIZES = st.lists(st.integers(0, 9), max_size=3).map(tuple) | st.tuples(st.integers(4000, 9000))


@settings(max_examples=6, deadline=None)
@given(
    shapes=st.lists(SIZES, min_size=2, max_size=5),
    program=st.integers(0, len(PROGRAMS) - 1),
    dtype=st.sampled_from(DTYPES),
)
def test_sharing_changes_no_bit(
    shapes: list[tuple[int, ...]], program: int, dtype: lt.dtype
) -> None:
    """Whatever the shapes: empty, of one element, equal or not, next to each other or not."""
    assume(dtype is not lt.bool or program != 2)  # bools have no difference
    number = lt.tensor(2.0).to(dtype).realize()

    def results() -> list[Tensor]:
        found: list[Tensor] = []
        for n, shape in enumerate(shapes):
            x = (floats(shape, n) * 3).to(dtype).realize()
            found += PROGRAMS[program](x, number)
        return found

    together = results()
    lt.realize(*together)  # one plan
    with config.override(eager=True):
        alone = results()
    for a, b in zip(together, alone, strict=True):
        assert a.dtype is b.dtype and a.shape == b.shape
        assert a.tolist() == b.tolist()


def test_large_and_tiny_segments_on_several_threads() -> None:
    shapes = [(100_001,), *[(n,) for n in range(1, 40)], (3, 50_000)]
    for threads in (1, 2, 5):
        with config.override(threads=threads):
            xs = [floats(shape, n).realize() for n, shape in enumerate(shapes)]
            ys = [x * x + 0.5 for x in xs]
            assert len(lt.explain(*ys).kernels) == 1
            lt.realize(*ys)
            for x, y in zip(xs, ys, strict=True):
                assert (y.numpy() == x.numpy() * x.numpy() + np.float32(0.5)).all()


def test_what_depends_on_each_other_stays_in_order() -> None:
    """Two towers of the same layers run in lockstep, each layer behind the one before."""
    w = [floats((6, 6), n).realize() for n in range(2)]
    xs = [floats((n, 6), n).realize() for n in (3, 5)]

    def tower(x: Tensor) -> Tensor:
        for weight in w:
            x = (x @ weight).sort(1).values
            for _ in range(3):  # more than a product takes into its operand
                x = (x * 1.5).tanh().cos()
        return x

    ys = [tower(x) for x in xs]
    shared = [k.segments for k in lt.explain(*ys).kernels if k.kind == "map"]
    assert shared == [2] * 2
    lt.realize(*ys)
    with config.override(eager=True):
        for x, y in zip(xs, ys, strict=True):
            assert tower(x).numpy().tobytes() == y.numpy().tobytes()


def test_different_numbers_are_different_programs() -> None:
    a, b = floats((7,), 0).realize(), floats((9,), 1).realize()
    y, z = a * 2, b * 3
    assert len(lt.explain(y, z).kernels) == 2
    lt.realize(y, z)
    assert (y.numpy() == a.numpy() * 2).all() and (z.numpy() == b.numpy() * 3).all()


def test_a_base_that_is_overwritten_is_read_before() -> None:
    x, other = floats((50,), 0).realize(), floats((60,), 1).realize()
    wanted = x.numpy() * 2
    doubled, more = x * 2, other * 2
    x[3:5] = 7.0
    lt.realize(doubled, more, x)
    assert (doubled.numpy() == wanted).all()
    assert (x.numpy()[3:5] == 7).all() and (x.numpy()[5:] == wanted[5:] / 2).all()
