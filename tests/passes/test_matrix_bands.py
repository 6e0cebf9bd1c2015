"""Factorizations of many small matrices and what goes with them, matrix by matrix, as one launch:
the same bits, with threads and without, for any number of matrices."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, config, linalg


@pytest.fixture(autouse=True)
def fused() -> Iterator[None]:
    """Fused kernels from the first run on, verified."""
    names = ("tier", "verify", "bands", "any_size", "eager")
    before, threads = [getattr(config, name) for name in names], lazyt.get_num_threads()
    config.tier, config.verify, config.bands = 1, True, True
    config.any_size = config.eager = False
    yield
    for name, value in zip(names, before, strict=True):
        setattr(config, name, value)
    lazyt.set_num_threads(threads)


def random(*shape: int) -> Tensor:
    """Numbers that are there."""
    return lazyt.randn(*shape).realize()


def kernels(*results: Tensor) -> list[str]:
    """The kinds of kernels."""
    return [kernel.kind for kernel in lazyt.explain(*results).kernels]


def compare(program: Callable[..., Any], *given: Tensor) -> list[str]:
    """Both ways and with two threads; gives the kinds of the kernels."""
    results = []
    for bands, threads in ((False, 1), (True, 1), (True, 2)):
        config.bands = bands
        lazyt.set_num_threads(threads)
        found = program(*given)
        found = list(found) if isinstance(found, (tuple, list)) else [found]
        kinds = kernels(*found)
        lazyt.realize(*found)
        results.append([value.numpy().tobytes() for value in found])
    assert results[0] == results[1] == results[2]
    return kinds


def distances(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A product, a factorization, another product and sums of each."""
    factor = linalg.cholesky_ex(a @ a.mT + lazyt.eye(a.shape[-1])).L
    white = linalg.solve_triangular(factor, b, upper=False)
    return white, (white * white).sum((1, 2)).sqrt()


@pytest.mark.parametrize("count", [128, 500, 1009])
def test_one_launch_with_the_same_bits(count: int) -> None:
    lazyt.manual_seed(count)
    assert compare(distances, random(count, 5, 5), random(count, 5, 2)) == ["band"]


@pytest.mark.parametrize("size", [1, 3, 8, 12])
def test_sizes(size: int) -> None:
    lazyt.manual_seed(size)
    a = random(150, size, size)

    def program(a: Tensor) -> tuple[Tensor, ...]:
        u, s, v = linalg.svd((a - a.mean(2, keepdim=True)) * 2)
        q, r = linalg.qr(a)
        return (u * s[:, None]) @ v, q @ r - a, linalg.det(a + 1).exp(), linalg.inv_ex(a).info + 1

    assert "band" in compare(program, a)


def test_few_matrices_and_single_launches_stay_apart() -> None:
    lazyt.manual_seed(0)
    assert "band" not in compare(distances, random(20, 4, 4), random(20, 4, 1))
    assert "band" not in compare(lambda a: linalg.inv_ex(a).inverse, random(200, 4, 4))


def test_matrices_that_see_others() -> None:
    """Reversed along the batch, numbered, of one that all have, and folded over all of them."""
    lazyt.manual_seed(1)
    a, b = random(200, 3, 3), random(3, 3)
    numbers = lazyt.arange(200.0)[:, None, None]

    def reversed_(a: Tensor) -> Tensor:
        return linalg.inv_ex(a.flip(0) * 2).inverse.flip(0) @ a

    def numbered(a: Tensor) -> Tensor:
        return (linalg.inv_ex(a + numbers).inverse * numbers) @ a

    def counted(a: Tensor) -> Tensor:
        places = lazyt.arange(200)[:, None, None]
        return (linalg.inv_ex(a).inverse * places) @ a + places

    def common(a: Tensor, b: Tensor) -> Tensor:
        return b @ linalg.inv_ex(a @ b).inverse @ b + b

    def folded(a: Tensor) -> tuple[Tensor, Tensor]:
        inverse = linalg.inv_ex(a @ a).inverse
        middle = inverse.mean(0)
        return (inverse - middle) @ a, middle

    def shifted(a: Tensor) -> Tensor:
        inverse = linalg.inv_ex(a * 3).inverse @ a
        return inverse[1:] @ inverse[:-1]

    compare(reversed_, a)
    compare(numbered, a)
    compare(counted, a)
    assert compare(common, a, b) == ["band"]
    compare(folded, a)
    compare(shifted, a)


def test_a_value_that_waits_for_all_matrices_stays_outside() -> None:
    """Of what reads a sum over the batch nothing runs before the sum is there."""
    lazyt.manual_seed(2)
    a = random(300, 4, 4)

    def program(a: Tensor) -> Tensor:
        inverse = linalg.inv_ex(a @ a.mT + lazyt.eye(4)).inverse @ a
        whole = inverse.abs().sum()
        return linalg.solve_ex(inverse / whole, a).result @ a

    assert compare(program, a).count("band") >= 1


def test_several_axes_of_a_batch_and_two_batches() -> None:
    lazyt.manual_seed(3)
    a, b, c = random(20, 15, 3, 3), random(170, 4, 4), random(200, 3, 3)

    def program(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        def one(x: Tensor) -> Tensor:
            return linalg.inv_ex(x * 2 + 1).inverse @ x

        return one(a), one(b), one(c), one(a.flatten(0, 1)[:200])

    assert compare(program, a, b, c).count("band") == 2


def test_gradients() -> None:
    lazyt.manual_seed(4)
    a = random(300, 4, 4)

    def program(a: Tensor) -> list[Tensor]:
        x = a.detach().requires_grad_()
        loss = linalg.eigh(x @ x.mT)[0].sqrt().sum() + linalg.slogdet(x)[1].sum()
        loss.backward()
        assert x.grad is not None
        return [loss.detach(), x.grad]

    assert "band" in compare(program, a)


def test_what_is_in_a_launch_is_said() -> None:
    explained = str(lazyt.explain(*distances(random(400, 4, 4), random(400, 4, 1))))
    assert "launches run as one, some of 400 matrices at a time" in explained
    assert "matrices at a time, " in explained and "bytes of scratch a thread" in explained


def align(first: Tensor, second: Tensor) -> tuple[Tensor, Tensor]:
    """As ``examples/alignment.py`` does it."""
    p = first - first.mean(1, keepdim=True)
    q = second - second.mean(1, keepdim=True)
    u, _, vh = linalg.svd(p.mT @ q)
    mirrored = linalg.det(u) * linalg.det(vh) < 0
    last = lazyt.where(mirrored, -1.0, 1.0).reshape(-1, 1, 1)
    found = (vh.mT * lazyt.cat([lazyt.ones_like(last).expand(-1, 1, 2), last], 2)) @ u.mT
    return found, (p @ found.mT - q).pow(2).sum((1, 2)).div(p.shape[1]).sqrt()


def follow(
    state: Tensor, spread: Tensor, seen: Tensor, moves: Tensor, pushes: Tensor
) -> tuple[Tensor, Tensor]:
    """As ``examples/tracking.py`` does it, a step."""
    state = moves @ state
    spread = moves @ spread @ moves.mT + pushes
    gain = linalg.solve_ex(spread[:, :3, :3] + 0.16 * lazyt.eye(3), spread[:, :3])[0].mT
    state = state + gain @ (seen - state[:, :3])
    rest = lazyt.eye(6) - lazyt.nn.functional.pad(gain, (0, 3))
    return state, rest @ spread @ rest.mT + 0.16 * (gain @ gain.mT)


@pytest.mark.parametrize("count", [300, 2011])
def test_alignment_and_tracking_take_one_launch(count: int) -> None:
    lazyt.manual_seed(5)
    points = random(count, 20, 3), random(count, 20, 3)
    step = lazyt.jit(align)
    for _ in range(3):
        found = step(*points)
    assert [kernel.kind for kernel in step.explain().kernels] == ["band"]
    config.bands = False
    assert all(lazyt.equal(x, y) for x, y in zip(found, align(*points), strict=True))
    moves, pushes, spread = random(6, 6), random(6, 6), random(count, 6, 6)
    given = random(count, 6, 1), spread @ spread.mT, random(count, 3, 1), moves, pushes @ pushes.mT
    assert compare(follow, *(value.realize() for value in given)) == ["band"]


def test_values_of_launches_are_those_of_the_interpreter() -> None:
    """Of the kernel as phases over all matrices."""
    config.verify = "values"
    lazyt.manual_seed(6)
    white, sums = distances(random(140, 3, 3), random(140, 3, 1))
    lazyt.realize(white, sums)
