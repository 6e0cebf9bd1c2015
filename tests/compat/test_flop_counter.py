"""Operations counted as PyTorch counts them."""

from __future__ import annotations

from typing import Any

import pytest

import lazyt
from lazyt import nn
from lazyt.compat.served.packages import AtenNamespace
from lazyt.utils.flop_counter import FlopCounterMode, register_flop_formula

aten: Any = AtenNamespace()


def counted(program: Any) -> dict[str, dict[str, int]]:
    with FlopCounterMode(display=False) as counter:
        program()
    found = counter.get_flop_counts()
    assert counter.get_total_flops() == sum(found.get("Global", {}).values())
    return {
        name: {str(op).removeprefix("aten."): flops for op, flops in counts.items()}
        for name, counts in found.items()
    }


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, stride=2)
        self.head = nn.Sequential(nn.Flatten(), nn.Linear(8 * 16, 10))

    def forward(self, x: Any) -> Any:
        return self.head(self.conv(x))


def test_modules_and_gradients() -> None:
    """The numbers are those that PyTorch 2.13 gives."""
    model, x = Network(), lazyt.ones(2, 3, 8, 8)
    forward = {"convolution": 13824, "addmm": 5120}
    found = counted(lambda: model(x))
    assert found == {
        "Network": forward, "Global": forward, "Network.conv": {"convolution": 13824},
        "Network.head": {"addmm": 5120}, "Network.head.1": {"addmm": 5120},
    }  # fmt: skip
    both = {**forward, "convolution_backward": 13824, "mm": 10240}
    found = counted(lambda: model(x).sum().backward())
    assert found["Global"] == both
    assert found["Network.head.1"] == {"addmm": 5120, "mm": 10240}
    x.requires_grad_()
    found = counted(lambda: model(x).sum().backward())
    assert found["Global"]["convolution_backward"] == 2 * 13824


@pytest.mark.parametrize(
    ("program", "wanted"),
    [
        (lambda r: r(3, 4) @ r(4, 5), {"mm": 120}),
        (lambda r: lazyt.bmm(r(2, 3, 4), r(2, 4, 5)), {"bmm": 240}),
        (lambda r: lazyt.matmul(r(2, 3, 4), r(4, 5)), {"mm": 240}),
        (lambda r: lazyt.matmul(r(7, 1, 3, 4), r(2, 4, 5)), {"bmm": 14 * 120}),
        (lambda r: lazyt.einsum("ij, kj -> ik", r(3, 4), r(5, 4)), {"bmm": 120}),
        (lambda r: lazyt.einsum("b...i,ij->b...j", r(2, 3, 4), r(4, 5)), {"bmm": 240}),
        (lambda r: lazyt.addmm(r(5), r(3, 4), r(4, 5)), {"addmm": 120}),
        (lambda r: lazyt.tensordot(r(3, 4), r(4, 5), 1), {"mm": 120}),
        (lambda r: nn.functional.conv_transpose1d(r(1, 2, 5), r(2, 3, 3)), {"convolution": 180}),
        (lambda r: r(4) @ r(4), {}),
        (lambda r: nn.LSTM(3, 4)(r(5, 2, 3)), {"mm": 2 * 10 * 16 * 7}),
        (lambda r: r(3).sin(), {}),
    ],
)
def test_functions(program: Any, wanted: dict[str, int]) -> None:
    assert counted(lambda: program(lazyt.ones)).get("Global", {}) == wanted


def test_shapes_are_enough() -> None:
    def program() -> None:
        with lazyt.device("meta"):
            nn.Linear(10000, 10000)(lazyt.empty(10000, 10000))

    assert counted(program)["Global"] == {"addmm": 2 * 10000**3}


def test_formulas_of_programs(capsys: pytest.CaptureFixture[str]) -> None:
    def formula(shape: Any, out_shape: Any = None, **_: Any) -> int:
        return int(shape.numel())

    with FlopCounterMode(custom_mapping={aten.sin: formula}) as counter:
        lazyt.ones(3, 4).sin()
    assert counter.get_total_flops() == 12
    printed = capsys.readouterr().out
    assert "Global" in printed and " - aten.sin" in printed and "100.00%" in printed
    assert counted(lambda: lazyt.ones(3).sin()) == {}
    register_flop_formula(aten.erfinv)(formula)
    assert counted(lambda: lazyt.ones(3).erfinv())["Global"] == {"erfinv": 3}
