"""The package ``functorch``, by its own name and by lazyt's."""

from __future__ import annotations

import importlib

import pytest

import lazyt as lt
from lazyt import functorch, nn
from lazyt.compat import torch_alias
from lazyt.errors import LazytError, UnsupportedNameError
from lazyt.functorch import dim, experimental
from lazyt.functorch.compile import aot_function, make_boxed_func
from lazyt.functorch.einops import rearrange

pytestmark = pytest.mark.filterwarnings("ignore:functorch:FutureWarning")


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def test_it_is_imported_by_its_own_name() -> None:
    with torch_alias.standing_in():
        assert importlib.import_module("functorch").vmap is lt.vmap
        named = importlib.import_module("functorch.dim")
        assert named is dim
        with pytest.raises(ModuleNotFoundError):
            importlib.import_module("functorch.nowhere")
    assert functorch.__spec__ is not None and functorch.__spec__.name == "lazyt.functorch"
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("functorch")


def test_modules_are_functions_of_their_parameters() -> None:
    x = lt.randn(5, 2)
    linear = nn.Linear(2, 3)
    function, parameters = functorch.make_functional(linear)
    assert isinstance(function, functorch.FunctionalModule)
    assert all(p.is_meta for p in function.stateless_model.parameters())
    assert lt.equal(function(parameters, x), linear(x))
    assert all(p.requires_grad and p.is_leaf for p in parameters)
    (gradient, _) = functorch.grad(lambda p: function(p, x).sum())(parameters)
    assert lt.allclose(gradient, x.sum(0).expand(3, 2))
    fixed = functorch.make_functional(linear, disable_autograd_tracking=True)[1]
    assert not any(p.requires_grad for p in fixed)
    with pytest.raises(LazytError, match="2 parameters, but 1 were given"):
        function(parameters[:1], x)


def test_buffers_are_given_too() -> None:
    model, x = network(), lt.randn(5, 2)
    with pytest.raises(LazytError, match="has buffers"):
        functorch.make_functional(model)
    function, parameters, buffers = functorch.make_functional_with_buffers(model)
    assert function.param_names == ("0.weight", "0.bias", "1.weight", "1.bias")
    assert function.buffer_names[0] == "1.running_mean" and len(buffers) == 3
    assert lt.allclose(function(parameters, buffers, x), model(x))


def test_models_are_stacked() -> None:
    models, x = [nn.Linear(2, 3) for _ in range(4)], lt.randn(5, 2)
    function, parameters, buffers = functorch.combine_state_for_ensemble(models)
    found = functorch.vmap(function, (0, 0, None))(parameters, buffers, x)
    assert lt.allclose(found, lt.stack([model(x) for model in models]), atol=1e-6)
    for wrong, said in (
        ([], "at least one model"),
        ([nn.Linear(1, 1), network()], "same class"),
        ([nn.Linear(1, 1), nn.Linear(1, 1).eval()], "same training"),
    ):
        with pytest.raises(LazytError, match=said):
            functorch.combine_state_for_ensemble(wrong)


def test_deprecated_functions_warn() -> None:
    with pytest.warns(FutureWarning, match="functional_call"):
        functorch.make_functional(nn.Linear(1, 1))


def test_vmap_in_parts() -> None:
    a, b = lt.randn(7, 2), lt.randn(2)
    wanted = lt.vmap(lt.dot, (0, None))(a, b)
    for chunks in (1, 2, 3, 9):
        found = experimental.chunk_vmap(lt.dot, (0, None), chunks=chunks)(a, b)
        assert lt.equal(found, wanted)
    nested = experimental.chunk_vmap(lambda pair, x: pair["a"] * x, ({"a": 0}, None), chunks=2)
    assert lt.equal(nested({"a": a}, b), a * b)
    with pytest.raises(LazytError, match="positive"):
        experimental.chunk_vmap(lt.dot, chunks=0)


@pytest.mark.parametrize(
    ("shape", "pattern", "lengths", "wanted"),
    [
        ((2, 12), "b (h w) -> w (b h)", {"h": 3}, (4, 6)),
        ((2, 3, 4), "a ... -> ... a", {}, (3, 4, 2)),
        ((2, 3, 4), "a ... -> (... a)", {}, (24,)),
        ((2, 3), "a b -> b 1 a", {}, (3, 1, 2)),
        ((2, 1, 3), "a 1 b -> (a b)", {}, (6,)),
        ((6, 4), "(a b) (c d) -> a c b d", {"a": 2, "d": 2}, (2, 2, 3, 2)),
    ],
)
def test_rearrange(
    shape: tuple[int, ...], pattern: str, lengths: dict[str, int], wanted: tuple[int, ...]
) -> None:
    found = rearrange(lt.arange(lt.Size(shape).numel()).reshape(shape), pattern, **lengths)
    assert found.shape == wanted
    assert sorted(found.flatten().tolist()) == list(range(found.numel()))


def test_rearranged_values() -> None:
    x = lt.arange(24).reshape(2, 12)
    wanted = x.reshape(2, 3, 4).permute(2, 0, 1).reshape(4, 6)
    assert lt.equal(rearrange(x, "b (h w) -> w (b h)", h=3), wanted)
    assert lt.equal(rearrange([x, x + 1], "n a b -> b a n"), lt.stack([x, x + 1]).permute(2, 1, 0))


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("a b", "one ->"),
        ("a b -> a c", "only on one side"),
        ("a -> a", "Number of dimensions"),
        ("a a -> a", "duplicate"),
        ("(a b c -> a b c", "balanced"),
        ("((a b)) -> a b", "nested"),
        ("a (b c) -> a b c", "infer"),
        ("a 2b -> a 2b", "Invalid"),
    ],
)
def test_wrong_patterns(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rearrange(lt.ones(2, 12), pattern)


def test_what_is_not_there_says_why() -> None:
    with pytest.raises(UnsupportedNameError, match="first-class dimensions"):
        dim.dims()
    assert not isinstance(lt.ones(1), dim.Tensor)
    with pytest.raises(UnsupportedNameError, match="compiles its own graphs"):
        aot_function(lambda x: x, None)
    assert make_boxed_func(lambda a, b: a - b)([3, 1]) == 2
