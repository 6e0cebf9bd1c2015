"""``explain_broadcast``: rules, strides, PyTorch's messages, advice that is true."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import numpy as np
import pytest

import lazyt
from lazyt.errors import DTypeError, ShapeError
from lazyt.tools.show_broadcast import CONFLICT, EQUAL, MISSING, STRETCHED, explain_broadcast

Shape = tuple[int, ...]


def random_shapes(seed: int, count: int) -> list[tuple[Shape, ...]]:
    """Pairs and triples of shapes of which about half fit."""
    draw = random.Random(seed)
    found = []
    for _ in range(count):
        result = [draw.choice([0, 1, 2, 3, 4, 5]) for _ in range(draw.randrange(5))]
        shapes = []
        for _ in range(draw.choice([2, 2, 2, 3])):
            cut = draw.randrange(len(result) + 1)
            shapes.append(tuple(draw.choice([s, s, s, s, 1, 1, 2, 3]) for s in result[cut:]))
        found.append(tuple(shapes))
    return found


def test_result_and_strides_are_those_of_expand() -> None:
    fitting = 0
    for shapes in random_shapes(1, 400):
        said = explain_broadcast(*shapes)
        try:
            expected = np.broadcast_shapes(*shapes)
        except ValueError:
            assert not said.ok and said.result is None and said.strides is None
            assert said.conflict is not None and CONFLICT in said.conflict.rules
            continue
        fitting += 1
        assert said.ok and said.result == expected and said.error is said.advice is None
        views = [lazyt.empty(shape).expand(*expected) for shape in shapes]
        assert said.strides == tuple(view.stride() for view in views)
    assert 100 < fitting < 350


def test_strides_start_from_those_of_a_tensor() -> None:
    # Recorded from PyTorch 2.13: torch.broadcast_tensors(x, y) with x = torch.empty(4, 3).t().
    said = explain_broadcast(lazyt.empty(4, 3).t(), lazyt.empty(2, 1, 1))
    assert said.strides == ((0, 1, 3), (1, 0, 0))
    assert explain_broadcast((3,), (1, 1)).strides == ((3, 1), (1, 0))


def test_rules_of_each_dimension() -> None:
    said = explain_broadcast((8, 1, 6, 1), (7, 6, 5))
    assert [step.dim for step in said.steps] == [-1, -2, -3, -4]
    assert [step.rules for step in said.steps] == [
        (STRETCHED, EQUAL), (EQUAL, EQUAL), (STRETCHED, EQUAL), (EQUAL, MISSING),
    ]  # fmt: skip
    assert [step.sizes for step in said.steps] == [(1, 5), (6, 6), (1, 7), (8, None)]


@pytest.mark.parametrize(
    ("shapes", "message"),
    [  # recorded from PyTorch 2.13's torch.broadcast_tensors
        (((3, 4), (2, 4)), "The size of tensor a (3) must match the size of tensor b (2)"
         " at non-singleton dimension 0"),
        (((5, 2, 3), (4, 2, 7)), "The size of tensor a (3) must match the size of tensor b (7)"
         " at non-singleton dimension 2"),
        (((3,), (4, 5, 2), (6,)), "The size of tensor a (3) must match the size of tensor b (2)"
         " at non-singleton dimension 2"),
    ],
)  # fmt: skip
def test_conflicts_carry_the_message(shapes: tuple[Shape, ...], message: str) -> None:
    said = explain_broadcast(*shapes)
    assert said.error == message
    assert message in str(said)
    with pytest.raises(RuntimeError) as raised:
        sum((lazyt.empty(shape) for shape in shapes[1:]), lazyt.empty(shapes[0]))
    assert str(raised.value) == message


def test_advice_is_true() -> None:
    """Advice that names an expression: it broadcasts when carried out."""
    kinds = set()
    for a, b in [((2, 3, 4), (2, 3)), ((2,), (2, 3)), ((4, 3), (3, 4)), ((5, 4, 3), (3, 4)),
                 ((3, 4), (2, 4)), ((0, 2), (5, 0)), ((6, 2, 7, 3), (6, 7))]:  # fmt: skip
        advice = str(explain_broadcast(a, b).advice)
        parts = advice.split(": ")
        if len(parts) == 1:
            assert advice == "Make the two sizes equal, or one of them 1."
            kinds.add("sizes")
            continue
        names = {"a": lazyt.empty(a), "b": lazyt.empty(b)}
        expression = parts[1].removesuffix(" broadcasts.")
        changed = eval(expression, dict(names))
        other = names["b" if expression[0] == "a" else "a"]
        assert explain_broadcast(changed, other).ok, advice
        kinds.add(expression[2:5])
    assert kinds == {"sizes", "res", "tra"}


def test_prints_the_alignment() -> None:
    assert str(explain_broadcast((8, 1, 6, 1), (7, 1, 5))) == (
        "dim       -4  -3  -2  -1\n"
        "a          8   1   6   1\n"
        "b              7   1   5\n"
        "result     8   7   6   5\n"
        "\n"
        "dim -1: a has 1, stretched to 5; b has 5\n"
        "dim -2: a has 6; b has 1, stretched to 6\n"
        "dim -3: a has 1, stretched to 7; b has 7\n"
        "dim -4: a has 8; b has no such dimension: missing -> 1, stretched to 8\n"
        "\n"
        "result: (8, 7, 6, 5)\n"
        "strides of a there: (6, 0, 1, 0)\n"
        "strides of b there: (0, 5, 0, 1)"
    )
    assert "dim -1: a has 0; b has 1, dropped to 0" in str(explain_broadcast((0,), (1,)))
    assert "dim -1: equal, all have 3" in str(explain_broadcast(3, (3,), [3]))
    assert "no operand has a dimension" in str(explain_broadcast((), ()))
    assert explain_broadcast().result == ()


@pytest.mark.parametrize("shapes", [((8, 1), (7, 1, 5)), ((3, 4), (2, 4)), ((), ())])
def test_html_is_well_formed_and_complete(shapes: tuple[Shape, ...]) -> None:
    said = explain_broadcast(*shapes)
    page = ElementTree.fromstring(f"<div>{said._repr_html_().replace('<br>', '<br/>')}</div>")
    text = " ".join(page.itertext())
    assert (said.error or f"result: {said.result}") in text
    assert len(page.findall(".//tr")) == len(shapes) + 2
    assert len(page.findall(".//li")) == len(said.steps)
    titles = {cell.get("title") for cell in page.iter("td")}
    assert (CONFLICT in titles) == (not said.ok)


def test_what_is_no_shape() -> None:
    with pytest.raises(DTypeError, match=r"takes shapes .* not 2\.5"):
        explain_broadcast(2.5)  # type: ignore[arg-type]
    with pytest.raises(DTypeError, match="not '3,4'"):
        explain_broadcast("3,4")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=r"negative in the shape \[2, -1\]"):
        explain_broadcast((2, -1))
