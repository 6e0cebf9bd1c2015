"""Calls with wrong arguments raise TypeError and name the function and argument that users know."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import lazyt
import lazyt.nn.functional as F
from tests.functional.sample_values import Operands, call
from tests.functional.samples import Sample, all_samples, has, owner_of, perform

#: What takes any object, any keyword, or only looks at its argument.
TAKES_ANYTHING = """is_tensor is_storage typename result_type is_distributed is_inference
    broadcast_shapes feature_alpha_dropout upsample upsample_nearest
    upsample_bilinear get_device_module can_cast to_dense"""
X = lazyt.ones(2, 3)


def samples() -> Iterator[Sample]:
    """One working call of each function."""
    seen: set[tuple[str, str]] = set()
    for sample in all_samples():
        key = (sample.place, sample.name)
        takes = sample.place not in ("nn", "Tensor") and sample.name not in TAKES_ANYTHING.split()
        if key in seen or not takes or not has(lazyt, sample):
            continue
        seen.add(key)
        yield sample


def said_by(sample: Sample, arguments: str) -> str:
    """What a call raises: "TypeError" and its text, or the class of another error, or nothing."""
    function = getattr(owner_of(lazyt, sample.place), sample.name)
    operands = Operands(lazyt, "float32", False, None)
    try:
        call(function, arguments, operands)
    except TypeError as error:
        return f"TypeError {error}"
    except Exception as error:
        return f"{type(error).__name__} {error}"
    return ""


def first_replaced(text: str) -> str:
    """The arguments with a set, which no function takes, in the first place."""
    made: Any = ast.parse(f"f({text})", mode="eval").body
    if not made.args:
        return ""
    parts = ["{None}", *map(ast.unparse, made.args[1:])]
    return ", ".join([*parts, *(f"{k.arg}={ast.unparse(k.value)}" for k in made.keywords)])


def test_every_function_refuses_what_it_does_not_know() -> None:
    wrong = []
    with lazyt.config.override(interpret=True):
        for sample in samples():
            text = f"{sample.text}, zzz=1" if sample.text else "zzz=1"
            for arguments in filter(None, (text, first_replaced(sample.text))):
                said = said_by(sample, arguments)
                # an inner function's name, as in "_made() got an unexpected keyword ..."
                inner = re.search(r"(?<![\w.])_\w+\(\)|<lambda>|object has no attribute", said)
                if not said.startswith("TypeError") or inner:
                    wrong.append(f"{sample.place}.{sample.name}({arguments}): {said}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("t.randn(2, 3, sizes=2)", "randn() got an unexpected keyword argument 'sizes'"),
        ("t.flatten('a')", "flatten(): argument 'input' (position 1) must be Tensor, not str"),
        ("t.sum(x, 'a')", "sum(): argument 'dim' (position 2) must be int, not str"),
        ("x.clone().scatter_add_(0, None, x)",
         "scatter_add_(): argument 'index' (position 2) must be Tensor, not NoneType"),
        ("x.addmm_(2.5, x)", "addmm_(): argument 'mat1' (position 1) must be Tensor, not float"),
        ("x.view_as(3)", "view_as(): argument 'other' (position 1) must be Tensor, not int"),
        ("x.uniform_(low=1)", "uniform_() got an unexpected keyword argument 'low'"),
        ("t.linalg.solve(x, 'a')",
         "linalg_solve(): argument 'B' (position 2) must be Tensor, not str"),
        ("F.layer_norm(x, ['a'])",
         "layer_norm(): argument 'normalized_shape' (position 2) must be tuple of ints, but found "
         "element of type str at pos 0"),
        ("t.clone()", "clone() missing 1 required positional argument: 'input'"),
        ("t.finfo('float32')", "finfo(): argument 'type' (position 1) must be lazyt.dtype, not"),
        ("t.narrow(x, 1, 0, 2.5)", "narrow(): argument 'length' (position 4) must be int, not"),
    ],
)  # fmt: skip
def test_errors_name_the_argument(program: str, said: str) -> None:
    with pytest.raises(TypeError) as caught:
        eval(program, {"t": lazyt, "x": X, "F": F})
    assert str(caught.value).startswith(said), str(caught.value)


def test_fractions_are_no_counts() -> None:
    for program in ("x.unfold(1, 2.5, 1)", "t.roll(x, 2.5, 1)", "t.kthvalue(x, 1.5)",
                    "t.repeat_interleave(x, 1.5)", "t.multinomial(x, 1.5)",
                    "t.nonzero_static(x, size=1.5)", "t.select(x, 1, 1.5)",
                    "t.vander(x[0], 2.5)"):  # fmt: skip
        with pytest.raises(TypeError):
            eval(program, {"t": lazyt, "x": X})


def test_errors_about_values_are_left_alone() -> None:
    with pytest.raises(RuntimeError, match="contracted dimensions need to match"):
        lazyt.tensordot(X, X, ([0], [1]))
    with pytest.raises(RuntimeError, match="padding='same' is not supported"):
        F.conv2d(lazyt.ones(1, 3, 4, 4), lazyt.ones(2, 3, 3, 3), padding="same", stride=2)


def test_functions_keep_their_signature_and_can_be_pickled() -> None:
    assert list(inspect.signature(lazyt.gather).parameters)[:3] == ["input", "dim", "index"]
    for function in (lazyt.gather, F.relu, lazyt.linalg.solve, lazyt.special.softmax, lazyt.clip):
        assert pickle.loads(pickle.dumps(function)) is function
    assert str(perform(lazyt, Sample("torch", "neg", "x"), "float32")[0].dtype) == "lazyt.float32"


def test_two_dimensions_of_which_the_second_is_taken_for_keepdim() -> None:
    amax: Any = lazyt.amax
    x: Any = X
    calls: list[tuple[Callable[[], object], str]] = [
        (lambda: x.sum(0, 1), "(position 2) "),
        (lambda: amax(x, 0, 1), "(position 3) "),
        (lambda: x.mean(0, keepdim=1), ""),
    ]
    for wrong, position in calls:
        with pytest.raises(TypeError) as caught:
            wrong()
        assert f"argument 'keepdim' {position}must be bool, not int" in str(caught.value)


def test_functions_with_dim_take_numpys_axis() -> None:
    lt: Any = lazyt
    x: Any = lazyt.tensor([[3.0, 1.0], [2.0, 5.0]])
    assert x.sort(axis=0)[0].tolist() == [[2, 1], [3, 5]]
    assert lt.unsqueeze(x, axis=0).shape == x.unsqueeze(axis=0).shape == (1, 2, 2)
    assert x[:1].squeeze(axis=0).shape == (2,)
    assert lt.quantile(x, 0.5, axis=1, keepdims=True).shape == (2, 1)
    with pytest.raises(TypeError, match="axis"):
        x.sort(axis=0, dim=0)
    with pytest.raises(TypeError, match="axes"):
        x.sort(axes=0)
    assert lazyt.result_type(x, 1j) is lazyt.complex64
