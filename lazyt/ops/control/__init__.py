"""Ops that run a graph as a whole: loops, and the choice between two branches."""
