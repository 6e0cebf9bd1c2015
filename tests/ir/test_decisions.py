"""What is decided for one size is decided for all, as long as the same is asked for."""

from lazyt.ir.decisions import Decisions, decide, serves_all


def test_outside_of_a_graph_of_many_sizes_everyone_decides_alone() -> None:
    assert not serves_all()
    assert decide("large", True) and not decide("large", False)


def test_the_first_size_decides() -> None:
    decisions = Decisions()
    with decisions.taken():
        assert serves_all()
        assert decide("order", (0, 1)) == (0, 1) and decide("large", True)
    for _ in range(2):
        with decisions.taken():
            assert decide("order", (1, 0)) == (0, 1)
            assert decide("large", False)
    assert not serves_all()


def test_where_something_else_is_asked_for_it_is_another_program() -> None:
    decisions = Decisions()
    with decisions.taken():
        decide("large", True)
        decide("lanes", "grid")
    with decisions.taken():
        assert decide("order", (1, 0)) == (1, 0), "nobody decided that"
        assert decide("large", False), "the next that was decided is still this"
        assert decide("lanes", "inner") == "grid"
        assert decide("lanes", "inner") == "inner", "that was decided once"


def test_graphs_decide_apart_even_inside_of_each_other() -> None:
    one, other = Decisions(), Decisions()
    with one.taken():
        assert decide("large", True)
        with other.taken():
            assert not decide("large", False)
        decide("lanes", "grid")
    with one.taken():
        assert decide("large", False) and decide("lanes", "inner") == "grid"
