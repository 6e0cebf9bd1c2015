"""Derivatives and batching of ops that run a graph: those of the graph, run the same way.

The derivative of a loop is a loop in the other direction over what every step began with; a step
computes its values again and pulls the cotangents back. What comes out equals, bit for bit, the
derivative of the same steps written one after the other: contributions to a constant are summed in
that order, and products with it become one (``vjp.total``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from lazyt.ir.graph import Body, Node, make, topological
from lazyt.ops import builders as build
from lazyt.ops.control.bodies import (
    Part,
    cotangent_of,
    flat,
    inputs_like,
    is_float,
    once,
    taken,
    transforms,
    zeros,
)
from lazyt.ops.control.building import LoopParams, histories_of, layout, loop

# ------------------------------------------------------------------------ backwards


class _Pulled(NamedTuple):
    """The step of a backward loop.

    Attributes:
        body: constants; cotangents of the carries, and sums; slices, states, cotangents.
        summed: constants whose contributions a step adds to what is carried.
        products: constants whose contributions are products, with the products of a step.
        scanned: operands whose slices get a cotangent.
    """

    body: Body
    summed: list[int]
    products: list[tuple[int, list[Any]]]
    scanned: list[int]


def loop_vjp(node: Node, cotangent: Node) -> list[Node | None]:
    """The cotangents of a loop's operands: the ``vjp`` rule."""
    params: LoopParams = node.params
    inputs, body, found = node.inputs, params.body, layout(params)
    constants, carries = params.constants, params.carries
    whole = params._replace(history=(1,) * carries)
    states = histories_of(inputs, whole)
    streams: list[Node | None] = []  # for what every step began with, from those who read it
    ends: list[Node | None] = []
    for number in range(carries):
        last, history = found.last(number, params), found.carries[number]
        ends.append(None if last is None else cotangent_of(cotangent, last))
        has = history is not None and params.history[number]
        streams.append(_stream(cotangent, history, params) if has and history else None)
    given: list[Node | None] = []
    for part, shared in zip(found.slices, found.shared):
        # Slices that are a carry's history are read there.
        given.append(None if part is None or shared >= 0 else cotangent_of(cotangent, part))
    wanted = [not node.needs_grad or item.needs_grad for item in inputs]
    key = (
        "vjp",
        constants,
        carries,
        params.reverse,
        tuple(wanted),
        tuple([item is not None for item in streams]),
        tuple([item is not None for item in given]),
        min(params.length, transforms.fewest),
    )
    pulled = once(body, key, lambda: _pull(params, wanted, streams, given))
    begin = [
        zeros(item) if end is None else end
        for item, end in zip(inputs[constants : constants + carries], ends)
        if is_float(item)
    ]
    begin += [zeros(inputs[number], -0.0) for number in pulled.summed]
    slices = [*inputs[constants + carries :], *states]
    slices += [item for item in (*streams, *given) if item is not None]
    made = loop(pulled.body, inputs[:constants], begin, slices, params.length, not params.reverse)
    result: list[Node | None] = [None] * len(inputs)
    left = iter(made.carries)
    for number in range(constants, constants + carries):
        if is_float(inputs[number]):
            result[number] = next(left)
    for number in pulled.summed:
        result[number] = next(left)
    rest = iter(made.slices)
    for number in pulled.scanned:
        result[number] = next(rest)
    for number, products in pulled.products:
        pairs = [(next(rest), next(rest)) for _ in products]
        result[number] = _joined(products, pairs, params, inputs[number])
    return result


def _stream(cotangent: Node, whole: Part, params: LoopParams) -> Node | None:
    """The cotangents of what every step began with, from that of a carry's history; where nobody
    reads what the first step began with, they add nothing to it."""
    step, length = whole.size // (params.length + 1), params.length
    shape = whole.shape[1:]
    start = whole.start + (step if params.reverse else 0)
    every = Part(start, (length, *shape))
    first = start + (length - 1) * step if params.reverse else start
    if length == 1 or cotangent_of(cotangent, Part(first, shape)) is not None:
        return cotangent_of(cotangent, every)
    rest = Part(start + (0 if params.reverse else step), (length - 1, *shape))
    found = cotangent_of(cotangent, rest)
    if found is None:
        return None
    none = build.broadcast_to(build.constant(-0.0, cotangent.dtype), (1, *shape))
    return build.concat([found, none] if params.reverse else [none, found], 0)


def _pull(
    params: LoopParams,
    wanted: Sequence[bool],
    streams: Sequence[Node | None],
    given: Sequence[Node | None],
) -> _Pulled:
    body, constants, carries = params.body, params.constants, params.carries
    leaves = body.leaves
    old = leaves[constants : constants + carries]
    fixed, states = inputs_like(leaves[:constants]), inputs_like(old)
    slices = inputs_like(leaves[constants + carries :])
    moving = [inputs_like([leaf])[0] if is_float(leaf) else None for leaf in old]
    incoming = [None if s is None else inputs_like([leaf])[0] for s, leaf in zip(streams, old)]
    results = body.roots[carries:]
    arriving = [None if g is None else inputs_like([r])[0] for g, r in zip(given, results)]
    own = [*fixed, *states, *slices]
    roots = body.over(own)
    wrt = [leaf for leaf, flag in zip(own, wanted) if is_float(leaf) and flag]
    wrt += [leaf for leaf in states if is_float(leaf) and leaf not in wrt]
    received: dict[Node, list[Node]] = {}

    for root, cotangent in zip(roots, [*moving, *arriving]):
        if root in wrt and cotangent is not None:
            received.setdefault(root, []).append(cotangent)

    def watch(user: Node, _: Node, index: int, part: Node) -> None:
        received.setdefault(user.inputs[index], []).append(part)

    back = dict(zip(wrt, transforms.vjp(roots, [*moving, *arriving], wrt, watch)))
    after = []
    for leaf, stream in zip(states, incoming):
        if is_float(leaf):
            terms = received.get(leaf, [])
            if stream is not None:  # as of steps that are written out, and stacked
                terms = [stream, *terms] if params.reverse else [*terms, stream]
            after.append(transforms.total(terms) if terms else zeros(leaf))
    summed: list[int] = []
    sums: list[Node] = []
    carried: list[Node] = []
    products: list[tuple[int, list[Any]]] = []
    factors: list[Node] = []
    for number, leaf in enumerate(fixed):
        parts = received.get(leaf, [])
        if not wanted[number] or not is_float(leaf) or not parts:
            continue
        found = _products(parts, leaf, params.length)
        if found:
            products.append((number, found))
            factors += [item for product in found for item in (product.left, product.right)]
        else:
            summed.append(number)
            carried.append(inputs_like([leaf])[0])
            sums.append(_added([carried[-1], *parts]))
    scanned = [len(fixed) + carries + n for n, x in enumerate(slices) if back.get(x) is not None]
    parts = [back[own[number]] for number in scanned]
    ends = [*after, *sums, *[part for part in parts if part is not None], *factors]
    begin = [item for item in moving if item is not None]
    read = [item for item in (*incoming, *arriving) if item is not None]
    made = Body.of([*fixed, *begin, *carried, *slices, *states, *read], ends)
    return _Pulled(made, summed, products, scanned)


def _added(terms: Sequence[Node]) -> Node:
    result = terms[0]
    for term in terms[1:]:
        result = build.apply("add", result, term)
    return result


def _products(parts: Sequence[Node], leaf: Node, length: int) -> list[Any]:
    """The products of a step that are a constant's contributions, where those of all steps become
    one; else nothing. What decides is what decides for steps that are written out."""
    found = [transforms.product_of(_reshaped(part), ()) for part in parts]
    every = [product for product in found if product is not None]
    if len(every) < len(parts) or length * len(parts) < transforms.fewest:
        return []
    first = every[0]
    kind = (first.labels, first.left.shape, first.right.shape)
    alike = all((p.labels, p.left.shape, p.right.shape) == kind for p in every)
    return every if alike and first.left.size + first.right.size < leaf.size else []


def _reshaped(part: Node) -> Node:
    """What a contribution is apart from its shape, which a sum over the steps gets at its end."""
    while part.op.name == "reshape":
        (part,) = part.inputs
    return part


def _joined(
    products: Sequence[Any], pairs: Sequence[tuple[Node, Node]], params: LoopParams, like: Node
) -> Node:
    """One product that sums over the steps, in their order, too."""
    sides = []
    for side in (0, 1):
        rows = [pair[side] for pair in reversed(pairs)]  # the last use of a step comes first
        if params.reverse:
            rows = [build.flip(row, (0,)) for row in rows]
        length, *shape = rows[0].shape
        beside = build.concat([build.reshape(row, (length, 1, *shape)) for row in rows], 1)
        sides.append(build.reshape(beside, (length * len(rows), *shape)))
    return build.reshape(transforms.over_all(products[0].labels, *sides), like.shape)


# -------------------------------------------------------------------------- forwards


class _Pushed(NamedTuple):
    """The step of a loop with tangents: operands that move, in order, and the body."""

    body: Body
    constants: list[int]
    scanned: list[int]
    carries: list[int]


def loop_jvp(node: Node, tangents: Sequence[Node | None]) -> Node | None:
    """How a loop's results move: the ``jvp`` rule."""
    params: LoopParams = node.params
    inputs, constants, carries = node.inputs, params.constants, params.carries
    moves = tuple([tangent is not None for tangent in tangents])
    pushed = once(params.body, ("jvp", constants, carries, moves), lambda: _push(params, moves))
    first = constants + carries
    fixed = [*inputs[:constants], *[tangents[n] for n in pushed.constants]]
    begin = [*inputs[constants:first]]
    for number in pushed.carries:
        tangent = tangents[constants + number]
        begin.append(zeros(inputs[constants + number]) if tangent is None else tangent)
    slices = [*inputs[first:], *[tangents[n] for n in pushed.scanned]]
    more = [params.history[n] for n in pushed.carries]
    own = params._replace(
        body=pushed.body,
        constants=len(fixed),
        carries=len(begin),
        history=(*params.history, *more),
    )
    operands: list[Node] = [item for item in (*fixed, *begin, *slices) if item is not None]
    made = make(node.op, tuple(operands), own)
    old, new = layout(params), layout(own)
    pieces = []
    for number, part in enumerate(old.carries):
        if part is not None:
            place = carries + pushed.carries.index(number)
            moved = new.carries[place]
            assert moved is not None
            pieces.append(flat(taken(made, moved)))
    results = len(old.slices)
    for number, (part, shared) in enumerate(zip(old.slices, old.shared)):
        if part is not None and shared < 0:
            moved = new.slices[results + number]
            assert moved is not None
            pieces.append(flat(taken(made, moved)))
    return build.concat(pieces, 0)


def _push(params: LoopParams, moves: Sequence[bool]) -> _Pushed:
    body, constants, carries = params.body, params.constants, params.carries
    own = inputs_like(body.leaves)
    first = constants + carries
    floats = [n for n in range(carries) if is_float(own[constants + n])]
    fixed = [n for n in range(constants) if moves[n]]
    scanned = [n for n in range(first, len(own)) if moves[n]]
    moving = [*fixed, *[constants + n for n in floats], *scanned]
    tangents = dict(zip(moving, inputs_like([own[n] for n in moving])))
    roots = body.over(own)
    found = transforms.jvp(roots, [own[n] for n in moving], [tangents[n] for n in moving])
    moved = [zeros(root) if item is None else item for root, item in zip(roots, found)]
    leaves = [*own[:constants], *[tangents[n] for n in fixed]]
    leaves += [*own[constants:first], *[tangents[constants + n] for n in floats]]
    leaves += [*own[first:], *[tangents[n] for n in scanned]]
    ends = [*roots[:carries], *[moved[n] for n in floats], *roots[carries:], *moved[carries:]]
    return _Pushed(Body.of(leaves, ends), fixed, scanned, floats)


# -------------------------------------------------------------------------- batching


def loop_batch(node: Node, inputs: Sequence[Node], batched: Sequence[bool]) -> Node:
    """A loop for many examples at once: the ``batch`` rule."""
    params: LoopParams = node.params
    constants, carries = params.constants, params.carries
    first = constants + carries
    size = next(item.shape[0] for item, flag in zip(inputs, batched) if flag)
    many = _batched_carries(params.body, list(batched), constants, carries)
    key = ("batch", constants, carries, size, tuple(many))
    body, results = once(params.body, key, lambda: _batch_body(params, many, size))
    operands = []
    for number, (item, had, has) in enumerate(zip(inputs, batched, many)):
        if has and not had:
            item = build.broadcast_to(item, (size, *item.shape))
        elif has and number >= first:
            item = build.permute(item, (1, 0, *range(2, len(item.shape))))
        operands.append(item)
    own = params._replace(body=body)
    made = make(node.op, tuple(operands), own)
    old, new = layout(params), layout(own)
    pieces = []
    for number, part in enumerate(old.carries):
        if part is not None:
            whole = new.carries[number]
            assert whole is not None
            flag = many[constants + number]
            pieces.append(_examples(taken(made, whole), flag, size, params.history[number]))
    for number, (part, shared) in enumerate(zip(old.slices, old.shared)):
        if part is not None and shared < 0:
            whole = new.slices[number]
            assert whole is not None
            pieces.append(_examples(taken(made, whole), results[number], size, 1))
    return build.concat(pieces, 1)


def _examples(value: Node, has: bool, size: int, steps: int) -> Node:
    """A result as rows, one for each example; ``steps``: whether its first axis counts steps."""
    if not has:
        value = build.broadcast_to(value, (size, *value.shape))
    elif steps:
        value = build.permute(value, (1, 0, *range(2, len(value.shape))))
    return build.reshape(value, (size, value.size // size))


def _batched_carries(body: Body, batched: list[bool], constants: int, carries: int) -> list[bool]:
    """Which leaves differ from example to example: carries do if what they become does."""
    while True:
        flags = dict(zip(body.leaves, batched))
        reached = {leaf for leaf, flag in flags.items() if flag}
        for node in body.nodes:
            if any(item in reached for item in node.inputs):
                reached.add(node)
        grown = list(batched)
        for number, root in enumerate(body.roots[:carries]):
            grown[constants + number] = grown[constants + number] or root in reached
        if grown == batched:
            return batched
        batched = grown


def _batch_body(params: LoopParams, many: Sequence[bool], size: int) -> tuple[Body, list[bool]]:
    """The body for all examples, and which of its slices differ among them."""
    body = params.body
    own = inputs_like(body.leaves)
    differing = [leaf for leaf, flag in zip(own, many) if flag]
    wide = inputs_like(differing, size)
    roots = body.over(own)
    reached = set(differing)
    for node in topological(roots):
        if any(item in reached for item in node.inputs):
            reached.add(node)
    table = dict(zip(differing, wide))
    changed = [root for root in roots if root in reached]
    found = dict(zip(changed, transforms.batch(changed, differing, wide, size)))
    ends = []
    for number, root in enumerate(roots):
        carried = number < params.carries and many[params.constants + number]
        if carried and root not in reached:
            ends.append(build.broadcast_to(root, (size, *root.shape)))
        else:
            ends.append(found.get(root, root))
    leaves = [table.get(leaf, leaf) for leaf in own]
    return Body.of(leaves, ends), [root in reached for root in roots[params.carries :]]
