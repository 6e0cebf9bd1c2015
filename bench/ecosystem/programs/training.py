"""Trainers, optimizers, metrics and what else is around networks."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import agree, fill, integers, normal, uniform


def _network() -> Any:
    import torch

    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))


def _lightning(pl: Any) -> Steps:
    import torch
    from torch.utils.data import DataLoader, TensorDataset

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net, self.losses = _network(), []

        def training_step(self, batch: Any, index: int) -> Any:
            loss = torch.nn.functional.cross_entropy(self.net(batch[0]), batch[1])
            self.log("loss", loss)
            self.losses.append(loss.detach())
            return loss

        def validation_step(self, batch: Any, index: int) -> Any:
            self.log("val", self.net(batch[0]).mean())

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            return {"optimizer": optimizer, "lr_scheduler": schedule}

    module = Module()
    fill(module)
    loader = DataLoader(TensorDataset(normal(24, 6), integers(24, below=3)), batch_size=8)
    folder = tempfile.mkdtemp(prefix="lightning-")
    made: dict[str, Any] = {}

    def trainer() -> Any:
        return pl.Trainer(
            max_epochs=2, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=folder,
        )  # fmt: skip

    def forward() -> Any:
        return {"val": trainer().validate(module, loader, verbose=False)[0]["val"]}

    def step() -> Any:
        made["trainer"] = trainer()
        made["trainer"].fit(module, loader, loader)
        return {
            "losses": module.losses,
            "rate": made["trainer"].optimizers[0].param_groups[0]["lr"],
        }

    def save() -> Any:
        path = Path(folder) / "module.ckpt"
        made["trainer"].save_checkpoint(path)
        read = Module.load_from_checkpoint(path)
        agree(dict(read.named_parameters()), dict(module.named_parameters()))
        return {"names": sorted(dict(read.named_parameters()))}

    return {"forward": forward, "step": step, "save": save}


@program("lightning", seconds=400)
def lightning() -> Steps:
    import lightning

    return _lightning(lightning)


@program("pytorch-lightning", seconds=400)
def pytorch_lightning() -> Steps:
    import pytorch_lightning

    return _lightning(pytorch_lightning)


@program("accelerate", seconds=400)
def accelerate() -> Steps:
    import torch
    from accelerate import Accelerator
    from torch.utils.data import DataLoader, TensorDataset

    def step() -> Any:
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
        net = _network()
        fill(net)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        loader = DataLoader(TensorDataset(normal(24, 6), integers(24, below=3)), batch_size=8)
        net, optimizer, loader = accelerator.prepare(net, optimizer, loader)
        losses = []
        for x, y in loader:
            with accelerator.accumulate(net):
                loss = torch.nn.functional.cross_entropy(net(x), y)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(net.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(accelerator.gather(loss.detach()))
        state = accelerator.get_state_dict(net)
        return {"losses": losses, "state": state}

    def forward() -> Any:
        from accelerate import init_empty_weights

        with init_empty_weights():
            empty = _network()
        return {"devices": [str(p.device) for p in empty.parameters()]}

    return {"forward": forward, "step": step}


@program("peft: LoRA", package="peft", seconds=400)
def peft() -> Case:
    from peft import LoraConfig, get_peft_model
    from transformers import GPT2Config, GPT2LMHeadModel

    net = GPT2LMHeadModel(GPT2Config(vocab_size=96, n_positions=32, n_embd=32, n_layer=2, n_head=4))
    told = LoraConfig(r=4, lora_alpha=8, target_modules=["c_attn"], fan_in_fan_out=True)
    module = get_peft_model(net, told)
    ids = integers(2, 12, below=96)

    def merged(found: Any) -> Any:
        found.merge_adapter()
        logits = found(input_ids=ids).logits
        found.unmerge_adapter()
        return {"merged": logits}

    return Case(
        module, {"input_ids": ids, "labels": ids}, loss=lambda found: found.loss,
        outputs=lambda found: found.logits, more=merged,
    )  # fmt: skip


@program("pytorch-ignite", modules=("ignite",))
def ignite() -> Steps:
    import torch
    from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
    from ignite.metrics import Accuracy, Loss

    net = _network()
    fill(net)
    data = [(normal(8, 6, seed=i), integers(8, below=3, seed=i)) for i in range(3)]
    criterion = torch.nn.CrossEntropyLoss()

    def forward() -> Any:
        metrics = {"accuracy": Accuracy(), "loss": Loss(criterion)}
        return dict(create_supervised_evaluator(net, metrics=metrics).run(data).metrics)

    def step() -> Any:
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        trainer, losses = create_supervised_trainer(net, optimizer, criterion), []
        trainer.add_event_handler(
            Events.ITERATION_COMPLETED, lambda engine: losses.append(engine.state.output)
        )
        trainer.run(data, max_epochs=2)
        return {"losses": losses}

    return {"forward": forward, "step": step}


@program("skorch", seconds=400)
def skorch() -> Steps:
    import numpy as np
    import torch
    from skorch import NeuralNetClassifier

    x, y = normal(24, 6).numpy(), integers(24, below=3).numpy()

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = _network()

        def forward(self, given: Any) -> Any:
            return torch.softmax(self.net(given), -1)

    def make() -> Any:
        module = Net()
        fill(module)
        return NeuralNetClassifier(
            module, max_epochs=3, lr=0.1, train_split=None, iterator_train__shuffle=False,
            verbose=0, batch_size=8,
        )  # fmt: skip

    def forward() -> Any:
        return {"chances": np.asarray(make().initialize().predict_proba(x))}

    def step() -> Any:
        made = make().fit(x, y)
        return {
            "losses": made.history[:, "train_loss"],
            "chances": np.asarray(made.predict_proba(x)),
        }

    return {"forward": forward, "step": step}


@program("captum", seconds=400)
def captum() -> Steps:
    from captum.attr import DeepLift, IntegratedGradients, LayerGradCam, Saliency

    net = _network()
    fill(net)
    x = normal(4, 6)

    def forward() -> Any:
        return {
            "integrated": IntegratedGradients(net).attribute(x, target=1, n_steps=10),
            "saliency": Saliency(net).attribute(x, target=2),
            "deeplift": DeepLift(net).attribute(x, target=0),
            "cam": LayerGradCam(net, net[0]).attribute(x, target=0),
        }

    return {"forward": forward}


@program("torchmetrics", seconds=400)
def torchmetrics() -> Steps:
    import torchmetrics as tm
    from torchmetrics.image import StructuralSimilarityIndexMeasure

    scores, wanted = uniform(40, 4), integers(40, below=4)

    def forward() -> Any:
        both = tm.MetricCollection(
            {
                "accuracy": tm.Accuracy("multiclass", num_classes=4),
                "f1": tm.F1Score("multiclass", num_classes=4, average="macro"),
                "auroc": tm.AUROC("multiclass", num_classes=4),
                "confusion": tm.ConfusionMatrix("multiclass", num_classes=4),
            }
        )
        for part in range(0, 40, 10):
            both.update(scores[part : part + 10], wanted[part : part + 10])
        found = dict(both.compute())
        found["mean"] = tm.MeanMetric()(scores)
        found["r2"] = tm.R2Score()(scores[:, 0], scores[:, 1])
        found["pearson"] = tm.PearsonCorrCoef()(scores[:, 0], scores[:, 1])
        found["ssim"] = StructuralSimilarityIndexMeasure(data_range=1.0)(
            uniform(1, 1, 16, 16), uniform(1, 1, 16, 16, seed=1)
        )
        return found

    return {"forward": forward}


@program("safetensors")
def safetensors() -> Steps:
    import torch
    from safetensors.torch import load_file, load_model, save_file, save_model

    folder = Path(tempfile.mkdtemp(prefix="safetensors-"))

    def forward() -> Any:
        given = {"a": normal(3, 4), "b": integers(5, below=9), "c": normal(2).to(torch.bfloat16)}
        save_file(given, folder / "tensors.safetensors", metadata={"made": "here"})
        return load_file(folder / "tensors.safetensors")

    def save() -> Any:
        net, other = _network(), _network()
        fill(net)
        save_model(net, str(folder / "model.safetensors"))
        missing, extra = load_model(other, str(folder / "model.safetensors"))
        return {"out": other(normal(2, 6)), "missing": len(missing), "extra": len(extra)}

    return {"forward": forward, "save": save}


@program("tensordict", seconds=400)
def tensordict() -> Steps:
    import torch
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule

    def forward() -> Any:
        made = TensorDict({"x": normal(4, 6), "deep": {"y": normal(4, 2)}}, batch_size=[4])
        net = _network()
        fill(net)
        found = TensorDictModule(net, in_keys=["x"], out_keys=["z"])(made.clone())
        both = torch.stack([made, made.apply(lambda t: t * 2)], 0)
        return {"z": found["z"], "both": both["deep", "y"], "cut": made[1:3]["x"]}

    return {"forward": forward}


@program("pytorch-metric-learning")
def metric_learning() -> Steps:
    from pytorch_metric_learning import losses, miners

    x = normal(12, 8).requires_grad_()
    labels = integers(12, below=4)

    def forward() -> Any:
        hard = miners.MultiSimilarityMiner()(x, labels)
        return {
            "triplet": losses.TripletMarginLoss()(x, labels),
            "ntxent": losses.NTXentLoss()(x, labels, hard),
            "contrastive": losses.ContrastiveLoss()(x, labels),
        }

    def backward() -> Any:
        x.grad = None
        sum(forward().values()).backward()
        return x.grad

    return {"forward": forward, "backward": backward}


def _steps_of(make: Any) -> Case:
    return Case(_network(), (normal(8, 6),), optimizer=make, compiled=False)


@program("lion-pytorch")
def lion() -> Case:
    from lion_pytorch import Lion

    return _steps_of(lambda ps: Lion(ps, lr=1e-3, weight_decay=0.1))


@program("adabelief-pytorch")
def adabelief() -> Case:
    from adabelief_pytorch import AdaBelief

    return _steps_of(lambda ps: AdaBelief(ps, lr=1e-3, print_change_log=False))


@program("prodigyopt")
def prodigy() -> Case:
    from prodigyopt import Prodigy

    return _steps_of(lambda ps: Prodigy(ps, lr=1.0))


@program("schedulefree")
def schedulefree() -> Case:
    from schedulefree import AdamWScheduleFree

    def make(parameters: Any) -> Any:
        optimizer = AdamWScheduleFree(parameters, lr=1e-3, warmup_steps=2)
        optimizer.train()
        return optimizer

    return _steps_of(make)


@program("torch-optimizer")
def torch_optimizer() -> Case:
    import torch_optimizer

    return _steps_of(lambda ps: torch_optimizer.Lookahead(torch_optimizer.RAdam(ps, lr=1e-2)))


@program("pytorch_warmup", package="pytorch-warmup", modules=("pytorch_warmup",))
def warmup() -> Steps:
    import pytorch_warmup
    import torch

    def step() -> Any:
        net = _network()
        optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
        warm, rates = pytorch_warmup.UntunedLinearWarmup(optimizer), []
        for _ in range(6):
            optimizer.step()
            with warm.dampening():
                schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return {"rates": rates}

    def forward() -> Any:
        optimizer = torch.optim.SGD(_network().parameters(), lr=0.1)
        warm = pytorch_warmup.ExponentialWarmup(optimizer, warmup_period=5)
        return {"factors": [warm.warmup_factor(step, 5) for step in range(4)]}

    return {"forward": forward, "step": step}


@program("ema-pytorch")
def ema() -> Steps:
    import torch
    from ema_pytorch import EMA

    def step() -> Any:
        net = _network()
        fill(net)
        average = EMA(net, beta=0.9, update_after_step=0, update_every=1)
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            net(normal(8, 6)).pow(2).mean().backward()
            optimizer.step()
            average.update()
        return {"out": average(normal(2, 6)), "own": net(normal(2, 6))}

    def forward() -> Any:
        net = _network()
        fill(net)
        return {"out": EMA(net, beta=0.9)(normal(2, 6))}

    return {"forward": forward, "step": step}


@program("fvcore")
def fvcore() -> Steps:
    from fvcore.nn import FlopCountAnalysis, parameter_count, sigmoid_focal_loss

    def forward() -> Any:
        assert FlopCountAnalysis is not None
        net = _network()
        loss = sigmoid_focal_loss(normal(6, 3), uniform(6, 3, seed=1), reduction="mean")
        return {"parameters": parameter_count(net)[""], "focal": loss}

    return {"forward": forward}


@program("torchinfo")
def torchinfo() -> Steps:
    from torchinfo import summary

    def forward() -> Any:
        found = summary(_network(), (2, 6), verbose=0)
        return {"parameters": found.total_params, "macs": found.total_mult_adds}

    return {"forward": forward}


@program("torchsummary")
def torchsummary() -> Steps:
    from torchsummary import summary

    def forward() -> Any:
        return {"summary": summary(_network(), (6,), device="cpu")}

    return {"forward": forward}


@program("thop")
def thop() -> Steps:
    from thop import profile

    def forward() -> Any:
        macs, count = profile(_network(), inputs=(normal(2, 6),), verbose=False)
        return {"macs": macs, "parameters": count}

    return {"forward": forward}


@program("pytorch-msssim", modules=("pytorch_msssim",))
def msssim() -> Steps:
    from pytorch_msssim import SSIM, ms_ssim

    x = uniform(1, 3, 176, 176).requires_grad_()
    y = uniform(1, 3, 176, 176, seed=1)

    def forward() -> Any:
        return {"ssim": SSIM(data_range=1.0)(x, y), "multiscale": ms_ssim(x, y, data_range=1.0)}

    def backward() -> Any:
        x.grad = None
        SSIM(data_range=1.0)(x, y).backward()
        return x.grad

    return {"forward": forward, "backward": backward}
