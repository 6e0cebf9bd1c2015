"""Transformations that PyTorch calls experimental."""
