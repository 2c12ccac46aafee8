"""Environments that register themselves, for --module."""

import os
import time

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Box, Dict, Discrete, Space


class Odd(Space):
    """A space that Gymnasium's shared memory does not know."""

    def sample(self, mask=None, probability=None):
        return "odd"

    def contains(self, x):
        return x == "odd"


class Quick(gym.Env):
    """Does what its arguments say, at its ``at``-th step, and else nothing."""

    observation_space = Box(-1.0, 1.0, (2,), np.float32)
    action_space = Discrete(3)

    def __init__(self, what="", at=4, build=0.0, step=0.0):
        time.sleep(build)
        self._what, self._at, self._step = what, at, step
        self._steps = 0

    def reset(self, *, seed=None, options=None):
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self._steps += 1
        if self._step:
            time.sleep(self._step)
        if self._steps == self._at:
            if self._what == "raise":
                raise ValueError("the step [failed]\nfor a reason")
            if self._what == "exit":
                os._exit(7)
            if self._what == "hang":
                time.sleep(1000)
        return self._observation(), 1.0, self._steps % 7 == 0, False, {}

    def _observation(self):
        return np.zeros(2, np.float32)


class Strange(Quick):
    observation_space = Dict(place=Quick.observation_space, odd=Odd())

    def _observation(self):
        return {"place": np.zeros(2, np.float32), "odd": "odd"}


gym.register("compare/Quick-v0", Quick)
gym.register("compare/Strange-v0", Strange)
