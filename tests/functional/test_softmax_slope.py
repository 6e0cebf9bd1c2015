"""No gradient goes through the largest element that softmax subtracts: it cancels out."""

from collections.abc import Callable

import pytest

import lazyt as lt
from lazyt.ir.printer import print_graph


@pytest.mark.parametrize("function", [lt.softmax, lt.log_softmax])
def test_the_largest_element_is_a_constant(function: Callable[[lt.Tensor, int], lt.Tensor]) -> None:
    for _ in range(2):  # made, and made again from notes
        x = lt.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        (function(x, -1) * lt.arange(4)).sum().backward()
        assert x.grad is not None
        assert "eq(" not in print_graph([x.grad.node])
