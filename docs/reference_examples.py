"""Examples of the reference for names that no sample call shows, such as optimizers.

Each is run while the site is built. What it prints, and the value of its last expression, stand
below it. A key is the place and the name, as in ``coverage_page``; ``torch`` is lazyt.
"""

from __future__ import annotations

_WEIGHT = "w = torch.tensor([1.0, -2.0], requires_grad=True)\n"

EXAMPLES: dict[str, str] = {
    "torch.realize": """
a = torch.linspace(0, 1, 5)
total, largest = a.sum(), a.max()
torch.realize(total, largest)  # one plan for both
print(total, largest)
""",
    "torch.explain": """
x = torch.rand(64, 100).realize()
report = torch.explain(x.softmax(-1) + 1)
print(len(report.kernels), "kernel")
print(*report.kernels[0].reasons, sep="\\n")
""",
    "torch.why_realized": """
x = torch.arange(4.0) * 2
x.sum().item()
torch.why_realized()[-1]
""",
    "torch.why_compiled": """
torch.arange(4.0).sum().item()
[str(event) for event in torch.why_compiled()][-1:]
""",
    "torch.explain_broadcast": """
said = torch.explain_broadcast((8, 1, 6), (7, 1))
print(said)
said.result
""",
    "torch.jit": """
@torch.jit
def scaled(x, factor):
    return (x * factor).sum()

for n in range(4):
    total = scaled(torch.ones(3), 0.5 * n)
print(total, scaled.why())
""",
    "torch.compile": """
model = torch.nn.Linear(3, 2)
fast = torch.compile(model)
fast(torch.ones(4, 3)).shape
""",
    "torch.save": """
import io

file = io.BytesIO()
torch.save({"weights": torch.arange(3.0), "step": 7}, file)
file.seek(0)
torch.load(file)
""",
    "torch.load": """
import io

file = io.BytesIO()
torch.save([torch.ones(2), "text"], file)
file.seek(0)
torch.load(file)  # builds tensors and plain containers, runs nothing of the file
""",
    "torch.manual_seed": """
torch.manual_seed(3)
first = torch.rand(2)
torch.manual_seed(3)
bool((torch.rand(2) == first).all())
""",
    "torch.Generator": """
generator = torch.Generator().manual_seed(5)
torch.randint(10, (4,), generator=generator)
""",
    "torch.no_grad": _WEIGHT + """
with torch.no_grad():
    w -= 0.1
w
""",
    "torch.inference_mode": _WEIGHT + """
with torch.inference_mode():
    y = w * 2
y.requires_grad
""",
    "torch.enable_grad": _WEIGHT + """
with torch.no_grad(), torch.enable_grad():
    y = w * 2
y.requires_grad
""",
    "torch.vmap": """
dot = torch.vmap(torch.dot)
dot(torch.ones(3, 4), torch.arange(12.0).reshape(3, 4))
""",
    "torch.autocast": """
a = torch.ones(2, 3)
with torch.autocast("cpu", dtype=torch.bfloat16):
    product = a @ a.T
product.dtype
""",
    "torch.finfo": "torch.finfo(torch.bfloat16).eps\n",
    "torch.iinfo": "torch.iinfo(torch.int16).max\n",
    "torch.from_numpy": """
import numpy as np

array = np.zeros(3)
x = torch.from_numpy(array)
array[0] = 5  # they share memory
x
""",
    "autograd.grad": _WEIGHT + """
(slope,) = torch.autograd.grad((w**3).sum(), w, create_graph=True)
(curvature,) = torch.autograd.grad(slope.sum(), w)
slope, curvature
""",
    "autograd.backward": _WEIGHT + """
torch.autograd.backward([(w**2).sum(), w.sum()])
w.grad
""",
    "autograd.Function": """
class Sign(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, slope):
        return slope  # as if it were the identity

w = torch.tensor([1.0, -2.0], requires_grad=True)
Sign.apply(w).sum().backward()
w.grad
""",
    "func.grad": "torch.func.grad(lambda x: x**3)(torch.tensor(2.0))\n",
    "func.grad_and_value": "torch.func.grad_and_value(lambda x: x**3)(torch.tensor(2.0))\n",
    "func.value_and_grad": "torch.func.value_and_grad(lambda x: x**3)(torch.tensor(2.0))\n",
    "func.vjp": """
value, pull = torch.func.vjp(torch.sin, torch.tensor([0.0, 1.0]))
value, pull(torch.ones(2))
""",
    "func.jvp": """
torch.func.jvp(torch.sin, (torch.tensor([0.0, 1.0]),), (torch.ones(2),))
""",
    "func.linearize": """
value, push = torch.func.linearize(torch.sin, torch.tensor([0.0, 1.0]))
push(torch.ones(2))
""",
    "func.jacrev": "torch.func.jacrev(lambda x: x * x.sum())(torch.tensor([1.0, 2.0]))\n",
    "func.jacfwd": "torch.func.jacfwd(lambda x: x * x.sum())(torch.tensor([1.0, 2.0]))\n",
    "func.hessian": "torch.func.hessian(lambda x: (x**3).sum())(torch.tensor([1.0, 2.0]))\n",
    "func.functional_call": """
layer = torch.nn.Linear(2, 1)
weights = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
torch.func.functional_call(layer, weights, torch.tensor([3.0, 4.0]))
""",
    "func.stack_module_state": """
models = [torch.nn.Linear(2, 1) for _ in range(3)]
parameters, buffers = torch.func.stack_module_state(models)
parameters["weight"].shape
""",
    "func.vmap": """
per_row = torch.func.vmap(torch.func.grad(lambda x: (x**2).sum()))
per_row(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
""",
    "utils.data.DataLoader": """
from lazyt.utils.data import DataLoader, TensorDataset

data = TensorDataset(torch.arange(5.0), torch.arange(5))
[[part.tolist() for part in batch] for batch in DataLoader(data, batch_size=2)]
""",
    "utils.data.TensorDataset": """
from lazyt.utils.data import TensorDataset

data = TensorDataset(torch.arange(6.0).reshape(3, 2), torch.tensor([0, 1, 0]))
len(data), data[1]
""",
    "utils.data.Dataset": """
from lazyt.utils.data import Dataset

class Squares(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, n):
        return torch.tensor(n * n)

Squares()[3]
""",
    "utils.data.Subset": """
from lazyt.utils.data import Subset

[*Subset(["a", "b", "c"], [2, 0])]
""",
    "utils.data.ConcatDataset": """
from lazyt.utils.data import ConcatDataset

[*ConcatDataset([["a"], ["b", "c"]])]
""",
    "utils.data.random_split": """
from lazyt.utils.data import random_split

train, test = random_split(range(10), [0.8, 0.2])
len(train), len(test)
""",
    "utils.data.default_collate": """
from lazyt.utils.data import default_collate

default_collate([(torch.ones(2), 1), (torch.zeros(2), 2)])
""",
    "nn.utils.clip_grad_norm_": _WEIGHT + """
(10 * w).sum().backward()
before = torch.nn.utils.clip_grad_norm_([w], 1.0)
before, w.grad
""",
    "nn.utils.clip_grad_value_": _WEIGHT + """
(10 * w).sum().backward()
torch.nn.utils.clip_grad_value_([w], 0.5)
w.grad
""",
    "nn.utils.parameters_to_vector": """
torch.nn.utils.parameters_to_vector(torch.nn.Linear(2, 1).parameters()).shape
""",
    "nn.Module": """
class Twice(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.factor = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        return self.factor * x

model = Twice()
model(torch.ones(2)), [name for name, _ in model.named_parameters()]
""",
    "nn.ModuleList": """
layers = torch.nn.ModuleList(torch.nn.Linear(2, 2) for _ in range(3))
len(layers), len(list(layers.parameters()))
""",
    "nn.ModuleDict": """
heads = torch.nn.ModuleDict({"class": torch.nn.Linear(2, 3), "size": torch.nn.Linear(2, 1)})
heads["size"](torch.ones(2)).shape
""",
    "nn.Parameter": "torch.nn.Parameter(torch.zeros(2))\n",
    "serialization.add_safe_globals": """
import fractions, io

file = io.BytesIO()
torch.save({"ratio": fractions.Fraction(1, 3)}, file)
file.seek(0)
with torch.serialization.safe_globals([fractions.Fraction]):
    print(torch.load(file))
""",
    "testing.assert_close": """
torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.0 + 1e-7]))
try:
    torch.testing.assert_close(torch.tensor([1.0]), torch.tensor([1.1]))
except AssertionError as error:
    print(error)
""",
    "profiler.profile": """
with torch.profiler.profile() as prof:
    torch.rand(50, 50).softmax(-1).sum().item()
any(row.key.startswith("lazyt::") for row in prof.key_averages())
""",
    "amp.GradScaler": _WEIGHT + """
scaler = torch.amp.GradScaler("cpu")
optimizer = torch.optim.SGD([w], lr=0.1)
scaler.scale((w**2).sum()).backward()
scaler.step(optimizer)
scaler.update()
w
""",
}  # fmt: skip

#: Arguments of constructors, for the examples that ``made`` writes.
SCHEDULES = {
    "ConstantLR": "factor=0.5, total_iters=2", "LinearLR": "start_factor=0.25, total_iters=3",
    "StepLR": "step_size=2", "MultiStepLR": "milestones=[1, 3]", "ExponentialLR": "gamma=0.5",
    "CosineAnnealingLR": "T_max=4", "PolynomialLR": "total_iters=4",
    "LambdaLR": "lambda n: 1 / (n + 1)",
    "MultiplicativeLR": "lambda n: 0.5", "CyclicLR": "base_lr=0.1, max_lr=0.5, step_size_up=2",
    "CosineAnnealingWarmRestarts": "T_0=2", "OneCycleLR": "max_lr=1.0, total_steps=6",
}  # fmt: skip
OPTIMIZERS = {
    "Adadelta": "", "Adafactor": "", "Adagrad": "", "Adam": "", "AdamW": "", "Adamax": "",
    "ASGD": "", "NAdam": "", "RAdam": "", "RMSprop": "", "Rprop": "", "SGD": "momentum=0.9, ",
    "Lion": "",
}  # fmt: skip
DISTRIBUTIONS = {
    "Bernoulli": "probs=0.3", "Beta": "2.0, 3.0", "Binomial": "10, probs=0.5",
    "Categorical": "probs=torch.tensor([0.2, 0.8])", "Cauchy": "0.0, 1.0", "Chi2": "3.0",
    "Dirichlet": "torch.ones(3)", "Exponential": "2.0", "FisherSnedecor": "3.0, 4.0",
    "Gamma": "2.0, 1.0", "Geometric": "probs=0.4", "Gumbel": "0.0, 1.0", "HalfCauchy": "1.0",
    "HalfNormal": "1.0", "InverseGamma": "3.0, 1.0", "Laplace": "0.0, 1.0", "LogNormal": "0.0, 1.0",
    "MultivariateNormal": "torch.zeros(2), torch.eye(2)", "NegativeBinomial": "5, probs=0.5",
    "Normal": "0.0, 1.0", "OneHotCategorical": "probs=torch.tensor([0.2, 0.8])",
    "Pareto": "1.0, 3.0", "Poisson": "4.0", "StudentT": "3.0", "Uniform": "0.0, 2.0",
    "VonMises": "0.0, 1.0", "Weibull": "1.0, 2.0", "Kumaraswamy": "2.0, 3.0",
    "LKJCholesky": "3, 0.5", "Wishart": "3.0, torch.eye(2)",
}  # fmt: skip
INITS = (
    "zeros_", "ones_", "eye_", "uniform_", "normal_", "trunc_normal_", "xavier_uniform_",
    "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_",
)  # fmt: skip
WINDOWS = ("bartlett", "blackman", "cosine", "hamming", "hann", "nuttall")


def made(place: str, name: str) -> str:
    """The example of a name whose place has many alike, or nothing."""
    if place == "optim.lr_scheduler" and name in SCHEDULES:
        return f"""
optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=0.1)
schedule = torch.optim.lr_scheduler.{name}(optimizer, {SCHEDULES[name]})
rates = []
for _ in range(6):
    rates.append(round(schedule.get_last_lr()[0], 4))
    optimizer.step()
    schedule.step()
rates
"""
    if place == "optim" and name in OPTIMIZERS:
        return f"""
w = torch.tensor([1.0, -2.0], requires_grad=True)
optimizer = torch.optim.{name}([w], {OPTIMIZERS[name]}lr=0.1)
for _ in range(3):
    optimizer.zero_grad()
    (w**2).sum().backward()
    optimizer.step()
w
"""
    if place == "distributions" and name in DISTRIBUTIONS:
        return f"""
torch.manual_seed(0)
chance = torch.distributions.{name}({DISTRIBUTIONS[name]})
draw = chance.sample()
draw, chance.log_prob(draw)
"""
    if place == "nn.init" and name in INITS:
        return f"torch.manual_seed(0)\ntorch.nn.init.{name}(torch.empty(2, 3))\n"
    if place == "signal.windows" and name in WINDOWS:
        return f"torch.signal.windows.{name}(5)\n"
    return ""


def code_of(place: str, name: str) -> str:
    """The example of a name, or nothing."""
    return EXAMPLES.get(f"{place}.{name}", made(place, name)).strip("\n")
