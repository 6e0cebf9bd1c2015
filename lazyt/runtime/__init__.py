"""Compiling and running Programs: devices, buffers, the compiler, the disk cache, execution."""
