"""Single calls of the API, each as an expression over operands of one size.

The expressions are Python, with ``t`` as the framework, ``F`` as its ``nn.functional``, ``n`` as
the size and the operands of `operands`. `names` has them with their groups.
"""

from __future__ import annotations

from typing import Any

#: Operands in float32, float64 or bfloat16: matrices of n x n unless said otherwise.
_FLOATS = {
    "a": "t.randn(n, n)",
    "b": "t.randn(n, n)",
    "c": "t.randn(n, n)",
    "p": "t.rand(n, n) + 0.1",
    "q": "t.rand(n, n) * 0.9 + 0.05",
    "v": "t.randn(n)",
    "w": "t.randn(n)",
    "long": "t.randn(n * n)",
    "m30": "t.randn(30, 30)",
    "images": "t.randn(4, 16, n // 20 + 8, n // 20 + 8)",
    "filters": "t.randn(16, 16, 3, 3)",
    "signal": "t.randn(8, 16, n)",
    "taps": "t.randn(16, 16, 5)",
    "volume": "t.randn(1, 8, 16, 24, 24)",
    "cubes": "t.randn(8, 8, 3, 3, 3)",
    "channels": "t.rand(16) + 0.5",
    "heads": "t.randn(2, 4, n // 8 + 3, 32)",
    "batch": "t.randn(16, n // 10, n // 10)",
    "points": "t.randn(n // 2, 16)",
    "grid": "t.rand(4, n // 20 + 8, n // 20 + 8, 2) * 2 - 1",
    "table": "t.randn(n, 64)",
    "weights": "t.randn(16, 16, 16)",
}
_OTHERS = {
    "mask": "t.rand(n, n) > 0.5",
    "i": "t.randint(0, n, (n, n))",
    "j": "t.randint(0, n, (n,))",
    "k": "t.randint(-9, 9, (n, n))",
    "labels": "t.randint(0, n, (n,))",
    "bits": "t.randint(0, 2, (n, n)) > 0",
    "sorted_v": "t.linspace(-3, 3, n)",
    "counts": "t.randint(0, 50, (n * n,))",
    "logits": "t.randn(50, 8, 20).log_softmax(-1)",
    "goals": "t.randint(1, 20, (8, 10))",
    "lengths": "t.full((8,), 50), t.full((8,), 10)",
}
#: Matrices to factor: of 100, 200 and batches of 3 x 3, in floats of at least 32 bits.
_MATRICES = {
    "g100": "t.randn(100, 100) + 12 * t.eye(100)",
    "s200": "(lambda x: x @ x.mT / 200 + t.eye(200))(t.randn(200, 200))",
    "g200": "t.randn(200, 200) + 18 * t.eye(200)",
    "r200": "t.randn(200, 8)",
    "g3": "t.randn(5000, 3, 3) + 3 * t.eye(3)",
}

_ELEMENTWISE = {
    "add": "a + b", "add_row": "a + v", "sub_scalar": "a - 2.5", "mul": "a * b", "div": "a / p",
    "neg": "-a", "abs": "a.abs()", "sign": "a.sign()", "square": "a.square()", "sqrt": "p.sqrt()",
    "rsqrt": "p.rsqrt()", "reciprocal": "p.reciprocal()", "pow": "p ** c", "pow2.5": "p ** 2.5",
    "exp": "a.exp()", "exp2": "a.exp2()", "expm1": "a.expm1()", "log": "p.log()",
    "log2": "p.log2()", "log1p": "p.log1p()", "sin": "a.sin()", "cos": "a.cos()", "tan": "a.tan()",
    "asin": "q.asin()", "acos": "q.acos()", "atan": "a.atan()", "atan2": "t.atan2(a, b)",
    "sinh": "a.sinh()", "cosh": "a.cosh()", "tanh": "a.tanh()", "asinh": "a.asinh()",
    "atanh": "q.atanh()", "sigmoid": "a.sigmoid()", "erf": "a.erf()", "erfc": "a.erfc()",
    "erfinv": "q.erfinv()", "lgamma": "p.lgamma()", "digamma": "p.digamma()", "floor": "a.floor()",
    "round": "a.round()", "frac": "a.frac()", "fmod": "t.fmod(a, p)",
    "remainder": "t.remainder(a, p)", "hypot": "t.hypot(a, b)", "logaddexp": "t.logaddexp(a, b)",
    "maximum": "t.maximum(a, b)", "clamp": "a.clamp(-1, 1)", "where": "t.where(mask, a, b)",
    "masked_fill": "a.masked_fill(mask, 0.0)", "lerp": "t.lerp(a, b, 0.3)",
    "addcmul": "t.addcmul(a, b, c)", "addcdiv": "t.addcdiv(a, b, p)",
    "nan_to_num": "a.nan_to_num()", "isnan": "a.isnan()", "lt": "a < b", "logit": "q.logit()",
    "xlogy": "t.xlogy(p, q)", "copysign": "t.copysign(a, b)", "heaviside": "t.heaviside(a, b)",
    "i0": "a.i0()", "sinc": "a.sinc()", "to_int": "a.to(t.int32)", "to_double": "a.double()",
    "to_bool": "a.bool()", "int_add": "k + i", "int_floor_divide": "i // 7", "bit_and": "k & i",
}  # fmt: skip
_REDUCTIONS = {
    "sum": "a.sum()", "sum_rows": "a.sum(1)", "sum_columns": "a.sum(0)", "mean": "a.mean()",
    "var": "a.var()", "std_rows": "a.std(1)", "norm": "t.linalg.vector_norm(a)",
    "norm_rows": "a.norm(dim=1)", "prod": "q.prod()", "prod_rows": "p.prod(1)", "max": "a.max()",
    "max_rows": "a.max(1)", "amin_columns": "a.amin(0)", "argmax": "a.argmax()",
    "argmin_rows": "a.argmin(1)", "logsumexp": "a.logsumexp(1)", "any": "mask.any()",
    "all_rows": "mask.all(1)", "nansum": "a.nansum()", "nanmean": "a.nanmean(1)",
    "count_nonzero": "t.count_nonzero(k)", "aminmax": "t.aminmax(a)", "median_rows": "a.median(1)",
    "median": "a.median()", "mode_rows": "k.mode(1)", "quantile": "long[:100000].quantile(0.3)",
    "cumsum": "a.cumsum(1)", "cumsum_columns": "a.cumsum(0)", "cumprod": "a.cumprod(1)",
    "cummax": "a.cummax(1)", "logcumsumexp": "a.logcumsumexp(1)", "diff": "a.diff()",
    "trapezoid": "t.trapezoid(a)", "cov": "t.cov(points)", "corrcoef": "t.corrcoef(points)",
    "histc": "t.histc(a, 100, -3.0, 3.0)", "bincount": "t.bincount(counts)",
    "renorm": "a.renorm(2, 0, 1.0)", "trace": "a.trace()",
}  # fmt: skip
_ORDER = {
    "sort_rows": "a.sort(1)", "sort": "long.sort()", "argsort": "a.argsort(1)",
    "topk10": "a.topk(10)", "topk100": "a.topk(100)", "kthvalue": "a.kthvalue(5)",
    "unique": "t.unique(i)", "unique_consecutive": "t.unique_consecutive(counts)",
    "searchsorted": "t.searchsorted(sorted_v, a)", "bucketize": "t.bucketize(a, sorted_v)",
    "isin": "t.isin(i, j[:20])", "msort": "a.msort()",
}  # fmt: skip
_MOVES = {
    "gather": "a.gather(1, i)", "scatter": "a.scatter(1, i, b)",
    "scatter_add": "a.scatter_add(1, i, b)", "scatter_amax": "a.scatter_reduce(1, i, b, 'amax')",
    "index_select": "a.index_select(0, j)", "index_columns": "a[:, j]", "index_rows": "a[j]",
    "index_pairs": "a[j, j]", "index_add": "a.index_add(0, j, b)",
    "index_put": "a.index_put((j,), b)", "take_along_dim": "t.take_along_dim(a, i, 1)",
    "masked_select": "a[mask]", "nonzero": "mask.nonzero()", "roll": "a.roll(7, 1)",
    "flip": "a.flip(1)", "rot90": "t.rot90(a)", "transpose": "a.t().contiguous()",
    "permute": "batch.permute(2, 0, 1).contiguous()", "tril": "a.tril()", "triu": "a.triu(1)",
    "diag": "v.diag()", "diagonal": "a.diagonal().clone()", "cat": "t.cat([a, b])",
    "cat_columns": "t.cat([a, b], 1)", "stack": "t.stack([a, b, c])", "clone": "a.clone()",
    "repeat": "v.repeat(n)", "repeat_rows": "v.repeat(n, 1)", "tile": "a.tile(2, 1)",
    "repeat_interleave": "a.repeat_interleave(2, 0)", "pad": "F.pad(a, (3, 3, 2, 2))",
    "pad_reflect": "F.pad(signal, (9, 9), mode='reflect')",
    "pad_replicate": "F.pad(images, (2, 2, 2, 2), mode='replicate')",
    "pad_circular": "F.pad(images, (2, 2, 2, 2), mode='circular')",
    "unfold_windows": "a.unfold(1, 8, 4).contiguous()", "kron": "t.kron(m30, m30)",
    "outer": "t.outer(v, w)", "meshgrid": "t.stack(t.meshgrid(v, w, indexing='ij'))",
    "eye": "t.eye(n)", "arange": "t.arange(n * n)", "linspace": "t.linspace(0, 1, n * n)",
    "full": "t.full((n, n), 2.0)", "zeros": "t.zeros(n, n)", "rand": "t.rand(n, n)",
    "randn": "t.randn(n, n)", "randint": "t.randint(0, 10, (n, n))",
    "randperm": "t.randperm(n * 100)", "bernoulli": "t.bernoulli(q)",
    "multinomial": "p.multinomial(10, True)", "one_hot": "F.one_hot(j, n)",
    "embedding": "F.embedding(i, table)", "embedding_bag": "F.embedding_bag(i, table)",
    "cartesian_prod": "t.cartesian_prod(v, w)", "tril_indices": "t.tril_indices(n, n)",
    "dropout": "F.dropout(a, 0.2)", "vander": "t.vander(v, 20)",
}  # fmt: skip
_PRODUCTS = {
    "matmul": "a @ b", "mv": "a @ v", "dot": "long.dot(long)", "bmm": "batch @ batch",
    "addmm": "t.addmm(v, a, b)", "einsum": "t.einsum('bij,bkj->bik', batch, batch)",
    "linear": "F.linear(a, b, v)", "cdist": "t.cdist(points, points)",
    "tensordot": "t.tensordot(a, b, dims=1)", "bilinear": "F.bilinear(points, points, weights)",
    "attention": "F.scaled_dot_product_attention(heads, heads, heads)",
    "attention_causal": "F.scaled_dot_product_attention(heads, heads, heads, is_causal=True)",
}  # fmt: skip
_NETWORKS = {
    "conv1d": "F.conv1d(signal, taps, padding=2)", "conv2d": "F.conv2d(images, filters, padding=1)",
    "conv2d_strided": "F.conv2d(images, filters, stride=2)",
    "conv2d_depthwise": "F.conv2d(images, filters[:, :1], groups=16)",
    "conv3d": "F.conv3d(volume, cubes, padding=1)",
    "conv_transpose2d": "F.conv_transpose2d(images, filters, stride=2)",
    "max_pool2d": "F.max_pool2d(images, 2)", "avg_pool2d": "F.avg_pool2d(images, 3, 2)",
    "max_pool1d": "F.max_pool1d(signal, 3, 1)", "lp_pool2d": "F.lp_pool2d(images, 2, 2)",
    "adaptive_avg_pool2d": "F.adaptive_avg_pool2d(images, 7)",
    "adaptive_max_pool2d": "F.adaptive_max_pool2d(images, 7)",
    "batch_norm": "F.batch_norm(images, None, None, channels, channels, True)",
    "layer_norm": "F.layer_norm(a, (n,), v, w)", "group_norm": "F.group_norm(images, 4)",
    "instance_norm": "F.instance_norm(images)", "rms_norm": "F.rms_norm(a, (n,), v)",
    "local_response_norm": "F.local_response_norm(images, 5)", "normalize": "F.normalize(a)",
    "softmax": "a.softmax(1)", "softmax_columns": "a.softmax(0)", "log_softmax": "a.log_softmax(1)",
    "relu": "F.relu(a)", "gelu": "F.gelu(a)", "gelu_tanh": "F.gelu(a, approximate='tanh')",
    "silu": "F.silu(a)", "mish": "F.mish(a)", "softplus": "F.softplus(a)", "elu": "F.elu(a)",
    "selu": "F.selu(a)", "hardswish": "F.hardswish(a)", "leaky_relu": "F.leaky_relu(a)",
    "prelu": "F.prelu(a, v[:1])", "glu": "F.glu(a)", "logsigmoid": "F.logsigmoid(a)",
    "cross_entropy": "F.cross_entropy(a, labels)", "nll_loss": "F.nll_loss(a, labels)",
    "mse_loss": "F.mse_loss(a, b)", "l1_loss": "F.l1_loss(a, b)",
    "smooth_l1_loss": "F.smooth_l1_loss(a, b)", "huber_loss": "F.huber_loss(a, b)",
    "bce": "F.binary_cross_entropy(q, q)",
    "bce_logits": "F.binary_cross_entropy_with_logits(a, q)",
    "kl_div": "F.kl_div(a, q, reduction='batchmean')",
    "cosine_similarity": "F.cosine_similarity(a, b)",
    "pairwise_distance": "F.pairwise_distance(a, b)",
    "triplet_margin_loss": "F.triplet_margin_loss(a, b, c)",
    "ctc_loss": "F.ctc_loss(logits, goals, *lengths)",
    "interpolate_nearest": "F.interpolate(images, scale_factor=2)",
    "interpolate_bilinear": "F.interpolate(images, scale_factor=2, mode='bilinear')",
    "interpolate_bicubic": "F.interpolate(images, scale_factor=2, mode='bicubic')",
    "grid_sample": "F.grid_sample(images, grid, align_corners=False)",
    "pixel_shuffle": "F.pixel_shuffle(images, 2)", "unfold": "F.unfold(images, 3)",
    "fold": "F.fold(patches, (32, 32), 2, stride=2)", "lstm": "lstm(steps)[0]",
    "gru": "gru(steps)[0]", "multihead_attention": "attend(steps, steps, steps)[0]",
    "transformer_layer": "layer(steps)",
}  # fmt: skip
_LINEAR_ALGEBRA = {
    "cholesky": "t.linalg.cholesky(s200)", "inv": "t.linalg.inv(g100)",
    "inv_3x3": "t.linalg.inv(g3)", "det": "t.linalg.det(g200)", "slogdet": "t.linalg.slogdet(g200)",
    "solve": "t.linalg.solve(g200, r200)", "qr": "t.linalg.qr(g200)", "lu": "t.linalg.lu(g200)",
    "solve_triangular": "t.linalg.solve_triangular(g200, r200, upper=True)",
    "cholesky_solve": "t.cholesky_solve(r200, s200)",
    "lstsq": "t.linalg.lstsq(g200, r200).solution", "eigh": "t.linalg.eigh(s200)",
    "eigvalsh": "t.linalg.eigvalsh(s200)", "svd": "t.linalg.svd(g100)",
    "svdvals": "t.linalg.svdvals(g100)", "pinv": "t.linalg.pinv(g100)",
    "matrix_exp": "t.linalg.matrix_exp(m30)", "matrix_power": "t.linalg.matrix_power(m30, 5)",
    "matrix_norm": "t.linalg.matrix_norm(a)", "multi_dot": "t.linalg.multi_dot([a, b, c])",
    "svd_3x3": "t.linalg.svd(g3)", "eigh_3x3": "t.linalg.eigh(g3)", "det_3x3": "t.linalg.det(g3)",
}  # fmt: skip
#: Calls whose gradients are timed too, each with the operand that they are for.
_GRADIENTS = {
    "mul": "a", "exp": "a", "pow2.5": "p", "tanh": "a", "gelu": "a", "where": "a", "sum_rows": "a",
    "max_rows": "a", "var": "a", "prod_rows": "p", "logsumexp": "a", "cumsum": "a", "cumprod": "a",
    "sort_rows": "a", "topk10": "a", "gather": "a", "scatter_add": "b", "index_select": "a",
    "cat": "a", "pad_reflect": "signal", "kron": "m30", "outer": "v", "embedding": "table",
    "embedding_bag": "table", "matmul": "a", "bmm": "batch", "cdist": "points", "linear": "b",
    "attention": "heads", "conv1d": "taps", "conv2d": "filters", "conv3d": "cubes",
    "conv_transpose2d": "filters", "max_pool2d": "images", "avg_pool2d": "images",
    "batch_norm": "images", "layer_norm": "a", "group_norm": "images", "softmax": "a",
    "cross_entropy": "a", "mse_loss": "a", "ctc_loss": "logits", "bce_logits": "a",
    "interpolate_bilinear": "images", "grid_sample": "images", "unfold": "images", "lstm": "steps",
    "gru": "steps", "transformer_layer": "steps", "cholesky": "s200", "inv": "g100", "qr": "g200",
    "solve": "g200", "det": "g200", "eigvalsh": "s200", "svdvals": "g100", "matrix_exp": "m30",
}  # fmt: skip

GROUPS = {
    "elementwise": _ELEMENTWISE, "reductions": _REDUCTIONS, "order": _ORDER, "moves": _MOVES,
    "products": _PRODUCTS, "networks": _NETWORKS, "linear algebra": _LINEAR_ALGEBRA,
}  # fmt: skip


def names() -> list[str]:
    """The calls in order, gradients as ``grad:NAME``."""
    return [
        *(name for group in GROUPS.values() for name in group),
        *(f"grad:{n}" for n in _GRADIENTS),
    ]


def operands(t: Any, n: int, dtype: str) -> dict[str, Any]:
    """What the expressions are over, made by the framework ``t`` from one seed."""
    t.manual_seed(0)
    scope: dict[str, Any] = {"t": t, "F": t.nn.functional, "n": n}
    wide = {"steps": "t.randn(16, 8, 64)", "patches": "t.randn(4, 64, 256)"}
    for name, expression in {**_FLOATS, **wide, "logits": _OTHERS["logits"]}.items():
        scope[name] = eval(expression, scope).to(getattr(t, dtype))
    matrices = dtype if dtype == "float64" else "float32"
    for name, expression in _MATRICES.items():
        scope[name] = eval(expression, scope).to(getattr(t, matrices))
    for name, expression in _OTHERS.items():
        scope.setdefault(name, eval(expression, scope))
    modules = {"lstm": t.nn.LSTM(64, 64), "gru": t.nn.GRU(64, 64),
               "attend": t.nn.MultiheadAttention(64, 4),
               "layer": t.nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0)}  # fmt: skip
    scope |= {name: module.to(getattr(t, dtype)) for name, module in modules.items()}
    return scope


def call(name: str, scope: dict[str, Any]) -> tuple[Any, str]:
    """A function that makes the call, and the operand that it takes (``""``: none)."""
    wanted = name.removeprefix("grad:")
    expression = next(group[wanted] for group in GROUPS.values() if wanted in group)
    if wanted == name:
        return eval(f"lambda: {expression}", scope), ""
    operand = _GRADIENTS[wanted]
    value = eval(f"lambda {operand}: {expression}", scope)

    def loss(x: Any) -> Any:
        found = value(x)
        first = found if hasattr(found, "shape") else found[0]
        return (first * first).sum()

    return loss, operand
