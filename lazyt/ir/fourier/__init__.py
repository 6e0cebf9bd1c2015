"""What Fourier transforms of rows mean: their stages, constants, and the order of their sums."""
