"""Programs after reports.

pytorch/pytorch#195422 and siblings: functions that give their argument back; writes go through
"""

from __future__ import annotations

from typing import Any

from tests.reported.shown import Item, Log


def case(torch: Any) -> list[Item]:
    """What the programs show."""
    log = Log(torch)
    F, nn = torch.nn.functional, torch.nn
    fs = {
        "dropout-eval": lambda x: F.dropout(x, 0.5, False),
        "dropout-p0": lambda x: F.dropout(x, 0.0, True),
        "dropout2d-eval": lambda x: F.dropout2d(x, 0.5, False),
        "alpha-eval": lambda x: F.alpha_dropout(x, 0.5, False),
        "feature-alpha-eval": lambda x: F.feature_alpha_dropout(x, 0.5, False),
        "Dropout": lambda x: nn.Dropout(0.5).eval()(x),
        "Identity": lambda x: nn.Identity()(x),
        "Sequential-empty": lambda x: nn.Sequential()(x),
        "to-same": lambda x: x.to(x.dtype),
        "to-cpu": lambda x: x.to("cpu"),
        "to-copy": lambda x: x.to(x.dtype, copy=True),
        "type-same": lambda x: x.type(x.dtype),
        "type_as": lambda x: x.type_as(x),
        "float": lambda x: x.float(),
        "contiguous": lambda x: x.contiguous(),
        "cpu": lambda x: x.cpu(),
        "reshape": lambda x: x.reshape(x.shape),
        "reshape-1": lambda x: x.reshape(-1, x.shape[-1]),
        "reshape_as": lambda x: x.reshape_as(x),
        "view_as": lambda x: x.view_as(x),
        "expand": lambda x: x.expand(-1, -1),
        "expand_as": lambda x: x.expand_as(x),
        "broadcast_to": lambda x: x.broadcast_to(x.shape),
        "broadcast_tensors": lambda x: torch.broadcast_tensors(x, torch.zeros(1))[0],
        "sum_to_size": lambda x: x.sum_to_size(x.shape),
        "flatten-none": lambda x: x.flatten(0, 0),
        "flatten": lambda x: x.flatten(),
        "ravel": lambda x: x.ravel(),
        "unflatten": lambda x: x.unflatten(1, (2, 2)),
        "positive": lambda x: +x,
        "real": lambda x: x.real,
        "conj": lambda x: x.conj(),
        "resolve_conj": lambda x: x.resolve_conj(),
        "resolve_neg": lambda x: x.resolve_neg(),
        "squeeze": lambda x: x.squeeze(),
        "atleast_2d": lambda x: torch.atleast_2d(x),
        "atleast_3d": lambda x: torch.atleast_3d(x),
        "narrow": lambda x: x.narrow(0, 0, x.shape[0]),
        "narrow_copy": lambda x: x.narrow_copy(0, 0, x.shape[0]),
        "all-slice": lambda x: x[:],
        "ellipsis": lambda x: x[...],
        "none-index": lambda x: x[None],
        "true-index": lambda x: x[True],
        "detach": lambda x: x.detach(),
        "data": lambda x: x.data,
        "as_tensor": lambda x: torch.as_tensor(x),
        "as_tensor-dtype": lambda x: torch.as_tensor(x, dtype=torch.float32),
        "asarray": lambda x: torch.asarray(x),
        "alias": lambda x: x.view(-1).view(x.shape),
        "swapaxes": lambda x: x.swapaxes(0, 1),
        "movedim-same": lambda x: x.movedim(0, 0),
        "T-T": lambda x: x.T.T,
        "permute-same": lambda x: x.permute(0, 1),
        "clone": lambda x: x.clone(),
        "pad0": lambda x: F.pad(x, (0, 0)),
        "tile1": lambda x: x.tile(1, 1),
        "repeat1": lambda x: x.repeat(1, 1),
        "repeat_interleave1": lambda x: x.repeat_interleave(1, 0),
        "cat1": lambda x: torch.cat([x]),
        "stack0": lambda x: torch.stack([x])[0],
        "roll0": lambda x: x.roll(0),
        "flip-none": lambda x: x.flip(()),
        "diagonal": lambda x: x.diagonal(),
        "tril-all": lambda x: x.tril(9),
        "where": lambda x: torch.where(torch.ones(()) > 0, x, x),
        "clamp-none": lambda x: x.clamp(-99, 99),
        "nan_to_num": lambda x: x.nan_to_num(),
        "round": lambda x: x.round(),
        "sum-none": lambda x: x.sum(()) if False else x.mean((), keepdim=True),
        "index_select": lambda x: x.index_select(0, torch.arange(x.shape[0])),
        "requires_grad_": lambda x: x.requires_grad_(False),
        "hardtanh-inplace": lambda x: F.hardtanh(x, -99, 99, inplace=True),
        "relu-inplace": lambda x: F.relu(x, inplace=True),
        "rrelu-eval-inplace": lambda x: F.rrelu(x, training=False, inplace=True),
        "lookup-unbind": lambda x: x.unbind(0)[1],
        "split": lambda x: x.split(x.shape[0])[0],
        "chunk": lambda x: x.chunk(1)[0],
        "tensor_split": lambda x: x.tensor_split(1)[0],
        "hsplit": lambda x: x.hsplit(1)[0],
        "meshgrid": lambda x: torch.meshgrid(x[0], x[0], indexing="ij")[0],
        "unfold": lambda x: x.unfold(0, 1, 1),
        "matrix_power1": lambda x: torch.linalg.matrix_power(x[:, :3], 1),
        "chain1": lambda x: torch.linalg.multi_dot([x, torch.eye(4)]),
        "as_strided": lambda x: x.as_strided(x.shape, x.stride()),
        "interpolate-same": lambda x: F.interpolate(x[None], scale_factor=1.0)[0],
        "avg-same": lambda x: F.adaptive_avg_pool1d(x, 4),
        "channel_shuffle1": lambda x: F.channel_shuffle(x[None, :, :, None], 1)[0, :, :, 0],
        "pixel_shuffle1": lambda x: F.pixel_shuffle(x[None, :, :], 1)[0],
        "normal-view-dtype": lambda x: x.view(torch.int32).view(torch.float32),
        "masked-all": lambda x: x[torch.ones_like(x, dtype=torch.bool)],
        "softshrink": lambda x: F.threshold(x, -99.0, 0.0),
        "block_diag": lambda x: torch.block_diag(x),
        "cartesian1": lambda x: torch.cartesian_prod(x[0]),
        "combinations": lambda x: torch.combinations(x[0], 1),
        "column_stack": lambda x: torch.column_stack([x]),
        "vander": lambda x: torch.squeeze(x[:, None], 1),
        "nan": lambda x: torch.special.expit(x) * 0 + x,
        "einsum-id": lambda x: torch.einsum("ij->ij", x),
        "einsum-t": lambda x: torch.einsum("ij->ji", x),
        "einsum-diag": lambda x: torch.einsum("ii->i", x[:, :3]),
        "Upsample": lambda x: nn.Flatten(0, 1)(x),
        "Unflatten": lambda x: nn.Unflatten(1, (2, 2))(x),
        "checkpoint": lambda x: torch.utils.checkpoint.checkpoint(
            lambda t: t, x, use_reentrant=False
        ),
    }

    def through(fn, x):
        y = fn(x)
        same = y is x
        shares = y.data_ptr() == x.data_ptr()
        with torch.no_grad():
            y += 100
        return same, shares, x, y, y.stride() if y.numel() else None

    for name, fn in fs.items():
        log.run(name, lambda: through(fn, torch.arange(12.0).reshape(3, 4)))
        log.run(name + "/t", lambda: through(fn, torch.arange(12.0).reshape(4, 3).t()))

    # compiled: the write through the returned tensor reaches the caller's
    for name in (
        "dropout-eval",
        "dropout-p0",
        "to-same",
        "contiguous",
        "reshape",
        "expand_as",
        "sum_to_size",
        "positive",
        "flatten",
        "einsum-id",
        "einsum-t",
        "as_strided",
        "broadcast_tensors",
        "split",
        "unfold",
        "narrow",
    ):
        fn = fs[name]

        def w(x):
            y = fn(x)
            y += y
            z = x * 2
            y.sub_(1)
            return y, z

        log.jit("write-" + name, w, lambda i: [torch.arange(12.0).reshape(3, 4) + i])

    # with gradients: in-place on what an identity gave back
    def g(x):
        h = x * 2
        y = F.dropout(h, 0.5, False)
        y += y
        return h.sum() + (y * 3).sum()

    def run():
        x = torch.arange(4.0, requires_grad=True)
        out = g(x)
        out.backward()
        return out, x.grad

    log.run("grad-dropout", run)
    return log.items
