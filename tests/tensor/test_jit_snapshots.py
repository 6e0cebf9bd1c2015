"""What fast paths compare as words of memory: they notice what looking would have noticed."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import pytest

import lazyt as lt
from lazyt import nn
from lazyt.runtime.cpython import dict_tags, words
from lazyt.tracing import fast_path
from tests.tensor.test_jit_fast_paths import CHANGES, Training, has_fast_path

pytestmark = [
    pytest.mark.lazy,
    pytest.mark.skipif(
        not (dict_tags.available() and fast_path.available()), reason="this interpreter has no tags"
    ),
]


def state_of(captured: Any) -> Any:
    """The words of a captured function's first fast path; None where it has none."""
    calls = captured._fast_paths.calls
    return calls[0].__globals__.get("snapshot") if calls else None


def is_quick(captured: Any) -> bool:
    """Whether the next call finds all as it was."""
    state = state_of(captured)
    return state is not None and state.is_valid


def trained(make: Callable[[Any], Any] = lambda p: lt.optim.SGD(p, 0.1, 0.9)) -> Training:
    """A step whose fast path finds all as it was."""
    made = Training(make)
    made.run(8)
    for _ in range(70):
        if is_quick(made.steps[0]):
            return made
        made.run(1)
    raise AssertionError("the fast path is never quick")


def subclass(net: Any, _: Any) -> None:
    net[0].weight.__class__ = type("Weight", (nn.Parameter,), {"__slots__": ()})


def same_class(net: Any, _: Any) -> None:
    net[0].weight.__class__ = nn.Parameter


def doubled(parameter: Any) -> None:
    parameter.grad.mul_(2)


HOOKS: list[Any] = []
MORE: dict[str, Callable[[Any, Any], Any]] = {
    "attribute": lambda net, opt: setattr(net[0].weight, "note", 1),
    "no attribute": lambda net, opt: delattr(net[0].weight, "note"),
    "hook": lambda net, opt: HOOKS.append(net[0].weight.register_hook(lambda g: g * 0.5)),
    "no hook": lambda net, opt: HOOKS.pop(0).remove(),
    "late hook": lambda net, opt: HOOKS.append(
        net[0].bias.register_post_accumulate_grad_hook(doubled)
    ),
    "no late hook": lambda net, opt: HOOKS.pop(0).remove(),
    "gradient written": lambda net, opt: net[0].weight.grad.mul_(3),
    "gradient replaced": lambda net, opt: setattr(net[0].weight, "grad", net[0].weight.grad * 1),
    "subclass": subclass,
    "same class": same_class,
    "shares": lambda net, opt: setattr(net[0].weight, "data", net[0].weight.data.clone()),
}


def test_changes_between_two_calls_are_noticed() -> None:
    training = trained()
    for change in MORE.values():
        training.run(5, change)
        for _ in range(40):
            if is_quick(training.steps[0]):
                break
            training.run(1)


@pytest.mark.parametrize("name", CHANGES)
def test_what_fast_paths_notice_is_noticed(name: str) -> None:
    trained().run(4, CHANGES[name])


HOLDERS: dict[str, Callable[[Any, Any], Any]] = {
    "gradient": lambda net, opt: net[0].weight.grad,
    "part of a gradient": lambda net, opt: net[0].weight.grad[0],
    "array": lambda net, opt: net[2].bias.grad.numpy(),
    "pending": lambda net, opt: net[0].weight.detach() * 1,
    "copy": lambda net, opt: net[0].weight.detach().clone(),
    "state": lambda net, opt: opt.state[net[0].bias]["momentum_buffer"] + 0,
    "history": lambda net, opt: (net[0].weight * 2).sum(),
}


@pytest.mark.parametrize("name", HOLDERS)
def test_what_a_caller_holds_is_left_alone(name: str) -> None:
    made = trained()
    held = HOLDERS[name](made.nets[0], made.optimizers[0])
    twin = HOLDERS[name](made.nets[1], made.optimizers[1])
    made.run(1)
    assert held.tolist() == twin.tolist()
    before = held.tolist()
    made.run(4)
    assert held.tolist() == before


def test_a_weak_reference_is_enough_to_be_seen() -> None:
    made = trained()
    weak = weakref.ref(made.nets[0][0].weight.grad)
    made.run(2)
    assert weak() is None or weak() is not made.nets[0][0].weight.grad


def test_an_argument_that_is_still_to_be_computed_from_a_parameter() -> None:
    w = lt.ones(4).realize()

    def step(x: Any) -> Any:
        w.mul_(0.5).add_(x)
        return x * 1

    captured: Any = lt.jit(step)
    for _ in range(8):
        captured(lt.ones(4).realize())
    assert is_quick(captured)
    value = w[0].item()
    assert captured(w * 2).tolist() == [value * 2] * 4 and w.tolist() == [value * 2.5] * 4
    assert captured(w * 0).tolist() == [0.0] * 4 and w.tolist() == [value * 1.25] * 4


def turned(index: Any) -> None:
    """By another captured function, in place."""
    add: Any = lt.jit(lambda n: index.add_(n))
    for _ in range(6):
        add(1)


INDEX_CHANGES: dict[str, Callable[[Any], Any]] = {
    "in place": lambda index: index.add_(6), "captured": turned,
    "a part": lambda index: index[1:].add_(6), "values": lambda index: index.copy_(index + 6),
    "data": lambda index: setattr(index, "data", lt.tensor([1, 8, 2])),
    "numpy": lambda index: index.numpy().__iadd__(6),
}  # fmt: skip


@pytest.mark.parametrize("change", INDEX_CHANGES)
def test_an_index_that_stays_is_looked_at_again_when_it_changes(change: str) -> None:
    table, index = lt.rand(6, 2).realize(), lt.tensor([1, 5, 2])

    def rows(scale: Any) -> Any:
        return (table[index] * scale).sum(1)

    def taken() -> Any:
        rows: list[list[float]] = table.tolist()
        return pytest.approx([2 * sum(rows[n]) for n in index.tolist()])

    captured: Any = lt.jit(rows)
    for _ in range(8):
        assert captured(lt.full((2,), 2.0).realize()).tolist() == taken()
    assert is_quick(captured)
    index.copy_(lt.tensor([0, 3, 5]))
    assert captured(lt.full((2,), 2.0).realize()).tolist() == taken()
    for _ in range(8):
        captured(lt.full((2,), 2.0).realize())
    assert is_quick(captured)
    INDEX_CHANGES[change](index)
    with pytest.raises(RuntimeError, match=r"index \d+ is out of bounds"):
        captured(lt.full((2,), 2.0).realize()).tolist()
    index.copy_(lt.tensor([5, 0, 1]))
    assert captured(lt.full((2,), 2.0).realize()).tolist() == taken()


def test_a_schedule_of_the_users_may_hold_what_it_likes() -> None:
    w = nn.Parameter(lt.ones(4))
    optimizer = lt.optim.SGD([w], 0.5)

    def rate(epoch: int) -> float:
        return 1.0

    schedule = lt.optim.lr_scheduler.LambdaLR(optimizer, rate)

    def step(x: Any) -> None:
        optimizer.zero_grad()
        (w * x).sum().backward()
        optimizer.step()
        schedule.step()
        with lt.no_grad():
            w.mul_(0.5)  # what a schedule does behind all writes is no matter

    captured: Any = lt.jit(step)
    for _ in range(20):
        captured(lt.ones(4).realize())
    assert captured.why() == ["captured"] and has_fast_path(captured) and not is_quick(captured)
    expected = 1.0
    for _ in range(20):
        expected = (expected - 0.5) * 0.5
    assert w.tolist() == [expected] * 4 and not fast_path.is_ours(rate)


@pytest.mark.parametrize("kind", [lt.optim.Adam, lt.optim.AdamW, lt.optim.RMSprop])
def test_optimizers_are_quick(kind: Any) -> None:
    trained(lambda p: kind(p, 0.01)).run(3)


def test_words_that_changed_are_found() -> None:
    table: dict[str, int] = {}
    found = words.Words([id(table) + 16, id(None) + 8])
    assert found.hold() and found.first() is None
    table["a"] = 1
    assert not found.hold() and found.first() == 0
    found.take()
    assert found.hold()
    assert words.slot_offset(list, "append") == 0


def test_what_is_never_well_is_looked_for_less_and_less() -> None:
    state = fast_path.Snapshot([], [], [])
    assert [n for n in range(300) if state.record()] == [0, 2, 6, 14, 30, 62, 126, 190, 254]
