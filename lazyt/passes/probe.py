"""What a value would read: a walk that emits nothing."""

from __future__ import annotations

from collections.abc import Callable

from lazyt.ir.graph import Node
from lazyt.ir.index import Var
from lazyt.ir.scalar import Expr, applied
from lazyt.ops.walking import Index, Pair, Walker

#: Multiply-adds from which a function counts as a long one.
LONG = 10.0


def long_cost(node: Node) -> float:
    """Multiply-adds per element in a node's own long functions (exponential, sine ...)."""
    if node.op.name != "map":
        return 0.0
    return sum([fn.cost for fn in applied(node.params) if fn.cost >= LONG])


class Probe(Walker):
    """Walks down from a value to targets and inputs and remembers where it reads them."""

    def __init__(self, is_target: Callable[[Node], bool]) -> None:
        super().__init__()
        self.is_target = is_target
        self.reads: list[tuple[Node, Index, bool]] = []
        self.count = 0  # operations
        self.cost = 0.0  # of its long functions
        self._memo: dict[Pair, Expr] = {}
        self._origin: Node | None = None

    def run(self, node: Node, index: Index) -> None:
        """Records what ``node`` at ``index`` reads, looking into ``node`` itself."""
        self._origin = node
        self.evaluate(node, index)

    def leaf(self, node: Node, index: Index) -> Expr | None:
        """Targets and inputs end the walk."""
        if node is not self._origin and (node.op.name == "input" or self.is_target(node)):
            return Var("leaf", node.dtype)
        return None

    def known(self, pair: Pair) -> Expr | None:
        """Every pair is walked once."""
        return self._memo.get(pair)

    def remember(self, pair: Pair, expr: Expr, leaf: bool) -> None:
        """Notes reads of leaves."""
        self._memo[pair] = Var("seen", pair[0].dtype)
        if leaf:
            self.reads.append(pair)
        else:
            self.count += 1
            self.cost += long_cost(pair[0])

    def index_name(self, node: Node, value: Expr, extent: int) -> str:
        """A name of its own for every data-dependent index."""
        return f"probe{len(self._memo)}"
