"""Reinforcement learning."""

from __future__ import annotations

from typing import Any

from bench.ecosystem.entries import Steps, program
from bench.ecosystem.stages import fill, integers, normal


@program("stable-baselines3", seconds=500)
def baselines() -> Steps:
    import gymnasium
    import numpy as np
    from stable_baselines3 import PPO

    class Line(gymnasium.Env):
        """One walks along a line, and gains by being near its middle."""

        observation_space = gymnasium.spaces.Box(-2, 2, (1,), np.float32)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, *, seed: Any = None, options: Any = None) -> Any:
            self.place, self.time = 1.0, 0
            return np.array([self.place], np.float32), {}

        def step(self, action: int) -> Any:
            self.place = float(np.clip(self.place + (0.2 if action else -0.2), -2, 2))
            self.time += 1
            ended = self.time >= 16
            return np.array([self.place], np.float32), -abs(self.place), ended, False, {}

    def make() -> Any:
        agent = PPO(
            "MlpPolicy", Line(), n_steps=32, batch_size=16, n_epochs=2, device="cpu", seed=0
        )
        fill(agent.policy)
        return agent

    def forward() -> Any:
        seen = normal(5, 1).numpy()
        return {"actions": np.asarray(make().predict(seen, deterministic=True)[0])}

    def step() -> Any:
        agent = make()
        agent.learn(64)
        return {"updates": agent._n_updates, "steps": agent.num_timesteps}

    return {"forward": forward, "step": step}


@program("a script: PPO", package="torch", modules=("torch",))
def ppo() -> Steps:
    import torch
    from torch.distributions import Categorical

    body = torch.nn.Sequential(torch.nn.Linear(4, 32), torch.nn.Tanh())
    actor, critic = torch.nn.Linear(32, 2), torch.nn.Linear(32, 1)
    everything = torch.nn.ModuleList([body, actor, critic])
    fill(everything)
    seen, acts, gains = normal(64, 4), integers(64, below=2), normal(64, seed=2)

    def step() -> Any:
        optimizer = torch.optim.Adam(everything.parameters(), lr=3e-3, eps=1e-5)
        with torch.no_grad():
            before = Categorical(logits=actor(body(seen))).log_prob(acts)
            values = critic(body(seen)).flatten()
        advantage = gains - values
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        losses = []
        for epoch in range(3):
            for rows in torch.arange(64).roll(epoch * 5).split(16):
                hidden = body(seen[rows])
                law = Categorical(logits=actor(hidden))
                ratio = (law.log_prob(acts[rows]) - before[rows]).exp()
                clipped = ratio.clamp(0.8, 1.2) * advantage[rows]
                policy = -torch.min(ratio * advantage[rows], clipped).mean()
                value = (critic(hidden).flatten() - gains[rows]).pow(2).mean()
                loss = policy + 0.5 * value - 0.01 * law.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                torch.nn.utils.clip_grad_norm_(everything.parameters(), 0.5)
                optimizer.step()
            losses.append(loss.detach())
        return {"losses": losses}

    return {"forward": lambda: {"logits": actor(body(seen))}, "step": step}
