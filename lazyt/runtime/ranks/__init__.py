"""Several processes that compute together: how they find each other, move bytes and fail.

``messages``: what travels between a rank and the hub. ``hub``: one server for all ranks, which
knows who is alive, whether their collectives agree, and what they store for each other. ``member``:
a rank's connection to it. ``engine``: what moves bytes between the memories of ranks; ``mpi`` is
the one on MPI.
"""
