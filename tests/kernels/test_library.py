"""``lazyt.library`` does what PyTorch's does; captures, devices and checks of operators."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import lazyt
from lazyt import library
from lazyt.errors import ArgumentError, GradientError, LazytError
from lazyt.library import operators
from tests.kernels import library_program


@pytest.fixture(autouse=True)
def _own_namespaces() -> Iterator[None]:
    """Operators of a test end with it."""
    before = dict(operators.namespaces)
    yield
    operators.namespaces.clear()
    operators.namespaces.update(before)
    library.definitions.whole_namespaces.clear()


def _scale(name: str = "mine::scale", **settings: Any) -> library.CustomOpDef:
    @library.custom_op(name, mutates_args=(), **settings)
    def scale(x: lazyt.Tensor, by: float = 2.0) -> lazyt.Tensor:
        return x * by

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        _, ctx.by = inputs

    scale.register_autograd(lambda ctx, g: (g * ctx.by, None), setup_context=setup)
    made: library.CustomOpDef = scale
    return made


def test_programs_get_what_pytorch_gives_them() -> None:
    recorded = library_program.RECORDED.read_text(encoding="utf-8").splitlines()
    assert library_program.lines(lazyt) == recorded


def test_operators_are_captured() -> None:
    scale = _scale()

    @lazyt.jit
    def step(x: Any) -> Any:
        y = (scale(x, 3.0) * x).sum()
        (slope,) = lazyt.autograd.grad(y, x)
        return slope

    for _ in range(4):
        x = lazyt.randn(3, requires_grad=True)
        assert lazyt.allclose(step(x), 6 * x)
    assert step.why() == ["captured"]
    assert len(lazyt.explain(scale(x) + 1).kernels) == 1


def test_kernels_are_chosen_by_the_device() -> None:
    scale = _scale(device_types="cpu")
    x = lazyt.ones(2)
    assert scale(x).tolist() == [2.0, 2.0]
    with pytest.raises(library.MissingKernelError, match="from the 'CUDA' backend"):
        scale(x.to("cuda:emu"))
    scale.register_kernel("cuda")(lambda x, by=2.0: x * by + 100)
    assert scale(x.to("cuda:emu")).tolist() == [102.0, 102.0]
    kernel = lazyt.c_kernel(
        "void add(const float *x, float *y, long n) { for (long i = 0; i < n; i++) y[i] = x[i]; }",
        inputs={"x": "n"},
    )
    scale.register_kernel("cpu", lambda x, by: kernel(x) + by)
    assert scale(x).tolist() == [3.0, 3.0]


def test_autocast_casts_for_a_rule() -> None:
    scale = _scale()
    scale.register_autocast("cpu", lazyt.bfloat16)
    assert scale(lazyt.ones(2)).dtype is lazyt.float32
    with lazyt.autocast("cpu"):
        assert scale(lazyt.ones(2)).dtype is lazyt.bfloat16


def test_arguments_by_name_only_reach_every_rule() -> None:
    @library.custom_op("mine::shift", mutates_args=())
    def shift(x: lazyt.Tensor, *, by: float = 1.0) -> lazyt.Tensor:
        return x + by

    seen = []

    def setup(ctx: Any, inputs: Any, keyword_only_inputs: Any, output: Any) -> None:
        seen.append((len(inputs), keyword_only_inputs))

    shift.register_autograd(lambda ctx, g: g, setup_context=setup)
    x = lazyt.ones(2, requires_grad=True)
    shift(x, by=3.0).sum().backward()
    assert seen == [(1, {"by": 3.0})] and x.grad is not None and x.grad.tolist() == [1.0, 1.0]


def test_gradients_that_do_not_fit_are_refused() -> None:
    scale = _scale()
    scale.register_autograd(lambda ctx, g: g)
    x = lazyt.ones(2, requires_grad=True)
    with pytest.raises(GradientError, match="returned 1 gradients for 2 arguments"):
        scale(x).sum().backward()


def test_opcheck_finds_what_is_wrong() -> None:
    scale = _scale()
    x = lazyt.randn(3, requires_grad=True)
    with pytest.raises(
        library.OpCheckError, match=r"no fake impl registered for <CustomOpDef\(mine::scale\)>"
    ):
        library.opcheck(scale, (x,))
    scale.register_fake(lambda x, by=2.0: lazyt.empty_like(x))
    assert set(library.opcheck(scale, (x,)).values()) == {"SUCCESS"}
    scale.register_fake(lambda x, by=2.0: lazyt.empty(4))
    found = library.opcheck(scale, (x, 3.0), raise_exception=False)
    assert "Size([3]) and lazyt.Size([4]) are not equal" in str(found["test_faketensor"])

    @library.custom_op("mine::quiet", mutates_args=())
    def quiet(x: lazyt.Tensor) -> lazyt.Tensor:
        x.add_(1)
        return x.clone()

    with pytest.raises(library.OpCheckError, match="Argument x is not defined as mutable"):
        library.opcheck(quiet, (lazyt.ones(2),), test_utils="test_schema")
    with pytest.raises(library.OpCheckError, match="no autograd formula was registered"):
        library.opcheck(quiet, (x,), test_utils="test_aot_dispatch_dynamic")
    with pytest.raises(ArgumentError, match="must be instance of OpOverload"):
        library.opcheck(len, (x,))  # type: ignore[arg-type]


def test_libraries_end() -> None:
    lib = library.Library("shelf", "DEF")
    lib.define("one(Tensor x) -> Tensor")
    lib._destroy()
    with pytest.raises(AttributeError, match="no attribute 'one'"):
        _ = lazyt.ops.shelf.one  # type: ignore[attr-defined]
    library.Library("shelf", "DEF").define("one(Tensor x) -> Tensor")
    with pytest.raises(LazytError, match="shelf::two does not exist"):
        library.Library("shelf", "IMPL").impl("two", lambda x: x)
    with pytest.raises(ArgumentError, match="no dispatch key Vulkan"):
        library.Library("shelf", "IMPL").impl("one", lambda x: x, "Vulkan")


def test_names_of_lazyts_own_are_no_namespaces() -> None:
    with pytest.raises(ArgumentError, match=r"lazyt\.ops has a name like that"):
        library.Library("sort", "FRAGMENT").define("one(Tensor x) -> Tensor")
    with pytest.raises(AttributeError, match=r"lazyt\.library' has no attribute 'triton_op'"):
        _ = library.triton_op  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("schema", "part"),
    [
        ("f(Tensor x -> Tensor", "expected , but found"),
        ("f(Wrong x) -> Tensor", "unknown type specifier 'Wrong'"),
        ("f(Tensor x) -> Tensor Tensor Tensor", "expected eof"),
        ("1f(Tensor x) -> Tensor", "the name of an operator"),
        ("f(Tensor x)", "expected -> but found ''"),
        ("f(Tensor(a! x) -> Tensor", "the name of an argument"),
        ("f(Tensor ) -> Tensor", "the name of an argument"),
        ("", "the name of an operator"),
    ],
)
def test_what_is_no_schema_is_refused(schema: str, part: str) -> None:
    with pytest.raises(LazytError, match=part):
        library.Library("shelf", "FRAGMENT").define(schema)


PROGRAM = """
import torch
from torch.library import custom_op
@custom_op("mine::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2
twice.register_autograd(lambda ctx, g: g * 2)
x = torch.ones(2, requires_grad=True)
torch.ops.mine.twice(x).sum().backward()
print(x.grad.tolist())
"""


def test_programs_that_import_torch_have_it(tmp_path: Any) -> None:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    command = [sys.executable, "-m", "lazyt", "run", str(path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.strip() == "[2.0, 2.0]", done.stderr


def test_fake_kernels_run_for_meta_tensors() -> None:
    @lazyt.library.custom_op("looked::crop", mutates_args=())
    def crop(x: lazyt.Tensor, low: int, high: int) -> lazyt.Tensor:
        return lazyt.from_numpy(x.detach().numpy()[:, low:high].copy())

    x = lazyt.empty(3, 8, device="meta")
    with pytest.raises(TypeError, match="can't convert meta device"):
        crop(x, 1, 4)
    crop.register_fake(lambda x, low, high: x.new_empty(x.shape[0], high - low))
    assert crop(x, 1, 4).shape == (3, 3) and crop(x, 1, 4).device.type == "meta"
    assert crop(lazyt.ones(3, 8), 1, 4).tolist() == [[1.0] * 3] * 3
