"""Discrete Fourier transforms of rows, as one op."""
