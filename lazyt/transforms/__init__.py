"""Graph transforms: reverse and forward derivatives, and batching."""
