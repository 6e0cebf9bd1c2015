"""Diffusion models."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Case, Steps, program
from bench.ecosystem.stages import fill, integers, normal


@program("diffusers: UNet2D", package="diffusers", seconds=500)
def unet() -> Case:
    from diffusers import UNet2DModel

    module = UNet2DModel(
        sample_size=16, in_channels=3, out_channels=3, layers_per_block=1,
        block_out_channels=(8, 16), norm_num_groups=4, attention_head_dim=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    given = {"sample": normal(2, 3, 16, 16), "timestep": integers(2, below=1000)}
    return Case(module, given, outputs=lambda found: found.sample)


@program("diffusers: UNet2DCondition", package="diffusers", seconds=500)
def conditioned() -> Case:
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        sample_size=8, in_channels=4, out_channels=4, layers_per_block=1,
        block_out_channels=(8, 16), norm_num_groups=4, cross_attention_dim=12,
        attention_head_dim=4, down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
        up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    given = {
        "sample": normal(2, 4, 8, 8),
        "timestep": integers(2, below=1000),
        "encoder_hidden_states": normal(2, 5, 12, seed=1),
    }
    return Case(module, given, outputs=lambda found: found.sample)


@program("diffusers: AutoencoderKL", package="diffusers", seconds=500)
def autoencoder() -> Case:
    from diffusers import AutoencoderKL

    module = AutoencoderKL(
        block_out_channels=(8, 16), norm_num_groups=4, latent_channels=2, sample_size=16,
        down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
    )  # fmt: skip
    return Case(module, {"sample": normal(1, 3, 16, 16)}, outputs=lambda found: found.sample)


@program("diffusers: schedulers", package="diffusers")
def schedulers() -> Steps:
    import diffusers
    import torch

    names = (
        "DDPMScheduler",
        "DDIMScheduler",
        "EulerDiscreteScheduler",
        "DPMSolverMultistepScheduler",
    )

    def forward() -> Any:
        found: dict[str, Any] = {}
        for name in names:
            made = getattr(diffusers, name)(num_train_timesteps=100)
            made.set_timesteps(5)
            x = normal(1, 3, 8, 8) * made.init_noise_sigma
            noise = normal(1, 3, 8, 8, seed=3)
            for i, t in enumerate(made.timesteps):
                given = made.scale_model_input(x, t)
                options = {"generator": torch.Generator()} if name == "DDPMScheduler" else {}
                if name == "DDPMScheduler" and i:
                    break
                x = made.step(given * 0.1, t, x, **options).prev_sample if not options else x
            start = normal(1, 3, 8, 8, seed=4)
            times = made.timesteps[:1]
            found[name] = [x, made.add_noise(start, noise, times), made.timesteps]
        return found

    return {"forward": forward}


@program("diffusers: pipeline", package="diffusers", seconds=500)
def pipeline() -> Steps:
    from diffusers import DDIMPipeline, DDIMScheduler, UNet2DModel

    def forward() -> Any:
        net = UNet2DModel(
            sample_size=8, in_channels=3, out_channels=3, layers_per_block=1,
            block_out_channels=(8, 8), norm_num_groups=4,
            down_block_types=("DownBlock2D",) * 2, up_block_types=("UpBlock2D",) * 2,
        )  # fmt: skip
        fill(net)
        made = DDIMPipeline(net, DDIMScheduler(num_train_timesteps=50))
        made.set_progress_bar_config(disable=True)
        found = made(batch_size=1, num_inference_steps=3, output_type="np").images
        return {"shape": list(found.shape)}

    return {"forward": forward}
