"""``functorch.einops``: axes named in a pattern."""

from __future__ import annotations

from collections.abc import Sequence

from lazyt.functional.namespace import Tensor, stack

__all__ = ["rearrange"]


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Reorders, splits and merges axes as einops does, ``rearrange(x, "b (h w) -> b h w", h=2)``.

    Args:
        tensor: a tensor, or several of one shape that become one with a new first axis.
        pattern: the axes before and behind the arrow, separated by blanks. Those in parentheses
            are one axis; ``...`` stands for any number of them, ``1`` for an axis of length 1.
        axes_lengths: lengths of axes that parentheses split, all but one of each.

    Raises ValueError for a pattern that cannot be read or does not fit the tensor.
    """
    whole = tensor if isinstance(tensor, Tensor) else stack(list(tensor))
    before, arrow, behind = pattern.partition("->")
    if not arrow or "->" in behind:
        raise ValueError(f"Pattern '{pattern}' should have one ->")
    left, right = _parsed(before), _parsed(behind)
    given, wanted = _names(left, pattern), _names(right, pattern)
    if set(given) != set(wanted):
        one_sided = sorted(set(given) ^ set(wanted))
        raise ValueError(
            f"Identifiers only on one side of rearrange expression (should be on both): {one_sided}"
        )
    lengths = _lengths(whole, left, axes_lengths, pattern)
    split = [size for name in given for size in lengths[name]]
    positions: dict[str, list[int]] = {}
    count = 0
    for name in given:
        positions[name] = list(range(count, count + len(lengths[name])))
        count += len(lengths[name])
    ones = [group == [_ONE] for group in left]
    kept = whole.reshape(split) if any(ones) or any(len(g) != 1 for g in left) else whole
    moved = kept.permute([place for name in wanted for place in positions[name]])
    shape: list[int] = []
    for group in right:
        sizes = [size for name in group if name != _ONE for size in lengths[name]]
        if group == [_MANY]:
            shape += sizes
        else:
            size = 1
            for each in sizes:
                size *= each
            shape.append(size)
    return moved.reshape(shape)


_MANY, _ONE = "...", "1"


def _parsed(text: str) -> list[list[str]]:
    """The axes of one side: for each the names that it consists of."""
    groups: list[list[str]] = []
    inside: list[str] | None = None
    for word in text.replace("(", " ( ").replace(")", " ) ").split():
        if word == "(":
            if inside is not None:
                raise ValueError("brackets are nested")
            inside = []
        elif word == ")":
            if inside is None:
                raise ValueError("brackets are not balanced")
            groups.append(inside)
            inside = None
        elif not (word in (_MANY, _ONE) or word.isidentifier()):
            raise ValueError(f"Invalid axis identifier: {word}")
        elif inside is None:
            groups.append([word])
        elif word != _ONE:
            inside.append(word)
    if inside is not None:
        raise ValueError("brackets are not balanced")
    return groups


def _names(groups: list[list[str]], pattern: str) -> list[str]:
    found = [name for group in groups for name in group if name != _ONE]
    if len(set(found)) != len(found):
        raise ValueError(f"Indexing expression contains duplicate dimension: {pattern}")
    return found


def _lengths(
    whole: Tensor, left: list[list[str]], known: dict[str, int], pattern: str
) -> dict[str, tuple[int, ...]]:
    """The sizes of the axes of each name."""
    shape = tuple(whole.shape)
    rest = len(shape) - (len(left) - ([_MANY] in left))
    if rest < 0 or (rest > 0 and [_MANY] not in left):
        raise ValueError(
            f"Number of dimensions in pattern ({len(left)}) must be equal to the number of "
            f"dimensions in the tensor ({len(shape)}): {pattern}"
        )
    found: dict[str, tuple[int, ...]] = {}
    at = 0
    for group in left:
        if group == [_MANY]:
            found[_MANY] = shape[at : at + rest]
            at += rest
            continue
        size, at = shape[at], at + 1
        open_names = [name for name in group if name not in known and name != _ONE]
        product = 1
        for name in group:
            if name in known:
                found[name] = (known[name],)
                product *= known[name]
        if len(open_names) > 1:
            raise ValueError(f"Could not infer sizes for {open_names}: {pattern}")
        if open_names and product and size % product == 0:
            found[open_names[0]] = (size // product,)
        elif open_names or product != size:
            raise ValueError(f"Shape mismatch, {size} is not what '{group}' gives: {pattern}")
    return found
