"""Functions over all parameters of a network."""

from lazyt.nn.utils.clipping import clip_grad_norm_, clip_grad_value_, get_total_norm
from lazyt.nn.utils.vectors import parameters_to_vector, vector_to_parameters

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "get_total_norm", "parameters_to_vector",
    "vector_to_parameters",
]  # fmt: skip
