"""Graphs in the dialect linalg, on tensors, with arith, math and tensor."""
