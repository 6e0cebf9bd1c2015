"""Decides which nodes fusion treats as units (targets); all others are recomputed where used.

Heavy nodes (reductions, contractions, scatters, scans, updates) and the roots are targets. A
pointwise node becomes one when computing it again at every use would cost more than keeping it,
when it ends the chain that follows a heavy node (the epilogue), or when it feeds a place that can
only take cheap expressions. What a target reads from another target of its own group never
touches memory, so choosing a target is not yet a decision to store it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lazyt.ir.decisions import decide
from lazyt.ir.graph import Node, topological
from lazyt.ir.scalar import applied
from lazyt.passes.transpose_shared import is_transposed

#: Recomputation cost (multiply-adds per element) from which a shared value is kept.
SHARED_COST = 8.0
#: Most operations that are inlined into one value; longer chains are cut.
CHAIN_LIMIT = 400
#: Most values that one value is computed of, see ``GROUP_READS``.
READ_LIMIT = 64
#: Multiply-adds after one another in one kernel. Storing costs less than these, and the compiler
#: takes more than proportional time for longer chains of long functions (50 sines: 40 s).
CHAIN_COST = 400
#: Most guards inside of each other: each is a condition within the one before.
GUARD_LIMIT = 24
#: Most operations inlined below a guard or into a contraction's operand.
OPERAND_LIMIT = 8
#: Total recomputation (multiply-adds) that is cheaper than one more kernel.
KERNEL_COST = 100_000.0

_GUARDS = frozenset({"pad", "concat"})
_RESTRICTING = _GUARDS | {"contract"}


def is_pointwise(node: Node) -> bool:
    """Whether the node's element can be computed from elements of its inputs alone."""
    return callable(node.op.lower) or node.op.lower == "gather"


def operation_cost(node: Node) -> float:
    """Multiply-adds per element of a pointwise node itself."""
    name = node.op.name
    if node.op.is_movement or node.op.leaf:
        return 0.0
    if name == "map":
        return sum([fn.cost for fn in applied(node.params)])
    return {"random": 30.0, "gather": 3.0}.get(name, 1.0)


class Targets:
    """The choice, with what it was based on.

    Attributes:
        order: the graph, inputs first.
        users: consumers of every node.
        chosen: target -> why.
    """

    def __init__(self, roots: Sequence[Node]) -> None:
        self.order = topological(roots)
        self.roots = set(roots)
        self.users: dict[Node, list[Node]] = {n: [] for n in self.order}
        for node in self.order:
            for item in dict.fromkeys(node.inputs):
                self.users[item].append(node)
        self.chosen: dict[Node, str] = {}
        self._choose_required()
        self._choose_epilogues()
        self._choose_shared()
        self._choose_restricted()

    def _choose_required(self) -> None:
        for node in self.order:
            if node.op.name == "input" or node.size == 0:
                continue
            if not is_pointwise(node):
                self.chosen[node] = "needs a loop of its own"
            elif node in self.roots:
                self.chosen[node] = "asked for"
            elif is_transposed(node, self.users):
                self.chosen[node] = "transposed once for many that read it"

    def _choose_epilogues(self) -> None:
        for head in [n for n in self.chosen if not is_pointwise(n)]:
            node, last = head, None
            while node not in self.roots and len(self.users[node]) == 1:
                node = self.users[node][0]
                if node.size != head.size or node.op.name not in ("map", "reshape"):
                    break
                if node.op.name == "map":
                    last = node
            leads = node.op.name == "scatter" and node.inputs[1] is last and head.op.name == "scan"
            if last is not None and not leads:  # a scatter's loop folds what says where it writes
                self.chosen.setdefault(last, f"ends the chain after a {head.op.name}")

    def readers(self, node: Node) -> set[Node]:
        """Consumers that compute something, seen through movement ops."""
        found: set[Node] = set()
        work = [*self.users[node]]
        while work:
            user = work.pop()
            if user.op.is_movement and user not in self.chosen:
                work.extend(self.users[user])
            else:
                found.add(user)
        return found

    def _blow_up(self, node: Node) -> float:
        """How many times more often the consumers would compute the node than it has elements."""
        largest = node.size
        work = [*self.users[node]]
        while work:
            user = work.pop()
            if user.op.is_movement and user not in self.chosen:
                work.extend(self.users[user])
            largest = max(largest, user.size)
        return largest / max(node.size, 1)

    def _choose_shared(self) -> None:
        cost: dict[Node, float] = {}
        depth: dict[Node, float] = {}  # the costliest way from what is stored to a node
        weight: dict[Node, int] = {}
        guards: dict[Node, int] = {}
        reads: dict[Node, frozenset[Node]] = {}
        for node in self.order:
            if node.op.name == "input":
                cost[node], depth[node], weight[node], guards[node] = 0.0, 0.0, 0, 0
                continue
            reads[node] = self._reads(node, reads)
            inputs = [i for i in node.inputs if i not in self.chosen]
            guards[node] = max([guards[i] for i in inputs], default=0) + (node.op.name in _GUARDS)
            cost[node] = operation_cost(node) + sum(cost[i] for i in inputs)
            depth[node] = operation_cost(node) + max([depth[i] for i in inputs], default=0.0)
            weight[node] = (not node.op.leaf) + sum(weight[i] for i in inputs)
            if node in self.chosen or node.op.is_movement or node.op.leaf:
                continue
            if weight[node] > CHAIN_LIMIT:
                self.chosen[node] = f"more than {CHAIN_LIMIT} operations in one chain"
            elif len(reads[node]) > READ_LIMIT:
                self.chosen[node] = f"reads more than {READ_LIMIT} values"
            elif depth[node] > CHAIN_COST:
                self.chosen[node] = f"more than {CHAIN_COST} multiply-adds after one another"
            elif guards[node] > GUARD_LIMIT:
                self.chosen[node] = f"more than {GUARD_LIMIT} guards inside of each other"
            elif cost[node] >= SHARED_COST:
                times = self._blow_up(node)
                if len(self.readers(node)) > 1:
                    self.chosen[node] = "shared and costly to compute again"
                elif times > 1 and decide(
                    "broadcast", (times - 1) * node.size * cost[node] > KERNEL_COST
                ):
                    self.chosen[node] = "broadcast and costly to compute again"

    def _reads(self, node: Node, known: Mapping[Node, frozenset[Node]]) -> frozenset[Node]:
        """The targets and inputs that a node is computed of."""
        found: list[frozenset[Node]] = []
        for item in node.inputs:
            single = item in self.chosen or item.op.name == "input"
            one = frozenset((item,)) if single else known[item]
            if one and one not in found:
                found.append(one)
        return found[0].union(*found[1:]) if found else frozenset()

    def _choose_restricted(self) -> None:
        """Below guards and in contractions only short expressions without data-dependent loads."""
        weight: dict[Node, int] = {}
        moved: set[Node] = set()  # what contractions read by way of these
        for node in reversed(self.order):
            if node.op.name in _RESTRICTING:
                used = 0
            elif node in weight and node not in self.chosen:
                used = weight[node]
            else:
                continue
            for item in node.inputs:
                if item in self.chosen or item.op.name == "input":
                    continue
                total = used + (not (item.op.is_movement or item.op.leaf))
                if item.op.name == "gather" or total > OPERAND_LIMIT:
                    self.chosen[item] = "feeds a place that takes short expressions only"
                    continue
                chooses = node in moved or self._chooses(node)
                if chooses and item.op.name == "concat":
                    self.chosen[item] = "put together once for a contraction"
                    continue
                if chooses and item.op.is_movement:
                    moved.add(item)
                weight[item] = max(weight.get(item, 0), total)
                if node.op.name == "contract" and self._heavy(item):
                    reason = "costly operand of a contraction, read many times"
                    self.chosen[self._smallest(item)] = reason

    def _chooses(self, node: Node) -> bool:
        """Whether a contraction would choose among an operand's pieces at every element. One along
        which an operand slides copies piece by piece."""
        return node.op.name == "contract" and not any(map(self._slides, node.inputs))

    def _slides(self, node: Node) -> bool:
        """Whether a value is a rearranged window."""
        while node.op.is_movement and node not in self.chosen:
            if node.op.name == "window":
                return True
            node = node.inputs[0]
        return False

    def _heavy(self, node: Node) -> bool:
        """Whether a contraction's operand costs too much to be computed while packing."""
        total = 0.0
        work = [node]
        while work:
            item = work.pop()
            if item in self.chosen or item.op.name == "input":
                continue
            total += operation_cost(item)
            if total > SHARED_COST / 2:
                return True
            work.extend(item.inputs)
        return False

    def _smallest(self, node: Node) -> Node:
        """What a value is a rearrangement of, where that has the fewest elements: a window has many
        times those of its picture, and contractions read what is only moved where it lies."""
        chain = [node]
        while chain[-1].op.is_movement or chain[-1].op.name == "pad":
            source = chain[-1].inputs[0]
            if source in self.chosen or source.op.name == "input":
                break
            chain.append(source)
        return chain[decide("kept operand", min(range(len(chain)), key=lambda n: chain[n].size))]
