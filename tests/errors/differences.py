"""Mistakes for which lazyt raises something else than PyTorch: patterns of programs, and why."""

from __future__ import annotations

_COUNTED = (
    r"(t|x|g|m)\.(tolist|element_size|retain_grad|size|numpy|new_full|full|tensor|sum|device|cumsum"
    r"|result_type|linspace|max|can_cast|set_grad_enabled|mean|requires_grad_|scatter_reduce"
    r"|nonzero)\(.*|nn\.Conv2d\(3, 4\)|nn\.CrossEntropyLoss\(\)\(x\)|nn\.MSELoss\(foo=1\)"
)
_NAMED = (
    r"t\.(reshape|zeros|scalar_tensor|tensor|prod|cumsum)\(.*|x\.(sum|prod|type)\(.*"
    r"|nn\.Linear\('a', 2\)|F\.softmax\(x, 'a'\)"
)
_CHECKED = (
    r"x\.unflatten\(1, \(-1, -1\)\)|t\.meshgrid\(x, x.*|F\.unfold\(x, 2\)|t\.baddbmm\(x, x, x\)"
    r"|t\.cumulative_trapezoid.*|F\.pad\(.*|F\.adaptive_avg_pool2d\(x, 2\)"
    r"|F\.(mse_loss|kl_div)\(x, .*|nn\.Parameter\((5|i)\)|data\.TensorDataset\(5\)"
    r"|nn\.utils\.parameters_to_vector.*"
    r"|.*storage\(\)\.foo|\(g \* 2\)\.backward\(\[1\.0\]\)|i\.clamp_.*|x\.index_put\(.*"
)
_LONGER = (
    r"x\.grad = x\.double\(\)|copy\.deepcopy\(g \* 2\)|y = g.*|t\.load\(.*|m\.to\(5\)"
    r"|nn\.Conv2d\(.*padding.*|data\.DataLoader\(\[1, 2\], prefetch_factor=2\)|sch\.StepLR\(.*"
)
_MISSING = (
    r"nn\.init\.(orthogonal|dirac|sparse)_.*|nn\.utils\.(parametrizations\.)?weight_norm.*"
    r"|optim\.LBFGS.*|sch\.(ReduceLR|OneCycle|Cyclic|CosineAnnealingWarm|Chained|Polynomial).*"
    r"|t\.autograd\.(functional|gradcheck).*|t\.vmap.*|t\.func\..*"
)

#: A reason that ends in "yet" may lose its last program without a test failing.
DIFFERENT: list[tuple[str, str]] = [
    (_COUNTED, "Python counts and names the arguments itself"),
    (_NAMED, "the function or the parameter is called otherwise in the message yet"),
    (_CHECKED, "the mistake is found by another check"),
    (_LONGER, "words of its own behind PyTorch's first ones"),
    (_MISSING, "not there yet"),
    (r".*'foo(:1)?'\)", "the devices that are named are those that exist here"),
    (r"x\.(dtype|shape|T|is_leaf) = .*", "Python's words for a property"),
    (r"t\.(finfo|iinfo)\(.*", "PyTorch names itself instead of the dtype"),
    (r"x\[(::|0:1:)-1\]", "slices backwards are taken, as NumPy takes them"),
    (r"t\.true_divide\(.*", "one function with div"),
    (r"t\.Size\(.*", "sizes are made for every tensor, so their elements are not looked at"),
    (r"nn\.Linear\(-1, 2\)", "memory is made with zeros"),
]
