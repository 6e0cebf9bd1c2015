"""What Fourier transforms of rows mean: their stages, their constants, and the order of their sums."""
