"""Networks as problems: what ``bench.levels`` declares, made under PyTorch or lazyt, or written as
files of their own."""
