"""Commands that say how good kernels are."""
