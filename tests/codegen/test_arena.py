"""Where values lie in the arena: no two that live at once share bytes, each as low as it can."""

from __future__ import annotations

from time import process_time

from hypothesis import given
from hypothesis import strategies as st

from lazyt.codegen.plan.memory import Place, allocate

_ALIGN = 64
#: Bytes, first step, and steps until the last.
Life = tuple[int, int, int]

lives = st.lists(
    st.tuples(st.sampled_from([1, 64, 100, 640, 4096]), st.integers(0, 40), st.integers(0, 40)),
    max_size=400,
)


def placed(given: list[Life]) -> tuple[list[Place], int]:
    """Places with offsets, and the bytes that they take together."""
    places = [Place(nbytes, first, first + more, -1) for nbytes, first, more in given]
    return places, allocate(places)


@given(lives)
def test_each_place_is_the_lowest_that_is_free(given: list[Life]) -> None:
    places, total = placed(given)
    before: list[tuple[int, int, Place]] = []
    for place in sorted(places, key=lambda p: (-p.nbytes, p.first)):
        size = -(-place.nbytes // _ALIGN) * _ALIGN
        beside = [
            (low, high)
            for low, high, other in before
            if other.first <= place.last and place.first <= other.last
        ]

        def is_free(offset: int, size: int = size, beside: list[tuple[int, int]] = beside) -> bool:
            return all(high <= offset or offset + size <= low for low, high in beside)

        assert is_free(place.offset) and place.offset % _ALIGN == 0
        assert place.offset == min(o for o in (0, *(high for _, high in beside)) if is_free(o))
        before.append((place.offset, place.offset + size, place))
    assert total == max((high for _, high, _ in before), default=0)


def test_the_time_grows_with_the_number_of_places() -> None:
    """Values of a step's forward pass that its backward pass takes in the other order."""

    def seconds(steps: int) -> float:
        life = [(2560, n, 2 * (steps - n)) for n in range(steps)]
        life += [(2560, 2 * steps - n, 1) for n in range(steps)]
        begin = process_time()
        placed(life)
        return process_time() - begin

    few, many = (min(seconds(steps) for _ in range(3)) for steps in (250, 2000))
    assert many < 24 * few, "eight times as many, at most three times as long for each"
