"""C and CUDA C that users write: read into a tree, checked, and made scalar expressions or kernels.

Nothing of a user's text reaches a compiler as it was written. What is compiled is printed from the
tree, and has only what the checks let through.
"""
