"""The operators of torchaudio's compiled library that its functions on the CPU call, so that it can
be imported and filters where that library cannot be loaded.

Recursive filters are loops of the graph (``lazyt.functional.control``): compiled once, whatever the
length. Alignment and the RNN-T loss are not there, and raise where they are called.

Sources: the documentation of torchaudio's ``lfilter`` and ``overdrive``.
"""

from __future__ import annotations

import functools

from lazyt.functional import namespace as lazyt
from lazyt.functional.control.loops import scan
from lazyt.functional.namespace import Tensor
from lazyt.handle.grad_mode import no_grad
from lazyt.library.definitions import Library

__all__ = ["define", "lfilter_core_loop", "overdrive_core_loop"]


def lfilter_core_loop(input: Tensor, a_coeffs: Tensor, padded_output: Tensor) -> None:
    """The recursive half of a filter: ``y[t] = x[t] - sum_k a[k] y[t - k]`` for k from 1 on.

    Args:
        input: [batch, channels, samples].
        a_coeffs: [channels, order + 1], the coefficient of the oldest output first; the last, of
            the newest, is one.
        padded_output: [batch, channels, order + samples]; begins with the outputs before the first,
            the others are written.
    """
    order = a_coeffs.shape[1] - 1
    with no_grad():
        if not order:
            padded_output.copy_(input)
            return
        weights = a_coeffs[:, :order]

        def step(last: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
            new = x - (last * weights).sum(-1)
            return lazyt.cat([last[:, :, 1:], new.unsqueeze(-1)], -1), new

        _, found = scan(step, padded_output[:, :, :order], input.permute(2, 0, 1))
        padded_output[:, :, order:] = found.permute(1, 2, 0)


def overdrive_core_loop(
    waveform: Tensor, temp: Tensor, last_in: Tensor, last_out: Tensor, output_waveform: Tensor
) -> None:
    """Half of the signal, and three quarters of its distortion without the mean: writes
    ``output_waveform``.

    Args:
        waveform, temp, output_waveform: [channels, samples]; ``temp`` is distorted.
        last_in, last_out: [channels], before the first sample.
    """

    def step(last: tuple[Tensor, Tensor], x: Tensor) -> tuple[tuple[Tensor, Tensor], Tensor]:
        new = x - last[0] + 0.995 * last[1]
        return (x, new), new

    with no_grad():
        _, found = scan(step, (last_in, last_out), temp.t())
        output_waveform.copy_(waveform * 0.5 + found.t() * 0.75)


def _is_align_available() -> bool:
    return False


def _cuda_version() -> None:
    return None


@functools.cache
def define() -> list[Library]:
    """Defines them, once; gives the libraries that have them."""
    own, made = Library("_torchaudio", "FRAGMENT"), Library("torchaudio", "FRAGMENT")
    for library, schema, function in (
        (own, "is_align_available() -> bool", _is_align_available),
        (own, "cuda_version() -> int?", _cuda_version),
        (
            made,
            "_lfilter_core_loop(Tensor input, Tensor a_coeffs, Tensor(a!) padded_output) -> ()",
            lfilter_core_loop,
        ),
        (
            made,
            "_overdrive_core_loop(Tensor waveform, Tensor temp, Tensor last_in, Tensor last_out, "
            "Tensor(a!) output_waveform) -> ()",
            overdrive_core_loop,
        ),
    ):
        library.impl(library.define(schema), function, "CompositeImplicitAutograd")
    return [own, made]
