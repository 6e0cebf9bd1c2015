"""Discrete Fourier transforms, and spectra of pieces of signals."""
