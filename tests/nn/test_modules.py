"""Modules: attributes, walking, state dicts, conversion, hooks."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

import lazyt
from lazyt import Tensor, nn


class Net(nn.Module):
    """Two layers, a buffer and a transient buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1, bias=False)
        self.scale = nn.Parameter(lazyt.tensor(2.0))
        self.register_buffer("count", lazyt.tensor([1, 2]))
        self.register_buffer("cache", lazyt.zeros(2), persistent=False)

    def forward(self, x: Tensor, shift: float = 0.0) -> Tensor:
        return self.second(self.first(x).tanh()) * self.scale + shift  # type: ignore[no-any-return]


NAMES = ["scale", "first.weight", "first.bias", "second.weight"]


def test_walking() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert [name for name, _ in net.named_parameters(recurse=False)] == ["scale"]
    assert [name for name, _ in net.named_buffers()] == ["count", "cache"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "second"]
    assert [name for name, _ in net.named_children()] == ["first", "second"]
    assert net.get_parameter("first.bias") is net.first.bias
    assert net.get_submodule("first") is net.first and net.get_submodule("") is net
    assert net.get_buffer("count") is net.count
    with pytest.raises(AttributeError, match="has no attribute `third`"):
        net.get_submodule("third")


def test_shared_parameters_are_counted_once() -> None:
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    net[1].weight = net[0].weight
    assert len(list(net.parameters())) == 3
    assert len(list(net.named_parameters(remove_duplicate=False))) == 4
    assert list(net.state_dict()) == ["0.weight", "0.bias", "1.weight", "1.bias"]


def test_attributes() -> None:
    net = Net()
    with pytest.raises(TypeError, match=r"cannot assign 'lazyt\.FloatTensor' as parameter 'scale'"):
        net.__setattr__("scale", lazyt.ones(1))
    with pytest.raises(KeyError, match="already exists"):
        net.register_buffer("first", None)
    with pytest.raises(KeyError, match="contain"):
        net.add_module("a.b", nn.ReLU())
    with pytest.raises(AttributeError, match="no attribute 'third'"):
        _ = net.third
    net.count = lazyt.tensor([3])  # a buffer stays one
    assert net.state_dict()["count"].tolist() == [3]
    del net.scale
    assert "scale" not in dict(net.named_parameters())
    net.__setattr__("first", None)
    assert [name for name, _ in net.named_children()] == ["second"]

    class Forgetful(nn.Module):
        def __init__(self) -> None:
            self.weight = nn.Parameter(lazyt.ones(1))

    with pytest.raises(AttributeError, match=r"before Module\.__init__\(\)"):
        Forgetful()


def test_parameter_shares_memory_and_drops_history() -> None:
    data = lazyt.ones(2)
    weight = nn.Parameter(data)
    assert weight.requires_grad and weight.is_leaf and isinstance(weight, Tensor)
    with lazyt.no_grad():
        data[0] = 5.0
    assert weight.tolist() == [5.0, 1.0]
    made = nn.Parameter(weight * 2)
    assert made.is_leaf and made.tolist() == [10.0, 2.0]
    assert not nn.Parameter(data, requires_grad=False).requires_grad
    with pytest.raises(RuntimeError, match="floating point"):
        nn.Parameter(lazyt.tensor([1]))
    assert type(weight + 1) is Tensor
    assert repr(nn.Parameter(lazyt.ones(1))) == (
        "Parameter containing:\ntensor([1.], requires_grad=True)"
    )


def test_state_dict_round_trip() -> None:
    net, other = Net(), Net()
    state = pickle.loads(pickle.dumps(net.state_dict()))
    assert list(state) == ["scale", "count", "first.weight", "first.bias", "second.weight"]
    assert not any(value.requires_grad for value in state.values())
    x = lazyt.tensor([[1.0, -1.0]])
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert other(x).tolist() == net(x).tolist()
    with lazyt.no_grad():
        net.scale.zero_()
    assert net.state_dict()["scale"].item() == 0.0 and other.scale.item() == 2.0


def test_state_dict_shares_memory() -> None:
    net = nn.Linear(1, 1)
    kept = net.state_dict()["weight"]
    with lazyt.no_grad():
        net.weight.fill_(7.0)
    assert kept.item() == 7.0
    assert net.state_dict(keep_vars=True)["weight"] is net.weight


def test_what_does_not_fit_is_listed() -> None:
    net = nn.Linear(2, 2)
    state = {"weight": lazyt.ones(2, 3), "extra": lazyt.ones(1)}
    with pytest.raises(RuntimeError) as caught:
        net.load_state_dict(state)
    assert str(caught.value) == (
        "Error(s) in loading state_dict for Linear:\n"
        '\tMissing key(s) in state_dict: "bias". \n'
        '\tUnexpected key(s) in state_dict: "extra". \n'
        "\tsize mismatch for weight: copying a param with shape lazyt.Size([2, 3]) from "
        "checkpoint, the shape in current model is lazyt.Size([2, 2])."
    )
    found = net.load_state_dict({"bias": lazyt.ones(2), "extra": 1}, strict=False)
    assert found.missing_keys == ["weight"] and found.unexpected_keys == ["extra"]
    assert net.bias.tolist() == [1.0, 1.0]


def test_assigning_takes_the_tensors_over() -> None:
    net = nn.Linear(1, 1, bias=False)
    half = lazyt.ones(1, 1, dtype=lazyt.float16)
    net.load_state_dict({"weight": half}, assign=True)
    assert net.weight.dtype is lazyt.float16 and isinstance(net.weight, nn.Parameter)


def test_conversion_keeps_the_parameters() -> None:
    net = Net()
    before = list(net.parameters())
    net(lazyt.ones(1, 2)).backward()
    assert net.to("cpu") is net and net.double() is net
    assert list(map(id, net.parameters())) == list(map(id, before))
    assert {p.dtype for p in net.parameters()} == {lazyt.float64}
    grad = net.first.weight.grad
    assert grad is not None and grad.dtype is lazyt.float64
    assert net.count.dtype is lazyt.int64  # whole numbers stay
    net(lazyt.ones(1, 2, dtype=lazyt.float64)).sum().backward()
    net.to(dtype=lazyt.bfloat16)
    assert net(lazyt.ones(1, 2, dtype=lazyt.bfloat16)).dtype is lazyt.bfloat16
    with pytest.raises(TypeError, match="floating point"):
        net.to(lazyt.int32)
    with pytest.raises(RuntimeError, match="cuda"):
        net.cuda()


def test_modes_and_flags() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 2))
    assert net.eval() is net and not net[0].training
    assert net(lazyt.ones(1, 2)).tolist() == net(lazyt.ones(1, 2)).tolist()
    assert net.train()[0].training
    net.requires_grad_(False)
    assert not any(p.requires_grad for p in net.parameters())
    seen = []
    net.apply(lambda module: seen.append(type(module).__name__))
    assert seen == ["Dropout", "Linear", "Sequential"]
    with pytest.raises(ValueError, match="boolean"):
        net.train(1)  # type: ignore[arg-type]


def test_zero_grad() -> None:
    net = nn.Linear(2, 1)
    net(lazyt.ones(1, 2)).backward()
    net.zero_grad(set_to_none=False)
    assert net.weight.grad is not None and net.weight.grad.tolist() == [[0.0, 0.0]]
    net.zero_grad()
    assert net.weight.grad is None


@pytest.mark.parametrize("through", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_copies_are_independent(through: Any) -> None:
    net = Net()
    twin = through(net)
    x = lazyt.tensor([[0.5, 2.0]])
    assert twin(x).tolist() == net(x).tolist()
    with lazyt.no_grad():
        twin.scale.mul_(3)
    assert twin(x).item() == pytest.approx(3 * net(x).item(), rel=1e-6)
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in twin.parameters())


# ---------------------------------------------------------------------- hooks


def test_forward_hooks() -> None:
    net = nn.Linear(1, 1, bias=False)
    with lazyt.no_grad():
        net.weight.fill_(2.0)
    seen: list[Any] = []
    first = net.register_forward_pre_hook(lambda m, args: (args[0] + 1,))
    second = net.register_forward_hook(lambda m, args, out: seen.append(out.item()))
    third = net.register_forward_hook(lambda m, args, out: out * 10, prepend=True)
    assert net(lazyt.ones(1, 1)).item() == 40.0 and seen == [40.0]
    first.remove()
    third.remove()
    assert net(lazyt.ones(1, 1)).item() == 2.0
    second.remove()
    net(lazyt.ones(1, 1))
    assert seen == [40.0, 2.0]


def test_hooks_see_keywords_when_asked_to() -> None:
    net = Net()

    def double(module: nn.Module, args: Any, kwargs: Any) -> Any:
        return args, {"shift": kwargs["shift"] * 2}

    plain = net(lazyt.ones(1, 2)).item()
    net.register_forward_pre_hook(double, with_kwargs=True)
    assert net(lazyt.ones(1, 2), shift=3.0).item() == pytest.approx(plain + 6, rel=1e-6)


def test_full_backward_hooks() -> None:
    net = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh())
    with lazyt.no_grad():
        net[0].weight.copy_(lazyt.tensor([[1.0, 2.0], [3.0, 4.0]]))
    seen: list[Any] = []

    def watch(module: nn.Module, grad_input: Any, grad_output: Any) -> Any:
        seen.append((grad_input[0].tolist(), grad_output[0].tolist()))
        return (grad_input[0] * 10,)

    net[0].register_full_backward_hook(watch)
    x = lazyt.zeros(1, 2, requires_grad=True)
    net(x).sum().backward()  # tanh has slope 1 at 0
    assert seen == [([[4.0, 6.0]], [[1.0, 1.0]])]
    assert x.grad is not None and x.grad.tolist() == [[40.0, 60.0]]
    assert net[0].weight.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_backward_hooks_of_modules_whose_input_has_no_gradient() -> None:
    net = nn.Linear(1, 1)
    seen: list[Any] = []
    net.register_full_backward_hook(lambda m, gi, go: seen.append((gi, go[0].item())))
    net.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    with pytest.warns(UserWarning, match="Full backward hook is firing"):
        net(lazyt.ones(1, 1)).backward()
    assert seen == [((None,), 2.0)]
    assert net.bias.grad is not None and net.bias.grad.item() == 2.0


def test_copies_of_buffers_stay_out_of_the_state() -> None:
    module = nn.Module()
    module.hidden = nn.Buffer(lazyt.ones(2), persistent=False)
    copied = copy.deepcopy(module)
    assert isinstance(copied.hidden, nn.Buffer) and not copied.hidden.persistent
    module.other = copied.hidden
    assert not module.state_dict() and [n for n, _ in module.named_buffers()] == ["hidden", "other"]
