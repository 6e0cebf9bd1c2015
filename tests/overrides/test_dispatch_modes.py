"""``__torch_dispatch__``: modes and classes are asked about the operators that PyTorch's are.

The lists of operators are those that PyTorch 2.13 prints for the same lines.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import lazyt as torch
import lazyt.nn.functional as F
from lazyt import library
from lazyt.compat.served.packages import aten
from lazyt.errors import GradientError, LazytError
from lazyt.functional import overriding
from lazyt.subclasses import aten_queries as queries
from lazyt.subclasses.aten_schemas import schema_of, schemas_of
from lazyt.subclasses.dispatch_modes import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode,
    _get_current_dispatch_mode_stack,
    is_traceable_wrapper_subclass,
    return_and_correct_aliasing,
    transform_subclass,
)
from lazyt.utils import _pytree as pytree


class Log(TorchDispatchMode):
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.ops.append(str(func).removeprefix("aten."))
        return func(*args, **(kwargs or {}))


x = torch.arange(12.0).reshape(3, 4) / 7
w, b = torch.ones(5, 4), torch.zeros(5)
CASES: list[tuple[Callable[[], Any], str]] = [
    (lambda: x + 1, "add.Tensor"),
    (lambda: x.add(x, alpha=2), "add.Tensor"),
    (lambda: x / 2, "div.Tensor"),
    (lambda: x > 0, "gt.Scalar"),
    (lambda: x == x, "eq.Tensor"),
    (lambda: x**2, "pow.Tensor_Scalar"),
    (lambda: x.sum(), "sum.default"),
    (lambda: x.sum(0, keepdim=True), "sum.dim_IntList"),
    (lambda: x.mean(0), "mean.dim"),
    (lambda: x.max(0), "max.dim"),
    (lambda: x.std(), "std.correction"),
    (lambda: x.norm(), "linalg_vector_norm.default"),
    (lambda: x.t() @ x, "t.default mm.default"),
    (lambda: x @ x[0], "select.int mv.default"),
    (lambda: torch.ones(2, 3, 4) @ torch.ones(4, 2),
     "ones.default ones.default view.default mm.default _unsafe_view.default"),
    (lambda: torch.ones(2, 3, 4) @ torch.ones(2, 4, 5),
     "ones.default ones.default expand.default view.default expand.default view.default "
     "bmm.default _unsafe_view.default"),
    (lambda: x.reshape(12), "view.default"),
    (lambda: x.t().reshape(12), "t.default clone.default _unsafe_view.default"),
    (lambda: x.flatten(), "view.default"),
    (lambda: x[:, 1], "select.int"),
    (lambda: x[1:, None], "slice.Tensor unsqueeze.default"),
    (lambda: x[torch.tensor([0, 2])], "lift_fresh.default index.Tensor"),
    (lambda: x.chunk(2), "split.Tensor"),
    (lambda: x.to(torch.float64), "_to_copy.default"),
    (lambda: x.to(torch.float32), ""),
    (lambda: x.contiguous(), ""),
    (lambda: x.shape[0] + x.dim() + x.numel(), ""),
    (lambda: torch.where(x > 0, x, 0.0), "gt.Scalar scalar_tensor.default where.self"),
    (lambda: torch.outer(x[0], x[0]), "select.int select.int view.default mul.Tensor"),
    (lambda: torch.cat([x, x]), "cat.default"),
    (lambda: x.masked_fill(x > 0, 0.0), "gt.Scalar masked_fill.Scalar"),
    (lambda: x[0, 0].item(), "select.int select.int _local_scalar_dense.default"),
    (lambda: F.softmax(x, dim=1), "_softmax.default"),
    (lambda: F.linear(x, w, b), "t.default addmm.default"),
    (lambda: F.linear(x, w), "t.default mm.default"),
    (lambda: F.linear(x[None], w, b),
     "unsqueeze.default t.default view.default addmm.default view.default"),
    (lambda: F.gelu(F.layer_norm(x, (4,))), "native_layer_norm.default gelu.default"),
    (lambda: F.relu(x, inplace=False), "relu.default"),
    (lambda: F.mse_loss(x, x), "mse_loss.default"),
    (lambda: F.cross_entropy(x, torch.tensor([0, 1, 2])),
     "lift_fresh.default _log_softmax.default nll_loss_forward.default"),
    (lambda: F.embedding(torch.tensor([0, 1]), w), "lift_fresh.default embedding.default"),
    (lambda: F.conv2d(torch.ones(1, 2, 4, 4), torch.ones(3, 2, 3, 3), padding=1),
     "ones.default ones.default convolution.default"),
    (lambda: F.max_pool2d(torch.ones(1, 2, 4, 4), 2),
     "ones.default max_pool2d_with_indices.default"),
    (lambda: F.batch_norm(x, torch.zeros(4), torch.ones(4)),
     "zeros.default ones.default native_batch_norm.default"),
    (lambda: x.clone().add_(1), "clone.default add_.Tensor"),
    (lambda: torch.randn(3).sort(), "randn.default sort.default"),
]  # fmt: skip


@pytest.mark.parametrize("number", range(len(CASES)))
def test_functions_are_taken_apart_as_pytorchs(number: int) -> None:
    function, expected = CASES[number]
    torch.manual_seed(0)
    wanted = function()
    torch.manual_seed(0)
    with Log() as log:
        found = function()
    assert log.ops == expected.split()
    for one, other in zip(pytree.tree_leaves(found), pytree.tree_leaves(wanted), strict=True):
        same = one == other
        assert same if isinstance(same, bool) else bool(same.all())
    assert not overriding.switch.open


def test_what_an_operator_is_told() -> None:
    seen: list[Any] = []

    class Info(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append((func, types, len(args), kwargs, _get_current_dispatch_mode()))
            return func(*args, **(kwargs or {}))

    with Info() as mode:
        assert _get_current_dispatch_mode_stack() == [mode]
        torch.add(x, x, alpha=2)
        x.sum(0, keepdim=True)
    (add, types, count, kwargs, inside), (total, *_) = seen
    assert add is aten.add.Tensor and add.overloadpacket is aten.add and add.namespace == "aten"
    assert (add.name(), add._schema.name, add._schema.overload_name) == (
        "aten::add.Tensor", "aten::add", "Tensor",
    )  # fmt: skip
    assert (types, count, kwargs, inside) == ((), 2, {"alpha": 2}, None)
    assert total is aten.sum.dim_IntList
    assert [item.name for item in total._schema.arguments] == ["self", "dim", "keepdim", "dtype"]
    assert aten.add_.Tensor._schema.is_mutable and aten.view.default.is_view
    assert aten.mm.default._overloadpacket is aten.mm and not aten.mm.default.is_view


def test_modes_change_results_and_nest() -> None:
    class Double(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is aten.mul.Tensor else result

    ones = torch.ones(2)
    with Double():
        assert (ones * ones).tolist() == [2.0, 2.0]
        with _disable_current_modes():
            assert (ones * ones).tolist() == [1.0, 1.0]
    with Log() as outer, Double(), Log() as inner:
        assert (ones * ones).tolist() == [2.0, 2.0]
    assert inner.ops == ["mul.Tensor"] and outer.ops == ["mul.Tensor", "mul.Tensor"]
    with Log() as log, pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError
    ones + ones
    assert log.ops == []


def test_gradients_flow_through_what_a_mode_saw() -> None:
    layer = torch.nn.Linear(4, 2)
    loss = layer(x).relu().sum()
    wanted: Any = torch.autograd.grad(loss, layer.weight)[0]
    with Log() as log:
        found: Any = torch.autograd.grad(layer(x).relu().sum(), layer.weight)[0]
    assert found.tolist() == wanted.tolist()
    assert log.ops[:4] == ["t.default", "addmm.default", "relu.default", "sum.default"]


def test_operators_of_programs_are_asked_about() -> None:
    ones = torch.ones(2)
    op = library.custom_op(
        "dispatch::twice", lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor"
    )
    with Log() as log:
        assert op(ones).tolist() == [2.0, 2.0]
        aten.add.Tensor(x, 1)
        aten.add(x, x)
    assert log.ops == ["dispatch.twice.default", "add.Tensor", "add.Tensor"]


class Wrapped(torch.Tensor):
    """A tensor around another one, as PyTorch's tests log with."""

    elem: torch.Tensor
    seen: list[str] = []
    __torch_function__ = overriding._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elem: torch.Tensor, **named: Any) -> Any:
        made: Any = torch.Tensor._make_wrapper_subclass(
            cls, elem.size(), strides=elem.stride(), dtype=elem.dtype, device=elem.device, **named
        )
        made.elem = elem
        return made

    def __repr__(self) -> str:
        return f"Wrapped({self.elem.tolist()})"

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def inner(value: Any) -> Any:
            return value.elem if isinstance(value, cls) else value

        def outer(value: Any) -> Any:
            return cls(value) if isinstance(value, torch.Tensor) else value

        found = func(*pytree.tree_map(inner, args), **pytree.tree_map(inner, kwargs or {}))
        cls.seen.append(str(func).removeprefix("aten."))
        result = pytree.tree_map(outer, found)
        return return_and_correct_aliasing(func, args, kwargs, result)

    def __tensor_flatten__(self) -> Any:
        return ["elem"], None

    @classmethod
    def __tensor_unflatten__(cls, inner: Any, context: Any, size: Any, stride: Any) -> Any:
        return cls(inner["elem"])


def test_classes_without_memory_are_asked() -> None:
    Wrapped.seen.clear()
    a: Any = Wrapped(torch.arange(6.0).reshape(2, 3))
    assert (a.shape, a.dtype, a.device.type, a.stride(), len(a)) == (
        (2, 3), torch.float32, "cpu", (3, 1), 2,
    )  # fmt: skip
    found: Any = torch.cat([a, a]) @ torch.ones(3)
    assert isinstance(found, Wrapped) and found.elem.tolist() == [3.0, 12.0, 3.0, 12.0]
    transposed: Any = a.t().contiguous()
    assert transposed.add_(1) is transposed and transposed.elem.tolist() == [[1, 4], [2, 5], [3, 6]]
    layer: Any = F.linear(a, torch.ones(2, 3)).relu()
    assert layer.elem.tolist() == [[3.0, 3.0], [12.0, 12.0]]
    assert a[0].elem.tolist() == [0.0, 1.0, 2.0] and repr(torch.zeros_like(a)[0]) == (
        "Wrapped([0.0, 0.0, 0.0])"
    )
    expected = """cat.default mv.default t.default clone.default add_.Tensor mm.default
        relu.default select.int zeros_like.default select.int"""
    assert Wrapped.seen == expected.split()
    assert a.max(1).indices.elem.tolist() == [2, 2]
    with Log() as log:
        assert isinstance(a * 2, Wrapped)
    assert log.ops[0] == "mul.Tensor"
    assert is_traceable_wrapper_subclass(a) and not is_traceable_wrapper_subclass(x)
    assert transform_subclass(a, lambda name, t: t + 1).elem[0, 0] == 1.0


def test_what_classes_without_memory_cannot_do_is_said() -> None:
    with pytest.raises(GradientError, match="has no gradient in lazyt"):
        Wrapped(torch.ones(2), requires_grad=True)

    class Two(torch.Tensor):
        @classmethod
        def __torch_dispatch__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            return NotImplemented

    two: Any = torch.Tensor._make_wrapper_subclass(Two, (2,))
    with pytest.raises(TypeError, match=r"all __torch_dispatch__ handlers returned"):
        torch.exp(two)


def test_schemas_are_pytorchs() -> None:
    assert str(schema_of("mm", "default")) == "aten::mm(Tensor self, Tensor mat2) -> Tensor"
    assert [*schemas_of("mul")][:2] == ["Tensor", "Scalar"]
    with pytest.raises(LazytError, match="not known"):
        schema_of("mm", "strange")
    names = queries._dispatch_get_all_op_names()
    assert "aten::add.Tensor" in names and len(names) > 1500
    assert queries._dispatch_has_kernel("aten::add.Tensor")
    assert not queries._dispatch_has_kernel("aten::no_such")
    assert queries._dispatch_has_kernel_for_dispatch_key("aten::mm", "CPU")
    made = library.custom_op(
        "dispatch::cpu", lambda x: x + 1, mutates_args=(), schema="(Tensor x) -> Tensor",
        device_types="cpu",
    )  # fmt: skip
    has = queries._dispatch_has_kernel_for_dispatch_key
    assert has("dispatch::cpu", "CPU") and not has("dispatch::cpu", "CUDA")
    assert not has("dispatch::cpu", "Meta") and not has("dispatch::cpu", "Autograd")
    made.register_fake(torch.empty_like)
    assert has("dispatch::cpu", "Meta")
    with pytest.raises(LazytError, match="does not exist"):
        has("dispatch::none", "CPU")
    assert queries._get_schema("dispatch::cpu", "").name == "dispatch::cpu"
    assert str(queries._get_schema("aten::t", "")) == "aten::t(Tensor(a) self) -> Tensor(a)"
    assert len(queries._jit_get_schemas_for_operator("aten::add")) > 2
    assert queries.parse_schema_of("a::f(Tensor x) -> Tensor[]").returns[0].is_list


class Flops(TorchDispatchMode):
    """Counts the operations of products, as packages do, and convolutions."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        packet = func._overloadpacket
        if packet in (aten.mm, aten.addmm, aten.bmm):
            a, b = args[-2:]
            self._add(str(packet), 2 * a.numel() * b.shape[-1])
        if packet in (aten.convolution, aten.convolution_backward):
            self._add(str(packet), 1)
        return func(*args, **(kwargs or {}))

    def _add(self, name: str, count: int) -> None:
        self.counts[name] = self.counts.get(name, 0) + count


def _gradients(model: Any, given: Any) -> list[Any]:
    model.zero_grad()
    given.grad = None
    model(given).sum().backward()
    return [t.grad.clone() for t in (given, *model.parameters())]


def test_modes_see_the_products_of_a_backward() -> None:
    torch.manual_seed(0)
    nn = torch.nn
    mlp = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    given = torch.ones(3, 4, requires_grad=True)
    wanted = _gradients(mlp, given)
    with Flops() as flops:
        found = _gradients(mlp, given)
    assert flops.counts == {"aten.addmm": 288, "aten.mm": 576}
    assert all(torch.equal(a, b) for a, b in zip(found, wanted))
    net = nn.Sequential(
        nn.Conv2d(2, 3, 3, padding=1), nn.ReLU(), nn.Conv2d(3, 2, 3), nn.Flatten(), nn.Linear(8, 2)
    )
    images = torch.rand(2, 2, 4, 4, requires_grad=True)
    wanted = _gradients(net, images)
    with Flops() as flops:
        found = _gradients(net, images)
    assert flops.counts == {
        "aten.convolution": 2, "aten.addmm": 64, "aten.mm": 128, "aten.convolution_backward": 2,
    }  # fmt: skip
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, wanted))


def test_gradients_of_gradients_ask_as_well() -> None:
    def energy(q: Any) -> Any:
        total = (q @ q.transpose(1, 2)).exp().sum()
        slope: Any = torch.autograd.grad(total, q, create_graph=True)[0]
        return slope.sum()

    q: Any = (torch.arange(24.0) / 24).reshape(2, 3, 4).requires_grad_()
    energy(q).backward()
    wanted, q.grad = q.grad, None
    with Flops() as flops:
        energy(q).backward()
    assert flops.counts == {"aten.bmm": 1296}
    assert torch.allclose(q.grad, wanted)
    with Flops() as flops:
        loss: Any = F.linear(x, torch.ones(5, 4, requires_grad=True), torch.ones(5)).sum()
    loss.backward()
    assert flops.counts == {"aten.addmm": 120}


def test_convolutions_give_their_gradients() -> None:
    torch.manual_seed(0)
    image: Any = torch.rand(1, 2, 5, 5, dtype=torch.float64)
    weight: Any = torch.rand(3, 2, 3, 3, dtype=torch.float64)
    settings = [2, 2], [1, 1], [1, 1], False, [0, 0], 1
    given = torch.rand_like(aten.convolution.default(image, weight, None, *settings))
    inner, kernel = image.clone().requires_grad_(), weight.clone().requires_grad_()
    bias: Any = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    result: Any = F.conv2d(inner, kernel, bias, stride=2, padding=1)
    wanted: Any = torch.autograd.grad(result, (inner, kernel, bias), given)
    mask = [True, True, True]
    found = aten.convolution_backward(given, image, weight, [3], *settings, mask)
    assert all(torch.allclose(a, b) for a, b in zip(found, wanted, strict=True))
    some = aten.convolution_backward(given, image, weight, None, *settings, [False, True, False])
    assert some[0] is None and some[2] is None and torch.equal(some[1], found[1])
