"""cuDNN is not used. Its switches can be set, as many programs do, and change nothing."""

enabled = False
benchmark = False
deterministic = True  # results are the same from run to run
allow_tf32 = False


def is_available() -> bool:
    """Whether cuDNN is used."""
    return False


def version() -> None:
    """The version of cuDNN: none."""
    return None
