"""A step whose spaces and infos are made of numbers sends nothing through a pipe, nor does one whose
other leaves say nothing new."""

from __future__ import annotations

import select
from functools import partial

import gymnasium as gym
import numpy as np
import pytest

import gymvec


def pong() -> gym.Env:
    import ale_py

    ale_py.ALEInterface.setLoggerMode(ale_py.LoggerMode.Error)
    gym.register_envs(ale_py)
    env = gym.make("ALE/Pong-v5", frameskip=1)
    return gym.wrappers.FrameStackObservation(gym.wrappers.AtariPreprocessing(env), 4)


def minigrid() -> gym.Env:
    import minigrid

    gym.register_envs(minigrid)
    return gym.make("MiniGrid-Empty-8x8-v0", max_episode_steps=7)


# The mission of MiniGrid is a custom space, but the same text at each step.
MAKERS = {
    "CartPole": partial(gym.make, "CartPole-v1"),
    "HalfCheetah": partial(gym.make, "HalfCheetah-v5", max_episode_steps=7),
    "Ant": partial(gym.make, "Ant-v5", max_episode_steps=7),
    "Pong": pong,
    "MiniGrid": minigrid,
}


@pytest.mark.parametrize("batch_size", [None, 2])
@pytest.mark.parametrize("name", MAKERS)
def test_a_step_sends_no_message(name, batch_size):
    if name == "Pong":
        pytest.importorskip("ale_py", reason="Pong needs ale-py")
        pytest.importorskip("cv2", reason="AtariPreprocessing needs opencv-python")
    envs = gymvec.AsyncVectorEnv([MAKERS[name]] * 4, num_workers=2, batch_size=batch_size)

    def messages():
        return [(box.sent, box.received) for box in envs._pool.workers.pipes]

    try:
        envs.action_space.seed(0)
        envs.reset(seed=0)
        # The infos of steps and of resets are new to the parent once. A slow worker's environments
        # are not in every batch.
        taken = np.zeros(4, int)
        while taken.min() < 20:
            *_, infos = envs.step(envs.action_space.sample())
            taken[infos.get("env_id", slice(None))] += 1
        before = messages()
        keys = set()
        for _ in range(20):
            keys |= envs.step(envs.action_space.sample())[-1].keys()
        assert messages() == before
        assert name in ("CartPole", "MiniGrid") or len(keys) >= 6
        # Nor has a worker written one.
        assert select.select(envs.parent_pipes, [], [], 0)[0] == []
        # The test would see one: actions of another kind go by message.
        envs.step(envs.action_space.sample().astype(object))
        assert messages() != before
    finally:
        envs.close(terminate=True)
