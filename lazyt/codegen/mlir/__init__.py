"""Graphs as MLIR text, for compilers that begin where lazyt's ends."""
