"""Kernels for any shape, each compiled once, and graphs as instructions for them.

A graph without kernels of its own runs at once by what is in this room. ``encode.py`` turns it into
a list of instructions, ``library.py`` has the C text that follows them: every op in every dtype
once, with extents, strides and places as arguments. The text does not depend on the graph, so one
shared object serves all of them, and what differs from graph to graph is data.

An instruction is a number of 8-byte words: its function's number, how many words it has, then what
that function takes. A place in memory is two words, the number of a slot and bytes behind its
beginning; strides are in bytes. Slot 0 holds the instructions, slot 1 scratch, the inputs and
outputs follow. The list ends with -1.

The order of every sum is that of ``ir/kernel.py``, and scalar functions are those of the prelude:
results have the same bits as those of fused kernels.
"""
