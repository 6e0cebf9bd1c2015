"""Which lazyt this is, under the names of ``torch.version``."""

__version__ = "0.1.0"
#: The version of CUDA that PyTorch would have been built with: nothing is built with lazyt.
cuda: str | None = None
hip: str | None = None
git_version = "unknown"
debug = False
