"""MKL is not used: products are compiled from the graph."""


def is_available() -> bool:
    """Whether MKL is used."""
    return False
