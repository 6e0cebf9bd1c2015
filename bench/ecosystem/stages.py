"""What is done with a network at each stage, and how values are written down to be compared."""

from __future__ import annotations

import io
import math
import zlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from bench.ecosystem.entries import Case, Steps

#: Of tensors with more elements than that, as many are written down, from both ends.
_SHOWN = 12
#: How far two runs of one framework may differ from each other.
_CLOSE = 1e-4


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """A tensor of normal numbers, the same in both frameworks."""
    import torch

    values = np.random.RandomState(seed).standard_normal(shape).astype(dtype)
    return torch.from_numpy(values)


def uniform(*shape: int, seed: int = 0, dtype: Any = np.float32) -> Any:
    """A tensor of numbers from 0 to 1, the same in both frameworks."""
    import torch

    return torch.from_numpy(np.random.RandomState(seed).random_sample(shape).astype(dtype))


def integers(*shape: int, below: int, seed: int = 0) -> Any:
    """A tensor of int64, the same in both frameworks."""
    import torch

    return torch.from_numpy(np.random.RandomState(seed).randint(0, below, shape))


def fill(module: Any) -> None:
    """Gives parameters numbers that depend on their names alone, and switches dropout off."""
    import torch

    with torch.no_grad():
        for name, parameter in module.named_parameters():
            if not (parameter.is_floating_point() or parameter.is_complex()):
                continue
            source = np.random.RandomState(zlib.crc32(name.encode()))
            values = source.standard_normal(tuple(parameter.shape))
            if parameter.ndim >= 2:
                values /= math.sqrt(max(1, math.prod(parameter.shape[1:])))
            else:
                values = 0.1 * values + (1.0 if name.endswith("weight") else 0.0)
            parameter.copy_(torch.from_numpy(np.asarray(values)).to(parameter.dtype))
    for part in module.modules():
        dropping = "drop" in type(part).__name__.lower()
        for name, value in vars(part).items():
            if isinstance(value, float) and ("drop" in name or (dropping and name == "p")):
                setattr(part, name, 0.0)


def tensors(value: Any) -> Iterator[tuple[str, Any]]:
    """All tensors and numbers in a value, each with its path."""
    import torch

    if isinstance(value, (torch.Tensor, np.ndarray, np.generic, bool, int, float, complex, str)):
        yield "", value
    elif isinstance(value, Mapping):
        for key in value:
            for path, found in tensors(value[key]):
                yield f"{key}.{path}".rstrip("."), found
    elif isinstance(value, (list, tuple, set)):
        for index, part in enumerate(value):
            for path, found in tensors(part):
                yield f"{index}.{path}".rstrip("."), found
    elif hasattr(value, "__dataclass_fields__"):
        yield from tensors({f: getattr(value, f) for f in value.__dataclass_fields__})


def array(tensor: Any) -> Any:
    """A tensor's values in NumPy."""
    import torch

    if not isinstance(tensor, torch.Tensor):
        return np.asarray(tensor)
    found = tensor.detach().cpu()
    if found.layout != torch.strided:
        found = found.to_dense()
    if found.dtype in (torch.bfloat16, torch.float16):
        found = found.to(torch.float32)
    return found.resolve_conj().resolve_neg().numpy()


def summary(tensor: Any) -> Any:
    """What is compared of a tensor: its shape and dtype, a few elements, and sums of all."""
    if isinstance(tensor, (bool, str)):
        return tensor
    values = array(tensor)
    kind = str(getattr(tensor, "dtype", type(tensor).__name__)).rpartition(".")[2]
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    flat = values.astype(np.float64).reshape(-1)
    shown = flat
    if flat.size > _SHOWN:
        shown = np.concatenate([flat[: _SHOWN // 2], flat[-_SHOWN // 2 :]])
    told = [float(f"{v:.7g}") if math.isfinite(v) else str(v) for v in shown]
    size = math.sqrt(float(np.mean(flat**2))) if flat.size else 0.0
    mean = float(flat.mean()) if flat.size else 0.0
    return {
        "dtype": kind,
        "shape": list(values.shape),
        "values": told,
        "size": float(f"{size:.7g}") if math.isfinite(size) else str(size),
        "mean": float(f"{mean:.7g}") if math.isfinite(mean) else str(mean),
    }


def summaries(value: Any) -> dict[str, Any]:
    """Of all tensors of a value, by path."""
    return {path: summary(found) for path, found in tensors(value)}


def differences(found: Any, wanted: Any, relative: float, path: str = "") -> Iterator[str]:
    """Where two summaries differ, as text."""
    if isinstance(wanted, Mapping) and isinstance(found, Mapping):
        size = wanted.get("size")
        if isinstance(size, (int, float)) and "values" in wanted:
            yield from _of_tensor(found, wanted, relative, path)
            return
        for key in wanted:
            if key not in found:
                yield f"{path}{key} is missing"
            else:
                yield from differences(found[key], wanted[key], relative, f"{path}{key} ")
        yield from (f"{path}{key} is one too many" for key in found if key not in wanted)
    elif found != wanted:
        yield f"{path}is {found}, PyTorch has {wanted}"


def _of_tensor(
    found: Mapping[str, Any], wanted: Mapping[str, Any], relative: float, path: str
) -> Iterator[str]:
    for key in ("dtype", "shape"):
        if found.get(key) != wanted[key]:
            yield f"{path}{key} is {found.get(key)}, PyTorch has {wanted[key]}"
            return
    exact = not wanted["dtype"].startswith(("float", "bfloat", "complex"))
    slack = 0.0 if exact else relative * float(wanted["size"])
    pairs = [*zip(found["values"], wanted["values"]), (found["mean"], wanted["mean"])]
    for a, b in pairs:
        numbers = isinstance(a, (int, float)) and isinstance(b, (int, float))
        if a != b and not (numbers and abs(a - b) <= slack + (0 if exact else relative * abs(b))):
            yield f"{path}has {a}, PyTorch has {b}"
            return


def _gradients(module: Any) -> dict[str, Any]:
    """Of parameters: all of them by their size, so that the record stays short."""
    named = [(n, p.grad) for n, p in module.named_parameters() if p.grad is not None]
    sizes = [float(np.sqrt((np.abs(array(g).astype(np.complex128)) ** 2).sum())) for _, g in named]
    ends = dict([*named[:1], *named[-1:]])
    return {"count": len(named), "sizes": np.asarray(sizes), **ends}


def agree(found: Any, wanted: Any) -> None:
    """Raises AssertionError where two values of the same framework differ."""
    wrong = list(differences(summaries(found), summaries(wanted), _CLOSE))
    if wrong:
        raise AssertionError(wrong[0].replace("PyTorch", "the same without it"))


def mean_square(found: Any) -> Any:
    """That of the first tensor of what a network returns."""
    import torch

    first = next(t for _, t in tensors(found) if isinstance(t, torch.Tensor))
    return (first.abs() ** 2).mean()


class Network:
    """The stages of a network."""

    def __init__(self, case: Case) -> None:
        self.case, self.module = case, case.module
        if case.fill:
            fill(case.module)
        self.inputs: Any = case.inputs
        if case.double:
            case.module.double()
            given: Any = case.inputs
            self.inputs = tuple(t.double() if t.is_floating_point() else t for t in given)
        case.module.train(case.training)
        state = case.module.state_dict()
        self.start = {k: v.clone() for k, v in state.items() if hasattr(v, "clone")}

    def reset(self) -> None:
        """Parameters and statistics as they were in the beginning, without gradients."""
        self.module.load_state_dict(self.start, strict=False)
        self.module.zero_grad()

    def call(self, module: Any) -> Any:
        """What the module, or the compiled one, returns."""
        if isinstance(self.inputs, Mapping):
            return module(**self.inputs)
        return module(*self.inputs)

    def outputs(self, module: Any) -> Any:
        """What is compared of it."""
        found = self.call(module)
        return found if self.case.outputs is None else self.case.outputs(found)

    def loss(self, module: Any) -> Any:
        """A scalar of it."""
        return (self.case.loss or mean_square)(self.call(module))

    def forward(self) -> Any:
        """The outputs."""
        self.reset()
        found = {"out": self.outputs(self.module)}
        more = self.case.more
        return found if more is None else {**found, "more": more(self.module)}

    def backward(self, module: Any = None) -> Any:
        """The loss and gradients."""
        self.reset()
        loss = self.loss(self.module if module is None else module)
        loss.backward()
        return {"loss": loss, **_gradients(self.module)}

    def training_step(self, module: Any) -> Callable[[Any], Any]:
        """A function of the inputs that does one step of training, by the module or the compiled
        one, and gives its loss."""
        import torch

        trained = [p for p in self.module.parameters() if p.requires_grad]
        make: Callable[[list[Any]], Any]
        make = self.case.optimizer or (lambda ps: torch.optim.AdamW(ps, lr=1e-3))
        optimizer = make(trained)

        loss_of = self.case.loss or mean_square

        def step(inputs: Any) -> Any:
            optimizer.zero_grad()
            found = module(**inputs) if isinstance(inputs, Mapping) else module(*inputs)
            loss = loss_of(found)
            loss.backward()
            optimizer.step()
            return loss

        return step

    def step(self) -> Any:
        """Losses of three steps."""
        self.reset()
        step = self.training_step(self.module)
        return {"losses": np.asarray([float(step(self.inputs)) for _ in range(3)])}

    def compile(self) -> Any:
        """What became of its calls; raises AssertionError where the compiled module differs."""
        import torch

        wanted = self.backward()
        self.reset()
        out = self.outputs(self.module)
        fast = torch.compile(self.module)
        for _ in range(3):
            agree(self.backward(fast), wanted)
        self.reset()
        agree(self.outputs(fast), out)
        return {"why": fast.why()[-1]} if hasattr(fast, "why") else {}

    def save(self) -> Any:
        """Names and numbers of what was read; the outputs must be those of what was written."""
        import torch

        self.reset()
        file = io.BytesIO()
        torch.save({"state": self.module.state_dict(), "step": 3}, file)
        wanted = self.outputs(self.module)
        with torch.no_grad():
            for parameter in self.module.parameters():
                parameter.zero_()
        file.seek(0)
        read = torch.load(file, weights_only=True)
        self.module.load_state_dict(read["state"])
        agree(self.outputs(self.module), wanted)
        return {"step": read["step"], "names": sorted(read["state"])[:3]}


def of_case(case: Case) -> Steps:
    """All stages of a network."""
    of = Network(case)
    found = {"forward": of.forward, "backward": of.backward, "step": of.step, "save": of.save}
    return {**found, "compile": of.compile} if case.compiled else found
