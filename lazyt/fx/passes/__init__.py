"""Passes over modules with graphs."""
