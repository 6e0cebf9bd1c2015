"""Proofs about kernels: where they read and write, and that they write all that they should."""
