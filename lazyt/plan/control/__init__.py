"""Ops that run a graph as a whole, run: loops, and the choice between two branches."""
