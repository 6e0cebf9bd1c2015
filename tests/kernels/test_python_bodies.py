"""Operators whose kernels run NumPy: captured, mapped, recorded, on fake tensors, and checked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import lazyt
from lazyt import library
from lazyt.errors import LazytError
from lazyt.export import export
from lazyt.fx.experimental.proxy_tensor import make_fx
from lazyt.library import operators
from lazyt.subclasses.fake_tensors import FakeTensor, FakeTensorMode
from lazyt.tracing.jit import CaptureError


@pytest.fixture(autouse=True)
def _own_namespaces() -> Iterator[None]:
    """Operators of a test end with it."""
    before = dict(operators.namespaces)
    yield
    operators.namespaces.clear()
    operators.namespaces.update(before)


def _product() -> library.CustomOpDef:
    """A product by NumPy, and its gradient by itself."""

    @library.custom_op("body::product", mutates_args=())
    def product(x: lazyt.Tensor, y: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.from_numpy(x.detach().numpy() * y.detach().numpy())

    product.register_fake(lambda x, y: lazyt.empty_like(x))
    product.register_autograd(
        lambda ctx, g: tuple(product(g, other) for other in reversed(ctx.saved_tensors)),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    made: library.CustomOpDef = product
    return made


def _inputs(count: int, *shape: int) -> Iterator[lazyt.Tensor]:
    for number in range(count):
        yield lazyt.arange(float(np.prod(shape))).reshape(shape) - number


@pytest.mark.lazy
def test_a_body_runs_between_two_plans() -> None:
    product = _product()
    function = lazyt.jit(lambda x: (product(x.cos() + 1, x.cos() + 1) * 2).sum(), fullgraph=True)
    for x in _inputs(4, 2, 3):
        assert lazyt.allclose(function(x), (2 * (x.cos() + 1) ** 2).sum())
    assert function.why() == ["captured"]
    table = function.explain()
    assert [kernel.kind for kernel in table.kernels][1:2] == ["python"]
    assert "1 call of Python" in str(table)
    assert "body.product.default(%" in str(next(iter(function._captures.values()))[0][0].plan[0])


@pytest.mark.lazy
def test_gradients_of_a_captured_forward_run_bodies_in_the_backward() -> None:
    product = _product()
    function = lazyt.jit(lambda x: product(x.exp(), x.exp()), fullgraph=True)
    for number in range(4):
        x = (lazyt.arange(3.0) / (number + 1)).requires_grad_()
        function(x).sum().backward()
        assert x.grad is not None
        assert lazyt.allclose(x.grad, 2 * (2 * x.detach()).exp())
    assert function.why() == ["captured"]


@pytest.mark.lazy
def test_a_whole_training_step_is_captured() -> None:
    product = _product()
    results = []
    for captured in (False, True):
        layer = lazyt.nn.Linear(3, 2)
        with lazyt.no_grad():
            layer.weight.fill_(0.1)
            layer.bias.fill_(0.2)
        optimizer = lazyt.optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

        def step(x: Any, layer: Any = layer, optimizer: Any = optimizer) -> Any:
            optimizer.zero_grad()
            h = lazyt.relu(layer(x))
            loss = product(h, h).sum()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run: Any = lazyt.jit(step, fullgraph=True) if captured else step
        losses = [run(x).item() for x in _inputs(5, 2, 3)]
        results.append((losses, layer.weight.tolist()))
        if captured:
            assert run.why()[-1] == "captured"
    assert results[0] == results[1]


def test_each_replay_calls_the_body_once_in_order() -> None:
    calls: list[Any] = []

    @library.custom_op("body::note", mutates_args=())
    def note(x: lazyt.Tensor, name: int) -> None:
        calls.append((name, x.sum().item()))

    def function(x: Any) -> Any:
        note(x, 1)
        note(x + 1, 2)
        return x * 2

    captured = lazyt.jit(function, fullgraph=True)
    for number, x in enumerate(_inputs(5, 2)):
        assert captured(x).tolist() == [-2 * number, 2 - 2 * number]
        total = 1.0 - 2 * number
        assert calls == [(1, total), (2, total + 2)]
        calls.clear()


def test_numbers_that_change_reach_the_body() -> None:
    @library.custom_op("body::power", mutates_args=())
    def power(x: lazyt.Tensor, by: int) -> lazyt.Tensor:
        return lazyt.from_numpy(x.numpy() ** by)

    power.register_fake(lambda x, by: lazyt.empty_like(x))
    function = lazyt.jit(lambda x, by: power(x, by + 1) - 1, fullgraph=True)
    x = lazyt.tensor([2.0, 3.0])
    for by in range(1, 7):
        assert function(x, by).tolist() == [2.0 ** (by + 1) - 1, 3.0 ** (by + 1) - 1]


def test_writes_to_declared_arguments_are_replayed() -> None:
    @library.custom_op("body::raise_", mutates_args={"x"})
    def raise_(x: lazyt.Tensor) -> None:
        array = x.detach().numpy()
        np.add(array, 1, out=array)

    def function(x: Any, other: Any) -> Any:
        raise_(x)
        y = other.clone()
        raise_(y[1:])
        return x * 2 + y

    captured = lazyt.jit(function, fullgraph=True)
    x, expected = lazyt.zeros(3), np.zeros(3, np.float32)
    for other in _inputs(4, 3):
        expected += 1
        found = captured(x, other)
        assert x.tolist() == expected.tolist()
        assert found.tolist() == (2 * expected + other.numpy() + [0, 1, 1]).tolist()


@pytest.mark.lazy
def test_without_a_fake_kernel_it_says_what_to_register() -> None:
    @library.custom_op("body::sine", mutates_args=())
    def sine(x: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.from_numpy(np.sin(x.numpy()))

    text = "no fake impl registered .*body::sine.*Please use `sine.register_fake`"
    function = lazyt.jit(lambda x: sine(x) + 1, fullgraph=True)
    function(lazyt.ones(2))
    with pytest.raises(CaptureError, match=text):
        function(lazyt.ones(2))
    with pytest.raises(LazytError, match=text):
        sine(lazyt.ones(2, device="meta"))
    with pytest.raises(LazytError, match=text), FakeTensorMode():
        sine(lazyt.ones(2))
    relaxed = lazyt.jit(lambda x: sine(x) + 1)
    for x in _inputs(3, 2):
        assert lazyt.allclose(relaxed(x), x.sin() + 1)
    assert "register_fake" in relaxed.why()[0]


@pytest.mark.lazy
def test_sizes_that_depend_on_values_are_not_captured() -> None:
    @library.custom_op("body::where", mutates_args=())
    def where(x: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.from_numpy(np.nonzero(x.numpy())[0])

    @where.register_fake
    def _(x: lazyt.Tensor) -> lazyt.Tensor:
        return x.new_empty((library.get_ctx().new_dynamic_size(),), dtype=lazyt.int64)

    function = lazyt.jit(lambda x: where(x) + 1)
    for row in ([0.0, 1.0], [1.0, 1.0], [0.0, 0.0]):
        assert function(lazyt.tensor(row)).tolist() == [i + 1 for i, v in enumerate(row) if v]
    assert "depends on values" in function.why()[0]
    with pytest.raises(LazytError, match="inside of a fake kernel"):
        library.get_ctx()


@pytest.mark.lazy
def test_a_body_that_gives_another_shape_later_is_refused() -> None:
    @library.custom_op("body::grow", mutates_args=())
    def grow(x: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.from_numpy(np.ones(int(x.numpy()[0]), np.float32))

    grow.register_fake(lambda x: lazyt.empty(2))
    function = lazyt.jit(lambda x: grow(x) + 1, fullgraph=True)
    for _ in range(3):
        function(lazyt.tensor([2.0]))
    with pytest.raises(LazytError, match=r"gave float32\[5\], and float32\[2\] when"):
        function(lazyt.tensor([5.0]))
    assert function(lazyt.tensor([2.0])).tolist() == [2.0, 2.0]
    wrong = lazyt.jit(lambda x: grow(x) + 1, fullgraph=True)
    wrong(lazyt.tensor([3.0]))
    with pytest.raises(LazytError, match=r"its fake kernel says float32\[2\]"):
        wrong(lazyt.tensor([3.0]))


def test_vmap_calls_a_body_for_each_example() -> None:
    product = _product()
    x, y = lazyt.arange(6.0).reshape(2, 3), lazyt.arange(3.0)
    assert lazyt.vmap(product, in_dims=(0, None))(x, y).tolist() == (x * y).tolist()
    assert lazyt.vmap(product, in_dims=1)(x, x).tolist() == (x * x).T.tolist()
    twice = lazyt.vmap(lazyt.vmap(product))(x[None], x[None])
    assert twice.tolist() == (x * x)[None].tolist()
    slope = lazyt.func.grad(lambda v: product(v, v).sum())
    assert lazyt.vmap(slope)(x).tolist() == (2 * x).tolist()
    second = lazyt.func.grad(lambda v: slope(v).sum())
    assert second(y).tolist() == [2.0, 2.0, 2.0]
    captured = lazyt.jit(lambda v: lazyt.vmap(product)(v + 1, v), fullgraph=True)
    for v in _inputs(3, 2, 3):
        assert captured(v).tolist() == ((v + 1) * v).tolist()


def test_gradients_flow_past_a_look_of_numpy() -> None:
    y = lazyt.arange(3.0)

    def looked(v: lazyt.Tensor) -> lazyt.Tensor:
        v.detach().numpy()
        return (v * v).sum()

    slope = lazyt.func.grad(looked)
    assert slope(y).tolist() == [0.0, 2.0, 4.0]
    assert lazyt.func.jvp(looked, (y,), (y,))[1].item() == 10.0
    assert lazyt.func.grad(lambda v: slope(v).sum())(y).tolist() == [2.0, 2.0, 2.0]


def test_recordings_call_the_operator() -> None:
    product = _product()
    traced = make_fx(lambda x: product(x * 2, x) + 1)(lazyt.ones(2))
    assert "lazyt.ops.body.product.default(mul, x_1)" in traced.code
    assert traced(lazyt.tensor([2.0, 3.0])).tolist() == [9.0, 19.0]

    class Model(lazyt.nn.Module):
        def forward(self, x: lazyt.Tensor) -> lazyt.Tensor:
            found: lazyt.Tensor = product(x * 2, x) + 1
            return found

    program = export(Model(), (lazyt.ones(2),))
    targets = [str(node.target) for node in program.graph.nodes]
    assert "body.product.default" in targets
    assert program.module()(lazyt.tensor([2.0, 3.0])).tolist() == [9.0, 19.0]
    with FakeTensorMode():
        fake = product(lazyt.ones(4, 5), lazyt.ones(4, 5))
    assert isinstance(fake, FakeTensor) and tuple(fake.shape) == (4, 5)


def test_modes_and_classes_are_asked_about_operators() -> None:
    product = _product()
    seen = []

    class Log(lazyt.overrides.TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Log():
        product(lazyt.ones(2), lazyt.ones(2))
    assert "body.product.default" in seen


@pytest.mark.lazy
def test_bodies_of_tensors_alone_still_fuse() -> None:
    @library.custom_op("body::soft", mutates_args=())
    def soft(x: lazyt.Tensor) -> lazyt.Tensor:
        return lazyt.log(1 + lazyt.exp(x))

    soft.register_fake(lambda x: lazyt.empty_like(x))
    function = lazyt.jit(lambda x: soft(x * 2) + 1, fullgraph=True)
    for x in _inputs(3, 4):
        function(x)
    assert [kernel.kind for kernel in function.explain().kernels] == ["map"]


def test_opcheck_finds_planted_faults() -> None:
    def made(name: str, function: Any, fake: Any = lazyt.empty_like) -> library.CustomOpDef:
        function.__annotations__ = {"x": lazyt.Tensor, "return": lazyt.Tensor}
        op: library.CustomOpDef = library.custom_op(f"fault::{name}", function, mutates_args=())
        op.register_fake(fake)
        return op

    def found(op: library.CustomOpDef, *args: Any, **settings: Any) -> dict[str, str]:
        results = library.opcheck(op, args, raise_exception=False, **settings)
        return {name: str(r) for name, r in results.items() if r != "SUCCESS"}

    def writes(x: Any) -> Any:
        array = x.detach().numpy()
        np.add(array, 1, out=array)
        return x.clone()

    def sine(x: Any) -> Any:
        return lazyt.from_numpy(np.sin(x.detach().numpy()))

    x = lazyt.rand(3, 3)
    assert not found(made("fine", sine), x)
    assert "x is not defined as mutable" in found(made("writes", writes), x)["test_schema"]
    assert "may not alias" in found(made("same", lambda x: x), x)["test_schema"]
    assert "may not alias" in found(made("view", lambda x: x.view(-1)), x)["test_schema"]
    for name, fake, part in (
        ("shape", lambda x: x.new_empty(4), "Shapes"),
        ("dtype", lambda x: lazyt.empty_like(x, dtype=lazyt.float64), "Dtypes"),
        ("stride", lambda x: lazyt.empty_like(x).t(), "Stride mismatch"),
        ("count", lambda x: (x, x), "Unable to cast"),
    ):
        wrong = found(made(f"of_{name}", sine, fake), x)
        assert part in wrong["test_faketensor"], name
    moving = lazyt.rand(3, dtype=lazyt.float64, requires_grad=True)
    none = made("no_gradient", sine)
    assert "no autograd formula" in found(none, moving)["test_aot_dispatch_dynamic"]
    slope = made("slope", sine)
    slope.register_autograd(lambda ctx, g: g * 2)
    assert not found(slope, moving)
    assert "test_gradients" in found(slope, moving, test_utils="test_gradients")
    shaped = made("of_gradient", sine)
    shaped.register_autograd(lambda ctx, g: g.new_ones(5))
    assert "invalid gradient" in found(shaped, moving)["test_aot_dispatch_dynamic"]
    right = made("right", sine)
    right.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    assert not found(right, moving, test_utils=("test_gradients", "test_schema"))


def test_schemas_tell_what_pytorchs_tell() -> None:
    schema = library.schema.parse_schema(
        "scale.out(Tensor x, int[2] size, float? by=2.0, *, Tensor(a!) out) -> Tensor(a!)", "body"
    )
    assert (schema.name, schema.overload_name) == ("body::scale", "out")
    assert schema.is_mutable and not schema.is_functional
    x, size, by, out = schema.arguments
    assert [str(item.type) for item in schema.arguments] == [
        "Tensor", "List[int]", "Optional[float]", "Tensor",
    ]  # fmt: skip
    assert by.has_default_value() and by.default_value == 2.0 and not x.has_default_value()
    assert out.is_out and out.kwarg_only and size.N == 2
    assert out.alias_info is not None and out.alias_info.is_write
    assert out.alias_info.before_set == {"a"} and x.alias_info is None
    assert size.type.kind() == "ListType" and str(size.type.getElementType()) == "int"
    assert by.type.kind() == "OptionalType" and x.type.isSubtypeOf(x.type)
